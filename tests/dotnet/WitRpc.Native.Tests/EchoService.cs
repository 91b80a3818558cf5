using Demo;

namespace WitRpc.Native.Tests;

/// <summary>The demo contract, as the .NET peer carries it out, texts of failures included.</summary>
internal sealed class EchoService : IEcho
{
    private int count;

    public event Action<int>? Progress;

    public event EventHandler<ProgressArgs>? Changed;

    public event Action<Person?, string?>? PersonChanged;

    public event Action? Nothing;

    public string Name { get; set; } = "echo";

    public string Ping() => "pong";

    public string? Echo(string? text) => text;

    public int Add(int a, int b) => a + b;

    public int AddOne(int a) => unchecked(a + 1);

    public long Big(long value) => value;

    public uint UInt(uint value) => value;

    public ulong ULong(ulong value) => value;

    public short Short(short value) => value;

    public ushort UShort(ushort value) => value;

    public byte Byte(byte value) => value;

    public sbyte SByte(sbyte value) => value;

    public bool Not(bool value) => !value;

    public char Letter(char value) => value;

    public float Single(float value) => value;

    public double Double(double value) => value;

    public decimal Money(decimal value) => value;

    public Guid Id(Guid value) => value;

    public DateTime When(DateTime value) => value;

    public DateTimeOffset Offset(DateTimeOffset value) => value;

    public DateTimeOffset? MaybeOffset(DateTimeOffset? value) => value;

    public TimeSpan Span(TimeSpan value) => value;

    public DateOnly Day(DateOnly value) => value;

    public TimeOnly Clock(TimeOnly value) => value;

    public Uri? Link(Uri? value) => value;

    public Version? Ver(Version? value) => value;

    public Color Paint(Color value) => value;

    public Color? MaybePaint(Color? value) => value;

    public int? Maybe(int? value) => value;

    public Guid? MaybeId(Guid? value) => value;

    public bool? MaybeBool(bool? value) => value;

    public long? MaybeLong(long? value) => value;

    public double? MaybeDouble(double? value) => value;

    public decimal? MaybeMoney(decimal? value) => value;

    public DateTime? MaybeWhen(DateTime? value) => value;

    public byte[] Blob(byte[] value) => value;

    public int[] Ints(int[] value) => value;

    public string?[] Strings(string?[] value) => value;

    public double[] Doubles(double[] value) => value;

    public byte[][] Jagged(byte[][] value) => value;

    public List<int>? Find(List<int>? value) => value;

    public List<string>? Names(List<string>? value) => value;

    public HashSet<int>? Set(HashSet<int>? value) => value;

    public IReadOnlyList<int>? ReadOnly(IReadOnlyList<int>? value) => value;

    public IEnumerable<int>? Many(IEnumerable<int>? value) => value;

    public Dictionary<string, List<int>>? Map(Dictionary<string, List<int>>? value) => value;

    public Dictionary<int, string>? ByNumber(Dictionary<int, string>? value) => value;

    public KeyValuePair<string, int> Kvp(KeyValuePair<string, int> value) => value;

    public (int, string) Pair((int, string) value) => value;

    public Tuple<int, string>? Tup(Tuple<int, string>? value) => value;

    public Person? Describe(Person? value) => value;

    public List<Person>? People(List<Person>? value) => value;

    public Person[] PeopleArray(Person[] value) => value;

    public object? Anything(object? value) => value;

    public async Task<string?> EchoAsync(string? text)
    {
        await Task.Yield();
        return text;
    }

    public async Task<int> SlowAsync(int milliseconds, int result)
    {
        Interlocked.Increment(ref count);
        await Task.Delay(milliseconds);
        return result;
    }

    public int Slow(int milliseconds, int result)
    {
        Interlocked.Increment(ref count);
        Thread.Sleep(milliseconds);
        return result;
    }

    public Task DelayAsync(int milliseconds) => Task.Delay(milliseconds);

    public void Fire(string text) => Name = text;

    public int Count() => count;

    public int CountUp(int by) => Interlocked.Add(ref count, by);

    public string Fail(string message) => throw new InvalidOperationException("Exception has been thrown by the target of an invocation.");

    public async Task<string> FailAsync(string message)
    {
        await Task.Yield();
        throw new InvalidOperationException($"One or more errors occurred. ({message})");
    }

    public async Task FailTaskAsync(string message)
    {
        await Task.Yield();
        throw new InvalidOperationException(message);
    }

    public void RaiseProgress(int percent) => Progress?.Invoke(percent);

    public void RaiseChanged(int percent, string note) => Changed?.Invoke(this, new ProgressArgs { Percent = percent, Note = note });

    public void RaisePerson(Person person) => PersonChanged?.Invoke(person, "note");

    public void RaiseNothing() => Nothing?.Invoke();

    public void RaiseMany(int count)
    {
        for (int i = 0; i < count; i++)
        {
            Progress?.Invoke(i);
        }
    }

    public void RaiseNull() => PersonChanged?.Invoke(null, null);

    public int Overload(int a) => a;

    public int Overload(string a) => a.Length;

    public string Overload(int a, string b) => b + a;
}

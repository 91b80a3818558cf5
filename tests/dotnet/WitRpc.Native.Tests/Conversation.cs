using System.Text.Json;
using Demo;

namespace WitRpc.Native.Tests;

/// <summary>What a client asks of any server of the demo contract, in every codec.</summary>
internal static class Conversation
{
    internal enum Format
    {
        Json,
        MemoryPack,
        MessagePack,
        ProtoBuf,
    }

    internal static WitClientBuilderOptions With(this WitClientBuilderOptions options, Format format) => format switch
    {
        Format.MemoryPack => options.WithMemoryPack(),
        Format.MessagePack => options.WithMessagePack(),
        Format.ProtoBuf => options.WithProtoBuf(),
        _ => options.WithJson(),
    };

    internal static WitServerBuilderOptions With(this WitServerBuilderOptions options, Format format) => format switch
    {
        Format.MemoryPack => options.WithMemoryPack(),
        Format.MessagePack => options.WithMessagePack(),
        Format.ProtoBuf => options.WithProtoBuf(),
        _ => options.WithJson(),
    };

    internal static Person Ann { get; } = new()
    {
        Name = "Ann <b>é",
        Age = 41,
        Favourite = Color.Blue,
        Home = new Address { Street = "Main", Zip = 8001 },
        Tags = ["a", "ü"],
        Scores = new Dictionary<string, int> { ["x"] = 1, ["y"] = -2 },
        Photo = [0, 255, 16],
        Born = new DateTime(1985, 2, 3, 4, 5, 6, 789, DateTimeKind.Utc),
        Height = 1.75,
    };

    /// <summary>Calls every kind of method. <paramref name="isOwn"/>: the server is ours, and has none of the reference's gaps.</summary>
    internal static async Task CallEverythingAsync(IEcho echo, Format format, bool isOwn)
    {
        Assert.Equal("pong", echo.Ping());
        Assert.Equal(5, echo.Add(2, 3));
        Assert.Equal(int.MinValue, echo.AddOne(int.MaxValue));
        Assert.Null(echo.Echo(null));
        Assert.Equal("hé😀 <&'+>", echo.Echo("hé😀 <&'+>"));
        Assert.Equal(long.MinValue, echo.Big(long.MinValue));
        Assert.Equal(uint.MaxValue, echo.UInt(uint.MaxValue));
        Assert.Equal(ulong.MaxValue, echo.ULong(ulong.MaxValue));
        Assert.Equal(short.MinValue, echo.Short(short.MinValue));
        Assert.Equal(ushort.MaxValue, echo.UShort(ushort.MaxValue));
        Assert.Equal(200, echo.Byte(200));
        Assert.Equal(-100, echo.SByte(-100));
        Assert.False(echo.Not(true));
        Assert.Equal('€', echo.Letter('€'));
        Assert.Equal(float.MaxValue, echo.Single(float.MaxValue));
        Assert.Equal(double.Epsilon, echo.Double(double.Epsilon));
        Assert.Equal(decimal.MinValue, echo.Money(decimal.MinValue));
        var id = new Guid("00112233-4455-6677-8899-aabbccddeeff");
        Assert.Equal(id, echo.Id(id));
        var when = new DateTime(2026, 11, 30, 5, 6, 7, 120, DateTimeKind.Utc);
        Assert.Equal(when, echo.When(when));
        var offset = new DateTimeOffset(2026, 1, 1, 0, 0, 0, TimeSpan.FromMinutes(-210));
        Assert.Equal(offset, echo.Offset(offset));
        Assert.Equal(new TimeSpan(3, 0, 0, 0), echo.Span(new TimeSpan(3, 0, 0, 0)));
        Assert.Equal(new DateOnly(2026, 11, 30), echo.Day(new DateOnly(2026, 11, 30)));
        Assert.Equal(new TimeOnly(5, 6, 7), echo.Clock(new TimeOnly(5, 6, 7)));
        Assert.Equal(new Uri("http://example.test/a?b=c"), echo.Link(new Uri("http://example.test/a?b=c")));
        Assert.Equal(Color.Blue, echo.Paint(Color.Blue));
        Assert.Equal(7, echo.Maybe(7));
        Assert.Null(echo.Maybe(null));
        Assert.Equal(Color.Blue, echo.MaybePaint(Color.Blue));
        Assert.Equal(id, echo.MaybeId(id));
        Assert.True(echo.MaybeBool(true));
        Assert.Equal(9L, echo.MaybeLong(9));
        Assert.Equal(2.5, echo.MaybeDouble(2.5));
        Assert.Equal(1.5m, echo.MaybeMoney(1.5m));
        Assert.Equal(when, echo.MaybeWhen(when));
        Assert.Equal(offset, echo.MaybeOffset(offset));
        Assert.Equal([1, 2, 3], echo.Blob([1, 2, 3]));
        byte[] big = new byte[300_000];
        Random.Shared.NextBytes(big);
        Assert.Equal(big, echo.Blob(big));
        Assert.Equal([1, -2, 300_000], echo.Ints([1, -2, 300_000]));
        Assert.Equal([1.5, -2], echo.Doubles([1.5, -2]));
        Assert.Equal([1, 2], echo.Find([1, 2]));
        Assert.Null(echo.Find(null));
        Assert.Equal(["a", "b"], echo.Names(["a", "b"]));
        Assert.Equal([3, 1], echo.Set([3, 1])!.Order().Reverse());
        Assert.Equal([1, 2], echo.ReadOnly([1, 2]));
        Assert.Equal([1, 2], echo.Many([1, 2]));
        Assert.Equal([1], echo.Map(new() { ["a"] = [1] })!["a"]);
        Assert.Equal("y", echo.ByNumber(new() { [1] = "x", [-2] = "y" })![-2]);
        Assert.Equal(new KeyValuePair<string, int>("k", 5), echo.Kvp(new("k", 5)));
        Assert.Equal(Tuple.Create(1, "t"), echo.Tup(Tuple.Create(1, "t")));
        if (format != Format.Json)
        {
            Assert.Equal((1, "t"), echo.Pair((1, "t")));
        }
        if (format != Format.ProtoBuf)
        {
            Assert.Equal(new Version(1, 2, 3), echo.Ver(new Version(1, 2, 3)));
            Assert.Equal(["a", null, ""], echo.Strings(["a", null, ""]));
        }
        Assert.Equivalent(Ann, echo.Describe(Ann));
        Assert.Null(echo.Describe(null));
        Assert.Equivalent(new List<Person> { Ann }, echo.People([Ann]));
        if (format == Format.Json)
        {
            Assert.Equal("boxed", ((JsonElement)echo.Anything("boxed")!).GetString());
        }
        Assert.Equal("later", await echo.EchoAsync("later").InTime());
        Assert.Equal(9, await echo.SlowAsync(1, 9).InTime());
        Assert.Equal(9, echo.Slow(1, 9));
        await echo.DelayAsync(1).InTime();
        echo.Name = "nëw";
        Assert.Equal("nëw", echo.Name);
        echo.Fire("x");
        Assert.Equal("x", echo.Name);
        Assert.Equal((5, 4, "five5"), (echo.Overload(5), echo.Overload("five"), echo.Overload(5, "five")));
        await FailuresAsync(echo, isOwn);
    }

    private static async Task FailuresAsync(IEcho echo, bool isOwn)
    {
        WitRpcException e = Assert.Throws<WitRpcException>(() => echo.Fail("boom"));
        Assert.Equal((WitErrorCode.Remote, CommunicationStatus.InternalServerError, CallOutcome.Answered, 1), (e.Code, e.Status, e.Outcome, e.Attempts));
        Assert.Equal("Exception has been thrown by the target of an invocation.", Assert.IsType<WitRemoteException>(e.InnerException).Message);
        e = await Assert.ThrowsAsync<WitRpcException>(() => echo.FailTaskAsync("boom").InTime());
        Assert.Equal("boom", e.Details);
        e = await Assert.ThrowsAsync<WitRpcException>(() => echo.FailAsync("boom").InTime());
        Assert.Contains("boom", e.Message);
        _ = isOwn;
    }

    /// <summary>Raises and receives every event.</summary>
    internal static async Task RaiseEverythingAsync(IEcho echo, Format format)
    {
        var progress = new TaskCompletionSource<int>(TaskCreationOptions.RunContinuationsAsynchronously);
        var person = new TaskCompletionSource<(Person?, string?)>(TaskCreationOptions.RunContinuationsAsynchronously);
        var nothing = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        void OnProgress(int p) => progress.TrySetResult(p);
        echo.Progress += OnProgress;
        echo.PersonChanged += (p, note) => person.TrySetResult((p, note));
        echo.Nothing += () => nothing.TrySetResult();
        echo.RaiseProgress(42);
        Assert.Equal(42, await progress.Task.InTime());
        echo.RaisePerson(Ann);
        (Person? raised, string? note) = await person.Task.InTime();
        Assert.Equivalent(Ann, raised);
        Assert.Equal("note", note);
        echo.RaiseNothing();
        await nothing.Task.InTime();
        if (format == Format.Json)
        {
            var changed = new TaskCompletionSource<(object?, ProgressArgs)>(TaskCreationOptions.RunContinuationsAsynchronously);
            echo.Changed += (sender, e) => changed.TrySetResult((sender, e));
            echo.RaiseChanged(7, "seven");
            (object? sender, ProgressArgs args) = await changed.Task.InTime();
            Assert.Same(echo, sender);
            Assert.Equal((7, "seven"), (args.Percent, args.Note));
        }

        // In order, and no more once the handler is gone.
        var all = new List<int>();
        var last = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        void Collect(int p)
        {
            all.Add(p);
            if (p == 99)
            {
                last.TrySetResult();
            }
        }
        echo.Progress -= OnProgress;
        echo.Progress += Collect;
        echo.RaiseMany(100);
        await last.Task.InTime();
        Assert.Equal(Enumerable.Range(0, 100), all);
        echo.Progress -= Collect;
        echo.RaiseMany(3);
        Assert.Equal(100, all.Count);
    }
}

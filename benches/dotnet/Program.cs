// A sequential call through the binding beside a bare .NET TCP ping-pong of the same size, in one run. The server of both is
// another process: `witrpc serve --demo` for the calls, this program with "pong" for the bare rival. The rival of blocking calls
// blocks at both ends, that of async calls is async at both ends; both read a frame at once, which is quicker than its length first.
//
//   dotnet run -c Release -- WITRPC_EXECUTABLE [SECONDS]
using System.Buffers.Binary;
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using WitRpc.Native;

if (args is ["pong", var kind])
{
    await Bare.ServeAsync(blocks: kind == "blocking");
    return 0;
}
string witrpc = args.Length > 0 ? args[0] : throw new ArgumentException("give the path of the executable witrpc");
TimeSpan time = TimeSpan.FromSeconds(args.Length > 1 ? double.Parse(args[1], System.Globalization.CultureInfo.InvariantCulture) : 3);

using Process demo = Other.Start(witrpc, ["serve", "--demo", "tcp://127.0.0.1:0"]);
using Process blockingPong = Other.StartSelf("pong", "blocking");
using Process asyncPong = Other.StartSelf("pong", "async");
try
{
    string endpoint = demo.StandardOutput.ReadLine()!.Replace("listening ", "");
    await using WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(endpoint));
    await client.ConnectAsync();
    WitService echo = client.Service("Demo.IEcho");
    var method = new WitMethod("Echo(string)");
    string text = new('x', 64);
    using var blocking = new Bare(blockingPong);
    using var bare = new Bare(asyncPong);

    // Turn and turn about, so that both meet the same weather.
    var rounds = new List<(string Name, Func<Task> Once, List<double> Times)>
    {
        ("bare, blocking", () => { blocking.Once(); return Task.CompletedTask; }, []),
        ("call, blocking", () => { echo.Call(method).With(text).Invoke<string>(); return Task.CompletedTask; }, []),
        ("bare, async", bare.OnceAsync, []),
        ("call, async", () => echo.Call(method).With(text).InvokeAsync<string>(), []),
    };
    for (int turn = 0; turn < 10; turn++)
    {
        foreach ((_, Func<Task> once, List<double> times) in rounds)
        {
            for (long end = Stopwatch.GetTimestamp() + (long)(time.TotalSeconds / 10 * Stopwatch.Frequency); Stopwatch.GetTimestamp() < end;)
            {
                long start = Stopwatch.GetTimestamp();
                await once();
                times.Add(Stopwatch.GetElapsedTime(start).TotalMicroseconds);
            }
        }
    }
    double Median(int i)
    {
        List<double> times = [.. rounds[i].Times.Skip(rounds[i].Times.Count / 10)]; // the first tenth warms up
        times.Sort();
        return times[times.Count / 2];
    }
    for (int i = 0; i < rounds.Count; i++)
    {
        string ratio = i % 2 == 1 ? $"  {Median(i) / Median(i - 1):F2} x bare" : "";
        Console.WriteLine($".NET {rounds[i].Name,-16} {Median(i),8:F1} us{ratio}");
    }
}
finally
{
    demo.Kill();
    blockingPong.Kill();
    asyncPong.Kill();
}
return 0;

internal static class Other
{
    internal static Process StartSelf(params string[] arguments) => Start(
        Environment.ProcessPath!,
        Path.GetFileNameWithoutExtension(Environment.ProcessPath!) == "dotnet" ? [typeof(Bare).Assembly.Location, .. arguments] : arguments);

    internal static Process Start(string program, IEnumerable<string> arguments) => Process.Start(new ProcessStartInfo(program, arguments) { RedirectStandardOutput = true })!;
}

/// <summary>The rival: frames of four bytes of length and the payload of such a call, answered as they came.</summary>
internal sealed class Bare : IDisposable
{
    /// <summary>About what a call with 64 characters takes on the wire, each way.</summary>
    private const int Payload = 192;

    private readonly TcpClient client = new() { NoDelay = true };
    private readonly NetworkStream stream;
    private readonly byte[] frame = new byte[4 + Payload];
    private readonly byte[] answer = new byte[4 + Payload];

    internal Bare(Process pong)
    {
        client.Connect(IPAddress.Loopback, int.Parse(pong.StandardOutput.ReadLine()!, System.Globalization.CultureInfo.InvariantCulture));
        stream = client.GetStream();
        BinaryPrimitives.WriteInt32LittleEndian(frame, Payload);
    }

    public void Dispose() => client.Dispose();

    internal void Once()
    {
        stream.Write(frame);
        stream.ReadExactly(answer);
    }

    internal async Task OnceAsync()
    {
        await stream.WriteAsync(frame);
        await stream.ReadExactlyAsync(answer);
    }

    internal static async Task ServeAsync(bool blocks)
    {
        var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        Console.WriteLine(((IPEndPoint)listener.LocalEndpoint).Port);
        using TcpClient peer = await listener.AcceptTcpClientAsync();
        peer.NoDelay = true;
        NetworkStream stream = peer.GetStream();
        var frame = new byte[4 + Payload];
        try
        {
            while (true)
            {
                if (blocks)
                {
                    stream.ReadExactly(frame);
                    stream.Write(frame);
                }
                else
                {
                    await stream.ReadExactlyAsync(frame);
                    await stream.WriteAsync(frame);
                }
            }
        }
        catch (IOException)
        {
            // The other end has seen enough.
        }
    }
}

using System.Collections.Concurrent;
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Reflection;
using Microsoft.Extensions.Logging;
using WitRpc.Native;

[assembly: Xunit.v3.Parallelization(Mode = Xunit.Sdk.ParallelMode.None)] // leak tests count what the whole process holds

namespace WitRpc.Native.Tests;

/// <summary>Where things are, and waiting for them under a watchdog.</summary>
internal static class Support
{
    internal static readonly TimeSpan Watchdog = TimeSpan.FromSeconds(60);

    internal static string Root { get; } = Metadata("RepositoryRoot");

    internal static string Configuration { get; } = Metadata("Configuration");

    /// <summary>The command line, for servers that are other processes.</summary>
    internal static string Witrpc => Environment.GetEnvironmentVariable("WITRPC_CLI") is { Length: > 0 } path ? path
        : Path.Combine(Environment.GetEnvironmentVariable("CARGO_TARGET_DIR") ?? Path.Combine(Root, "target"), "release", "witrpc");

    /// <summary>The .NET peer, as tools/peer.sh finds it; null if there is none.</summary>
    internal static string? Peer
    {
        get
        {
            string path = Environment.GetEnvironmentVariable("WITRPC_PEER") ?? Path.Combine(Environment.GetEnvironmentVariable("WITRPC_SHARED") ?? Path.Combine(Root, "..", "shared"), "peer", "run");
            return File.Exists(path) ? path : null;
        }
    }

    internal static string NeedPeer()
    {
        if (Peer is null)
        {
            Assert.SkipWhen(Environment.GetEnvironmentVariable("WITRPC_REQUIRE_ALL") != "1", "no peer found (WITRPC_PEER)");
            Assert.Fail("no peer found (WITRPC_PEER), and nothing may be skipped");
        }
        return Peer!;
    }

    internal static async Task<T> InTime<T>(this Task<T> task) => await task.WaitAsync(Watchdog);

    internal static async Task InTime(this Task task) => await task.WaitAsync(Watchdog);

    /// <summary>Looks again and again, for what no event tells of: another process, the garbage collector.</summary>
    internal static async Task Until(Func<bool> condition, string what)
    {
        var clock = Stopwatch.StartNew();
        while (!condition())
        {
            Assert.True(clock.Elapsed < Watchdog, "watchdog: " + what);
            await Task.Delay(20);
        }
    }

    /// <summary>A port that nobody listens at now.</summary>
    internal static int FreePort()
    {
        using var socket = new TcpListener(IPAddress.Loopback, 0);
        socket.Start();
        return ((IPEndPoint)socket.LocalEndpoint).Port;
    }

    internal static int Port(string endpoint) => int.Parse(endpoint[(endpoint.LastIndexOf(':') + 1)..]);

    private static string Metadata(string key) => typeof(Support).Assembly.GetCustomAttributes<AssemblyMetadataAttribute>().First(a => a.Key == key).Value!;
}

/// <summary>A server in a process of its own; disposing it kills it.</summary>
internal sealed class OtherProcess : IAsyncDisposable
{
    private readonly Process process;
    private readonly ConcurrentQueue<string> lines = new();
    private readonly TaskCompletionSource<string> ready = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly string prefix;

    private OtherProcess(string program, string prefix, string[] arguments)
    {
        this.prefix = prefix;
        process = new Process { StartInfo = new ProcessStartInfo(program, arguments) { RedirectStandardOutput = true, RedirectStandardError = true }, EnableRaisingEvents = true };
        process.OutputDataReceived += Line;
        process.ErrorDataReceived += Line;
        process.Exited += (_, _) => ready.TrySetException(new InvalidOperationException($"{program} ended: {string.Join("\n", lines)}"));
        process.Start();
        process.BeginOutputReadLine();
        process.BeginErrorReadLine();
    }

    internal string Output => string.Join("\n", lines);

    internal Process Process => process;

    internal static async Task<(OtherProcess Server, string Endpoint)> StartAsync(string program, string prefix, params string[] arguments)
    {
        var server = new OtherProcess(program, prefix, arguments);
        string line = await server.ready.Task.InTime();
        return (server, line[(line.IndexOf(prefix, StringComparison.Ordinal) + prefix.Length)..].Trim());
    }

    /// <summary>`witrpc serve --demo`; gives the endpoint.</summary>
    internal static Task<(OtherProcess Server, string Endpoint)> DemoAsync(string endpoint, params string[] options) =>
        StartAsync(Support.Witrpc, "listening ", ["serve", "--demo", .. options, endpoint]);

    /// <summary>The .NET peer's server; gives port or pipe name.</summary>
    internal static Task<(OtherProcess Server, string Endpoint)> PeerAsync(string listen, params string[] options) =>
        StartAsync(Support.NeedPeer(), "ready ", ["serve", "--listen", listen, .. options]);

    /// <summary>Runs a program to its end.</summary>
    internal static async Task<(int Code, string Output)> RunAsync(string program, params string[] arguments)
    {
        await using var other = new OtherProcess(program, "\0", arguments);
        await other.process.WaitForExitAsync().InTime();
        return (other.process.ExitCode, other.Output);
    }

    internal async Task KillAsync()
    {
        if (!process.HasExited)
        {
            process.Kill(entireProcessTree: true);
        }
        await process.WaitForExitAsync().InTime();
    }

    public async ValueTask DisposeAsync()
    {
        await KillAsync();
        process.Dispose();
    }

    private void Line(object sender, DataReceivedEventArgs e)
    {
        if (e.Data is null)
        {
            return;
        }
        lines.Enqueue(e.Data);
        if (e.Data.Contains(prefix, StringComparison.Ordinal))
        {
            ready.TrySetResult(e.Data);
        }
    }
}

/// <summary>Keeps what was logged.</summary>
internal sealed class MemoryLogger : ILogger
{
    internal ConcurrentQueue<(LogLevel Level, string Text, Exception? Error)> Lines { get; } = new();

    public IDisposable? BeginScope<TState>(TState state) where TState : notnull => null;

    public bool IsEnabled(LogLevel logLevel) => true;

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
        Lines.Enqueue((logLevel, formatter(state, exception), exception));
}

/// <summary>Gives every category the same logger.</summary>
internal sealed class MemoryLoggerProvider(MemoryLogger logger) : ILoggerProvider
{
    public ILogger CreateLogger(string categoryName) => logger;

    public void Dispose()
    {
    }
}

using System.Runtime.CompilerServices;
using Demo;
using WitRpc.Native.Interop;

namespace WitRpc.Native.Tests;

/// <summary>
/// Handles and GCHandles are counted, before and after: 100,000 calls and 1,000 reconnects, or as many times that as WITRPC_LEAK_SCALE
/// says.
/// </summary>
public class LeakTests
{
    private static double Scale => double.TryParse(Environment.GetEnvironmentVariable("WITRPC_LEAK_SCALE"), System.Globalization.CultureInfo.InvariantCulture, out double scale) ? scale : 1;

    [Fact]
    public async Task CallsCancellationsAndReconnectsLeakNothing()
    {
        await using WitServer server = WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0").WithService<IEcho>(new EchoService()));
        await server.StartAsync();
        (long handles, long pinned) = await SettledAsync(null);
        await using (WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]).WithAutoReconnect(r => r.OnReconnecting = (_, _) => { })))
        {
            await client.ConnectAsync().InTime();
            IEcho echo = client.GetService<IEcho>();
            (long openHandles, long openPinned) = await SettledAsync(null);
            int calls = (int)(100_000 * Scale);
            for (int done = 0; done < calls; done += 500)
            {
                using var cancel = new CancellationTokenSource();
                Task<string>[] batch = [.. Enumerable.Range(0, 490).Select(i => client.Service("Demo.IEcho").Call("Echo(string)").With("x").InvokeAsync<string>(i % 2 == 0 ? cancel.Token : default))];
                Task<int>[] cancelled = [.. Enumerable.Range(0, 5).Select(_ => client.Service("Demo.IEcho").Call("SlowAsync(int, int)").With(1000).With(1).InvokeAsync<int>(cancel.Token))];
                await Task.WhenAll(batch).InTime();
                cancel.Cancel();
                foreach (Task<int> task in cancelled)
                {
                    await Assert.ThrowsAnyAsync<OperationCanceledException>(() => task.InTime());
                }
                static void Handler(int percent)
                {
                }
                for (int i = 0; i < 5; i++)
                {
                    echo.Progress += Handler;
                    Assert.Equal(5, echo.Add(2, 3));
                    echo.Progress -= Handler;
                }
            }
            int reconnects = (int)(1000 * Scale);
            for (int i = 0; i < reconnects; i++)
            {
                await client.ReconnectAsync().InTime();
                Assert.Equal(5, echo.Add(2, 3));
            }
            await SettledAsync((openHandles, openPinned));
        }
        await SettledAsync((handles, pinned));
    }

    [Fact]
    public async Task ForgottenClientsAreCollectedWithTheirSubscriptions()
    {
        await using WitServer server = WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0").WithService<IEcho>(new EchoService()));
        await server.StartAsync();
        (long handles, long pinned) = await SettledAsync(null);
        for (int i = 0; i < 20; i++)
        {
            await ForgetAsync(server.Endpoints[0]);
        }
        await SettledAsync((handles, pinned));
        await Support.Until(() => server.Statistics.Connections == 0, "the connections are closed");
    }

    [Fact]
    public async Task ACallUnderWayKeepsItsForgottenClient()
    {
        await using WitServer server = WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0").WithService<IEcho>(new EchoService()));
        await server.StartAsync();
        Task<int> call = await BeginAsync(server.Endpoints[0]);
        for (int i = 0; i < 5 && !call.IsCompleted; i++)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
        Assert.Equal(7, await call.InTime());
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static async Task<Task<int>> BeginAsync(string endpoint)
    {
        WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(endpoint));
        await client.ConnectAsync().InTime();
        return client.GetService<IEcho>().SlowAsync(300, 7);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static async Task ForgetAsync(string endpoint)
    {
        WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(endpoint).WithAutoReconnect().WithAccessToken(() => ""));
        await client.ConnectAsync().InTime();
        IEcho echo = client.GetService<IEcho>();
        echo.Progress += _ => GC.KeepAlive(client);
        Assert.Equal("pong", await client.Service("Demo.IEcho").Call("Ping()").InvokeAsync<string>().InTime());
    }

    /// <summary>Waits until the counts are at most these; gives what they are.</summary>
    private static async Task<(long Handles, long Pinned)> SettledAsync((long Handles, long Pinned)? wanted)
    {
        if (wanted is { } most)
        {
            await Support.Until(
                () =>
                {
                    GC.Collect();
                    GC.WaitForPendingFinalizers();
                    return WitHandle.Live <= most.Handles && UserData.Live <= most.Pinned;
                },
                $"handles {WitHandle.Live}, GCHandles {UserData.Live}, wanted {most}");
        }
        return (WitHandle.Live, UserData.Live);
    }
}

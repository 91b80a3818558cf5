using System.Collections.Concurrent;
using Demo;
using Microsoft.Extensions.Logging;

namespace WitRpc.Native.Tests;

/// <summary>Losing the connection: callbacks, events, states, retries; with servers that are killed and come back.</summary>
public class ResilienceTests
{
    private static void Fast(ReconnectOptions r) => (r.InitialDelay, r.MaxDelay, r.StableAfter) = (TimeSpan.FromMilliseconds(50), TimeSpan.FromMilliseconds(200), TimeSpan.Zero);

    [Fact]
    public async Task ReconnectsAgainAndAgainAndTellsItInOrder()
    {
        int port = Support.FreePort();
        var told = new ConcurrentQueue<string>();
        var logger = new MemoryLogger();
        WitClient? self = null;
        await using WitClient client = self = WitClientBuilder.Build(o => o.WithTcp("127.0.0.1", port).WithLogger(logger).WithAutoReconnect(r =>
        {
            Fast(r);
            r.MaxAttempts = 0;
            r.OnReconnecting = (attempt, delay) =>
            {
                if (attempt == 1)
                {
                    Assert.Equal(TimeSpan.FromMilliseconds(50), delay);
                    told.Enqueue("reconnecting");
                }
                throw new InvalidOperationException("thrown by a callback");
            };
            r.OnReconnected = () =>
            {
                // Refreshing state is what this callback is for: blocking on results must work here.
                told.Enqueue("reconnected " + self!.GetService<IEcho>().EchoAsync("fresh").GetAwaiter().GetResult() + self.GetService<IEcho>().Ping());
            };
        }));
        client.Disconnected += (_, e) => told.Enqueue(e.Reason is null ? "disconnected" : "disconnected with a reason");
        client.Reconnecting += (_, e) => told.Enqueue(e.Attempt == 1 ? "event reconnecting" : "");
        client.Reconnected += (_, _) => told.Enqueue("event reconnected");
        var progress = new ConcurrentQueue<int>();
        client.GetService<IEcho>().Progress += progress.Enqueue;
        for (int round = 0; round < 3; round++)
        {
            (OtherProcess server, _) = await OtherProcess.DemoAsync($"tcp://127.0.0.1:{port}");
            await using (server)
            {
                if (round == 0)
                {
                    Assert.Equal(ReconnectionState.Disconnected, client.ConnectionState);
                    await client.ConnectAsync().InTime();
                }
                await client.WaitForStateAsync(ReconnectionState.Connected).InTime();
                await Support.Until(() => told.Count(t => t == "event reconnected") == round, "reconnected is told");
                client.GetService<IEcho>().RaiseProgress(round);
                await Support.Until(() => progress.Count == round + 1, "the subscription lives on");
            }
            await client.WaitForStateAsync(ReconnectionState.Reconnecting).InTime();
            Assert.False(client.IsAuthorized);
            await Support.Until(() => told.Count(t => t == "event reconnecting") == round + 1, "reconnecting is told");
        }
        string[] once = ["disconnected with a reason", "reconnecting", "event reconnecting", "reconnected freshpong", "event reconnected"];
        Assert.Equal([.. once, .. once, .. once[..3]], told.Where(t => t != ""));
        Assert.Equal(2, client.Statistics.Reconnects);
        Assert.Contains(logger.Lines, l => l.Level == LogLevel.Error && l.Error?.Message == "thrown by a callback");
        await client.StopReconnectionAsync();
        await client.WaitForStateAsync(ReconnectionState.Disconnected).InTime();
    }

    [Fact]
    public async Task GivesUpWithARealError()
    {
        var failed = new TaskCompletionSource<Exception?>(TaskCreationOptions.RunContinuationsAsynchronously);
        var raised = new TaskCompletionSource<WitRpcException>(TaskCreationOptions.RunContinuationsAsynchronously);
        (OtherProcess server, string endpoint) = await OtherProcess.DemoAsync("tcp://127.0.0.1:0");
        await using WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(endpoint).WithAutoReconnect(r =>
        {
            Fast(r);
            r.MaxAttempts = 2;
            r.OnReconnectionFailed = e => failed.TrySetResult(e);
        }));
        client.ReconnectionFailed += (_, e) => raised.TrySetResult(e.Error);
        await client.ConnectAsync().InTime();
        await server.DisposeAsync();
        var error = Assert.IsType<WitRpcException>(await failed.Task.InTime());
        Assert.Equal(WitErrorCode.Transport, error.Code);
        Assert.IsType<IOException>(error.InnerException);
        Assert.Same(error, await raised.Task.InTime());
        Assert.Equal(ReconnectionState.Failed, client.ConnectionState);
        await Assert.ThrowsAsync<WitRpcException>(() => client.ReconnectAsync().InTime());
    }

    [Fact]
    public async Task ARetriedCallRunsOnceAndTheCallbackIsTold()
    {
        (OtherProcess server, string endpoint) = await OtherProcess.DemoAsync("tcp://127.0.0.1:0", "--close-after", "1");
        await using (server)
        {
            var retried = new TaskCompletionSource<(Exception?, int, TimeSpan)>(TaskCreationOptions.RunContinuationsAsynchronously);
            await using WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(endpoint).WithAutoReconnect(Fast).WithRetryPolicy(p =>
            {
                p.InitialDelay = TimeSpan.FromMilliseconds(10);
                p.MarkDeduplicated(nameof(IEcho.CountUp));
                p.OnRetry = (e, attempt, delay) => retried.TrySetResult((e, attempt, delay));
            }));
            await client.ConnectAsync().InTime();
            Assert.Equal(1, client.GetService<IEcho>().CountUp(1));
            (Exception? error, int attempt, TimeSpan delay) = await retried.Task.InTime();
            Assert.Equal((WitErrorCode.Transport, 1, 10.0), (Assert.IsType<WitRpcException>(error).Code, attempt, delay.TotalMilliseconds));
            Assert.Equal(1, client.GetService<IEcho>().Count());
            Assert.Equal(1, client.Statistics.Retries);
        }
    }

    [Fact]
    public async Task ExceptionsThatAreRetriedAreThoseOfTheTable()
    {
        var service = new FailingTwice();
        await using WitServer server = WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0").WithService<IFailing>(service));
        await server.StartAsync();
        WitClient Client(Action<RetryOptions> configure) => WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]).WithRetryPolicy(p =>
        {
            p.InitialDelay = TimeSpan.FromMilliseconds(1);
            p.MarkIdempotent(nameof(IFailing.Run));
            configure(p);
        }));
        async Task<int> Attempts(Action<RetryOptions> configure)
        {
            service.Calls = 0;
            await using WitClient client = Client(configure);
            await client.ConnectAsync().InTime();
            try
            {
                return client.GetService<IFailing>().Run();
            }
            catch (WitRpcException e) when (e.Code == WitErrorCode.Remote)
            {
                return e.Attempts;
            }
        }
        Assert.Equal(1, await Attempts(_ => { })); // a service fault is retried only if told so
        Assert.Equal(1, await Attempts(p => p.RetryOn<TimeoutException>()));
        Assert.Equal(3, await Attempts(p => p.RetryOn<WitRemoteException>()));
        Assert.Equal(3, await Attempts(p => p.RetryOn<WitRpcException>()));
        Assert.Equal(3, await Attempts(p => p.RetryOn<Exception>()));
        Assert.Equal(3, await Attempts(p => p.RetryOnStatus(CommunicationStatus.InternalServerError)));
        Assert.Equal(1, await Attempts(p =>
        {
            p.IdempotentMethods.Clear();
            p.RetryOn<Exception>();
        }));
        Assert.Equal(3, await Attempts(p =>
        {
            p.IdempotentMethods.Clear();
            p.RetryAllMethods = true;
            p.RetryableStatuses.Clear();
            p.RetryableStatuses.Add(CommunicationStatus.InternalServerError);
        }));
    }

    [Fact]
    public async Task WithoutAutoReconnectALossIsALoss()
    {
        (OtherProcess server, string endpoint) = await OtherProcess.DemoAsync("tcp://127.0.0.1:0");
        await using WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(endpoint).WithAutoReconnect().WithoutAutoReconnect().WithRetryPolicy().WithoutRetryPolicy());
        await client.ConnectAsync().InTime();
        await server.DisposeAsync();
        await client.WaitForStateAsync(ReconnectionState.Disconnected).InTime();
        var e = Assert.Throws<WitRpcException>(() => client.GetService<IEcho>().Ping());
        Assert.Equal((WitErrorCode.Transport, CallOutcome.NotSent), (e.Code, e.Outcome));
    }

    [Fact]
    public async Task ClosingEndsCallsFromCallbacksToo()
    {
        await using WitServer server = WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0").WithService<IEcho>(new EchoService()));
        await server.StartAsync();
        WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]));
        await client.ConnectAsync().InTime();
        IEcho echo = client.GetService<IEcho>();
        Task<int> slow = echo.SlowAsync(60_000, 1);
        var closed = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        echo.Progress += async _ =>
        {
            await client.DisposeAsync();
            closed.TrySetResult();
        };
        echo.RaiseProgress(1);
        await closed.Task.InTime();
        Assert.Equal(WitErrorCode.Closed, (await Assert.ThrowsAsync<WitRpcException>(() => slow.InTime())).Code);
        foreach (var e in new[] { Assert.Throws<WitRpcException>(() => echo.Ping()), await Assert.ThrowsAsync<WitRpcException>(async () => await echo.EchoAsync("x")) })
        {
            Assert.Equal((WitErrorCode.Closed, CallOutcome.NotSent), (e.Code, e.Outcome));
            Assert.IsType<ObjectDisposedException>(e.InnerException);
        }
        Assert.Throws<ObjectDisposedException>(() => client.GetService<IEcho>());
        Assert.Equal(ReconnectionState.Disconnected, client.ConnectionState);
        await client.DisposeAsync();
        client.Dispose();
        await client.StopReconnectionAsync();
    }

    [Fact]
    public async Task AConnectThatIsGivenUpIsGivenUp()
    {
        using var silent = new System.Net.Sockets.TcpListener(System.Net.IPAddress.Loopback, 0);
        silent.Start();
        await using WitClient client = WitClientBuilder.Build(o => o.WithTcp("127.0.0.1", ((System.Net.IPEndPoint)silent.LocalEndpoint).Port));
        Assert.False(await client.ConnectAsync(TimeSpan.FromMilliseconds(100)).InTime());
        using var cancel = new CancellationTokenSource(100);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => client.ConnectAsync(cancel.Token).InTime());
        Assert.Equal(ReconnectionState.Disconnected, client.ConnectionState);
    }

    public interface IFailing
    {
        int Run();
    }

    private sealed class FailingTwice : IFailing
    {
        internal int Calls { get; set; }

        public int Run() => ++Calls < 3 ? throw new InvalidOperationException("not yet") : Calls;
    }
}

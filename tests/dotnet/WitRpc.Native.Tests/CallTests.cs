using Demo;
using Timestamp = Google.Protobuf.WellKnownTypes.Timestamp;

namespace WitRpc.Native.Tests;

/// <summary>Calls and events between our own client and server in one process: all codecs, transports and security.</summary>
public class CallTests
{
    private static WitServer Serve(Action<WitServerBuilderOptions> configure) => WitServerBuilder.Build(options =>
    {
        options.WithService<IEcho>(new EchoService());
        configure(options);
    });

    private static WitServerBuilderOptions Local(WitServerBuilderOptions options) => options.WithEndpoint("tcp://127.0.0.1:0");

    [Theory]
    [InlineData("Json", false)]
    [InlineData("MemoryPack", true)]
    [InlineData("MessagePack", false)]
    [InlineData("ProtoBuf", true)]
    public async Task EveryMethodAndEventInEveryCodec(string name, bool isEncrypted)
    {
        var format = Enum.Parse<Conversation.Format>(name);
        await using WitServer server = Serve(o => (isEncrypted ? Local(o).WithEncryption() : Local(o)).With(format));
        await server.StartAsync();
        await using WitClient client = WitClientBuilder.Build(o => (isEncrypted ? o.WithEncryption() : o).WithEndpoint(server.Endpoints[0]).With(format));
        await client.ConnectAsync().InTime();
        IEcho echo = client.GetService<IEcho>();
        await Conversation.CallEverythingAsync(echo, format, isOwn: true);
        await Conversation.RaiseEverythingAsync(echo, format);
    }

    [Fact]
    public async Task GoogleProtobufSendsMessagesAsTheirBytesAndAllElseAsJson()
    {
        var service = new Messages();
        await using WitServer server = WitServerBuilder.Build(o => Local(o).WithService<IMessages>(service).WithGoogleProtobuf());
        await server.StartAsync();
        await using WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]).WithGoogleProtobuf());
        await client.ConnectAsync().InTime();
        IMessages proxy = client.GetService<IMessages>();
        var raised = new TaskCompletionSource<Timestamp>(TaskCreationOptions.RunContinuationsAsynchronously);
        proxy.Moved += t => raised.TrySetResult(t);
        Assert.Equal(new Timestamp { Seconds = 7, Nanos = 9 }, proxy.Later(new Timestamp { Seconds = 5, Nanos = 9 }, 2));
        Assert.Equal(7, (await raised.Task.InTime()).Seconds);
        Assert.Null(proxy.Later(null, 2));
        var e = Assert.Throws<WitRpcException>(() => client.Service(typeof(IMessages).FullName!).Call("Later(Google.Protobuf.WellKnownTypes.Timestamp, int)").With("text").With(2).Invoke<Timestamp>());
        Assert.Contains("can't be read by the server's codec, Google.Protobuf", e.Message);
    }

    public interface IMessages
    {
        event Action<Timestamp> Moved;

        Timestamp? Later(Timestamp? time, int seconds);
    }

    private sealed class Messages : IMessages
    {
        public event Action<Timestamp>? Moved;

        public Timestamp? Later(Timestamp? time, int seconds)
        {
            if (time is null)
            {
                return null;
            }
            var later = new Timestamp { Seconds = time.Seconds + seconds, Nanos = time.Nanos };
            Moved?.Invoke(later);
            return later;
        }
    }

    [Fact]
    public async Task EveryTransport()
    {
        string certs = Path.Combine(Support.Root, "tests", "certs");
        string pipe = $"witrpc-net-{Guid.NewGuid():N}";
        await using WitServer server = Serve(o => Local(o)
            .WithEndpoint("tls://127.0.0.1:0")
            .WithEndpoint("ws://127.0.0.1:0/api/")
            .WithNamedPipe(pipe)
            .WithCertificate(Path.Combine(certs, "server.pem"), Path.Combine(certs, "server-key.pem"))
            .WithAccessToken("secret"));
        await server.StartAsync();
        Action<WitClientBuilderOptions>[] ways =
        [
            o => o.WithTcp(new HostInfo { Host = "127.0.0.1", Port = Support.Port(server.Endpoints[0]) }),
            o => o.WithTcpSecure("127.0.0.1", Support.Port(server.Endpoints[1]), "localhost", tls => tls.AuthoritiesFile = Path.Combine(certs, "ca.pem")),
            o => o.WithWebSocket(server.Endpoints[2], 4096),
            o => o.WithWebSocket(new HostInfo { Host = "127.0.0.1", Port = Support.Port(server.Endpoints[2].Replace("/api/", "")), Path = "api" }),
            o => o.WithNamedPipe(".", pipe),
        ];
        foreach (Action<WitClientBuilderOptions> way in ways)
        {
            await using WitClient client = WitClientBuilder.Build(o =>
            {
                way(o);
                o.WithAccessToken(async () =>
                {
                    await Task.Yield();
                    return "secret";
                });
            });
            await client.ConnectAsync().InTime();
            Assert.Equal(5, await client.Service("Demo.IEcho").Call("int Add(int a, int b)").With(2).With(3).InvokeAsync<int>().InTime());
        }
    }

    [Fact]
    public async Task ATokenThatIsRefusedFailsAtOnceAndAProvidersErrorIsTold()
    {
        await using WitServer server = Serve(o => Local(o).WithAccessTokenValidator(async c =>
        {
            await Task.Yield();
            return c.Token == "good" ? WitVerdict.Accept("ann") : throw new InvalidOperationException("no such token");
        }));
        await server.StartAsync();
        await using WitClient refused = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]).WithAccessToken("bad").WithAutoReconnect());
        var e = await Assert.ThrowsAsync<WitRpcException>(() => refused.ConnectAsync().InTime());
        Assert.Equal(WitErrorCode.Unauthorized, e.Code);
        Assert.IsType<UnauthorizedAccessException>(e.InnerException);
        Assert.Equal(ReconnectionState.Failed, refused.ConnectionState);
        Assert.False(await refused.ConnectAsync(TimeSpan.FromSeconds(10)).InTime());
        await using WitClient broken = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]).WithAccessToken((Func<string>)(() => throw new InvalidOperationException("the vault is closed"))));
        e = await Assert.ThrowsAsync<WitRpcException>(() => broken.ConnectAsync().InTime());
        Assert.Contains("the vault is closed", e.Message);
        await using WitClient good = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]).WithAccessToken(() => Task.FromResult("good")));
        Assert.True(await good.ConnectAsync(TimeSpan.Zero).InTime());
    }

    [Fact]
    public async Task CancellationTimeoutsAndOptionsOfCalls()
    {
        await using WitServer server = Serve(o => Local(o));
        await server.StartAsync();
        await using WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]));
        await client.ConnectAsync().InTime();
        using var cancel = new CancellationTokenSource();
        Task<int> slow = client.Service("Demo.IEcho").Call("SlowAsync(int, int)").With(60_000).With(1).InvokeAsync<int>(cancel.Token);
        await Support.Until(() => server.Statistics.Running == 1, "the call runs");
        cancel.Cancel();
        var cancelled = await Assert.ThrowsAnyAsync<OperationCanceledException>(() => slow.InTime());
        Assert.Equal(cancel.Token, cancelled.CancellationToken);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => client.Service("Demo.IEcho").Call("Ping()").InvokeAsync<string>(cancel.Token).InTime());
        IEcho cancellable = client.GetService<IEcho>(new WitCallOptions { CancellationToken = cancel.Token });
        Assert.ThrowsAny<OperationCanceledException>(() => cancellable.Ping());
        IEcho hasty = client.GetService<IEcho>(new WitCallOptions { Timeout = TimeSpan.FromMilliseconds(50) });
        var e = await Assert.ThrowsAsync<WitRpcException>(() => hasty.SlowAsync(60_000, 1).InTime());
        Assert.Equal((WitErrorCode.Timeout, CallOutcome.Unknown), (e.Code, e.Outcome));
        Assert.IsType<TimeoutException>(e.InnerException);
        var id = Guid.NewGuid();
        IEcho once = client.GetService<IEcho>(new WitCallOptions { InvocationId = id });
        int first = once.CountUp(1);
        Assert.Equal(first, once.CountUp(1));
        Assert.Equal(1, server.Statistics.Replayed);
        Assert.Throws<WitRpcException>(() => client.GetService<IEcho>(new WitCallOptions { InvocationId = Guid.Empty }).CountUp(1));
    }

    [Fact]
    public async Task SeveralServicesValueTasksTokensAndTheCallItself()
    {
        var other = new Other();
        await using WitServer server = WitServerBuilder.Build(o => Local(o).WithServices().AddService<IEcho>(new EchoService()).AddService<IOther>(other).Build()
            .WithAccessTokenValidator(c => ValueTask.FromResult(WitVerdict.Accept("principal of " + c.Token))));
        await server.StartAsync();
        await using WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]).WithAccessToken("ann"));
        await client.ConnectAsync().InTime();
        IOther proxy = client.GetService<IOther>();
        Assert.Equal(6, await proxy.TwiceAsync(3));
        await proxy.NothingAsync();
        Assert.StartsWith("principal of ann, untraced, ", await proxy.WhoAsync(CancellationToken.None));
        var special = new WitCallOptions { TraceContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Timeout = TimeSpan.FromSeconds(30) };
        Assert.Equal($"principal of ann, {special.TraceContext}, True", await client.GetService<IOther>(special).WhoAsync(CancellationToken.None));
        Assert.Throws<WitRpcException>(() => client.GetService<IOther>(special with { TraceContext = new string('x', 1025) }).Base());
        using var cancel = new CancellationTokenSource();
        Task waiting = proxy.WaitAsync(cancel.Token);
        await other.Waiting.Task.InTime();
        cancel.Cancel();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => waiting.InTime());
        await other.Stopped.Task.InTime();
        Assert.Equal("v3", proxy[3]);
        proxy[3] = "three";
        Assert.Equal("three", proxy[3]);
        Assert.Equal("base", proxy.Base());
        Assert.Equal(5, client.GetService<IEcho>().Add(2, 3));
        var e = Assert.Throws<WitRpcException>(() => client.Service(typeof(IOther).FullName!.Replace('/', '+')).Call("string Base(int nope)").With(1).Invoke<string>());
        Assert.Equal(WitErrorCode.BadRequest, e.Code);
        Assert.Contains("Base", e.Message);
        Assert.EndsWith($"(called: string Base(int nope) of {typeof(IOther).FullName})", e.Message);
        e = await Assert.ThrowsAsync<WitRpcException>(() => client.Service("Demo.INobody").Call("int Nope()").InvokeAsync<int>().InTime());
        Assert.EndsWith("(called: int Nope() of Demo.INobody)", e.Message);
    }

    [Fact]
    public async Task WhatCantBeReadIsAnErrorThatSaysWhere()
    {
        await using WitServer server = Serve(o => Local(o));
        await server.StartAsync();
        await using WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]));
        await client.ConnectAsync().InTime();
        WitService echo = client.Service("Demo.IEcho");
        var e = Assert.Throws<WitRpcException>(() => echo.Call("Add(int, int)").With(1).With("two").Invoke<int>());
        Assert.Equal(WitErrorCode.BadRequest, e.Code);
        Assert.Contains("argument 2 \"b\" of Add(System.Int32, System.Int32) can't be read by the server's codec, JSON: ", e.Message);
        e = Assert.Throws<WitRpcException>(() => echo.Call("string Ping()").Invoke<int>());
        Assert.Equal(WitErrorCode.BadResult, e.Code);
        Assert.IsType<InvalidDataException>(e.InnerException);
        Assert.Contains("the result of string Ping() is no System.Int32 in JSON, which this client is set to", e.Message);
        e = Assert.Throws<WitRpcException>(() => echo.Call("int Add(int a,)").Invoke<int>());
        Assert.Equal(WitErrorCode.InvalidArgument, e.Code);
        Assert.Contains("column 15", e.Message);
        e = Assert.Throws<WitRpcException>(() => client.GetService<IEcho>().Double(double.NaN));
        Assert.Equal(WitErrorCode.InvalidArgument, e.Code);
        Assert.Contains("argument 1 of Double(", e.Message);
        WitCall used = echo.Call("Ping()");
        used.Invoke<string>();
        Assert.Throws<InvalidOperationException>(() => used.With(1));
        Assert.Throws<InvalidOperationException>(() => WitClientBuilder.Build(_ => { }));
        Assert.Throws<WitRpcException>(() => WitClientBuilder.Build(o => o.WithEndpoint("carrier-pigeon://home")));
        Assert.Throws<ArgumentException>(() => WitClientBuilder.Build(o => o.WithTcp("localhost", 1).WithAccessToken("a\0b")));
        await using (WitClient packed = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]).WithMemoryPack()))
        {
            e = Assert.Throws<WitRpcException>(() => packed.Service("Demo.IEcho").Call("Ping()").Invoke<string>());
            Assert.Equal("not connected: connect the client first", e.Message);
            e = Assert.Throws<WitRpcException>(() => packed.Service("Demo.IEcho").Call("Echo(Demo.Plain)").With(new Unpackable()));
            Assert.Contains("[MemoryPackable]", e.Message);
        }
        Assert.Contains("is no interface", Assert.Throws<InvalidOperationException>(() => Get<EchoService>(client)).Message);
        Assert.Contains("[WitContract]", Assert.Throws<InvalidOperationException>(() => Get<IUnknown>(client)).Message);
    }

    [Fact]
    public async Task WhatCantTravelThrowsAndTheRestWorks()
    {
        await using WitServer server = WitServerBuilder.Build(o => Local(o).WithService<IPartly>(new Partly()));
        await server.StartAsync();
        await using WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]));
        await client.ConnectAsync().InTime();
        IPartly proxy = client.GetService<IPartly>();
        Assert.Equal(3, proxy.Plain(3));
        int value = 1;
        Assert.Contains("ref, out and in", Assert.Throws<NotSupportedException>(() => proxy.ByReference(ref value)).Message);
    }

    [Fact]
    public async Task AServerIsMadeOnceAndSaysWhatIsWrong()
    {
        Assert.Throws<InvalidOperationException>(() => WitServerBuilder.Build(o => Local(o)));
        Assert.Throws<InvalidOperationException>(() => WitServerBuilder.Build(o => o.WithService<IEcho>(new EchoService())));
        await using WitServer server = Serve(o => Local(o).WithExecutionCallback((_, _) => throw new InvalidOperationException("thrown by a callback")));
        Assert.Throws<InvalidOperationException>(() => server.Statistics);
        await server.StartAsync();
        await Assert.ThrowsAsync<InvalidOperationException>(server.StartAsync);
        await using WitServer second = Serve(o => o.WithEndpoint(server.Endpoints[0]));
        Assert.Equal(WitErrorCode.Transport, (await Assert.ThrowsAsync<WitRpcException>(second.StartAsync)).Code);
        await using WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]));
        await client.ConnectAsync().InTime();
        Task<int> running = client.GetService<IEcho>().SlowAsync(300, 4);
        await Support.Until(() => server.Statistics.Running == 1, "the call runs");
        Assert.True(await server.StopAsync().InTime());
        Assert.Equal(4, await running.InTime());
    }

    private static T Get<T>(WitClient client) where T : class => client.GetService<T>();

    private sealed class Unpackable;

    /// <summary>No code is made for it: it is only named as a type parameter.</summary>
    public interface IUnknown
    {
        void Nothing();
    }

#pragma warning disable WITRPC002 // that is what is tested
    public interface IPartly
    {
        int Plain(int value);

        void ByReference(ref int value);
    }
#pragma warning restore WITRPC002

    private sealed class Partly : IPartly
    {
        public void ByReference(ref int value) => value++;

        public int Plain(int value) => value;
    }

    /// <summary>What IEcho has not.</summary>
    public interface IOther : IBase
    {
        string this[int index] { get; set; }

        ValueTask<int> TwiceAsync(int value);

        ValueTask NothingAsync();

        Task<string> WhoAsync(CancellationToken cancellationToken);

        Task WaitAsync(CancellationToken cancellationToken);
    }

    /// <summary>Members of base interfaces are the contract's.</summary>
    public interface IBase
    {
        string Base();
    }

    private sealed class Other : IOther
    {
        private readonly Dictionary<int, string> values = [];

        public string this[int index]
        {
            get => values.GetValueOrDefault(index, "v" + index);
            set => values[index] = value;
        }

        public string Base() => "base";

        public ValueTask NothingAsync() => default;

        public async ValueTask<int> TwiceAsync(int value)
        {
            await Task.Yield();
            return 2 * value;
        }

        internal TaskCompletionSource Waiting { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        internal TaskCompletionSource Stopped { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        public async Task WaitAsync(CancellationToken cancellationToken)
        {
            Waiting.TrySetResult();
            try
            {
                await Task.Delay(Timeout.Infinite, cancellationToken);
            }
            finally
            {
                Stopped.TrySetResult();
            }
        }

        public async Task<string> WhoAsync(CancellationToken cancellationToken)
        {
            await Task.Yield();
            WitServerCall call = WitServerCall.Current!;
            Assert.Same(call.Server, call.Server);
            return $"{call.Principal}, {call.TraceContext ?? "untraced"}, {(call.Remaining is { } left ? $"{left > TimeSpan.Zero}" : "no limit told")}";
        }
    }
}

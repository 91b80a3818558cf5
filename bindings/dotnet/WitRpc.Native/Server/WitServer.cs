using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Microsoft.Extensions.Logging;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>A server. All members may be used from any thread.</summary>
public sealed class WitServer : IAsyncDisposable, IDisposable
{
    private readonly WitServerBuilderOptions options;
    private readonly Lock gate = new();
    private readonly List<Action> endSubscriptions = [];
    private ServerHandle? handle;

    internal WitServer(WitServerBuilderOptions options)
    {
        NativeLoader.CheckAbi();
        this.options = options;
        if (options.Endpoints.Count == 0)
        {
            throw new InvalidOperationException("the options don't say where to listen: call WithTcp, WithWebSocket, WithNamedPipe or WithEndpoint");
        }
        if (options.Services.Count == 0)
        {
            throw new InvalidOperationException("the options don't say what to serve: call WithService or WithServices");
        }
    }

    /// <summary>Where the server listens, with the ports that it was given; empty before it was started.</summary>
    public IReadOnlyList<string> Endpoints { get; private set; } = [];

    internal WitCodec Codec => options.Codec;

    internal ILogger Logger => options.Logger;

    internal ServerHandle Handle => handle ?? throw new InvalidOperationException("the server was not started");

    /// <summary>What the server has done and does.</summary>
    public unsafe WitServerStatistics Statistics
    {
        get
        {
            var stats = new NativeServerStats { StructSize = (nuint)sizeof(NativeServerStats) };
            WitRpcException.ThrowIfFailed(NativeMethods.witrpc_server_stats_get(Handle, ref stats));
            return new WitServerStatistics
            {
                Connections = (int)stats.Connections,
                Running = (int)stats.Running,
                Executed = (long)stats.Executed,
                Replayed = (long)stats.Replayed,
                Attached = (long)stats.Attached,
                Held = (int)stats.Held,
            };
        }
    }

    /// <summary>Binds the endpoints and accepts clients.</summary>
    /// <returns>A task that ends when the endpoints are bound.</returns>
    /// <exception cref="WitRpcException">An endpoint can't be bound, or an option makes no sense.</exception>
    public Task StartAsync() => Task.Run(Start);

    /// <summary>Binds the endpoints and accepts clients; blocks until the endpoints are bound.</summary>
    /// <exception cref="WitRpcException">An endpoint can't be bound, or an option makes no sense.</exception>
    public void Start()
    {
        lock (gate)
        {
            if (handle is not null)
            {
                throw new InvalidOperationException("the server was started already: build another one");
            }
            using ServerOptionsHandle native = ServerNativeOptions.Create(options, this);
            int status = NativeMethods.witrpc_server_start(native, out nint value, out nint error);
            WitRpcException.ThrowIfFailed(status, error);
            handle = new ServerHandle(value);
            Endpoints = [.. Enumerable.Range(0, options.Endpoints.Count).Select(Endpoint)];
            foreach (IServed service in options.Services)
            {
                endSubscriptions.AddRange(service.Subscribe(this));
            }
        }
    }

    /// <summary>
    /// Stops in order: accepts nobody any more, refuses new calls, lets running ones finish and their answers leave, then closes
    /// the connections.
    /// </summary>
    /// <param name="limit">How long that may take; null = 30 s. What has not finished then is abandoned.</param>
    /// <returns>True if everything finished in time.</returns>
    public Task<bool> StopAsync(TimeSpan? limit = null) => Task.Factory.StartNew(
        () =>
        {
            if (handle is null)
            {
                return true;
            }
            int status = NativeMethods.witrpc_server_stop(handle, NativeOptions.Millis(limit ?? TimeSpan.FromSeconds(30)));
            Unsubscribe();
            if (status is not (0 or (int)WitErrorCode.Timeout))
            {
                WitRpcException.ThrowIfFailed(status);
            }
            return status == 0;
        },
        CancellationToken.None,
        TaskCreationOptions.LongRunning,
        TaskScheduler.Default);

    /// <summary>Stops at once, unless the server has been stopped.</summary>
    public void Dispose()
    {
        Unsubscribe();
        handle?.Dispose();
    }

    /// <summary>Stops in order, within 5 s.</summary>
    /// <returns>A task that ends then.</returns>
    public async ValueTask DisposeAsync()
    {
        if (handle is { IsClosed: false })
        {
            await StopAsync(TimeSpan.FromSeconds(5)).ConfigureAwait(false);
        }
        Dispose();
    }

    /// <summary>All clients that are connected and authorised: whom events go to where nothing else is said.</summary>
    /// <returns>They.</returns>
    public WitAudience ToAll() => WitAudience.All(this);

    /// <summary>One connection, by its id (<see cref="WitServerCall.ConnectionId"/>, <see cref="WitConnection.Id"/>).</summary>
    /// <param name="connection">The id. One that is gone is no error.</param>
    /// <returns>That client.</returns>
    public WitAudience ToConnection(Guid connection) => WitAudience.Connection(this, connection);

    /// <summary>All clients but one.</summary>
    /// <param name="connection">The id of its connection.</param>
    /// <returns>The others.</returns>
    public WitAudience ToOthers(Guid connection) => WitAudience.Others(this, connection);

    /// <summary>The connections that are in a group when an event is raised.</summary>
    /// <param name="group">The group.</param>
    /// <returns>They.</returns>
    public WitAudience ToGroup(string group) => WitAudience.Group(this, group);

    /// <summary>All connections of one principal, as the token validator named it at the handshake.</summary>
    /// <param name="principal">The principal.</param>
    /// <returns>They.</returns>
    public WitAudience ToPrincipal(string principal) => WitAudience.Principal(this, principal);

    /// <summary>Puts a connection into a group, until it ends. One that is gone is no error; a client that reconnects is in no group.</summary>
    /// <param name="connection">The id of the connection.</param>
    /// <param name="group">The group.</param>
    /// <exception cref="WitRpcException">It is in 1,024 groups.</exception>
    public unsafe void AddToGroup(Guid connection, string group)
    {
        byte* id = stackalloc byte[16];
        connection.TryWriteBytes(new Span<byte>(id, 16), bigEndian: true, out _);
        int status = NativeMethods.witrpc_server_group_add(Handle, id, NativeText.Checked(group, nameof(group)), out nint error);
        WitRpcException.ThrowIfFailed(status, error);
    }

    /// <summary>Takes a connection out of a group, if it is in it.</summary>
    /// <param name="connection">The id of the connection.</param>
    /// <param name="group">The group.</param>
    public unsafe void RemoveFromGroup(Guid connection, string group)
    {
        byte* id = stackalloc byte[16];
        connection.TryWriteBytes(new Span<byte>(id, 16), bigEndian: true, out _);
        int status = NativeMethods.witrpc_server_group_remove(Handle, id, NativeText.Checked(group, nameof(group)), out nint error);
        WitRpcException.ThrowIfFailed(status, error);
    }

    private string Endpoint(int index)
    {
        WitRpcException.ThrowIfFailed(NativeMethods.witrpc_server_endpoint(Handle, (nuint)index, out nint buffer));
        return NativeText.Take(buffer);
    }

    private void Unsubscribe()
    {
        lock (gate)
        {
            endSubscriptions.ForEach(end => end());
            endSubscriptions.Clear();
        }
    }
}

/// <summary>What a server has done and does.</summary>
public readonly record struct WitServerStatistics
{
    /// <summary>Connections now.</summary>
    public int Connections { get; init; }

    /// <summary>Methods running now.</summary>
    public int Running { get; init; }

    /// <summary>Methods ever begun.</summary>
    public long Executed { get; init; }

    /// <summary>Calls answered from memory instead of being executed again.</summary>
    public long Replayed { get; init; }

    /// <summary>Calls attached to a running twin.</summary>
    public long Attached { get; init; }

    /// <summary>Answers held in memory now.</summary>
    public int Held { get; init; }
}

/// <summary>Writes a server's options into a native options object. Decides nothing.</summary>
internal static class ServerNativeOptions
{
    internal static ServerOptionsHandle Create(WitServerBuilderOptions o, WitServer server)
    {
        int status = NativeMethods.witrpc_server_options_new(NativeText.Checked(o.Endpoints[0], "endpoint"), out nint value, out nint error);
        WitRpcException.ThrowIfFailed(status, error);
        var h = new ServerOptionsHandle(value);
        try
        {
            Fill(h, o, server);
        }
        catch
        {
            h.Dispose();
            throw;
        }
        return h;
    }

    private static unsafe void Fill(ServerOptionsHandle h, WitServerBuilderOptions o, WitServer server)
    {
        foreach (string endpoint in o.Endpoints.Skip(1))
        {
            Check(NativeMethods.witrpc_server_options_add_endpoint(h, NativeText.Checked(endpoint, "endpoint")));
        }
        Check(NativeMethods.witrpc_server_options_max_clients(h, NativeOptions.Size(o.MaxClients)));
        Check(NativeMethods.witrpc_server_options_max_frame(h, NativeOptions.Size(o.MaxMessageSize), 64 * 1024));
        Check(NativeMethods.witrpc_server_options_max_in_flight(h, NativeOptions.Size(o.MaxConcurrentRequestsPerClient), NativeOptions.Size(o.MaxConcurrentRequests)));
        Check(NativeMethods.witrpc_server_options_handshake_timeout_ms(h, NativeOptions.Millis(o.HandshakeTimeout)));
        Check(NativeMethods.witrpc_server_options_strong_event_types(h, NativeOptions.Flag(o.StrongEventTypes)));
        Check(NativeMethods.witrpc_server_options_encryption(h, NativeOptions.Flag(o.Encryption)));
        Check(NativeMethods.witrpc_server_options_codec(h, o.Codec.NativeNumber));
        if (o.OrderedPerConnection)
        {
            Check(NativeMethods.witrpc_server_options_ordered_per_connection(h));
        }
        if (o.Deduplication is { } d)
        {
            Check(NativeMethods.witrpc_server_options_dedup(h, NativeOptions.Size(d.MaxRecords), NativeOptions.Size(d.MaxBytes), NativeOptions.Millis(d.Hold), NativeOptions.Size(d.MaxAnswer)));
        }
        if (o.Token is { } token)
        {
            Check(NativeMethods.witrpc_server_options_token(h, NativeText.Checked(token, nameof(token))));
        }
        else if (o.TokenFile is { } path)
        {
            Check(NativeMethods.witrpc_server_options_token_file(h, NativeText.Checked(path, nameof(path))));
        }
        else if (o.Validator is { } validator)
        {
            Check(NativeMethods.witrpc_server_options_validator_async(h, &OnCheck, UserData.Alloc(new Validation(validator, o.Logger)), UserData.Destroy));
        }
        if (o.Tls is var (certificate, key, clientAuthorities))
        {
            Check(NativeMethods.witrpc_server_options_tls_files(h, NativeText.Checked(certificate, nameof(certificate)), NativeText.Checked(key, nameof(key)), clientAuthorities));
        }
        if (o.OnExecute is { } onExecute)
        {
            Check(NativeMethods.witrpc_server_options_on_execute(h, &OnExecute, UserData.Alloc(new Execution(onExecute, o.Logger)), UserData.Destroy));
        }
        if (o.OnConnected is not null || o.OnDisconnected is not null)
        {
            Check(NativeMethods.witrpc_server_options_on_connection(h, &OnConnected, &OnDisconnected, UserData.Alloc(new Watching(o.OnConnected, o.OnDisconnected, o.Logger)), UserData.Destroy));
        }
        foreach (IServed service in o.Services)
        {
            service.Install(h, server);
        }
    }

    private static void Check(int status) => WitRpcException.ThrowIfFailed(status);

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static unsafe void OnExecute(void* userData, byte* method, byte* id)
    {
        Execution self = UserData.Get<Execution>(userData);
        try
        {
            self.Callback(NativeText.Read(method) ?? "", new Guid(new ReadOnlySpan<byte>(id, 16), bigEndian: true));
        }
        catch (Exception e)
        {
            Log.CallbackFailed(self.Logger, e, nameof(WitServerBuilderOptions.WithExecutionCallback));
        }
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static unsafe void OnCheck(void* userData, nint check) => _ = UserData.Get<Validation>(userData).CheckAsync(check);

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static unsafe void OnConnected(void* userData, nint connection)
    {
        Watching self = UserData.Get<Watching>(userData);
        self.Tell(self.Connected, connection);
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static unsafe void OnDisconnected(void* userData, nint connection)
    {
        Watching self = UserData.Get<Watching>(userData);
        self.Tell(self.Disconnected, connection);
    }

    private sealed record Watching(Action<WitConnection>? Connected, Action<WitConnection>? Disconnected, ILogger Logger)
    {
        internal void Tell(Action<WitConnection>? callback, nint connection)
        {
            try
            {
                callback?.Invoke(new WitConnection(connection));
            }
            catch (Exception e)
            {
                Log.CallbackFailed(Logger, e, nameof(WitServerBuilderOptions.WithConnectionCallbacks));
            }
        }
    }

    private sealed record Execution(Action<string, Guid> Callback, ILogger Logger);

    private sealed class Validation(Func<WitCredentials, ValueTask<WitVerdict>> validator, ILogger logger)
    {
        internal async Task CheckAsync(nint check)
        {
            try
            {
                WitVerdict verdict = await validator(Credentials(check)).ConfigureAwait(false);
                _ = verdict.IsAccepted
                    ? NativeMethods.witrpc_check_accept(check, NativeText.Checked(verdict.Principal, "principal"))
                    : NativeMethods.witrpc_check_refuse(check);
            }
            catch (Exception e)
            {
                Log.ValidatorFailed(logger, e);
                _ = NativeMethods.witrpc_check_refuse(check);
            }
        }

        private static unsafe WitCredentials Credentials(nint check) => new(
            NativeText.Read(NativeMethods.witrpc_check_token(check)) ?? "",
            NativeText.Read(NativeMethods.witrpc_check_peer(check)) ?? "");
    }
}

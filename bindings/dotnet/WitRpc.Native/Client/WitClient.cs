using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>
/// A client of one service process, or of several that stand in for each other. All members may be used from any thread and any
/// callback. Disposing it ends its calls with <see cref="WitErrorCode.Closed"/>; one that is merely forgotten is closed by
/// the garbage collector.
/// </summary>
public sealed partial class WitClient : IAsyncDisposable, IDisposable
{
    private readonly ClientHandle handle;
    private readonly ClientCallbacks callbacks;
    private readonly ConcurrentDictionary<string, WitService> services = new(StringComparer.Ordinal);
    private readonly HashSet<object> subscriptions = [];
    private int state = (int)ReconnectionState.Disconnected;
    private volatile bool isDisposed;

    internal WitClient(WitClientBuilderOptions options)
    {
        NativeLoader.CheckAbi();
        Codec = options.Codec;
        Logger = options.Logger;
        callbacks = new ClientCallbacks(options);
        callbacks.Attach(this);
        using ClientOptionsHandle native = NativeOptions.Create(options, callbacks);
        int status = NativeMethods.witrpc_client_new(native, out nint value, out nint error);
        WitRpcException.ThrowIfFailed(status, error);
        handle = new ClientHandle(value);
    }

    /// <summary>Version of the native library, as "0.1.0".</summary>
    public static unsafe string LibraryVersion => NativeText.Read(NativeMethods.witrpc_version()) ?? "";

    internal WitCodec Codec { get; }

    internal ILogger Logger { get; }

    internal SerialQueue Queue => callbacks.Queue;

    internal ClientHandle Handle => handle;

    /// <summary>The state now. Reading it does no I/O.</summary>
    public ReconnectionState ConnectionState
    {
        get
        {
            if (isDisposed)
            {
                return ReconnectionState.Disconnected;
            }
            try
            {
                return (ReconnectionState)NativeMethods.witrpc_client_state(handle);
            }
            catch (ObjectDisposedException)
            {
                return ReconnectionState.Disconnected;
            }
        }
    }

    /// <summary>True while the handshake is done: of a link that is not, nothing is ever shown.</summary>
    public bool IsInitialized => ConnectionState == ReconnectionState.Connected;

    /// <summary>True while the server accepts the client's token.</summary>
    public bool IsAuthorized => ConnectionState == ReconnectionState.Connected;

    /// <summary>Why the last link or attempt to connect failed; null if nothing has failed yet.</summary>
    public WitRpcException? LastFailure
    {
        get
        {
            if (isDisposed)
            {
                return null;
            }
            nint error = NativeMethods.witrpc_client_last_failure(handle);
            if (error == 0)
            {
                return null;
            }
            var failure = WitRpcException.From((int)WitErrorCode.Transport, error);
            NativeMethods.witrpc_error_free(error);
            return failure;
        }
    }

    /// <summary>What the client has done and does. Reading it does no I/O.</summary>
    public unsafe WitClientStatistics Statistics
    {
        get
        {
            var stats = new NativeClientStats { StructSize = (nuint)sizeof(NativeClientStats), RoundTripMicroseconds = -1, SilenceMilliseconds = -1 };
            WitRpcException.ThrowIfFailed(NativeMethods.witrpc_client_stats_get(handle, ref stats));
            return new WitClientStatistics
            {
                Reconnects = (long)stats.Reconnects,
                Retries = (long)stats.Retries,
                CallsInFlight = (int)stats.InFlight,
                CallsQueued = (int)stats.Queued,
                RoundTrip = stats.RoundTripMicroseconds < 0 ? null : TimeSpan.FromMicroseconds(stats.RoundTripMicroseconds),
                Silence = stats.SilenceMilliseconds < 0 ? null : TimeSpan.FromMilliseconds(stats.SilenceMilliseconds),
            };
        }
    }

    /// <summary>
    /// Connects, and ends when the server has authorised the client. Connected already, it does nothing.
    /// </summary>
    /// <param name="cancellationToken">Gives the attempt up: the client is disconnected then.</param>
    /// <returns>A task that ends with the attempt; with <see cref="ReconnectOptions.RetryFirstConnect"/>, with the attempts.</returns>
    /// <exception cref="WitRpcException">The attempt failed.</exception>
    public Task ConnectAsync(CancellationToken cancellationToken = default) => ConnectAsync(Timeout.InfiniteTimeSpan, true, cancellationToken);

    /// <summary>Connects, and says whether it did; <see cref="LastFailure"/> says why not.</summary>
    /// <param name="timeout">Limit of the whole; zero = the options' own (<see cref="WitClientBuilderOptions.ConnectTimeout"/>).</param>
    /// <param name="cancellationToken">Gives the attempt up: the client is disconnected then.</param>
    /// <returns>True if the client is connected.</returns>
    public Task<bool> ConnectAsync(TimeSpan timeout, CancellationToken cancellationToken = default) => ConnectAsync(timeout, false, cancellationToken);

    private async Task<bool> ConnectAsync(TimeSpan timeout, bool throws, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        Task connecting = Operation.Connect(handle);
        TimeSpan limit = timeout == TimeSpan.Zero ? Timeout.InfiniteTimeSpan : timeout;
        try
        {
            await connecting.WaitAsync(limit, cancellationToken).ConfigureAwait(false);
            return true;
        }
        catch (Exception e) when (e is TimeoutException or OperationCanceledException)
        {
            if (ConnectionState != ReconnectionState.Connected)
            {
                Disconnect();
            }
            if (throws || e is not TimeoutException)
            {
                throw;
            }
            return false;
        }
        catch (WitRpcException) when (!throws)
        {
            return false;
        }
    }

    /// <summary>
    /// Drops the link, if there is one, and connects anew without a delay. With automatic reconnection, failures go on as its
    /// loop.
    /// </summary>
    /// <param name="cancellationToken">Ends the waiting, not the attempt.</param>
    /// <returns>A task that ends with the attempt.</returns>
    /// <exception cref="WitRpcException">The attempt failed.</exception>
    public Task ReconnectAsync(CancellationToken cancellationToken = default) => Task.Factory.StartNew(
        () =>
        {
            int status = NativeMethods.witrpc_client_reconnect(handle, out nint error);
            WitRpcException.ThrowIfFailed(status, error);
        },
        CancellationToken.None,
        TaskCreationOptions.LongRunning,
        TaskScheduler.Default).WaitAsync(cancellationToken);

    /// <summary>Ends the wait before the next attempt to reconnect; does nothing else.</summary>
    public void ReconnectNow() => WitRpcException.ThrowIfFailed(NativeMethods.witrpc_client_reconnect_now(handle));

    /// <summary>
    /// Ends attempts to reconnect in progress: the client is <see cref="ReconnectionState.Disconnected"/>, and
    /// <see cref="ReconnectionFailed"/> is not raised. Elsewhere it does nothing.
    /// </summary>
    /// <returns>A task that has ended.</returns>
    public Task StopReconnectionAsync()
    {
        if (!isDisposed)
        {
            WitRpcException.ThrowIfFailed(NativeMethods.witrpc_client_stop_reconnection(handle));
        }
        return Task.CompletedTask;
    }

    /// <summary>Drops the link and stays without one until connected again. Never starts to reconnect.</summary>
    public void Disconnect() => WitRpcException.ThrowIfFailed(NativeMethods.witrpc_client_disconnect(handle));

    /// <summary>As <see cref="Disconnect"/>.</summary>
    /// <returns>A task that has ended.</returns>
    public Task DisconnectAsync()
    {
        Disconnect();
        return Task.CompletedTask;
    }

    /// <summary>
    /// Makes a round trip to the server, which executes nothing there and is remembered nowhere. A .NET server answers calls
    /// one after the other, so that this waits behind those that run; while there are any, a timeout says little.
    /// </summary>
    /// <param name="timeout">Limit.</param>
    /// <returns>How long it took.</returns>
    /// <exception cref="WitRpcException">No answer in time, or the server refused the token.</exception>
    public async Task<TimeSpan> ProbeAsync(TimeSpan timeout)
    {
        long start = System.Diagnostics.Stopwatch.GetTimestamp();
        await Operation.Probe(handle, NativeOptions.Millis(timeout)).ConfigureAwait(false);
        return System.Diagnostics.Stopwatch.GetElapsedTime(start);
    }

    /// <summary>A service by the name of its contract, as "Demo.IEcho", for calls by method line.</summary>
    /// <param name="contract">Name of the contract.</param>
    /// <returns>The service; the same one for the same name.</returns>
    public WitService Service(string contract)
    {
        ObjectDisposedException.ThrowIf(isDisposed, this);
        return services.GetOrAdd(contract, static (name, client) => WitService.Create(client, name), this);
    }

    /// <summary>A service that knows more types than .NET's own: those that a call of a generic method names.</summary>
    internal WitService ServiceOf(string contract, string contractJson)
    {
        ObjectDisposedException.ThrowIf(isDisposed, this);
        return services.GetOrAdd(contractJson, static (json, of) => WitService.Create(of.Client, of.Contract, json), (Client: this, Contract: contract));
    }

    /// <summary>
    /// A typed proxy. Its code is made when your program is compiled, for each interface that stands here; for one that is
    /// known as a type parameter only, mark the interface with <see cref="WitContractAttribute"/>.
    /// </summary>
    /// <typeparam name="T">The C# interface of the service.</typeparam>
    /// <param name="options">What is special about the calls of this proxy.</param>
    /// <returns>The proxy. Events that are subscribed to on it are delivered as long as the client lives.</returns>
    public T GetService<T>(WitCallOptions? options = null) where T : class
    {
        WitContract<T> contract = WitContract<T>.Get();
        return contract.CreateProxy(new WitProxyContext(Service(contract.Name), options));
    }

    /// <summary>Keeps a subscription alive as long as the client is.</summary>
    internal void Keep(object subscription)
    {
        lock (subscriptions)
        {
            ObjectDisposedException.ThrowIf(isDisposed, this);
            subscriptions.Add(subscription);
        }
    }

    internal void Forget(object subscription)
    {
        lock (subscriptions)
        {
            subscriptions.Remove(subscription);
        }
    }

    /// <summary>Closes the client. Calls under way end with <see cref="WitErrorCode.Closed"/>; callbacks that have not begun are dropped. Never blocks.</summary>
    public void Dispose()
    {
        lock (subscriptions)
        {
            if (isDisposed)
            {
                return;
            }
            isDisposed = true;
            foreach (IDisposable subscription in subscriptions.Cast<IDisposable>().ToArray())
            {
                subscription.Dispose();
            }
            subscriptions.Clear();
        }
        callbacks.Queue.Close();
        foreach (WitService service in services.Values)
        {
            service.Close();
        }
        handle.Dispose();
    }

    /// <summary>
    /// Closes the client as <see cref="Dispose"/>, and ends when the native library has told the end of all its calls. From
    /// callbacks too.
    /// </summary>
    /// <returns>A task that ends then, after 10 s at the latest.</returns>
    public async ValueTask DisposeAsync()
    {
        if (isDisposed)
        {
            return;
        }
        callbacks.Queue.Close();
        try
        {
            _ = NativeMethods.witrpc_client_close(handle);
            await Task.Factory.StartNew(() => NativeMethods.witrpc_client_close_and_wait(handle, 10_000), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default).ConfigureAwait(false);
        }
        catch (ObjectDisposedException)
        {
            // Disposed by another thread meanwhile.
        }
        Dispose();
    }
}

/// <summary>What a client has done and does.</summary>
public readonly record struct WitClientStatistics
{
    /// <summary>Reconnections that succeeded.</summary>
    public long Reconnects { get; init; }

    /// <summary>Retries of calls.</summary>
    public long Retries { get; init; }

    /// <summary>Calls on their way now.</summary>
    public int CallsInFlight { get; init; }

    /// <summary>Calls that wait for the link or for room now.</summary>
    public int CallsQueued { get; init; }

    /// <summary>How long the last ping and its answer took; null without a link, with a .NET server, and before the first answer.</summary>
    public TimeSpan? RoundTrip { get; init; }

    /// <summary>How long ago the server gave its last sign of life; null without a link.</summary>
    public TimeSpan? Silence { get; init; }
}

namespace WitRpc.Native;

/// <summary>The events of a client. Handlers run as the callbacks of <see cref="ReconnectOptions"/>, each after the callback of the same name.</summary>
public sealed partial class WitClient
{
    /// <summary>The connection is gone; <see cref="WitDisconnectedEventArgs.Reason"/> says why, if it was lost.</summary>
    public event EventHandler<WitDisconnectedEventArgs>? Disconnected;

    /// <summary>An attempt to reconnect follows.</summary>
    public event EventHandler<WitReconnectingEventArgs>? Reconnecting;

    /// <summary>The link is back.</summary>
    public event EventHandler? Reconnected;

    /// <summary>The attempts are used up, or the server refused for good.</summary>
    public event EventHandler<WitReconnectionFailedEventArgs>? ReconnectionFailed;

    /// <summary>The state is another one.</summary>
    public event EventHandler<WitStateChangedEventArgs>? StateChanged;

    /// <summary>Waits until the client is in this state.</summary>
    /// <param name="wanted">The state.</param>
    /// <param name="cancellationToken">Ends the waiting.</param>
    /// <returns>A task that ends then.</returns>
    public async Task WaitForStateAsync(ReconnectionState wanted, CancellationToken cancellationToken = default)
    {
        var reached = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        void Look(object? sender, WitStateChangedEventArgs e)
        {
            if (e.State == wanted)
            {
                reached.TrySetResult();
            }
        }
        StateChanged += Look;
        try
        {
            if (ConnectionState != wanted)
            {
                await reached.Task.WaitAsync(cancellationToken).ConfigureAwait(false);
            }
        }
        finally
        {
            StateChanged -= Look;
        }
    }

    internal void RaiseReconnecting(int attempt, TimeSpan delay) => Reconnecting?.Invoke(this, new WitReconnectingEventArgs(attempt, delay));

    internal void RaiseReconnected() => Reconnected?.Invoke(this, EventArgs.Empty);

    internal void RaiseReconnectionFailed(WitRpcException error) => ReconnectionFailed?.Invoke(this, new WitReconnectionFailedEventArgs(error));

    internal void RaiseStateChanged(ReconnectionState now)
    {
        var before = (ReconnectionState)Interlocked.Exchange(ref state, (int)now);
        try
        {
            StateChanged?.Invoke(this, new WitStateChangedEventArgs(before, now));
        }
        finally
        {
            if (before == ReconnectionState.Connected)
            {
                Disconnected?.Invoke(this, new WitDisconnectedEventArgs(LastFailure));
            }
        }
    }
}

/// <summary>A connection is gone.</summary>
/// <param name="reason">Why, if it was lost.</param>
public sealed class WitDisconnectedEventArgs(WitRpcException? reason) : EventArgs
{
    /// <summary>Why the last link failed; null if none ever did, so that the user ended it.</summary>
    public WitRpcException? Reason { get; } = reason;
}

/// <summary>An attempt to reconnect follows.</summary>
/// <param name="attempt">Its number.</param>
/// <param name="delay">The delay before it.</param>
public sealed class WitReconnectingEventArgs(int attempt, TimeSpan delay) : EventArgs
{
    /// <summary>Number of the attempt, from 1 since the last authorised link.</summary>
    public int Attempt { get; } = attempt;

    /// <summary>The delay before it, as it is really used.</summary>
    public TimeSpan Delay { get; } = delay;
}

/// <summary>Reconnection has failed.</summary>
/// <param name="error">The last error.</param>
public sealed class WitReconnectionFailedEventArgs(WitRpcException error) : EventArgs
{
    /// <summary>The last error.</summary>
    public WitRpcException Error { get; } = error;
}

/// <summary>The state is another one.</summary>
/// <param name="before">The state before.</param>
/// <param name="state">The state now.</param>
public sealed class WitStateChangedEventArgs(ReconnectionState before, ReconnectionState state) : EventArgs
{
    /// <summary>The state before.</summary>
    public ReconnectionState Before { get; } = before;

    /// <summary>The state that the event is about.</summary>
    public ReconnectionState State { get; } = state;
}

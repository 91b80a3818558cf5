namespace WitRpc.Native;

/// <summary>State of a client's connection. The numbers are WitRPC's.</summary>
public enum ReconnectionState
{
    /// <summary>Connected and authorised.</summary>
    Connected = 0,
    /// <summary>Idle, and not reconnecting.</summary>
    Disconnected = 1,
    /// <summary>Attempts in progress.</summary>
    Reconnecting = 2,
    /// <summary>Attempts exhausted, or the server refused for good.</summary>
    Failed = 3,
}

/// <summary>How delays are spread, so that many clients do not come back at the same moment.</summary>
public enum Jitter
{
    /// <summary>The delay as it is.</summary>
    None = 0,
    /// <summary>Between half of it and all of it.</summary>
    Equal = 1,
    /// <summary>Between nothing and all of it.</summary>
    Full = 2,
    /// <summary>Between the initial delay and three times the delay before, at most the cap.</summary>
    Decorrelated = 3,
}

/// <summary>
/// Automatic reconnection. The delay before attempt <c>n</c> is <c>min(InitialDelay × BackoffMultiplier^(n-1), MaxDelay)</c>.
/// The callbacks run on the thread pool, one after the other and in the order in which things happen; they may block and
/// call everything. What they throw is logged and goes no further.
/// </summary>
public sealed class ReconnectOptions
{
    /// <summary>Attempts until the client gives up and is <see cref="ReconnectionState.Failed"/>; 0 = unlimited. Default 10.</summary>
    public int MaxAttempts { get; set; } = 10;

    /// <summary>Delay before the first attempt. Default 1 s.</summary>
    public TimeSpan InitialDelay { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>Cap of the delays. Default 2 min.</summary>
    public TimeSpan MaxDelay { get; set; } = TimeSpan.FromMinutes(2);

    /// <summary>Growth of the delays. Default 2.</summary>
    public double BackoffMultiplier { get; set; } = 2.0;

    /// <summary>
    /// Whether to reconnect also when the server closed the connection in order. Resets, half a message and silence are
    /// always covered. Default true.
    /// </summary>
    public bool ReconnectOnDisconnect { get; set; } = true;

    /// <summary>How the delays are spread. Default <see cref="Jitter.None"/>.</summary>
    public Jitter Jitter { get; set; }

    /// <summary>Whether the first delay after a loss is drawn between nothing and <see cref="InitialDelay"/>. Default false.</summary>
    public bool RandomFirstDelay { get; set; }

    /// <summary>Whether the very first connect is covered too. Default false.</summary>
    public bool RetryFirstConnect { get; set; }

    /// <summary>How long a link must have stood to end the growth of the delays. Default 10 s.</summary>
    public TimeSpan StableAfter { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>Before each wait: the number of the attempt, and the delay really used.</summary>
    public Action<int, TimeSpan>? OnReconnecting { get; set; }

    /// <summary>The link is back: the place to fetch what was missed.</summary>
    public Action? OnReconnected { get; set; }

    /// <summary>The attempts are used up, or the server refused for good: the last error, never null.</summary>
    public Action<Exception?>? OnReconnectionFailed { get; set; }

    /// <summary>
    /// For long-running clients of which there may be many: unlimited attempts, decorrelated jitter, a random first delay, the
    /// first connect covered.
    /// </summary>
    /// <returns>These options.</returns>
    public ReconnectOptions UseFleetDefaults()
    {
        (MaxAttempts, Jitter, RandomFirstDelay, RetryFirstConnect) = (0, Jitter.Decorrelated, true, true);
        return this;
    }
}

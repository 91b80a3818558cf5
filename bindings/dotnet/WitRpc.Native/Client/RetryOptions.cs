namespace WitRpc.Native;

/// <summary>How the delays of retries grow.</summary>
public enum BackoffType
{
    /// <summary>Always the initial delay.</summary>
    Fixed = 0,
    /// <summary>The initial delay times the number of the retry.</summary>
    Linear = 1,
    /// <summary>Multiplied from one to the next.</summary>
    Exponential = 2,
}

/// <summary>
/// Which failed calls are tried again. Inert until methods are declared. One invocation id spans the attempts of a call, so
/// that a server recognises the repetition.
/// </summary>
public sealed class RetryOptions
{
    private readonly HashSet<Type> exceptionTypes = [];

    /// <summary>Attempts after the first one. Default 3.</summary>
    public int MaxRetries { get; set; } = 3;

    /// <summary>Delay before the first retry. Default 500 ms.</summary>
    public TimeSpan InitialDelay { get; set; } = TimeSpan.FromMilliseconds(500);

    /// <summary>Cap of the delays. Default 30 s.</summary>
    public TimeSpan MaxDelay { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>How the delays grow. Default <see cref="BackoffType.Exponential"/>.</summary>
    public BackoffType BackoffType { get; set; } = BackoffType.Exponential;

    /// <summary>By what exponential delays grow. Default 2.</summary>
    public double BackoffMultiplier { get; set; } = 2.0;

    /// <summary>How the delays are spread. Default <see cref="Jitter.None"/>.</summary>
    public Jitter Jitter { get; set; }

    /// <summary>Statuses that are retried. Default <see cref="CommunicationStatus.Timeout"/> and <see cref="CommunicationStatus.TransportError"/>.</summary>
    public ISet<CommunicationStatus> RetryableStatuses { get; } = new HashSet<CommunicationStatus> { CommunicationStatus.Timeout, CommunicationStatus.TransportError };

    /// <summary>Exceptions that are retried besides. Empty = statuses only, the default.</summary>
    public IReadOnlyCollection<Type> RetryableExceptionTypes => exceptionTypes;

    /// <summary>Methods that may run twice, by name (all overloads) or by line.</summary>
    public ISet<string> IdempotentMethods { get; } = new HashSet<string>(StringComparer.Ordinal);

    /// <summary>Methods that must not run twice, and are repeated only where the server recognises the repetition.</summary>
    public ISet<string> DeduplicatedMethods { get; } = new HashSet<string>(StringComparer.Ordinal);

    /// <summary>All methods may run twice, but those marked deduplicated. Default false.</summary>
    public bool RetryAllMethods { get; set; }

    /// <summary>
    /// Limit of retries over time, so that they can't multiply an overload: so many a second, whatever happens, and on top
    /// <see cref="BudgetPercent"/>. Null = no limit. Default 10.
    /// </summary>
    public int? BudgetPerSecond { get; set; } = 10;

    /// <summary>So many retries for every hundred calls of the last 10 s, beside <see cref="BudgetPerSecond"/>. Default 20.</summary>
    public int BudgetPercent { get; set; } = 20;

    /// <summary>
    /// Before each wait: why the attempt failed, its number, and the delay that follows. Runs as the callbacks of
    /// <see cref="ReconnectOptions"/>.
    /// </summary>
    public Action<Exception?, int, TimeSpan>? OnRetry { get; set; }

    /// <summary>Declares methods that may run twice: they are repeated anywhere.</summary>
    /// <param name="methods">Names, which mean all overloads, or lines (<c>int Add(int, int)</c>), which mean one.</param>
    /// <returns>These options.</returns>
    public RetryOptions MarkIdempotent(params string[] methods)
    {
        IdempotentMethods.UnionWith(methods);
        return this;
    }

    /// <summary>
    /// Declares methods that must not run twice: they are repeated only within the reach of the server's de-duplication, else
    /// the call ends as <see cref="WitErrorCode.OutcomeUnknown"/>.
    /// </summary>
    /// <param name="methods">As for <see cref="MarkIdempotent"/>.</param>
    /// <returns>These options.</returns>
    public RetryOptions MarkDeduplicated(params string[] methods)
    {
        DeduplicatedMethods.UnionWith(methods);
        return this;
    }

    /// <summary>Adds statuses to <see cref="RetryableStatuses"/>.</summary>
    /// <param name="statuses">The statuses.</param>
    /// <returns>These options.</returns>
    public RetryOptions RetryOnStatus(params CommunicationStatus[] statuses)
    {
        RetryableStatuses.UnionWith(statuses);
        return this;
    }

    /// <summary>
    /// Retries also failures that <typeparamref name="TException"/> stands for, by the table at <see cref="WitRpcException"/>:
    /// <c>RetryOn&lt;TimeoutException&gt;()</c> covers calls that did not come back in time,
    /// <c>RetryOn&lt;WitRemoteException&gt;()</c> methods that threw on the server.
    /// </summary>
    /// <typeparam name="TException">The exception, or a base of it.</typeparam>
    /// <returns>These options.</returns>
    public RetryOptions RetryOn<TException>() where TException : Exception
    {
        exceptionTypes.Add(typeof(TException));
        return this;
    }
}

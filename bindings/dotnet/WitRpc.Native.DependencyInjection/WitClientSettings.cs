namespace WitRpc.Native.DependencyInjection;

/// <summary>A client's options as configuration holds them. What is not set keeps its default.</summary>
public sealed class WitClientSettings
{
    /// <summary>Endpoints, as <c>tcp://server.example.com:5000</c>.</summary>
    public IList<string> Endpoints { get; } = [];

    /// <summary>One endpoint; the same as a single entry of <see cref="Endpoints"/>.</summary>
    public string? Endpoint { get; set; }

    /// <summary>WitRPC's own encryption.</summary>
    public bool? Encryption { get; set; }

    /// <summary>The access token.</summary>
    public string? AccessToken { get; set; }

    /// <summary>File of the access token.</summary>
    public string? AccessTokenFile { get; set; }

    /// <summary>Limit of one attempt of a call.</summary>
    public TimeSpan? Timeout { get; set; }

    /// <summary>Limit of one attempt to connect.</summary>
    public TimeSpan? ConnectTimeout { get; set; }

    /// <summary>Largest message accepted, in bytes.</summary>
    public int? MaxMessageSize { get; set; }

    /// <summary>Automatic reconnection; on if the section is there.</summary>
    public ReconnectSettings? AutoReconnect { get; set; }

    /// <summary>The retry policy; on if the section is there.</summary>
    public RetrySettings? RetryPolicy { get; set; }

    internal void Apply(WitClientBuilderOptions options)
    {
        foreach (string endpoint in Endpoint is null ? Endpoints : [Endpoint, .. Endpoints])
        {
            options.WithEndpoint(endpoint);
        }
        if (Encryption is { } encryption)
        {
            _ = encryption ? options.WithEncryption() : options.WithoutEncryption();
        }
        if (AccessToken is not null)
        {
            options.WithAccessToken(AccessToken);
        }
        if (AccessTokenFile is not null)
        {
            options.WithAccessTokenFile(AccessTokenFile);
        }
        if (Timeout is { } timeout)
        {
            options.WithTimeout(timeout);
        }
        options.ConnectTimeout = ConnectTimeout ?? options.ConnectTimeout;
        options.MaxMessageSize = MaxMessageSize ?? options.MaxMessageSize;
        if (AutoReconnect is { Enabled: true } reconnect)
        {
            options.WithAutoReconnect(reconnect.Apply);
        }
        if (RetryPolicy is { Enabled: true } retry)
        {
            options.WithRetryPolicy(retry.Apply);
        }
    }
}

/// <summary>See <see cref="ReconnectOptions"/>.</summary>
public sealed class ReconnectSettings
{
    /// <summary>Whether it is on. Default true.</summary>
    public bool Enabled { get; set; } = true;

    /// <summary>Attempts; 0 = unlimited.</summary>
    public int? MaxAttempts { get; set; }

    /// <summary>Delay before the first attempt.</summary>
    public TimeSpan? InitialDelay { get; set; }

    /// <summary>Cap of the delays.</summary>
    public TimeSpan? MaxDelay { get; set; }

    /// <summary>Growth of the delays.</summary>
    public double? BackoffMultiplier { get; set; }

    /// <summary>Whether to reconnect also when the server closed the connection in order.</summary>
    public bool? ReconnectOnDisconnect { get; set; }

    /// <summary>How the delays are spread.</summary>
    public Jitter? Jitter { get; set; }

    /// <summary>Whether the very first connect is covered.</summary>
    public bool? RetryFirstConnect { get; set; }

    internal void Apply(ReconnectOptions options)
    {
        options.MaxAttempts = MaxAttempts ?? options.MaxAttempts;
        options.InitialDelay = InitialDelay ?? options.InitialDelay;
        options.MaxDelay = MaxDelay ?? options.MaxDelay;
        options.BackoffMultiplier = BackoffMultiplier ?? options.BackoffMultiplier;
        options.ReconnectOnDisconnect = ReconnectOnDisconnect ?? options.ReconnectOnDisconnect;
        options.Jitter = Jitter ?? options.Jitter;
        options.RetryFirstConnect = RetryFirstConnect ?? options.RetryFirstConnect;
    }
}

/// <summary>See <see cref="RetryOptions"/>.</summary>
public sealed class RetrySettings
{
    /// <summary>Whether it is on. Default true.</summary>
    public bool Enabled { get; set; } = true;

    /// <summary>Attempts after the first one.</summary>
    public int? MaxRetries { get; set; }

    /// <summary>Delay before the first retry.</summary>
    public TimeSpan? InitialDelay { get; set; }

    /// <summary>Cap of the delays.</summary>
    public TimeSpan? MaxDelay { get; set; }

    /// <summary>How the delays grow.</summary>
    public BackoffType? BackoffType { get; set; }

    /// <summary>By what exponential delays grow.</summary>
    public double? BackoffMultiplier { get; set; }

    /// <summary>Methods that may run twice.</summary>
    public IList<string> IdempotentMethods { get; } = [];

    /// <summary>Methods that must not run twice.</summary>
    public IList<string> DeduplicatedMethods { get; } = [];

    /// <summary>All methods may run twice.</summary>
    public bool? RetryAllMethods { get; set; }

    internal void Apply(RetryOptions options)
    {
        options.MaxRetries = MaxRetries ?? options.MaxRetries;
        options.InitialDelay = InitialDelay ?? options.InitialDelay;
        options.MaxDelay = MaxDelay ?? options.MaxDelay;
        options.BackoffType = BackoffType ?? options.BackoffType;
        options.BackoffMultiplier = BackoffMultiplier ?? options.BackoffMultiplier;
        options.RetryAllMethods = RetryAllMethods ?? options.RetryAllMethods;
        options.MarkIdempotent([.. IdempotentMethods]);
        options.MarkDeduplicated([.. DeduplicatedMethods]);
    }
}

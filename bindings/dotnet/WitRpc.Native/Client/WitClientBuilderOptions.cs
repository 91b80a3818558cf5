using System.Text.Json.Serialization.Metadata;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace WitRpc.Native;

/// <summary>What a client is to be like. Every method gives the same object back.</summary>
public sealed class WitClientBuilderOptions
{
    internal List<string> Endpoints { get; } = [];

    internal WitCodec Codec { get; private set; } = new JsonCodec(null);

    internal bool Encryption { get; private set; }

    internal Func<CancellationToken, Task<string>>? TokenProvider { get; private set; }

    internal string? Token { get; private set; }

    internal string? TokenFile { get; private set; }

    internal ReconnectOptions? Reconnect { get; private set; }

    internal RetryOptions? Retry { get; private set; }

    internal TimeSpan? AttemptTimeout { get; private set; }

    internal TlsOptions? Tls { get; private set; }

    internal int? WebSocketFragment { get; private set; }

    internal ILogger Logger { get; private set; } = NullLogger.Instance;

    /// <summary>Limit of one attempt to connect: token, name look-up, all addresses, handshake. Default 10 s.</summary>
    public TimeSpan ConnectTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>Largest message accepted, in bytes. Default 256 MiB.</summary>
    public int MaxMessageSize { get; set; } = 256 * 1024 * 1024;

    /// <summary>Calls that may wait for the link or for room; beyond it a call fails at once. Default 4,096.</summary>
    public int MaxQueuedCalls { get; set; } = 4096;

    /// <summary>Bytes of arguments that may wait so. Default 64 MiB.</summary>
    public int MaxQueuedBytes { get; set; } = 64 * 1024 * 1024;

    /// <summary>Requests without an answer at the same time. Default 16,384.</summary>
    public int MaxInFlight { get; set; } = 16_384;

    /// <summary>
    /// TCP keep-alive: silence before the first probe; then three probes 5 s apart until the link is dead.
    /// <see cref="Timeout.InfiniteTimeSpan"/> = no probes. Default 10 s.
    /// </summary>
    public TimeSpan KeepAlive { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>How calls say which method they mean. Default <see cref="WitMethodLookup.Id"/>. Generic methods always travel by name.</summary>
    public WitMethodLookup MethodLookup { get; set; }

    /// <summary>
    /// Names the types of calls that travel by name assembly-qualified, as .NET's own clients do by default. Default false: by name and assembly
    /// apart, so that a server that does not know one of them can say so.
    /// </summary>
    public bool StrongTypeNames { get; set; }

    /// <summary>The server, as <c>tcp://host:port</c>, <c>tls://</c>, <c>ws://</c>, <c>wss://</c>, <c>pipe://name</c>. Given several times, each attempt to connect goes to the next one.</summary>
    /// <param name="endpoint">The endpoint.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithEndpoint(string endpoint)
    {
        ArgumentException.ThrowIfNullOrEmpty(endpoint);
        Endpoints.Add(endpoint);
        return this;
    }

    /// <summary>A server on TCP.</summary>
    /// <param name="host">Name or address.</param>
    /// <param name="port">Port.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithTcp(string host, int port) => WithEndpoint(Native.Endpoints.Tcp("tcp", host, port));

    /// <summary>A server on TCP.</summary>
    /// <param name="host">Where it is; its path is not used.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithTcp(HostInfo host)
    {
        ArgumentNullException.ThrowIfNull(host);
        return WithTcp(host.Host, host.Port ?? throw new ArgumentException("HostInfo.Port is not set", nameof(host)));
    }

    /// <summary>A server on TCP within TLS.</summary>
    /// <param name="host">Name or address.</param>
    /// <param name="port">Port.</param>
    /// <param name="targetHost">The name that the certificate must be for; null = the host.</param>
    /// <param name="configure">More about certificates.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithTcpSecure(string host, int port, string? targetHost = null, Action<TlsOptions>? configure = null) =>
        WithEndpoint(Native.Endpoints.Tcp("tls", host, port)).WithTls(tls =>
        {
            tls.TargetHost = targetHost ?? tls.TargetHost;
            configure?.Invoke(tls);
        });

    /// <summary>A server on TCP within TLS.</summary>
    /// <param name="host">Where it is; its path is not used.</param>
    /// <param name="configure">More about certificates.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithTcpSecure(HostInfo host, Action<TlsOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(host);
        return WithTcpSecure(host.Host, host.Port ?? throw new ArgumentException("HostInfo.Port is not set", nameof(host)), null, configure);
    }

    /// <summary>A server on WebSocket.</summary>
    /// <param name="url">As <c>ws://host:port/path</c> or <c>wss://…</c>; <c>http</c> and <c>https</c> mean the same.</param>
    /// <param name="bufferSize">Largest piece that a message is sent in, in bytes; 0 = in one piece.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithWebSocket(string url, int bufferSize = 0)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(bufferSize);
        WebSocketFragment = bufferSize;
        return WithEndpoint(Native.Endpoints.WebSocket(url));
    }

    /// <summary>A server on WebSocket.</summary>
    /// <param name="host">Where it is; <see cref="HostInfo.UseSsl"/> makes it <c>wss</c>.</param>
    /// <param name="bufferSize">As above.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithWebSocket(HostInfo host, int bufferSize = 0)
    {
        ArgumentNullException.ThrowIfNull(host);
        return WithWebSocket(new HostInfo { Host = host.Host, Port = host.Port, UseSsl = host.UseSsl, UseWebSocket = true, Path = host.Path }.ToString(), bufferSize);
    }

    /// <summary>A server on a named pipe of this machine.</summary>
    /// <param name="pipeName">Its name, or the absolute path of a Unix domain socket.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithNamedPipe(string pipeName)
    {
        ArgumentException.ThrowIfNullOrEmpty(pipeName);
        return WithEndpoint("pipe://" + pipeName);
    }

    /// <summary>A server on a named pipe.</summary>
    /// <param name="serverName"><c>.</c>, this machine: others can't be reached.</param>
    /// <param name="pipeName">Its name.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithNamedPipe(string serverName, string pipeName) => serverName == "."
        ? WithNamedPipe(pipeName)
        : throw new ArgumentException($"pipes of other machines can't be reached: \"{serverName}\" must be \".\"", nameof(serverName));

    /// <summary>How certificates are checked, for <c>tls://</c> and <c>wss://</c>.</summary>
    /// <param name="configure">Sets it.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithTls(Action<TlsOptions> configure)
    {
        ArgumentNullException.ThrowIfNull(configure);
        configure(Tls ??= new TlsOptions());
        return this;
    }

    /// <summary>WitRPC's own encryption (RSA key exchange, AES-256-GCM). The server must be set alike.</summary>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithEncryption()
    {
        Encryption = true;
        return this;
    }

    /// <summary>No encryption of WitRPC's own. The default.</summary>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithoutEncryption()
    {
        Encryption = false;
        return this;
    }

    /// <summary>The access token. If the server refuses it, the client fails at once.</summary>
    /// <param name="token">The token.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithAccessToken(string token)
    {
        ArgumentNullException.ThrowIfNull(token);
        (Token, TokenProvider, TokenFile) = (token, null, null);
        return this;
    }

    /// <summary>Asks for the token before every attempt to connect, and once more when the server refused it.</summary>
    /// <param name="provider">Gives the token. Runs on the thread pool.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithAccessToken(Func<string> provider)
    {
        ArgumentNullException.ThrowIfNull(provider);
        return WithAccessToken(_ => Task.FromResult(provider()));
    }

    /// <summary>Asks for the token before every attempt to connect, and once more when the server refused it.</summary>
    /// <param name="provider">Gives the token. Runs on the thread pool; what it throws fails that attempt.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithAccessToken(Func<Task<string>> provider)
    {
        ArgumentNullException.ThrowIfNull(provider);
        return WithAccessToken(_ => provider());
    }

    /// <summary>The same with a token that is cancelled when the attempt has taken its time (<see cref="ConnectTimeout"/>).</summary>
    /// <param name="provider">Gives the token.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithAccessToken(Func<CancellationToken, Task<string>> provider)
    {
        ArgumentNullException.ThrowIfNull(provider);
        (Token, TokenProvider, TokenFile) = (null, provider, null);
        return this;
    }

    /// <summary>Takes the token from a file, which is read anew before every attempt to connect.</summary>
    /// <param name="path">The file.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithAccessTokenFile(string path)
    {
        ArgumentException.ThrowIfNullOrEmpty(path);
        (Token, TokenProvider, TokenFile) = (null, null, path);
        return this;
    }

    /// <summary>No token. The default.</summary>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithoutAuthorization()
    {
        (Token, TokenProvider, TokenFile) = (null, null, null);
        return this;
    }

    /// <summary>How arguments and results are encoded. The server must be set alike.</summary>
    /// <param name="codec">The codec.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithParametersSerializer(WitCodec codec)
    {
        ArgumentNullException.ThrowIfNull(codec);
        Codec = codec;
        return this;
    }

    /// <summary>System.Text.Json. The default.</summary>
    /// <param name="resolver">Knows the types, as a source-generated JsonSerializerContext: needed in AOT programs for all but scalars.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithJson(IJsonTypeInfoResolver? resolver = null) => WithParametersSerializer(new JsonCodec(resolver));

    /// <summary>
    /// Limit of one attempt of a call. Default 30 s. <see cref="System.Threading.Timeout.InfiniteTimeSpan"/> lets a call without a
    /// limit of its own wait for ever.
    /// </summary>
    /// <param name="timeout">The limit.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithTimeout(TimeSpan timeout)
    {
        AttemptTimeout = timeout;
        return this;
    }

    /// <summary>Switches automatic reconnection on.</summary>
    /// <param name="configure">Changes its defaults.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithAutoReconnect(Action<ReconnectOptions>? configure = null)
    {
        configure?.Invoke(Reconnect ??= new ReconnectOptions());
        Reconnect ??= new ReconnectOptions();
        return this;
    }

    /// <summary>Switches automatic reconnection off. The default.</summary>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithoutAutoReconnect()
    {
        Reconnect = null;
        return this;
    }

    /// <summary>Switches the retry policy on. It retries nothing until methods are declared.</summary>
    /// <param name="configure">Changes its defaults.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithRetryPolicy(Action<RetryOptions>? configure = null)
    {
        configure?.Invoke(Retry ??= new RetryOptions());
        Retry ??= new RetryOptions();
        return this;
    }

    /// <summary>Switches the retry policy off. The default.</summary>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithoutRetryPolicy()
    {
        Retry = null;
        return this;
    }

    /// <summary>Where the client writes what happens to it, and what callbacks throw.</summary>
    /// <param name="logger">The logger.</param>
    /// <returns>These options.</returns>
    public WitClientBuilderOptions WithLogger(ILogger logger)
    {
        ArgumentNullException.ThrowIfNull(logger);
        Logger = logger;
        return this;
    }
}

/// <summary>How a call says which method it means.</summary>
public enum WitMethodLookup
{
    /// <summary>By id alone: the smallest request, and the quickest for the server.</summary>
    Id = 0,
    /// <summary>By id, with name and types beside it, as .NET's own clients send: for a server that serves the contract under another name, such as a derived interface.</summary>
    IdOrName = 1,
    /// <summary>By name and types alone.</summary>
    Name = 2,
}

/// <summary>How a server's certificate is checked, and the client's own.</summary>
public sealed class TlsOptions
{
    /// <summary>The name that the certificate must be for; null = the host of the endpoint.</summary>
    public string? TargetHost { get; set; }

    /// <summary>PEM file of the authorities to trust; null = those of the system.</summary>
    public string? AuthoritiesFile { get; set; }

    /// <summary>Whether to trust the system's authorities also where <see cref="AuthoritiesFile"/> is given.</summary>
    public bool TrustSystemAuthorities { get; set; }

    /// <summary>SHA-256 of the certificates (DER) that are accepted, 32 bytes each; then nothing else is looked at.</summary>
    public IList<byte[]> PinnedCertificates { get; } = [];

    /// <summary>PEM file of the client's own certificate; with <see cref="KeyFile"/>.</summary>
    public string? CertificateFile { get; set; }

    /// <summary>PEM file of the private key, not encrypted.</summary>
    public string? KeyFile { get; set; }
}

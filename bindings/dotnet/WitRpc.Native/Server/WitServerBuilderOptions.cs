using System.Text.Json.Serialization.Metadata;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace WitRpc.Native;

/// <summary>What a server is to be like. Every method gives the same object back.</summary>
public sealed class WitServerBuilderOptions
{
    internal List<string> Endpoints { get; } = [];

    internal List<IServed> Services { get; } = [];

    internal WitCodec Codec { get; private set; } = new JsonCodec(null);

    internal bool Encryption { get; private set; }

    internal string? Token { get; private set; }

    internal string? TokenFile { get; private set; }

    internal Func<WitCredentials, ValueTask<WitVerdict>>? Validator { get; private set; }

    internal ILogger Logger { get; private set; } = NullLogger.Instance;

    internal (string Certificate, string Key, string? ClientAuthorities)? Tls { get; private set; }

    internal WitDeduplicationOptions? Deduplication { get; private set; }

    internal Action<string, Guid>? OnExecute { get; private set; }

    internal Action<WitConnection>? OnConnected { get; private set; }

    internal Action<WitConnection>? OnDisconnected { get; private set; }

    /// <summary>Connections at the same time; one more is closed at once. Default 10,000.</summary>
    public int MaxClients { get; set; } = 10_000;

    /// <summary>Largest message accepted, in bytes. Default 256 MiB.</summary>
    public int MaxMessageSize { get; set; } = 256 * 1024 * 1024;

    /// <summary>Calls of one connection that run at the same time. Default 256.</summary>
    public int MaxConcurrentRequestsPerClient { get; set; } = 256;

    /// <summary>Calls of all connections that run at the same time; beyond it calls are refused. Default 65,536.</summary>
    public int MaxConcurrentRequests { get; set; } = 65_536;

    /// <summary>Runs the calls of one connection one after another, as WitRPC's own server does. Default false.</summary>
    public bool OrderedPerConnection { get; set; }

    /// <summary>Time from accepting a connection until it must be authorised. Default 30 s.</summary>
    public TimeSpan HandshakeTimeout { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>Names the types of event arguments assembly-qualified, as WitRPC's own server does by default. Default false: by name and assembly apart, which costs a client that can't resolve one nothing but that argument.</summary>
    public bool StrongEventTypes { get; set; }

    /// <summary>Listens at an endpoint, as <c>tcp://*:5000</c>; several are allowed, of different kinds too.</summary>
    /// <param name="endpoint">The endpoint.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithEndpoint(string endpoint)
    {
        ArgumentException.ThrowIfNullOrEmpty(endpoint);
        Endpoints.Add(endpoint);
        return this;
    }

    /// <summary>Listens on TCP, at all addresses of this machine.</summary>
    /// <param name="port">The port; 0 picks a free one (<see cref="WitServer.Endpoints"/>).</param>
    /// <param name="maxClients">Sets <see cref="MaxClients"/>.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithTcp(int port, int? maxClients = null) => Max(maxClients).WithEndpoint(Native.Endpoints.Tcp("tcp", "*", port));

    /// <summary>Listens on TCP.</summary>
    /// <param name="host">Where; its path is not used.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithTcp(HostInfo host)
    {
        ArgumentNullException.ThrowIfNull(host);
        return WithEndpoint(Native.Endpoints.Tcp("tcp", host.Host, host.Port ?? throw new ArgumentException("HostInfo.Port is not set", nameof(host))));
    }

    /// <summary>Listens on TCP within TLS, at all addresses of this machine.</summary>
    /// <param name="port">The port; 0 picks a free one.</param>
    /// <param name="certificateFile">PEM file of the certificate, and of those that lead to a root.</param>
    /// <param name="keyFile">PEM file of the private key, not encrypted.</param>
    /// <param name="clientAuthoritiesFile">PEM file of the authorities that clients' certificates must come from; null = clients need none.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithTcpSecure(int port, string certificateFile, string keyFile, string? clientAuthoritiesFile = null) =>
        WithEndpoint(Native.Endpoints.Tcp("tls", "*", port)).WithCertificate(certificateFile, keyFile, clientAuthoritiesFile);

    /// <summary>The certificate of <c>tls://</c> and <c>wss://</c>.</summary>
    /// <param name="certificateFile">PEM file of the certificate, and of those that lead to a root.</param>
    /// <param name="keyFile">PEM file of the private key, not encrypted.</param>
    /// <param name="clientAuthoritiesFile">PEM file of the authorities that clients' certificates must come from; null = clients need none.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithCertificate(string certificateFile, string keyFile, string? clientAuthoritiesFile = null)
    {
        Tls = (certificateFile, keyFile, clientAuthoritiesFile);
        return this;
    }

    /// <summary>Listens on WebSocket.</summary>
    /// <param name="url">As <c>http://host:port/path</c> or <c>ws://…</c>.</param>
    /// <param name="maxClients">Sets <see cref="MaxClients"/>.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithWebSocket(string url, int? maxClients = null) => Max(maxClients).WithEndpoint(Native.Endpoints.WebSocket(url));

    /// <summary>Listens on a named pipe.</summary>
    /// <param name="pipeName">Its name, or the absolute path of a Unix domain socket.</param>
    /// <param name="maxClients">Sets <see cref="MaxClients"/>.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithNamedPipe(string pipeName, int? maxClients = null) => Max(maxClients).WithEndpoint("pipe://" + pipeName);

    /// <summary>Serves an instance under an interface. Its methods run side by side; its events go to all clients.</summary>
    /// <typeparam name="T">The interface, named itself: its code is made when your program is compiled.</typeparam>
    /// <param name="instance">The implementation.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithService<T>(T instance) where T : class
    {
        ArgumentNullException.ThrowIfNull(instance);
        Services.Add(new Served<T>(instance));
        return this;
    }

    /// <summary>Serves what a factory makes, once, when the server is started.</summary>
    /// <typeparam name="T">The interface.</typeparam>
    /// <param name="factory">Makes the implementation.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithService<T>(Func<T> factory) where T : class
    {
        ArgumentNullException.ThrowIfNull(factory);
        return WithService<T>(factory());
    }

    /// <summary>Several services on one server.</summary>
    /// <returns>What takes them.</returns>
    public WitServicesBuilder WithServices() => new(this);

    /// <summary>WitRPC's own encryption. Clients must be set alike.</summary>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithEncryption()
    {
        Encryption = true;
        return this;
    }

    /// <summary>No encryption of WitRPC's own. The default.</summary>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithoutEncryption()
    {
        Encryption = false;
        return this;
    }

    /// <summary>Accepts only this token.</summary>
    /// <param name="token">The token.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithAccessToken(string token)
    {
        (Token, TokenFile, Validator) = (token, null, null);
        return this;
    }

    /// <summary>Accepts only the token in a file, which is looked at for every check.</summary>
    /// <param name="path">The file.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithAccessTokenFile(string path)
    {
        (Token, TokenFile, Validator) = (null, path, null);
        return this;
    }

    /// <summary>Accepts only clients without a token. The default.</summary>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithoutAuthorization()
    {
        (Token, TokenFile, Validator) = (null, null, null);
        return this;
    }

    /// <summary>
    /// Asks whether a token is good, at the handshake and for every call. What the validator throws refuses the token and is
    /// logged.
    /// </summary>
    /// <param name="validator">Says so, and may name the token's bearer: calls of one principal are told from those of another.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithAccessTokenValidator(Func<WitCredentials, ValueTask<WitVerdict>> validator)
    {
        ArgumentNullException.ThrowIfNull(validator);
        (Token, TokenFile, Validator) = (null, null, validator);
        return this;
    }

    /// <summary>The same for validators that only look at the token.</summary>
    /// <param name="validator">True if the token is good.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithAccessTokenValidator(Func<string, bool> validator)
    {
        ArgumentNullException.ThrowIfNull(validator);
        return WithAccessTokenValidator(c => ValueTask.FromResult(validator(c.Token) ? WitVerdict.Accept() : WitVerdict.Refuse));
    }

    /// <summary>How arguments and results are encoded. Clients must be set alike.</summary>
    /// <param name="codec">The codec.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithParametersSerializer(WitCodec codec)
    {
        ArgumentNullException.ThrowIfNull(codec);
        Codec = codec;
        return this;
    }

    /// <summary>System.Text.Json. The default.</summary>
    /// <param name="resolver">Knows the types: needed in AOT programs for all but scalars.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithJson(IJsonTypeInfoResolver? resolver = null) => WithParametersSerializer(new JsonCodec(resolver));

    /// <summary>Sets <see cref="MaxConcurrentRequests"/>.</summary>
    /// <param name="requests">How many.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithMaxConcurrentRequests(int requests)
    {
        MaxConcurrentRequests = requests;
        return this;
    }

    /// <summary>Sets <see cref="HandshakeTimeout"/>.</summary>
    /// <param name="timeout">The limit.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithHandshakeTimeout(TimeSpan timeout)
    {
        HandshakeTimeout = timeout;
        return this;
    }

    /// <summary>Bounds of the memory of calls, by which a repeated call is recognised.</summary>
    /// <param name="configure">Sets them.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithDeduplication(Action<WitDeduplicationOptions> configure)
    {
        ArgumentNullException.ThrowIfNull(configure);
        configure(Deduplication ??= new WitDeduplicationOptions());
        return this;
    }

    /// <summary>Tells of each execution before it begins: method and invocation id. What is counted here is what really ran. Must not block.</summary>
    /// <param name="callback">The callback.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithExecutionCallback(Action<string, Guid> callback)
    {
        OnExecute = callback;
        return this;
    }

    /// <summary>
    /// Tells of connections: of each that was authorised, before its first call is read (the place to put it into groups), and of its
    /// end. Must not block; runs for several connections at once. What a callback throws is logged.
    /// </summary>
    /// <param name="connected">A connection was authorised.</param>
    /// <param name="disconnected">A connection has ended.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithConnectionCallbacks(Action<WitConnection>? connected, Action<WitConnection>? disconnected = null)
    {
        (OnConnected, OnDisconnected) = (connected, disconnected);
        return this;
    }

    /// <summary>Where the server writes what goes wrong in services and callbacks.</summary>
    /// <param name="logger">The logger.</param>
    /// <returns>These options.</returns>
    public WitServerBuilderOptions WithLogger(ILogger logger)
    {
        ArgumentNullException.ThrowIfNull(logger);
        Logger = logger;
        return this;
    }

    private WitServerBuilderOptions Max(int? clients)
    {
        MaxClients = clients ?? MaxClients;
        return this;
    }
}

/// <summary>Takes several services.</summary>
/// <param name="options">The server's options.</param>
public sealed class WitServicesBuilder(WitServerBuilderOptions options)
{
    /// <summary>Serves one more instance.</summary>
    /// <typeparam name="T">The interface.</typeparam>
    /// <param name="instance">The implementation.</param>
    /// <returns>This builder.</returns>
    public WitServicesBuilder AddService<T>(T instance) where T : class
    {
        options.WithService(instance);
        return this;
    }

    /// <summary>Back to the server's options.</summary>
    /// <returns>The options.</returns>
    public WitServerBuilderOptions Build() => options;
}

/// <summary>A token to be checked.</summary>
/// <param name="Token">The token; empty where the client has none.</param>
/// <param name="Peer">Address and port of the client, or "local" at a pipe.</param>
public sealed record WitCredentials(string Token, string Peer);

/// <summary>What a validator says.</summary>
public sealed record WitVerdict
{
    /// <summary>The token is refused.</summary>
    public static WitVerdict Refuse { get; } = new();

    /// <summary>Whether the token is good.</summary>
    public bool IsAccepted { get; private init; }

    /// <summary>Who its bearer is.</summary>
    public string Principal { get; private init; } = "";

    /// <summary>The token is good.</summary>
    /// <param name="principal">Names its bearer. Never the token itself, because tokens change.</param>
    /// <returns>The verdict.</returns>
    public static WitVerdict Accept(string principal = "") => new() { IsAccepted = true, Principal = principal };
}

/// <summary>Bounds of the memory of calls.</summary>
public sealed class WitDeduplicationOptions
{
    /// <summary>Records, running calls included. Default 65,536.</summary>
    public int MaxRecords { get; set; } = 65_536;

    /// <summary>Bytes of stored answers. Default 64 MiB.</summary>
    public int MaxBytes { get; set; } = 64 * 1024 * 1024;

    /// <summary>How long an answer is held. Default 10 min.</summary>
    public TimeSpan Hold { get; set; } = TimeSpan.FromMinutes(10);

    /// <summary>The biggest answer that is stored, in bytes. Default 1 MiB.</summary>
    public int MaxAnswer { get; set; } = 1024 * 1024;
}

namespace WitRpc.Native;

/// <summary>Where a server is, in parts.</summary>
public sealed class HostInfo
{
    /// <summary>Name or address. For servers: <c>*</c> stands for all addresses of this machine.</summary>
    public string Host { get; set; } = "localhost";

    /// <summary>Port; null = that of the scheme (80 or 443) for WebSockets, an error for TCP.</summary>
    public int? Port { get; set; }

    /// <summary>Within TLS.</summary>
    public bool UseSsl { get; set; }

    /// <summary>A WebSocket instead of plain TCP.</summary>
    public bool UseWebSocket { get; set; }

    /// <summary>Path of a WebSocket.</summary>
    public string? Path { get; set; }

    /// <summary>The endpoint that this stands for, as <c>tcp://host:port</c>.</summary>
    /// <returns>The endpoint.</returns>
    public override string ToString() => UseWebSocket
        ? Endpoints.WebSocket($"{(UseSsl ? "wss" : "ws")}://{Endpoints.Bracketed(Host)}:{Port ?? (UseSsl ? 443 : 80)}/{Path?.Trim('/')}{(string.IsNullOrEmpty(Path?.Trim('/')) ? "" : "/")}")
        : Endpoints.Tcp(UseSsl ? "tls" : "tcp", Host, Port ?? throw new InvalidOperationException("HostInfo.Port is not set"));
}

/// <summary>The text form of endpoints (docs/endpoints.md).</summary>
internal static class Endpoints
{
    internal static string Tcp(string scheme, string host, int port)
    {
        ArgumentException.ThrowIfNullOrEmpty(host);
        ArgumentOutOfRangeException.ThrowIfNegative(port);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(port, ushort.MaxValue);
        return $"{scheme}://{Bracketed(host)}:{port}";
    }

    internal static string Bracketed(string host) => host.Contains(':') && host[0] != '[' ? $"[{host}]" : host;

    /// <summary><c>http</c> and <c>https</c> are what WitRPC's servers write; a missing port is that of the scheme.</summary>
    internal static string WebSocket(string url)
    {
        ArgumentException.ThrowIfNullOrEmpty(url);
        string text = url.StartsWith("http://", StringComparison.OrdinalIgnoreCase) ? "ws" + url[4..]
            : url.StartsWith("https://", StringComparison.OrdinalIgnoreCase) ? "wss" + url[5..] : url;
        int start = text.IndexOf("://", StringComparison.Ordinal);
        if (start < 0)
        {
            throw new ArgumentException($"\"{url}\" is no WebSocket URL: write ws://host:port/path or wss://host:port/path", nameof(url));
        }
        int slash = text.IndexOf('/', start + 3);
        string authority = slash < 0 ? text[(start + 3)..] : text[(start + 3)..slash];
        if (authority.LastIndexOf(':') <= authority.LastIndexOf(']'))
        {
            string port = text.StartsWith("wss", StringComparison.OrdinalIgnoreCase) ? ":443" : ":80";
            text = slash < 0 ? text + port : text.Insert(slash, port);
        }
        return text;
    }
}

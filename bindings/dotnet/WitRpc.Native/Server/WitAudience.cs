using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>
/// Some of a server's clients. What a service raises within <see cref="Raise"/> goes to these alone; what it raises elsewhere
/// goes to all.
/// </summary>
public sealed class WitAudience
{
    /// <summary>Whom events go to that are raised on this thread now.</summary>
    [ThreadStatic]
    private static WitAudience? current;

    private readonly WitServer server;
    private readonly Kind kind;
    private readonly Guid connection;
    private readonly string? name;
    private long reached;

    private WitAudience(WitServer server, Kind kind, Guid connection, string? name) =>
        (this.server, this.kind, this.connection, this.name) = (server, kind, connection, name is null ? null : NativeText.Checked(name, nameof(name)));

    /// <summary>The numbers of <c>witrpc_audience</c>.</summary>
    private enum Kind
    {
        All = 0,
        Connection = 1,
        Others = 2,
        Group = 3,
        Principal = 4,
    }

    internal static WitAudience All(WitServer server) => new(server, Kind.All, default, null);

    internal static WitAudience Connection(WitServer server, Guid id) => new(server, Kind.Connection, id, null);

    internal static WitAudience Others(WitServer server, Guid id) => new(server, Kind.Others, id, null);

    internal static WitAudience Group(WitServer server, string group) => new(server, Kind.Group, default, group);

    internal static WitAudience Principal(WitServer server, string principal) => new(server, Kind.Principal, default, principal);

    /// <summary>
    /// Runs an action, on this thread and at once, and sends the events that services of this server raise in it to these clients
    /// only: <c>server.ToGroup("red").Raise(() => Progress?.Invoke(5))</c>. What is raised behind an <c>await</c> in
    /// it goes to all, so give one that has none.
    /// </summary>
    /// <param name="raise">Raises the events.</param>
    /// <returns>How many deliveries that made: events times clients. 0 is no error.</returns>
    public int Raise(Action raise)
    {
        ArgumentNullException.ThrowIfNull(raise);
        // One of its own, so that the count is of this action alone.
        var audience = new WitAudience(server, kind, connection, name);
        WitAudience? before = current;
        current = audience;
        try
        {
            raise();
        }
        finally
        {
            current = before;
        }
        return (int)audience.reached;
    }

    /// <summary>Sends an event to whom it is meant for on this thread now.</summary>
    internal static unsafe void Send(WitServer server, string contract, string line, NativeBytes* arguments, int count)
    {
        WitAudience? to = current;
        if (to is not null && to.server != server)
        {
            return; // a service of several servers, whose event is meant for clients of another one
        }
        byte* id = stackalloc byte[16];
        to?.connection.TryWriteBytes(new Span<byte>(id, 16), bigEndian: true, out _);
        nuint clients = 0;
        int status = NativeMethods.witrpc_server_raise_encoded(server.Handle, (int)(to?.kind ?? Kind.All), id, to?.name, contract, line, arguments, (nuint)count, &clients, out nint error);
        WitRpcException.ThrowIfFailed(status, error);
        to?.reached += (long)clients;
    }
}

using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>A connection of a server: it was authorised, or has ended.</summary>
public sealed unsafe class WitConnection
{
    /// <summary>Valid until the callback returns, and told from a live one afterwards.</summary>
    private readonly nint handle;

    internal WitConnection(nint handle)
    {
        this.handle = handle;
        byte* id = stackalloc byte[16];
        _ = NativeMethods.witrpc_connection_id(handle, id);
        Id = new Guid(new ReadOnlySpan<byte>(id, 16), bigEndian: true);
        Principal = NativeText.Read(NativeMethods.witrpc_connection_principal(handle)) ?? "";
        Peer = NativeText.Read(NativeMethods.witrpc_connection_peer(handle)) ?? "";
    }

    /// <summary>By which it can be sent events (<see cref="WitServer.ToConnection"/>) and put into groups.</summary>
    public Guid Id { get; }

    /// <summary>Who the client is, as the token validator said at the handshake; empty without one.</summary>
    public string Principal { get; }

    /// <summary>Address and port of the client.</summary>
    public string Peer { get; }

    /// <summary>Puts it into a group, until it ends, before its first call is read. Within the callback only; afterwards <see cref="WitServer.AddToGroup"/>.</summary>
    /// <param name="group">The group.</param>
    /// <exception cref="WitRpcException">It is in 1,024 groups, or the callback has returned.</exception>
    public void Join(string group)
    {
        int status = NativeMethods.witrpc_connection_join(handle, NativeText.Checked(group, nameof(group)), out nint error);
        WitRpcException.ThrowIfFailed(status, error);
    }
}

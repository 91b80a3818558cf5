using System.Runtime.InteropServices;

namespace WitRpc.Native.Interop;

/// <summary>
/// Owns a handle of the native library. Freeing one never blocks, in any order and from the finalizer too, so none of them needs
/// another to be alive.
/// </summary>
internal abstract class WitHandle : SafeHandle
{
    private static long live;

    /// <summary>How many there are that have not been freed; for tests of leaks.</summary>
    internal static long Live => Interlocked.Read(ref live);

    private protected WitHandle(nint value) : base(0, ownsHandle: true)
    {
        SetHandle(value);
        Interlocked.Increment(ref live);
    }

    public override bool IsInvalid => handle == 0;

    protected override bool ReleaseHandle()
    {
        Free(handle);
        Interlocked.Decrement(ref live);
        return true;
    }

    private protected abstract void Free(nint value);

    /// <summary>
    /// Keeps the handle open until the result is disposed. Needed before user data is made for a native function: with a closed
    /// handle the call would fail here, and nobody would give the user data back.
    /// </summary>
    /// <exception cref="ObjectDisposedException">It is closed.</exception>
    internal Held Hold() => new(this);

    internal readonly ref struct Held
    {
        private readonly WitHandle handle;

        internal Held(WitHandle handle)
        {
            bool isHeld = false;
            handle.DangerousAddRef(ref isHeld);
            this.handle = handle;
        }

        public void Dispose() => handle.DangerousRelease();
    }
}

internal sealed class ClientOptionsHandle(nint value) : WitHandle(value)
{
    private protected override void Free(nint value) => NativeMethods.witrpc_client_options_free(value);
}

internal sealed class ClientHandle(nint value) : WitHandle(value)
{
    private protected override void Free(nint value) => NativeMethods.witrpc_client_free(value);
}

internal sealed class ServiceHandle(nint value) : WitHandle(value)
{
    private protected override void Free(nint value) => NativeMethods.witrpc_service_free(value);
}

internal sealed class SubscriptionHandle(nint value) : WitHandle(value)
{
    private protected override void Free(nint value) => NativeMethods.witrpc_subscription_free(value);
}

internal sealed class ServerOptionsHandle(nint value) : WitHandle(value)
{
    private protected override void Free(nint value) => NativeMethods.witrpc_server_options_free(value);
}

internal sealed class ServerHandle(nint value) : WitHandle(value)
{
    private protected override void Free(nint value) => NativeMethods.witrpc_server_free(value);
}

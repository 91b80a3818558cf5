using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace WitRpc.Native.Interop;

/// <summary>
/// Managed objects as the <c>user_data</c> of native callbacks. A handle made here is given back exactly once: by the native
/// <c>destroy</c> callback (<see cref="Destroy"/>), or by the completion of a call, which comes exactly once too.
/// </summary>
internal static unsafe class UserData
{
    private static long live;

    /// <summary>How many handles there are; for tests of leaks.</summary>
    internal static long Live => Interlocked.Read(ref live);

    /// <summary>Makes a handle that keeps the object alive.</summary>
    internal static nint Alloc(object target)
    {
        Interlocked.Increment(ref live);
        return GCHandle.ToIntPtr(GCHandle.Alloc(target));
    }

    /// <summary>The object behind a handle.</summary>
    internal static T Get<T>(void* userData) where T : class => Unsafe.As<T>(GCHandle.FromIntPtr((nint)userData).Target!);

    /// <summary>Ends a handle.</summary>
    internal static void Free(void* userData)
    {
        GCHandle.FromIntPtr((nint)userData).Free();
        Interlocked.Decrement(ref live);
    }

    /// <summary>The <c>destroy</c> of all callbacks.</summary>
    internal static delegate* unmanaged[Cdecl]<void*, void> Destroy => &OnDestroy;

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static void OnDestroy(void* userData) => Free(userData);
}

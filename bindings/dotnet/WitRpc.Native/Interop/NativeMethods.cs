using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

[assembly: DisableRuntimeMarshalling]
[assembly: DefaultDllImportSearchPaths(DllImportSearchPath.SafeDirectories | DllImportSearchPath.AssemblyDirectory)]

namespace WitRpc.Native.Interop;

/// <summary>
/// The functions of include/witrpc.h that all parts of the binding use: buffers, errors, the library itself. Signatures only; who
/// owns what is in the header.
/// </summary>
internal static unsafe partial class NativeMethods
{
    internal const string Library = "witrpc";

    /// <summary>WITRPC_NO_TIMEOUT.</summary>
    internal const ulong NoTimeout = ulong.MaxValue;

    static NativeMethods() => NativeLoader.Install();

    [LibraryImport(Library)]
    [SuppressGCTransition]
    internal static partial byte* witrpc_buffer_data(nint buffer);

    [LibraryImport(Library)]
    [SuppressGCTransition]
    internal static partial nuint witrpc_buffer_size(nint buffer);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_buffer_text(nint buffer);

    [LibraryImport(Library)]
    internal static partial nint witrpc_buffer_retain(nint buffer);

    [LibraryImport(Library)]
    internal static partial void witrpc_buffer_free(nint buffer);

    [LibraryImport(Library)]
    internal static partial int witrpc_error_code(nint error);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_error_message(nint error);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_error_details(nint error);

    [LibraryImport(Library)]
    internal static partial int witrpc_error_outcome(nint error);

    [LibraryImport(Library)]
    internal static partial uint witrpc_error_attempts(nint error);

    [LibraryImport(Library)]
    internal static partial byte witrpc_error_retryable(nint error);

    [LibraryImport(Library)]
    internal static partial void witrpc_error_free(nint error);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_status_name(int status);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_version();

    [LibraryImport(Library)]
    internal static partial uint witrpc_abi_version();

    [LibraryImport(Library)]
    internal static partial int witrpc_shutdown(ulong timeout_ms);
}

/// <summary>witrpc_bytes: bytes of the caller's.</summary>
[StructLayout(LayoutKind.Sequential)]
internal unsafe struct NativeBytes
{
    internal byte* Data;
    internal nuint Size;

    internal readonly ReadOnlySpan<byte> Span => new(Data, checked((int)Size));
}

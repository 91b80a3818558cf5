using System.Reflection;
using System.Runtime.InteropServices;

namespace WitRpc.Native.Interop;

/// <summary>
/// Finds the native library: the file named by the environment variable WITRPC_LIBRARY, else where NuGet puts it
/// (<c>runtimes/RID/native</c>), else where the system looks. Checks that it is one that this assembly can be used with.
/// </summary>
internal static class NativeLoader
{
    /// <summary>The ABI that this assembly was written for: WITRPC_ABI_VERSION of the header.</summary>
    private const uint Abi = 1;

    private static int installed;

    internal static void Install()
    {
        if (Interlocked.Exchange(ref installed, 1) == 0)
        {
            NativeLibrary.SetDllImportResolver(typeof(NativeLoader).Assembly, Resolve);
        }
    }

    /// <summary>Throws if the library that is loaded is too old or too new.</summary>
    internal static void CheckAbi()
    {
        uint found = NativeMethods.witrpc_abi_version();
        if (found >> 16 != Abi >> 16 || found < Abi)
        {
            throw new DllNotFoundException($"libwitrpc has ABI {found >> 16}.{found & 0xFFFF}, this assembly needs {Abi >> 16}.{Abi & 0xFFFF}: install matching versions of both");
        }
    }

    private static nint Resolve(string name, Assembly assembly, DllImportSearchPath? search)
    {
        if (name != NativeMethods.Library)
        {
            return 0;
        }
        if (Environment.GetEnvironmentVariable("WITRPC_LIBRARY") is { Length: > 0 } path)
        {
            return NativeLibrary.Load(path);
        }
        string file = OperatingSystem.IsWindows() ? "witrpc.dll" : OperatingSystem.IsMacOS() ? "libwitrpc.dylib" : "libwitrpc.so";
        foreach (string folder in Folders())
        {
            if (NativeLibrary.TryLoad(Path.Combine(folder, file), out nint library))
            {
                return library;
            }
        }
        return 0; // the runtime goes on looking, and says where it did
    }

    private static IEnumerable<string> Folders()
    {
        yield return Path.Combine(AppContext.BaseDirectory, "runtimes", RuntimeInformation.RuntimeIdentifier, "native");
        yield return AppContext.BaseDirectory;
    }
}

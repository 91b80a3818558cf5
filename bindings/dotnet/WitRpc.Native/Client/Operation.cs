using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>Native operations without a result, as tasks.</summary>
internal static unsafe class Operation
{
    internal static Task Connect(ClientHandle client)
    {
        using WitHandle.Held held = client.Hold();
        var done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        // Failing, the function calls destroy all the same.
        int status = NativeMethods.witrpc_client_connect_start(client, &OnDone, UserData.Alloc(done), UserData.Destroy, out nint error);
        WitRpcException.ThrowIfFailed(status, error);
        return done.Task;
    }

    internal static Task Probe(ClientHandle client, ulong timeout)
    {
        using WitHandle.Held held = client.Hold();
        var done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        int status = NativeMethods.witrpc_client_probe_start(client, timeout, &OnDone, UserData.Alloc(done), UserData.Destroy, out nint error);
        WitRpcException.ThrowIfFailed(status, error);
        return done.Task;
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static void OnDone(void* userData, int status, nint error)
    {
        TaskCompletionSource done = UserData.Get<TaskCompletionSource>(userData);
        if (status == 0)
        {
            done.TrySetResult();
        }
        else
        {
            done.TrySetException(WitRpcException.From(status, error));
        }
    }
}

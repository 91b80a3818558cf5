using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>
/// A call under way. The native library holds it by one handle, which its completion gives back: that comes exactly once
/// for every call that was started, so that no destroy callback is needed.
/// </summary>
internal abstract unsafe class PendingCall
{
    /// <summary>Results up to this size are decoded on the native callback thread, bigger ones on the thread pool.</summary>
    private const int DecodedAtOnce = 16 * 1024;

    private CancellationTokenRegistration first;
    private CancellationTokenRegistration second;
    private CancellationToken cancelledBy;
    private nint call;
    /// <summary>Keeps the client from being collected while its call is under way.</summary>
    private WitService? owner;
    /// <summary>Start and completion: whoever comes last frees the native call handle.</summary>
    private int open = 2;

    internal void Start(WitService service, byte* line, nuint lineSize, NativeBytes* arguments, nuint count, nint options, CancellationToken token, CancellationToken other)
    {
        token.ThrowIfCancellationRequested();
        other.ThrowIfCancellationRequested();
        owner = service;
        bool canBeCancelled = token.CanBeCanceled || other.CanBeCanceled;
        using WitHandle.Held held = service.Handle.Hold();
        nint userData = UserData.Alloc(this);
        nint started = 0;
        int status = NativeMethods.witrpc_service_start_encoded(service.Handle, line, lineSize, arguments, count, options, &OnCompleted, userData, null, canBeCancelled ? &started : null, out nint error);
        if (status != 0)
        {
            UserData.Free((void*)userData);
            WitRpcException.ThrowIfFailed(status, error);
        }
        if (!canBeCancelled)
        {
            return;
        }
        Volatile.Write(ref call, started);
        first = Watch(token);
        second = Watch(other);
        Release();
    }

    private protected abstract void Succeed(nint result);

    private protected abstract void Fail(Exception exception);

    private protected abstract void Cancel(CancellationToken token);

    private CancellationTokenRegistration Watch(CancellationToken token) => !token.CanBeCanceled ? default : token.UnsafeRegister(
        static (self, token) =>
        {
            var pending = (PendingCall)self!;
            pending.cancelledBy = token;
            _ = NativeMethods.witrpc_call_cancel(Volatile.Read(ref pending.call)); // one that was freed is told from a live one
        },
        this);

    /// <summary>The second of start and completion cleans up.</summary>
    private void Release()
    {
        if (Interlocked.Decrement(ref open) == 0)
        {
            first.Unregister();
            second.Unregister();
            NativeMethods.witrpc_call_free(call);
        }
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static void OnCompleted(void* userData, int status, nint result, nint error)
    {
        PendingCall self = UserData.Get<PendingCall>(userData);
        UserData.Free(userData);
        try
        {
            self.Complete(status, result, error);
        }
        catch (Exception e)
        {
            self.Fail(e);
        }
        self.owner = null;
        self.Release();
    }

    private void Complete(int status, nint result, nint error)
    {
        if (status == (int)WitErrorCode.Cancelled)
        {
            Cancel(cancelledBy);
        }
        else if (status != 0)
        {
            Fail(WitRpcException.From(status, error));
        }
        else if (NativeMethods.witrpc_buffer_size(result) <= DecodedAtOnce)
        {
            Succeed(result);
        }
        else
        {
            nint kept = NativeMethods.witrpc_buffer_retain(result);
            ThreadPool.UnsafeQueueUserWorkItem(
                static state =>
                {
                    try
                    {
                        state.Self.Succeed(state.Kept);
                    }
                    catch (Exception e)
                    {
                        state.Self.Fail(e);
                    }
                    finally
                    {
                        NativeMethods.witrpc_buffer_free(state.Kept);
                    }
                },
                (Self: this, Kept: kept),
                preferLocal: false);
        }
    }
}

/// <summary>A call under way whose result is a <typeparamref name="T"/>.</summary>
internal sealed class PendingCall<T>(WitCodec? codec, WitMethod? method) : PendingCall
{
    private readonly TaskCompletionSource<T> source = new(TaskCreationOptions.RunContinuationsAsynchronously);

    internal Task<T> Task => source.Task;

    private protected override void Succeed(nint result) => source.TrySetResult(Results.Read<T>(codec, method, result));

    private protected override void Fail(Exception exception) => source.TrySetException(exception);

    private protected override void Cancel(CancellationToken token) => source.TrySetCanceled(token);
}

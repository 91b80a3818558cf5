using System.Buffers;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>
/// A call under way. The native library holds it by one handle, which its completion gives back: that comes exactly once
/// for every call that was started, so that no destroy callback is needed. It comes on whatever thread the answer comes in on,
/// also before the call has been started; from there one work item of the thread pool decodes the result and goes on with
/// the code that waits for it.
/// </summary>
internal abstract unsafe class PendingCall : IThreadPoolWorkItem
{
    /// <summary>Results up to this size are copied, bigger ones retained.</summary>
    private const int Copied = 16 * 1024;

    private byte[]? bytes;
    private int size;
    private nint retained;
    private Exception? failure;
    private bool isCancelled;
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
        int status = NativeMethods.witrpc_service_start_encoded_direct(service.Handle, line, lineSize, arguments, count, options, &OnCompleted, userData, null, canBeCancelled ? &started : null, out nint error);
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

    private protected abstract WitMethod? Method { get; }

    private protected abstract void Succeed(ReadOnlySpan<byte> result);

    private protected abstract void Fail(Exception exception);

    private protected abstract void Cancel(CancellationToken token);

    void IThreadPoolWorkItem.Execute()
    {
        try
        {
            if (isCancelled)
            {
                Cancel(cancelledBy);
            }
            else if (failure is not null)
            {
                Fail(failure);
            }
            else if (retained != 0)
            {
                Succeed(new ReadOnlySpan<byte>(NativeMethods.witrpc_buffer_data(retained), size));
            }
            else
            {
                Succeed(bytes.AsSpan(0, size));
            }
        }
        catch (Exception e)
        {
            Fail(e);
        }
        finally
        {
            NativeMethods.witrpc_buffer_free(retained);
            if (bytes is not null)
            {
                ArrayPool<byte>.Shared.Return(bytes);
            }
        }
    }

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
        self.Take(status, result, error);
        self.owner = null;
        self.Release();
        ThreadPool.UnsafeQueueUserWorkItem(self, preferLocal: false);
    }

    /// <summary>Takes over what is borrowed until the callback returns.</summary>
    private void Take(int status, nint result, nint error)
    {
        if (status == (int)WitErrorCode.Cancelled)
        {
            isCancelled = true;
            return;
        }
        if (status != 0)
        {
            failure = WitRpcException.Of(owner, Method, status, error);
            return;
        }
        nuint length = NativeMethods.witrpc_buffer_size(result);
        if (length > int.MaxValue)
        {
            failure = new WitRpcException(WitErrorCode.BadResult, "the result has more than 2 GiB", null, CallOutcome.Answered, 1);
            return;
        }
        size = (int)length;
        if (size > Copied)
        {
            retained = NativeMethods.witrpc_buffer_retain(result);
        }
        else if (size > 0)
        {
            bytes = ArrayPool<byte>.Shared.Rent(size);
            new ReadOnlySpan<byte>(NativeMethods.witrpc_buffer_data(result), size).CopyTo(bytes);
        }
    }
}

/// <summary>A call under way whose result is a <typeparamref name="T"/>.</summary>
internal sealed class PendingCall<T>(WitCodec? codec, WitMethod? method) : PendingCall
{
    /// <summary>Completed on the thread pool only, so what waits may go on right there.</summary>
    private readonly TaskCompletionSource<T> source = new();

    internal Task<T> Task => source.Task;

    private protected override WitMethod? Method => method;

    private protected override void Succeed(ReadOnlySpan<byte> result) => source.TrySetResult(Results.Read<T>(codec, method, result));

    private protected override void Fail(Exception exception) => source.TrySetException(exception);

    private protected override void Cancel(CancellationToken token) => source.TrySetCanceled(token);
}

using System.Buffers;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>
/// A call about to be made: its arguments are encoded as they are added. For one thread, and one invocation; the object is
/// used again afterwards.
/// </summary>
public sealed unsafe class WitCall
{
    /// <summary>Buffers beyond this are not kept.</summary>
    private const int KeptBytes = 256 * 1024;

    [ThreadStatic]
    private static WitCall? spare;

    private readonly ArrayBufferWriter<byte> bytes = new(256);
    private int[] ends = new int[8];
    private int count;
    private WitService? service;
    private WitMethod? method;
    private WitCallOptions? options;

    private WitCall()
    {
    }

    internal static WitCall Begin(WitService service, WitMethod method, WitCallOptions? options)
    {
        WitCall call = Interlocked.Exchange(ref spare, null) ?? new WitCall();
        (call.service, call.method, call.options) = (service, method, options);
        return call;
    }

    /// <summary>Adds the next argument.</summary>
    /// <typeparam name="T">The parameter's declared type.</typeparam>
    /// <param name="value">The value.</param>
    /// <returns>This call.</returns>
    public WitCall With<T>(T value)
    {
        if (service is null)
        {
            throw new InvalidOperationException("this call has been invoked: begin another one");
        }
        if (value is not null)
        {
            try
            {
                service.Client.Codec.Write(bytes, value);
            }
            catch (Exception e)
            {
                throw new WitRpcException(WitErrorCode.InvalidArgument, $"argument {count + 1} of {method} can't be written", e.Message, cause: e);
            }
        }
        if (count == ends.Length)
        {
            Array.Resize(ref ends, count * 2);
        }
        ends[count++] = bytes.WrittenCount;
        return this;
    }

    /// <summary>Adds a null as the next argument.</summary>
    /// <returns>This call.</returns>
    public WitCall WithNull() => With<object?>(null);

    /// <summary>Makes the call.</summary>
    /// <typeparam name="T">Type of the result.</typeparam>
    /// <param name="cancellationToken">Ends the call for the caller, and with a libwitrpc server stops the method.</param>
    /// <returns>The result.</returns>
    /// <exception cref="WitRpcException">The call failed.</exception>
    /// <exception cref="OperationCanceledException">It was cancelled.</exception>
    public Task<T> InvokeAsync<T>(CancellationToken cancellationToken = default)
    {
        var pending = new PendingCall<T>(service?.Client.Codec, method);
        Start(pending, cancellationToken);
        return pending.Task;
    }

    /// <summary>Makes the call of a method without a result.</summary>
    /// <param name="cancellationToken">As above.</param>
    /// <returns>A task that ends with the call.</returns>
    /// <exception cref="WitRpcException">The call failed.</exception>
    /// <exception cref="OperationCanceledException">It was cancelled.</exception>
    public Task InvokeAsync(CancellationToken cancellationToken = default)
    {
        var pending = new PendingCall<WitVoid>(null, method);
        Start(pending, cancellationToken);
        return pending.Task;
    }

    /// <summary>Makes the call and blocks until its end.</summary>
    /// <typeparam name="T">Type of the result.</typeparam>
    /// <param name="cancellationToken">As for <see cref="InvokeAsync{T}(CancellationToken)"/>.</param>
    /// <returns>The result.</returns>
    /// <exception cref="WitRpcException">The call failed.</exception>
    public T Invoke<T>(CancellationToken cancellationToken = default)
    {
        if (cancellationToken.CanBeCanceled || options is { CancellationToken.CanBeCanceled: true })
        {
            return InvokeAsync<T>(cancellationToken).GetAwaiter().GetResult();
        }
        (WitCodec? codec, WitMethod? called) = (service?.Client.Codec, method);
        nint result = Block();
        try
        {
            return Results.Read<T>(codec, called, result);
        }
        finally
        {
            NativeMethods.witrpc_buffer_free(result);
        }
    }

    /// <summary>Makes the call of a method without a result, and blocks until its end.</summary>
    /// <param name="cancellationToken">As above.</param>
    /// <exception cref="WitRpcException">The call failed.</exception>
    public void Invoke(CancellationToken cancellationToken = default)
    {
        if (cancellationToken.CanBeCanceled || options is { CancellationToken.CanBeCanceled: true })
        {
            InvokeAsync(cancellationToken).GetAwaiter().GetResult();
            return;
        }
        NativeMethods.witrpc_buffer_free(Block());
    }

    private void Start(PendingCall pending, CancellationToken cancellationToken)
    {
        if (service is not { } target || method is not { } called)
        {
            throw new InvalidOperationException("this call has been invoked: begin another one");
        }
        WitCallOptions? special = options;
        nint native = 0;
        try
        {
            native = special?.ToNative() ?? 0;
            fixed (byte* data = bytes.WrittenSpan)
            fixed (byte* line = called.Utf8)
            {
                NativeBytes* arguments = stackalloc NativeBytes[Math.Min(count, 32)];
                NativeBytes[]? many = count > 32 ? new NativeBytes[count] : null;
                fixed (NativeBytes* heap = many)
                {
                    NativeBytes* all = many is null ? arguments : heap;
                    Describe(all, data);
                    pending.Start(target, line, (nuint)called.Utf8.Length, all, (nuint)count, native, cancellationToken, special?.CancellationToken ?? default);
                }
            }
        }
        catch (ObjectDisposedException)
        {
            throw new WitRpcException(WitErrorCode.Closed, "the client was disposed, so the call was not sent");
        }
        finally
        {
            NativeMethods.witrpc_call_options_free(native);
            GiveBack();
        }
    }

    private nint Block()
    {
        if (service is not { } target || method is not { } called)
        {
            throw new InvalidOperationException("this call has been invoked: begin another one");
        }
        nint native = 0;
        try
        {
            native = options?.ToNative() ?? 0;
            fixed (byte* data = bytes.WrittenSpan)
            fixed (byte* line = called.Utf8)
            {
                NativeBytes* arguments = stackalloc NativeBytes[Math.Min(count, 32)];
                NativeBytes[]? many = count > 32 ? new NativeBytes[count] : null;
                fixed (NativeBytes* heap = many)
                {
                    NativeBytes* all = many is null ? arguments : heap;
                    Describe(all, data);
                    int status = NativeMethods.witrpc_service_call_encoded(target.Handle, line, (nuint)called.Utf8.Length, all, (nuint)count, native, out nint result, out nint error);
                    GC.KeepAlive(target.Client);
                    if (status != 0)
                    {
                        WitRpcException exception = WitRpcException.Of(target, called, status, error);
                        NativeMethods.witrpc_error_free(error);
                        throw exception;
                    }
                    return result;
                }
            }
        }
        catch (ObjectDisposedException)
        {
            throw new WitRpcException(WitErrorCode.Closed, "the client was disposed, so the call was not sent");
        }
        finally
        {
            NativeMethods.witrpc_call_options_free(native);
            GiveBack();
        }
    }

    private void Describe(NativeBytes* arguments, byte* data)
    {
        int start = 0;
        for (int i = 0; i < count; i++)
        {
            arguments[i] = new NativeBytes { Data = data + start, Size = (nuint)(ends[i] - start) };
            start = ends[i];
        }
    }

    private void GiveBack()
    {
        (service, method, options, count) = (null, null, null, 0);
        bytes.ResetWrittenCount();
        if (bytes.Capacity <= KeptBytes)
        {
            spare = this;
        }
    }
}

/// <summary>The result of a method without one.</summary>
internal readonly struct WitVoid;

/// <summary>Reads results.</summary>
internal static unsafe class Results
{
    internal static T Read<T>(WitCodec? codec, WitMethod? method, nint buffer) =>
        Read<T>(codec, method, new ReadOnlySpan<byte>(NativeMethods.witrpc_buffer_data(buffer), checked((int)NativeMethods.witrpc_buffer_size(buffer))));

    internal static T Read<T>(WitCodec? codec, WitMethod? method, ReadOnlySpan<byte> bytes)
    {
        if (bytes.IsEmpty || codec is null)
        {
            return default!; // as .NET's proxies do with the null that an empty blob stands for
        }
        try
        {
            return codec.Read<T>(bytes)!;
        }
        catch (Exception e)
        {
            throw new WitRpcException(WitErrorCode.BadResult, $"the result of {method} is no {typeof(T)} in {codec.Name}, which this client is set to", e.Message, CallOutcome.Answered, 1, cause: new InvalidDataException(e.Message, e));
        }
    }
}

using System.Buffers;
using Microsoft.Extensions.Logging;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>A call as the server sees it. In a method, <see cref="Current"/> is the one that it carries out.</summary>
public sealed unsafe class WitServerCall
{
    /// <summary>How often it is looked whether a caller still waits, once the method asked for the token.</summary>
    private static readonly TimeSpan Look = TimeSpan.FromMilliseconds(50);

    private static readonly AsyncLocal<WitServerCall?> CurrentCall = new();

    private readonly WitCodec codec;
    private readonly string line;
    private readonly ILogger logger;
    private nint request;
    private ArrayBufferWriter<byte>? result;
    private CancellationTokenSource? cancellation;
    private Timer? looking;

    internal WitServerCall(nint request, WitServer server, string line)
    {
        (this.request, codec, logger, this.line) = (request, server.Codec, server.Logger, line);
        byte* id = stackalloc byte[16];
        _ = NativeMethods.witrpc_request_invocation_id(request, id);
        InvocationId = new Guid(new ReadOnlySpan<byte>(id, 16), bigEndian: true);
        Principal = NativeText.Read(NativeMethods.witrpc_request_principal(request)) ?? "";
        Peer = NativeText.Read(NativeMethods.witrpc_request_peer(request)) ?? "";
    }

    /// <summary>The call that this method carries out; null elsewhere.</summary>
    public static WitServerCall? Current => CurrentCall.Value;

    /// <summary>The call's id, stable over its attempts; all zero from a client that has none.</summary>
    public Guid InvocationId { get; }

    /// <summary>Who calls, as the token validator said; empty without one.</summary>
    public string Principal { get; }

    /// <summary>Address and port of the client.</summary>
    public string Peer { get; }

    /// <summary>
    /// Cancelled, within 50 ms, once all who waited for this call's answer have taken it back or given up. Only libwitrpc clients
    /// say so. What a method gets for its <see cref="System.Threading.CancellationToken"/> parameter.
    /// </summary>
    public CancellationToken CancellationToken
    {
        get
        {
            if (cancellation is null)
            {
                cancellation = new CancellationTokenSource();
                looking = new Timer(static self => ((WitServerCall)self!).LookForCancellation(), this, Look, Look);
            }
            return cancellation.Token;
        }
    }

    internal static void SetCurrent(WitServerCall? call) => CurrentCall.Value = call;

    /// <summary>Reads an argument. For generated code.</summary>
    /// <typeparam name="T">The parameter's declared type.</typeparam>
    /// <param name="index">Which one, from 0.</param>
    /// <param name="name">Its name, for messages.</param>
    /// <returns>The value; null, or the type's default, for null.</returns>
    public T Get<T>(int index, string name)
    {
        nuint size;
        byte* data = NativeMethods.witrpc_request_argument(request, (nuint)index, &size);
        if (size == 0)
        {
            return default!;
        }
        try
        {
            return codec.Read<T>(new ReadOnlySpan<byte>(data, checked((int)size)))!;
        }
        catch (Exception e)
        {
            throw new WitArgumentException($"argument {index + 1} \"{name}\" of {line}: {e.Message}");
        }
    }

    /// <summary>Gives the result. For generated code.</summary>
    /// <typeparam name="T">The declared type of the result.</typeparam>
    /// <param name="value">The result.</param>
    public void Return<T>(T value)
    {
        if (value is not null)
        {
            result = new ArrayBufferWriter<byte>();
            codec.Write(result, value);
        }
    }

    internal void Reply()
    {
        ReadOnlySpan<byte> bytes = result is null ? default : result.WrittenSpan;
        fixed (byte* p = bytes)
        {
            End(NativeMethods.witrpc_request_reply_encoded(request, p, (nuint)bytes.Length, out nint error), error);
        }
    }

    internal void Fail(Exception exception)
    {
        string text = exception.Message.Replace('\0', '\uFFFD');
        int status = exception is WitArgumentException
            ? NativeMethods.witrpc_request_refuse(request, text, out nint error)
            : NativeMethods.witrpc_request_fail(request, text, out error);
        End(status, error);
    }

    private void LookForCancellation()
    {
        // A request that has ended meanwhile is told from a live one, and is not cancelled.
        if (NativeMethods.witrpc_request_is_cancelled(Volatile.Read(ref request)) == 0)
        {
            return;
        }
        looking?.Dispose();
        try
        {
            cancellation?.Cancel();
        }
        catch (Exception e)
        {
            Log.CallbackFailed(logger, e, "cancellation of " + line);
        }
    }

    private void End(int status, nint error)
    {
        looking?.Dispose();
        if (status != 0)
        {
            NativeMethods.witrpc_error_free(error);
            NativeMethods.witrpc_request_free(request); // without an answer the call fails
        }
        request = 0;
    }
}

/// <summary>An argument that can't be decoded: the caller sees status 400.</summary>
internal sealed class WitArgumentException(string message) : Exception(message);

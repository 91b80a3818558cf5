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
    private readonly WitServer server;
    private nint request;
    private ArrayBufferWriter<byte>? result;
    private CancellationTokenSource? cancellation;
    private Timer? looking;

    internal WitServerCall(nint request, WitServer server, string line)
    {
        (this.request, codec, logger, this.line, this.server) = (request, server.Codec, server.Logger, line, server);
        byte* id = stackalloc byte[16];
        _ = NativeMethods.witrpc_request_invocation_id(request, id);
        InvocationId = new Guid(new ReadOnlySpan<byte>(id, 16), bigEndian: true);
        _ = NativeMethods.witrpc_request_connection(request, id);
        ConnectionId = new Guid(new ReadOnlySpan<byte>(id, 16), bigEndian: true);
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

    /// <summary>Which of the server's connections the call came on.</summary>
    public Guid ConnectionId { get; }

    /// <summary>The client that calls, for events that are meant for it alone: <c>WitServerCall.Current!.Caller.Raise(() => Progress?.Invoke(5))</c>.</summary>
    public WitAudience Caller => WitAudience.Connection(server, ConnectionId);

    /// <summary>All clients but the one that calls.</summary>
    public WitAudience Others => WitAudience.Others(server, ConnectionId);

    /// <summary>The server that carries the call out.</summary>
    public WitServer Server => server;

    /// <summary>How long the caller still waits; null if it told nothing, as .NET's clients never do, and once the call has been answered.</summary>
    public TimeSpan? Remaining => NativeMethods.witrpc_request_remaining_ms(Volatile.Read(ref request)) is var ms and not NativeMethods.NoTimeout ? TimeSpan.FromMilliseconds(ms) : null;

    /// <summary>What the caller's tracing gave (<see cref="WitCallOptions.TraceContext"/>); null if nothing, as from .NET's clients, and once the call has been answered.</summary>
    public string? TraceContext
    {
        get
        {
            nuint size;
            byte* data = NativeMethods.witrpc_request_trace_context(Volatile.Read(ref request), &size);
            return data is null ? null : System.Text.Encoding.UTF8.GetString(data, (int)size);
        }
    }

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

    /// <summary>Puts the connection that the call came on into a group, until it ends.</summary>
    /// <param name="group">The group.</param>
    /// <exception cref="WitRpcException">It is in 1,024 groups, or the call has been answered.</exception>
    public void Join(string group)
    {
        int status = NativeMethods.witrpc_request_join(Volatile.Read(ref request), NativeText.Checked(group, nameof(group)), out nint error);
        WitRpcException.ThrowIfFailed(status, error);
    }

    /// <summary>Takes the connection that the call came on out of a group, if it is in it.</summary>
    /// <param name="group">The group.</param>
    /// <exception cref="WitRpcException">The call has been answered.</exception>
    public void Leave(string group)
    {
        int status = NativeMethods.witrpc_request_leave(Volatile.Read(ref request), NativeText.Checked(group, nameof(group)), out nint error);
        WitRpcException.ThrowIfFailed(status, error);
    }

    /// <summary>Whether a generic method was called with these type arguments. For generated code.</summary>
    /// <param name="types">The types.</param>
    /// <returns>True if so.</returns>
    public bool IsFor(params Type[] types)
    {
        for (int i = 0; i < types.Length; i++)
        {
            string? given = TypeArgument(i);
            if (given != TypeNames.Short(types[i]) && given != TypeNames.Line(types[i]))
            {
                return false;
            }
        }
        return TypeArgument(types.Length) is null;
    }

    /// <summary>What a generic method fails with that was called with other type arguments. For generated code.</summary>
    /// <param name="name">Its name.</param>
    /// <returns>The exception.</returns>
    public Exception NotServed(string name)
    {
        var given = new List<string>();
        while (TypeArgument(given.Count) is { } type)
        {
            given.Add(type);
        }
        return new WitArgumentException($"{name}<{string.Join(", ", given)}> is not served: the interface names no such type arguments in a [WitTypeArguments] of the method");
    }

    private string? TypeArgument(int index) => NativeText.Read(NativeMethods.witrpc_request_type_argument(request, (nuint)index));

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
            throw new WitArgumentException($"argument {index + 1} \"{name}\" of {line} can't be read by the server's codec, {codec.Name}: {e.Message}");
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

using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>What is special about a call, or about all calls of a proxy.</summary>
public sealed record WitCallOptions
{
    /// <summary>
    /// Limit of the whole call: waiting for the link, all attempts, all delays. Null = what all attempts and delays can take;
    /// <see cref="Timeout.InfiniteTimeSpan"/> = none.
    /// </summary>
    public TimeSpan? Timeout { get; init; }

    /// <summary>The call may run twice: the retry policy may repeat it anywhere.</summary>
    public bool IsIdempotent { get; init; }

    /// <summary>The call must not run twice: the retry policy may repeat it where the server recognises it.</summary>
    public bool IsDeduplicated { get; init; }

    /// <summary>
    /// The call's own id, by which the server recognises it, also when it comes from another process later. Not all zero. For a
    /// single call only.
    /// </summary>
    public Guid? InvocationId { get; init; }

    /// <summary>What the tracing of the server's method is to know, as <c>Activity.Current?.Id</c>; at most 1,024 bytes of UTF-8. Reaches libwitrpc servers only.</summary>
    public string? TraceContext { get; init; }

    /// <summary>Ends the call for the caller, and with a libwitrpc server stops the method.</summary>
    public CancellationToken CancellationToken { get; init; }

    /// <summary>A native options object, to be freed; 0 if nothing is set that it would hold.</summary>
    internal unsafe nint ToNative()
    {
        if (Timeout is null && !IsIdempotent && !IsDeduplicated && InvocationId is null && TraceContext is null)
        {
            return 0;
        }
        WitRpcException.ThrowIfFailed(NativeMethods.witrpc_call_options_new(out nint options));
        try
        {
            if (Timeout is { } timeout)
            {
                WitRpcException.ThrowIfFailed(NativeMethods.witrpc_call_options_timeout_ms(options, NativeOptions.Millis(timeout)));
            }
            if (IsIdempotent)
            {
                WitRpcException.ThrowIfFailed(NativeMethods.witrpc_call_options_idempotent(options));
            }
            if (IsDeduplicated)
            {
                WitRpcException.ThrowIfFailed(NativeMethods.witrpc_call_options_deduplicated(options));
            }
            if (TraceContext is { } trace)
            {
                WitRpcException.ThrowIfFailed(NativeMethods.witrpc_call_options_trace_context(options, NativeText.Checked(trace, nameof(TraceContext))));
            }
            if (InvocationId is { } id)
            {
                byte* bytes = stackalloc byte[16];
                id.TryWriteBytes(new Span<byte>(bytes, 16), bigEndian: true, out _);
                WitRpcException.ThrowIfFailed(NativeMethods.witrpc_call_options_invocation_id(options, bytes));
            }
            return options;
        }
        catch
        {
            NativeMethods.witrpc_call_options_free(options);
            throw;
        }
    }
}

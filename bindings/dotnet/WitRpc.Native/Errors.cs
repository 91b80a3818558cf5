using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>What went wrong. The numbers are those of the native library (<c>witrpc_status</c>).</summary>
public enum WitErrorCode
{
    /// <summary>An argument or option is wrong. Nothing was sent.</summary>
    InvalidArgument = 1,
    /// <summary>The server understood no such request: unknown method, undecodable argument (WitRPC's status 400).</summary>
    BadRequest = 2,
    /// <summary>The token was refused, at the handshake or for this call (561).</summary>
    Unauthorized = 3,
    /// <summary>No answer, or no connection, in time (408).</summary>
    Timeout = 4,
    /// <summary>The connection could not be made, was lost, or is not there (503).</summary>
    Transport = 5,
    /// <summary>The method failed on the server (500).</summary>
    Remote = 6,
    /// <summary>Whether the call was executed can't be told, and repeating it could execute it twice.</summary>
    OutcomeUnknown = 7,
    /// <summary>The call was cancelled.</summary>
    Cancelled = 8,
    /// <summary>A queue or limit is full, here or at the server (503).</summary>
    Overloaded = 9,
    /// <summary>The client or server is closed, or was disconnected by its user.</summary>
    Closed = 10,
    /// <summary>The peer broke the protocol, or speaks another version of it.</summary>
    Protocol = 11,
    /// <summary>The peers do not agree on encryption.</summary>
    Encryption = 12,
    /// <summary>A certificate was not accepted.</summary>
    Certificate = 13,
    /// <summary>A defect in the native library.</summary>
    Internal = 14,
    /// <summary>A native object was used after it had been freed.</summary>
    InvalidHandle = 15,
    /// <summary>Waiting here would be waiting for oneself.</summary>
    WouldDeadlock = 16,
    /// <summary>The server answered, and the result is not what the method's type says.</summary>
    BadResult = 100,
}

/// <summary>What is known about a call that failed.</summary>
public enum CallOutcome
{
    /// <summary>The request did not leave this machine: the method did not run.</summary>
    NotSent = 0,
    /// <summary>The request was sent and no answer came: the method may have run.</summary>
    Unknown = 1,
    /// <summary>The server answered.</summary>
    Answered = 2,
}

/// <summary>WitRPC's status numbers, as retry policies name them.</summary>
public enum CommunicationStatus
{
    /// <summary>None of the others.</summary>
    Unknown = 0,
    /// <summary>Success.</summary>
    Ok = 200,
    /// <summary>The server understood no such request.</summary>
    BadRequest = 400,
    /// <summary>The call did not come back in time; made by the client.</summary>
    Timeout = 408,
    /// <summary>The implementation threw.</summary>
    InternalServerError = 500,
    /// <summary>The connection failed, or the server is overloaded.</summary>
    TransportError = 503,
    /// <summary>The token was refused.</summary>
    Unauthorized = 561,
}

/// <summary>
/// Why something failed. <see cref="Exception.InnerException"/> is the exception of .NET's own that stands for
/// <see cref="Code"/>, the one that <see cref="RetryOptions.RetryOn{TException}"/> goes by:
/// <list type="table">
/// <item><term><see cref="TimeoutException"/></term><description><see cref="WitErrorCode.Timeout"/></description></item>
/// <item><term><see cref="IOException"/></term><description><see cref="WitErrorCode.Transport"/>, <see cref="WitErrorCode.Overloaded"/></description></item>
/// <item><term><see cref="UnauthorizedAccessException"/></term><description><see cref="WitErrorCode.Unauthorized"/></description></item>
/// <item><term><see cref="ArgumentException"/></term><description><see cref="WitErrorCode.InvalidArgument"/>, <see cref="WitErrorCode.BadRequest"/></description></item>
/// <item><term><see cref="WitRemoteException"/></term><description><see cref="WitErrorCode.Remote"/>; its message is that of the server's exception</description></item>
/// <item><term><see cref="ObjectDisposedException"/></term><description><see cref="WitErrorCode.Closed"/></description></item>
/// <item><term><see cref="System.Security.Authentication.AuthenticationException"/></term><description><see cref="WitErrorCode.Encryption"/>, <see cref="WitErrorCode.Certificate"/></description></item>
/// <item><term><see cref="InvalidDataException"/></term><description><see cref="WitErrorCode.Protocol"/>, <see cref="WitErrorCode.BadResult"/></description></item>
/// <item><term><see cref="InvalidOperationException"/></term><description>the others</description></item>
/// </list>
/// A cancelled call throws <see cref="OperationCanceledException"/> instead.
/// </summary>
public sealed class WitRpcException : Exception
{
    internal WitRpcException(WitErrorCode code, string message, string? details = null, CallOutcome outcome = CallOutcome.NotSent, int attempts = 0, bool isRetryable = false, Exception? cause = null)
        : base(details is null or "" ? message : $"{message}: {details}", cause ?? Standard(code, message, details))
    {
        Code = code;
        Details = details;
        Outcome = outcome;
        Attempts = attempts;
        IsRetryable = isRetryable;
    }

    /// <summary>What went wrong.</summary>
    public WitErrorCode Code { get; }

    /// <summary>WitRPC's status number for it.</summary>
    public CommunicationStatus Status => Code switch
    {
        WitErrorCode.BadRequest => CommunicationStatus.BadRequest,
        WitErrorCode.Unauthorized => CommunicationStatus.Unauthorized,
        WitErrorCode.Timeout => CommunicationStatus.Timeout,
        WitErrorCode.Transport or WitErrorCode.Overloaded => CommunicationStatus.TransportError,
        WitErrorCode.Remote => CommunicationStatus.InternalServerError,
        _ => CommunicationStatus.Unknown,
    };

    /// <summary>What lies behind it: for a remote failure the message of the server's exception. Null if there is nothing.</summary>
    public string? Details { get; }

    /// <summary>Whether the request left this machine, and was answered.</summary>
    public CallOutcome Outcome { get; }

    /// <summary>How many attempts were begun; 0 where the call never got that far.</summary>
    public int Attempts { get; }

    /// <summary>True if the same call may succeed later and repeating it is known not to execute it twice.</summary>
    public bool IsRetryable { get; }

    /// <summary>True if <paramref name="type"/> is this exception's type, or that of the exception within, or a base of them.</summary>
    internal bool Is(Type type) => type.IsInstanceOfType(this) || type.IsInstanceOfType(InnerException);

    /// <summary>Takes over what a native error says. The error stays its owner's.</summary>
    internal static unsafe WitRpcException From(int status, nint error) => error == 0
        ? new WitRpcException((WitErrorCode)status, $"libwitrpc: {NativeText.Read(NativeMethods.witrpc_status_name(status))}")
        : new WitRpcException(
            (WitErrorCode)NativeMethods.witrpc_error_code(error),
            NativeText.Read(NativeMethods.witrpc_error_message(error)) ?? "",
            NativeText.Read(NativeMethods.witrpc_error_details(error)),
            (CallOutcome)NativeMethods.witrpc_error_outcome(error),
            (int)NativeMethods.witrpc_error_attempts(error),
            NativeMethods.witrpc_error_retryable(error) != 0);

    /// <summary>The same for a call. A server that knows no such method does not say of which contract: a name that differs between the two is what one looks for.</summary>
    internal static unsafe WitRpcException Of(WitService? service, WitMethod? method, int status, nint error)
    {
        WitRpcException exception = From(status, error);
        return exception.Code != WitErrorCode.BadRequest || service is null ? exception
            : new WitRpcException(exception.Code, $"{exception.Message} (called: {method} of {service.Contract})", null, exception.Outcome, exception.Attempts, exception.IsRetryable);
    }

    /// <summary>Throws if a native function failed, and frees its error.</summary>
    internal static void ThrowIfFailed(int status, nint error = 0)
    {
        if (status == 0)
        {
            return;
        }
        WitRpcException exception = From(status, error);
        NativeMethods.witrpc_error_free(error);
        throw exception;
    }

    private static Exception Standard(WitErrorCode code, string message, string? details) => code switch
    {
        WitErrorCode.Timeout => new TimeoutException(message),
        WitErrorCode.Transport or WitErrorCode.Overloaded => new IOException(message),
        WitErrorCode.Unauthorized => new UnauthorizedAccessException(message),
        WitErrorCode.InvalidArgument or WitErrorCode.BadRequest => new ArgumentException(message),
        WitErrorCode.Remote => new WitRemoteException(details ?? message),
        WitErrorCode.Closed => new ObjectDisposedException(null, message),
        WitErrorCode.Encryption or WitErrorCode.Certificate => new System.Security.Authentication.AuthenticationException(message),
        WitErrorCode.Protocol or WitErrorCode.BadResult => new InvalidDataException(message),
        _ => new InvalidOperationException(message),
    };
}

/// <summary>The server's exception, of which only the message travels.</summary>
/// <param name="message">What the server said.</param>
public sealed class WitRemoteException(string message) : Exception(message);

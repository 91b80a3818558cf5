using Microsoft.Extensions.Logging;

namespace WitRpc.Native;

/// <summary>Everything that clients and servers write to the user's logger.</summary>
internal static partial class Log
{
    [LoggerMessage(1, LogLevel.Information, "Connection state: {State}")]
    internal static partial void StateChanged(ILogger logger, ReconnectionState state);

    [LoggerMessage(2, LogLevel.Warning, "Reconnecting: attempt {Attempt} in {Delay}")]
    internal static partial void Reconnecting(ILogger logger, int attempt, TimeSpan delay);

    [LoggerMessage(3, LogLevel.Information, "Reconnected")]
    internal static partial void Reconnected(ILogger logger);

    [LoggerMessage(4, LogLevel.Error, "Reconnection failed")]
    internal static partial void ReconnectionFailed(ILogger logger, Exception error);

    [LoggerMessage(5, LogLevel.Warning, "Attempt {Attempt} of {Method} failed; the next one follows in {Delay}")]
    internal static partial void Retry(ILogger logger, Exception error, string method, int attempt, TimeSpan delay);

    [LoggerMessage(6, LogLevel.Error, "A callback threw an exception: {Callback}")]
    internal static partial void CallbackFailed(ILogger logger, Exception error, string callback);

    [LoggerMessage(7, LogLevel.Warning, "The token provider failed")]
    internal static partial void TokenProviderFailed(ILogger logger, Exception error);

    [LoggerMessage(8, LogLevel.Warning, "An event was not delivered: {Event}")]
    internal static partial void EventUnreadable(ILogger logger, Exception error, string @event);

    [LoggerMessage(9, LogLevel.Warning, "Events are dropped because handlers are too slow: {Event}")]
    internal static partial void EventsDropped(ILogger logger, string @event);

    [LoggerMessage(10, LogLevel.Warning, "The method {Method} failed")]
    internal static partial void MethodFailed(ILogger logger, Exception error, string method);

    [LoggerMessage(11, LogLevel.Error, "The token validator failed; the token is refused")]
    internal static partial void ValidatorFailed(ILogger logger, Exception error);

    [LoggerMessage(12, LogLevel.Error, "The event {Event} could not be raised, or not as it was")]
    internal static partial void RaiseFailed(ILogger logger, Exception error, string @event);
}

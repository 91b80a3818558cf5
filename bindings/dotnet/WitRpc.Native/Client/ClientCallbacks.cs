using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Microsoft.Extensions.Logging;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>
/// Receives what the native library tells of a client, and hands it to the user's callbacks and the client's events. The
/// native side keeps this object alive, and it knows the client only weakly, so that a client that nobody holds any more
/// is collected, and with it the native one.
/// </summary>
internal sealed unsafe class ClientCallbacks(WitClientBuilderOptions options)
{
    private readonly ILogger logger = options.Logger;
    private readonly ReconnectOptions? reconnect = options.Reconnect;
    private readonly RetryOptions? retry = options.Retry;
    private readonly Type[] retryOn = [.. options.Retry?.RetryableExceptionTypes ?? []];
    private readonly WeakReference<WitClient> client = new(null!);

    /// <summary>Where user code runs.</summary>
    internal SerialQueue Queue { get; } = new(options.Logger);

    internal void Attach(WitClient owner) => client.SetTarget(owner);

    internal void Register(ClientOptionsHandle handle, bool askAboutFailures)
    {
        var native = new NativeClientCallbacks
        {
            StructSize = (nuint)sizeof(NativeClientCallbacks),
            OnReconnecting = &OnReconnecting,
            OnReconnected = &OnReconnected,
            OnReconnectionFailed = &OnReconnectionFailed,
            OnStateChanged = &OnStateChanged,
            OnRetry = &OnRetry,
            IsRetryable = askAboutFailures ? &IsRetryable : null,
            UserData = UserData.Alloc(this),
            Destroy = UserData.Destroy,
        };
        WitRpcException.ThrowIfFailed(NativeMethods.witrpc_client_options_callbacks(handle, &native));
    }

    private void Tell(string name, Action<WitClient> tell)
    {
        if (client.TryGetTarget(out WitClient? target))
        {
            Queue.Post(name, () => tell(target));
        }
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static void OnReconnecting(void* userData, uint attempt, ulong delay)
    {
        ClientCallbacks self = UserData.Get<ClientCallbacks>(userData);
        (int number, TimeSpan wait) = ((int)attempt, Span(delay));
        Log.Reconnecting(self.logger, number, wait);
        if (self.reconnect?.OnReconnecting is { } callback)
        {
            self.Queue.Post(nameof(ReconnectOptions.OnReconnecting), () => callback(number, wait));
        }
        self.Tell(nameof(WitClient.Reconnecting), c => c.RaiseReconnecting(number, wait));
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static void OnReconnected(void* userData)
    {
        ClientCallbacks self = UserData.Get<ClientCallbacks>(userData);
        Log.Reconnected(self.logger);
        if (self.reconnect?.OnReconnected is { } callback)
        {
            self.Queue.Post(nameof(ReconnectOptions.OnReconnected), callback);
        }
        self.Tell(nameof(WitClient.Reconnected), c => c.RaiseReconnected());
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static void OnReconnectionFailed(void* userData, nint lastError)
    {
        ClientCallbacks self = UserData.Get<ClientCallbacks>(userData);
        WitRpcException error = WitRpcException.From((int)WitErrorCode.Transport, lastError);
        Log.ReconnectionFailed(self.logger, error);
        if (self.reconnect?.OnReconnectionFailed is { } callback)
        {
            self.Queue.Post(nameof(ReconnectOptions.OnReconnectionFailed), () => callback(error));
        }
        self.Tell(nameof(WitClient.ReconnectionFailed), c => c.RaiseReconnectionFailed(error));
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static void OnStateChanged(void* userData, int state)
    {
        ClientCallbacks self = UserData.Get<ClientCallbacks>(userData);
        var now = (ReconnectionState)state;
        Log.StateChanged(self.logger, now);
        self.Tell(nameof(WitClient.StateChanged), c => c.RaiseStateChanged(now));
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static void OnRetry(void* userData, NativeRetryInfo* info)
    {
        ClientCallbacks self = UserData.Get<ClientCallbacks>(userData);
        WitRpcException error = WitRpcException.From((int)WitErrorCode.Transport, info->Error);
        (int attempt, TimeSpan delay) = ((int)info->Attempt, Span(info->DelayMilliseconds));
        Log.Retry(self.logger, error, NativeText.Read(info->Method) ?? "", attempt, delay);
        if (self.retry?.OnRetry is { } callback)
        {
            self.Queue.Post(nameof(RetryOptions.OnRetry), () => callback(error, attempt, delay));
        }
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static byte IsRetryable(void* userData, nint error)
    {
        ClientCallbacks self = UserData.Get<ClientCallbacks>(userData);
        WitRpcException exception = WitRpcException.From((int)WitErrorCode.Internal, error);
        return NativeOptions.Flag(Array.Exists(self.retryOn, exception.Is));
    }

    private static TimeSpan Span(ulong milliseconds) => TimeSpan.FromMilliseconds(milliseconds);
}

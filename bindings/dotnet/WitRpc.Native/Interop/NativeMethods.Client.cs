using System.Runtime.InteropServices;

namespace WitRpc.Native.Interop;

/// <summary>Clients, services, calls, subscriptions.</summary>
internal static unsafe partial class NativeMethods
{
    [LibraryImport(Library)]
    internal static partial int witrpc_client_new(ClientOptionsHandle options, out nint client, out nint error);

    [LibraryImport(Library)]
    internal static partial void witrpc_client_free(nint client);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_connect_start(ClientHandle client, delegate* unmanaged[Cdecl]<void*, int, nint, void> done, nint user_data, delegate* unmanaged[Cdecl]<void*, void> destroy, out nint error);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_probe_start(ClientHandle client, ulong timeout_ms, delegate* unmanaged[Cdecl]<void*, int, nint, void> done, nint user_data, delegate* unmanaged[Cdecl]<void*, void> destroy, out nint error);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_reconnect(ClientHandle client, out nint error);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_reconnect_now(ClientHandle client);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_stop_reconnection(ClientHandle client);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_disconnect(ClientHandle client);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_close(ClientHandle client);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_close_and_wait(ClientHandle client, ulong timeout_ms);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_state(ClientHandle client);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_stats_get(ClientHandle client, ref NativeClientStats stats);

    [LibraryImport(Library)]
    internal static partial nint witrpc_client_last_failure(ClientHandle client);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_client_service(ClientHandle client, string contract, out nint service, out nint error);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_service_of(ClientHandle client, nint contract, out nint service, out nint error);

    [LibraryImport(Library)]
    internal static partial void witrpc_service_free(nint service);

    [LibraryImport(Library)]
    internal static partial int witrpc_service_call_encoded(ServiceHandle service, byte* method, nuint method_size, NativeBytes* arguments, nuint count, nint options, out nint result, out nint error);

    [LibraryImport(Library)]
    internal static partial int witrpc_service_start_encoded_direct(ServiceHandle service, byte* method, nuint method_size, NativeBytes* arguments, nuint count, nint options, delegate* unmanaged[Cdecl]<void*, int, nint, nint, void> completion, nint user_data, delegate* unmanaged[Cdecl]<void*, void> destroy, nint* call, out nint error);

    [LibraryImport(Library)]
    internal static partial int witrpc_call_cancel(nint call);

    [LibraryImport(Library)]
    internal static partial void witrpc_call_free(nint call);

    [LibraryImport(Library)]
    internal static partial int witrpc_call_options_new(out nint options);

    [LibraryImport(Library)]
    internal static partial void witrpc_call_options_free(nint options);

    [LibraryImport(Library)]
    internal static partial int witrpc_call_options_timeout_ms(nint options, ulong ms);

    [LibraryImport(Library)]
    internal static partial int witrpc_call_options_idempotent(nint options);

    [LibraryImport(Library)]
    internal static partial int witrpc_call_options_deduplicated(nint options);

    [LibraryImport(Library)]
    internal static partial int witrpc_call_options_invocation_id(nint options, byte* id);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_call_options_trace_context(nint options, string context);

    [LibraryImport(Library)]
    internal static partial int witrpc_service_subscribe_encoded(ServiceHandle service, byte* @event, nuint size, delegate* unmanaged[Cdecl]<void*, NativeBytes*, nuint, void> handler, nint user_data, delegate* unmanaged[Cdecl]<void*, void> destroy, out nint subscription, out nint error);

    [LibraryImport(Library)]
    internal static partial ulong witrpc_subscription_dropped(SubscriptionHandle subscription);

    [LibraryImport(Library)]
    internal static partial void witrpc_subscription_free(nint subscription);
}

/// <summary>witrpc_client_stats; what an older library does not fill stays as it was set.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct NativeClientStats
{
    internal nuint StructSize;
    internal ulong Reconnects;
    internal ulong Retries;
    internal ulong InFlight;
    internal ulong Queued;
    internal long RoundTripMicroseconds;
    internal long SilenceMilliseconds;
}

/// <summary>witrpc_retry_info.</summary>
[StructLayout(LayoutKind.Sequential)]
internal unsafe struct NativeRetryInfo
{
    internal nuint StructSize;
    internal byte* Method;
    internal nint Error;
    internal uint Attempt;
    internal ulong DelayMilliseconds;
}

/// <summary>witrpc_client_callbacks.</summary>
[StructLayout(LayoutKind.Sequential)]
internal unsafe struct NativeClientCallbacks
{
    internal nuint StructSize;
    internal delegate* unmanaged[Cdecl]<void*, uint, ulong, void> OnReconnecting;
    internal delegate* unmanaged[Cdecl]<void*, void> OnReconnected;
    internal delegate* unmanaged[Cdecl]<void*, nint, void> OnReconnectionFailed;
    internal delegate* unmanaged[Cdecl]<void*, int, void> OnStateChanged;
    internal delegate* unmanaged[Cdecl]<void*, NativeRetryInfo*, void> OnRetry;
    internal delegate* unmanaged[Cdecl]<void*, nint, byte> IsRetryable;
    internal nint UserData;
    internal delegate* unmanaged[Cdecl]<void*, void> Destroy;
}

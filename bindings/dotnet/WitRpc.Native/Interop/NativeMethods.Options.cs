using System.Runtime.InteropServices;

namespace WitRpc.Native.Interop;

/// <summary>Options of clients.</summary>
internal static unsafe partial class NativeMethods
{
    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_client_options_new(string endpoint, out nint options, out nint error);

    [LibraryImport(Library)]
    internal static partial void witrpc_client_options_free(nint options);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_client_options_add_endpoint(ClientOptionsHandle options, string endpoint);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_connect_timeout_ms(ClientOptionsHandle options, ulong ms);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_attempt_timeout_ms(ClientOptionsHandle options, ulong ms);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_max_frame(ClientOptionsHandle options, nuint bytes);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_queue_limits(ClientOptionsHandle options, nuint calls, nuint bytes);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_max_in_flight(ClientOptionsHandle options, nuint calls);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_keepalive(ClientOptionsHandle options, ulong idle_ms, ulong interval_ms, uint probes);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_websocket_fragment(ClientOptionsHandle options, nuint bytes);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_reconnect_max_attempts(ClientOptionsHandle options, uint attempts);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_reconnect_delays(ClientOptionsHandle options, ulong initial_ms, ulong max_ms, double multiplier);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_reconnect_jitter(ClientOptionsHandle options, int jitter, byte random_first_delay);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_reconnect_on_disconnect(ClientOptionsHandle options, byte reconnect);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_reconnect_first_connect(ClientOptionsHandle options, byte cover);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_reconnect_stable_after_ms(ClientOptionsHandle options, ulong ms);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_retry_max_retries(ClientOptionsHandle options, uint retries);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_retry_delays(ClientOptionsHandle options, ulong initial_ms, ulong max_ms, int backoff, double multiplier);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_retry_jitter(ClientOptionsHandle options, int jitter);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_retry_statuses(ClientOptionsHandle options, int* statuses, nuint count);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_retry_budget(ClientOptionsHandle options, uint reserve_per_second, uint percent);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_retry_no_budget(ClientOptionsHandle options);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_client_options_mark_idempotent(ClientOptionsHandle options, string method);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_client_options_mark_deduplicated(ClientOptionsHandle options, string method);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_retry_all_methods(ClientOptionsHandle options);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_callbacks(ClientOptionsHandle options, NativeClientCallbacks* callbacks);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_method_lookup(ClientOptionsHandle options, int lookup);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_type_names(ClientOptionsHandle options, int form);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_encryption(ClientOptionsHandle options, byte on);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_client_options_token(ClientOptionsHandle options, string token);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_client_options_token_file(ClientOptionsHandle options, string path);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_token_provider_async(ClientOptionsHandle options, delegate* unmanaged[Cdecl]<void*, nint, void> provider, nint user_data, delegate* unmanaged[Cdecl]<void*, void> destroy);

    [LibraryImport(Library)]
    internal static partial int witrpc_token_answer(nint token, byte* text, nuint size);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_token_fail(nint token, string reason);

    [LibraryImport(Library)]
    internal static partial void witrpc_token_free(nint token);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_client_options_tls_authorities_file(ClientOptionsHandle options, string path);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_tls_system_authorities(ClientOptionsHandle options, byte also);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_client_options_tls_server_name(ClientOptionsHandle options, string name);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_tls_pin(ClientOptionsHandle options, byte* sha256);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_client_options_tls_identity_files(ClientOptionsHandle options, string certificate_path, string key_path);

    [LibraryImport(Library)]
    internal static partial int witrpc_client_options_codec(ClientOptionsHandle options, int codec);
}

using System.Runtime.InteropServices;

namespace WitRpc.Native.Interop;

/// <summary>Servers, their options, requests, token checks, contracts.</summary>
internal static unsafe partial class NativeMethods
{
    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_contract_from_json(string json, out nint contract, out nint error);

    [LibraryImport(Library)]
    internal static partial void witrpc_contract_free(nint contract);

    [LibraryImport(Library)]
    internal static partial int witrpc_implementation_of(nint contract, out nint implementation, out nint error);

    [LibraryImport(Library)]
    internal static partial void witrpc_implementation_free(nint implementation);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_implementation_handle_encoded(nint implementation, string method, delegate* unmanaged[Cdecl]<void*, nint, void> handler, nint user_data, delegate* unmanaged[Cdecl]<void*, void> destroy, out nint error);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_request_principal(nint request);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_request_peer(nint request);

    [LibraryImport(Library)]
    internal static partial int witrpc_request_invocation_id(nint request, byte* id);

    [LibraryImport(Library)]
    internal static partial byte witrpc_request_is_cancelled(nint request);

    [LibraryImport(Library)]
    internal static partial int witrpc_request_connection(nint request, byte* id);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_request_join(nint request, string group, out nint error);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_request_leave(nint request, string group, out nint error);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_request_type_argument(nint request, nuint index);

    [LibraryImport(Library)]
    internal static partial ulong witrpc_request_remaining_ms(nint request);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_request_trace_context(nint request, nuint* size);

    [LibraryImport(Library)]
    internal static partial nuint witrpc_request_argument_count(nint request);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_request_argument(nint request, nuint index, nuint* size);

    [LibraryImport(Library)]
    internal static partial int witrpc_request_reply_encoded(nint request, byte* result, nuint size, out nint error);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_request_fail(nint request, string? details, out nint error);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_request_refuse(nint request, string message, out nint error);

    [LibraryImport(Library)]
    internal static partial void witrpc_request_free(nint request);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_server_options_new(string endpoint, out nint options, out nint error);

    [LibraryImport(Library)]
    internal static partial void witrpc_server_options_free(nint options);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_server_options_add_endpoint(ServerOptionsHandle options, string endpoint);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_options_serve(ServerOptionsHandle options, nint implementation);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_options_on_execute(ServerOptionsHandle options, delegate* unmanaged[Cdecl]<void*, byte*, byte*, void> on_execute, nint user_data, delegate* unmanaged[Cdecl]<void*, void> destroy);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_options_max_clients(ServerOptionsHandle options, nuint clients);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_options_max_frame(ServerOptionsHandle options, nuint bytes, nuint handshake_bytes);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_options_max_in_flight(ServerOptionsHandle options, nuint per_connection, nuint in_all);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_options_ordered_per_connection(ServerOptionsHandle options);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_options_handshake_timeout_ms(ServerOptionsHandle options, ulong ms);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_options_dedup(ServerOptionsHandle options, nuint max_records, nuint max_bytes, ulong hold_ms, nuint max_answer);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_options_strong_event_types(ServerOptionsHandle options, byte strong);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_options_encryption(ServerOptionsHandle options, byte on);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_server_options_token(ServerOptionsHandle options, string token);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_server_options_token_file(ServerOptionsHandle options, string path);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_options_validator_async(ServerOptionsHandle options, delegate* unmanaged[Cdecl]<void*, nint, void> validator, nint user_data, delegate* unmanaged[Cdecl]<void*, void> destroy);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_check_token(nint check);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_check_peer(nint check);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_check_accept(nint check, string? principal);

    [LibraryImport(Library)]
    internal static partial int witrpc_check_refuse(nint check);

    [LibraryImport(Library)]
    internal static partial void witrpc_check_free(nint check);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_server_options_tls_files(ServerOptionsHandle options, string certificate_path, string key_path, string? client_authorities_path);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_options_codec(ServerOptionsHandle options, int codec);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_start(ServerOptionsHandle options, out nint server, out nint error);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_endpoint(ServerHandle server, nuint index, out nint buffer);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_server_raise_encoded(ServerHandle server, int audience, byte* connection, string? name, string contract, string @event, NativeBytes* arguments, nuint count, nuint* clients, out nint error);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_server_group_add(ServerHandle server, byte* connection, string group, out nint error);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_server_group_remove(ServerHandle server, byte* connection, string group, out nint error);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_options_on_connection(ServerOptionsHandle options, delegate* unmanaged[Cdecl]<void*, nint, void> connected, delegate* unmanaged[Cdecl]<void*, nint, void> disconnected, nint user_data, delegate* unmanaged[Cdecl]<void*, void> destroy);

    [LibraryImport(Library)]
    internal static partial int witrpc_connection_id(nint connection, byte* id);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_connection_principal(nint connection);

    [LibraryImport(Library)]
    internal static partial byte* witrpc_connection_peer(nint connection);

    [LibraryImport(Library, StringMarshalling = StringMarshalling.Utf8)]
    internal static partial int witrpc_connection_join(nint connection, string group, out nint error);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_stats_get(ServerHandle server, ref NativeServerStats stats);

    [LibraryImport(Library)]
    internal static partial int witrpc_server_stop(ServerHandle server, ulong timeout_ms);

    [LibraryImport(Library)]
    internal static partial void witrpc_server_free(nint server);
}

/// <summary>witrpc_server_stats.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct NativeServerStats
{
    internal nuint StructSize;
    internal ulong Connections;
    internal ulong Running;
    internal ulong Executed;
    internal ulong Replayed;
    internal ulong Attached;
    internal ulong Held;
}

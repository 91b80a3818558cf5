//! What a server bears of clients that mean no good, or can't do better.

use std::time::Duration;

use crate::server_options::{change, witrpc_server_options};

/// What is accepted of connections that are not authorised yet: bytes of all messages of one of them,
/// and how many there may be at the same time from one address (of IPv6: from one /64 network; 0 =
/// no such limit). Default 128 KiB and 1,000.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_strangers(
    options: *mut witrpc_server_options,
    bytes: usize,
    per_address: usize,
) -> i32 {
    change(options, |o| {
        o.limits.max_handshake_bytes = bytes;
        o.limits.max_strangers_per_address = per_address;
        Ok(())
    })
}

/// Connections at the same time from one address (of IPv6: from one /64 network), authorised or not;
/// one more is closed at once. 0 = no such limit, the default: many clients may come from behind one
/// address.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_max_clients_per_address(
    options: *mut witrpc_server_options,
    clients: usize,
) -> i32 {
    change(options, |o| {
        o.limits.max_clients_per_address = clients;
        Ok(())
    })
}

/// Bytes of calls of one connection that may wait for others of it to end; beyond it nothing more is
/// read from that connection. Default 1 MiB.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_max_waiting_bytes(
    options: *mut witrpc_server_options,
    bytes: usize,
) -> i32 {
    change(options, |o| {
        o.limits.max_waiting_bytes = bytes;
        Ok(())
    })
}

/// Bytes a second at least of a message that a client has begun to send, and of what it is being
/// sent, over a window of time in ms; who is slower is closed. 0 bytes = no such limit. Default 240
/// over 30,000 ms. Of messages on their way in, those over WebSockets are not measured.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_min_rate(
    options: *mut witrpc_server_options,
    bytes_per_second: u32,
    window_ms: u64,
) -> i32 {
    change(options, |o| {
        o.limits.min_rate = bytes_per_second;
        o.limits.rate_window = Duration::from_millis(window_ms);
        Ok(())
    })
}

//! The store of calls that servers share.

use std::ffi::c_char;
use std::time::Duration;

use witrpc_core::server::store::RedisOptions;

use crate::guard::{self, Failure};
use crate::server::{with, witrpc_server};
use crate::server_options::{Options, change, witrpc_server_options};
use crate::status::witrpc_status;
use crate::text;

/// What a store on Redis has done and does. Set `struct_size` before it is filled.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct witrpc_redis_stats {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: usize,
    /// Connections made to Redis so far; the second one is the first reconnection.
    pub connections: u64,
    /// 1 if there is a connection now, else 0.
    pub is_connected: u64,
    /// Calls of durable methods that run here now.
    pub leases: u64,
    /// Calls that ended here after their leases had passed on: their callers were told that the
    /// outcome is unknown.
    pub leases_lost: u64,
    /// Calls answered with what another server, or an earlier life of this one, had stored.
    pub replayed: u64,
    /// Calls that waited for another server to end them.
    pub waited: u64,
    /// Calls that were refused because Redis did not answer, or may have lost records.
    pub refused: u64,
    /// Answers that could not be stored in time: their callers were told that the outcome is unknown.
    pub not_stored: u64,
    /// Times at which the servers got a new epoch, because Redis may have lost records.
    pub epochs: u64,
}

/// Keeps the calls of durable methods (witrpc_implementation_durable) in a Redis or Valkey that several servers share, so that a call that one of them executed and
/// could not answer is answered by another, and none runs twice. `url` is
/// "redis://[[user]:password@]host[:port][/database]" "rediss://..." over TLS, or "redis+unix:///path/of/socket", NUL-terminated: one Redis (6.2 or
/// later) that holds all keys, no Redis Cluster, no replica. witrpc_server_start connects, and fails with
/// WITRPC_INVALID_ARGUMENT if it can't, or if the server has a journal, too; later the connection is made anew as often as needed, and calls of durable
/// methods are refused (503, they did not run) meanwhile.
///
/// All servers that share it need the same options. What is promised when Redis fails: docs/exactly-once.md.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_redis(
    options: *mut witrpc_server_options,
    url: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands a valid pointer.
        let url = unsafe { text::terminated(url, "url") }?;
        o.redis = Some(RedisOptions::new(url));
        Ok(())
    })
}

/// As witrpc_server_options_redis with `size` bytes of URL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_redis_n(
    options: *mut witrpc_server_options,
    url: *const c_char,
    size: usize,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands that many bytes.
        let url = unsafe { text::sized(url, size, "url") }?;
        o.redis = Some(RedisOptions::new(url));
        Ok(())
    })
}

/// The options of the store, which witrpc_server_options_redis must have made.
fn change_redis(
    options: *mut witrpc_server_options,
    f: impl FnOnce(&mut RedisOptions) -> Result<(), Failure>,
) -> i32 {
    change(options, |o: &mut Options| {
        f(o.redis
            .as_mut()
            .ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?)
    })
}

/// Which authorities the certificate of a Redis at "rediss://" must come from, as the text of a PEM file (size in bytes). Default: those of
/// the system. WITRPC_INVALID_ARGUMENT without witrpc_server_options_redis before it, as with the following ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_redis_authorities(
    options: *mut witrpc_server_options,
    authorities: *const c_char,
    authorities_size: usize,
) -> i32 {
    change_redis(options, |redis| {
        // SAFETY: the header demands a valid pointer.
        let pem = unsafe { text::bytes(authorities.cast(), authorities_size) }?;
        redis.tls.authorities = Some(pem.to_vec());
        Ok(())
    })
}

/// What the names of all keys in Redis begin with, NUL-terminated; another one for each fleet of servers. Default "witrpc:".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_redis_prefix(
    options: *mut witrpc_server_options,
    prefix: *const c_char,
) -> i32 {
    change_redis(options, |redis| {
        // SAFETY: the header demands a valid pointer.
        redis.prefix = unsafe { text::terminated(prefix, "prefix") }?.to_owned();
        Ok(())
    })
}

/// As witrpc_server_options_redis_prefix with `size` bytes of text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_redis_prefix_n(
    options: *mut witrpc_server_options,
    prefix: *const c_char,
    size: usize,
) -> i32 {
    change_redis(options, |redis| {
        // SAFETY: the header demands that many bytes.
        redis.prefix = unsafe { text::sized(prefix, size, "prefix") }?.to_owned();
        Ok(())
    })
}

/// Times of the store, in ms: how long a call counts as running after the last sign of life of its server (at least 100), how
/// long an answer is held, how long the numbers of a libwitrpc client's calls are remembered after its last one (not
/// shorter), and how long a request to Redis may take (at least 10). 0 = the default: 10 s, 10 min, 24 h and 5 s.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_redis_times(
    options: *mut witrpc_server_options,
    lease_ms: u64,
    hold_ms: u64,
    client_hold_ms: u64,
    timeout_ms: u64,
) -> i32 {
    change_redis(options, |redis| {
        let defaults = RedisOptions::new("");
        let time = |ms, default| match ms {
            0 => default,
            ms => Duration::from_millis(ms),
        };
        redis.lease = time(lease_ms, defaults.lease);
        redis.hold = time(hold_ms, defaults.hold);
        redis.client_hold = time(client_hold_ms, defaults.client_hold);
        redis.timeout = time(timeout_ms, defaults.timeout);
        Ok(())
    })
}

/// How far Redis is relied on: replicas that must have a record before it counts (default 0), and whether it loses
/// nothing when it is started again or replaced by a replica (default false: clients then end calls that were on their way as
/// outcome unknown).
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_redis_trust(
    options: *mut witrpc_server_options,
    replicas: u32,
    restarts: bool,
) -> i32 {
    change_redis(options, |redis| {
        redis.wait_replicas = replicas;
        redis.trust_restarts = restarts;
        Ok(())
    })
}

/// What the store on Redis has done and does. Set `stats->struct_size` first. WITRPC_INVALID_ARGUMENT if the server has none.
/// Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_redis_stats(
    server: *const witrpc_server,
    stats: *mut witrpc_redis_stats,
) -> i32 {
    // SAFETY: the header demands a valid pointer to a struct that says its size; there is no error
    // object.
    unsafe {
        with(server, std::ptr::null_mut(), |object| {
            let store = object.store.as_ref();
            let now = store.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?.stats();
            let filled = witrpc_redis_stats {
                struct_size: 0,
                connections: now.connections,
                is_connected: u64::from(now.is_connected),
                leases: now.leases as u64,
                leases_lost: now.leases_lost,
                replayed: now.replayed,
                waited: now.waited,
                refused: now.refused,
                not_stored: now.not_stored,
                epochs: now.epochs,
            };
            guard::fill(stats, filled)
        })
    }
}

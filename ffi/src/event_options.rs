//! The options of clients and servers that concern events: how many may wait, and what becomes of
//! those that do not fit.

use std::sync::Arc;
use std::time::Duration;

use witrpc_core::client::ClientBuilder;
use witrpc_core::server::ServerBuilder;
use witrpc_core::{EventQueueOptions, Overflow};

use crate::client_options::{self, limit, witrpc_client_options};
use crate::connection::Watcher;
use crate::guard::Failure;
use crate::presence::Presence;
use crate::server_options::{self, witrpc_server_options};
use crate::status::witrpc_status;

/// What happens to events that come faster than they are taken, once their queue is full.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum witrpc_overflow {
    /// The events that have waited longest are dropped, and counted. The default of clients.
    WITRPC_DROP_OLDEST = 0,
    /// The event that has just come is dropped, and counted.
    WITRPC_DROP_NEWEST = 1,
    /// The connection is dropped, so that both ends know that something is missing. The default of
    /// servers.
    WITRPC_DISCONNECT = 2,
}

/// What a client's options say of events.
#[derive(Clone)]
pub(crate) struct ClientEvents {
    queue: EventQueueOptions,
    /// `None`: the core's default.
    patience: Option<Option<Duration>>,
}

impl Default for ClientEvents {
    fn default() -> Self {
        Self {
            queue: EventQueueOptions::client(),
            patience: None,
        }
    }
}

impl ClientEvents {
    pub(crate) fn install(self, builder: ClientBuilder) -> ClientBuilder {
        let builder = builder.event_queue(self.queue);
        match self.patience {
            Some(patience) => builder.handler_patience(patience),
            None => builder,
        }
    }
}

/// What a server's options say of events and of who gets them.
#[derive(Clone)]
pub(crate) struct ServerEvents {
    queue: EventQueueOptions,
    pub(crate) watcher: Option<Arc<Watcher>>,
}

impl Default for ServerEvents {
    fn default() -> Self {
        Self {
            queue: EventQueueOptions::server(),
            watcher: None,
        }
    }
}

impl ServerEvents {
    pub(crate) fn install(self, builder: ServerBuilder, presence: &Arc<Presence>) -> ServerBuilder {
        let builder = builder.event_queue(self.queue);
        match self.watcher {
            Some(watcher) => watcher.install(builder, presence),
            None => builder,
        }
    }
}

fn queue(max_events: usize, max_bytes: usize, overflow: i32) -> Result<EventQueueOptions, Failure> {
    let overflow = match overflow {
        0 => Overflow::DropOldest,
        1 => Overflow::DropNewest,
        2 => Overflow::Disconnect,
        _ => return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into()),
    };
    if max_events == 0 || max_bytes == 0 {
        return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into());
    }
    Ok(EventQueueOptions {
        max_events,
        max_bytes,
        overflow,
    })
}

/// Bounds of the queue of each subscription: events that may wait for its handler, bytes of their
/// arguments (a single event may be larger), and what happens to those that do not fit
/// (witrpc_overflow). Default 65,536, 64 MiB and WITRPC_DROP_OLDEST.
///
/// With WITRPC_DISCONNECT the client drops its link; with automatic reconnection it comes back, and
/// on_reconnected can fetch what is missing. WITRPC_INVALID_ARGUMENT for 0 and unknown policies.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_event_queue(
    options: *mut witrpc_client_options,
    max_events: usize,
    max_bytes: usize,
    overflow: i32,
) -> i32 {
    client_options::change(options, |o| {
        o.events.queue = queue(max_events, max_bytes, overflow)?;
        Ok(())
    })
}

/// How long a handler of events may hold up the callbacks behind it, in ms. One that takes longer
/// goes on by itself: its own events wait for it, everything else goes on in order beside it, so that
/// then handlers of two subscriptions may run at the same time, on two threads.
///
/// WITRPC_NO_TIMEOUT: no callback of a client ever runs beside another one, and a handler that blocks
/// holds up all of them. Default 1,000.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_handler_patience_ms(
    options: *mut witrpc_client_options,
    ms: u64,
) -> i32 {
    client_options::change(options, |o| {
        o.events.patience = Some(limit(ms));
        Ok(())
    })
}

/// Bounds of the queue of each connection: events that may wait for a client that does not read as
/// fast as they come, their bytes (a single event may be larger), and what happens to those that do
/// not fit (witrpc_overflow). Default 65,536, 16 MiB and WITRPC_DISCONNECT. Answers are never
/// dropped. WITRPC_INVALID_ARGUMENT for 0 and unknown policies.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_event_queue(
    options: *mut witrpc_server_options,
    max_events: usize,
    max_bytes: usize,
    overflow: i32,
) -> i32 {
    server_options::change(options, |o| {
        o.events.queue = queue(max_events, max_bytes, overflow)?;
        Ok(())
    })
}

//! Events from the server.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use witrpc_core::client::Subscription;

use crate::buffer::{BufferObject, witrpc_buffer};
use crate::callback::{UserData, witrpc_destroy};
use crate::client::{ServiceObject, witrpc_service};
use crate::error::witrpc_error;
use crate::guard::{self, Failure};
use crate::handle::{self, Object};
use crate::status::witrpc_status;
use crate::text;

/// A subscription to an event. It lasts until it is freed, over all reconnections.
pub struct witrpc_subscription {
    _private: [u8; 0],
}

/// An event happened. `arguments` is a JSON array, borrowed until the callback returns.
pub type witrpc_event_handler =
    Option<unsafe extern "C" fn(user_data: *mut c_void, arguments: *const witrpc_buffer)>;

/// What a subscription has done and does. Set `struct_size` before it is filled.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct witrpc_subscription_stats {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: usize,
    /// Events that were handed to the handler, or would have been if they could have been read.
    pub delivered: u64,
    /// Events that were dropped because they came faster than the handler took them.
    pub dropped: u64,
    /// Events that wait now.
    pub waiting: u64,
    /// Events that did not reach the handler because their arguments do not fit the event's line.
    pub unreadable: u64,
}

pub(crate) struct SubscriptionObject {
    subscription: Subscription,
    unreadable: Arc<AtomicU64>,
}

impl SubscriptionObject {
    /// One whose handler takes events as they come.
    pub(crate) fn of_blobs(subscription: Subscription) -> Self {
        Self {
            subscription,
            unreadable: Arc::default(),
        }
    }
}

impl Object for SubscriptionObject {
    type Opaque = witrpc_subscription;
    const KIND: usize = 10;
}

unsafe fn subscribe(
    object: &ServiceObject,
    event: &str,
    handler: (witrpc_event_handler, UserData),
    out: *mut *mut witrpc_subscription,
) -> Result<(), Failure> {
    let (function, user_data) = handler;
    // SAFETY: the caller vouches for `out`.
    let out = unsafe { guard::out(out) }?;
    let function = function.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
    let user_data = user_data.registered_on(object.service.client().dispatcher());
    let unreadable: Arc<AtomicU64> = Arc::default();
    let misfits = unreadable.clone();
    let subscription = object.service.on_event(event, move |arguments| {
        match arguments.json() {
            Ok(json) => {
                let lent = handle::insert(BufferObject::text(json));
                // SAFETY: the caller gave the function together with the user data.
                unsafe { function(user_data.pointer(), lent) };
                drop(handle::remove::<BufferObject>(lent));
            }
            Err(error) => {
                misfits.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%error, "an event was not delivered");
            }
        }
    })?;
    // SAFETY: as above.
    unsafe {
        guard::give(
            out,
            SubscriptionObject {
                subscription,
                unreadable,
            },
        )
    }
}

/// Calls `handler` for each event, in order, on the client's callback thread. `event` is a line
/// pasted from the C# interface, as "event Action<int> Progress" (or, where the contract lists it,
/// its name); `size` in bytes.
///
/// Handlers of a client run one after the other, in the order in which the events were raised, and
/// in order with its other callbacks. A handler that blocks holds up its own events only: once it
/// has run for 1 s (witrpc_client_options_handler_patience_ms) the others go on beside it, on
/// another thread. Up to 65,536 events wait for it, then the oldest ones are dropped and counted
/// (witrpc_client_options_event_queue). Types are those of the line, whatever the wire names.
///
/// On success `*out` is a new handle, to be freed with witrpc_subscription_free. `destroy` (may be
/// NULL) is called with `user_data` exactly once, after the last event, also when this function
/// fails. Never blocks; any thread, connected or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_service_subscribe_n(
    service: *const witrpc_service,
    event: *const c_char,
    size: usize,
    handler: witrpc_event_handler,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    out: *mut *mut witrpc_subscription,
    error: *mut *mut witrpc_error,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ServiceObject>(service, error, || {
            let object = handle::get::<ServiceObject>(service)?;
            let event = text::sized(event, size, "event")?;
            subscribe(&object, event, (handler, user_data), out)
        }) as i32
    }
}

/// The same with a NUL-terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_service_subscribe(
    service: *const witrpc_service,
    event: *const c_char,
    handler: witrpc_event_handler,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    out: *mut *mut witrpc_subscription,
    error: *mut *mut witrpc_error,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ServiceObject>(service, error, || {
            let object = handle::get::<ServiceObject>(service)?;
            let event = text::terminated(event, "event")?;
            subscribe(&object, event, (handler, user_data), out)
        }) as i32
    }
}

/// Events that were dropped because the handler was too slow; 0 for a bad handle.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_subscription_dropped(subscription: *const witrpc_subscription) -> u64 {
    guard::value(0, || {
        Some(
            handle::get::<SubscriptionObject>(subscription)
                .ok()?
                .subscription
                .dropped(),
        )
    })
}

/// What a subscription has done and does. Set `stats->struct_size` first. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_subscription_stats_get(
    subscription: *const witrpc_subscription,
    stats: *mut witrpc_subscription_stats,
) -> i32 {
    // SAFETY: the header demands a valid pointer to a struct that says its size; there is no error
    // object.
    unsafe {
        guard::run::<SubscriptionObject>(subscription, std::ptr::null_mut(), || {
            let object = handle::get::<SubscriptionObject>(subscription)?;
            let now = object.subscription.stats();
            let filled = witrpc_subscription_stats {
                struct_size: 0,
                delivered: now.delivered,
                dropped: now.dropped,
                waiting: now.waiting as u64,
                unreadable: object.unreadable.load(Ordering::Relaxed),
            };
            guard::fill(stats, filled)
        }) as i32
    }
}

/// Ends a subscription: no event is delivered that has not begun to be. NULL and a freed one are
/// allowed. Never blocks; any thread, the handler itself too.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_subscription_free(subscription: *mut witrpc_subscription) {
    guard::value((), || {
        drop(handle::remove::<SubscriptionObject>(subscription));
        None
    });
}

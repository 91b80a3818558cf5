//! Events from the server to whoever subscribed: in order, each subscriber behind a bounded queue
//! of its own.
//!
//! Owns the subscriptions and the queues. Subscribing is local (WitRPC sends every event to every
//! client), so subscriptions survive reconnections by themselves.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::dispatcher::Dispatcher;
use crate::wire::Request;

/// Events that wait for their subscriber, unless it asked for another number.
pub const DEFAULT_EVENT_QUEUE: usize = 1024;

type Handler = Box<dyn Fn(Arc<Request>) + Send + Sync>;

/// Who gets the events of a subscription.
enum Sink {
    /// A callback, run by the dispatcher.
    Handler(Handler),
    /// A task that asks for the next one.
    Stream(Notify),
}

struct Queue {
    waiting: VecDeque<Arc<Request>>,
    /// A job that empties the queue is under way.
    scheduled: bool,
    closed: bool,
}

pub(super) struct Subscriber {
    contract_id: i64,
    capacity: usize,
    queue: Mutex<Queue>,
    dropped: AtomicU64,
    sink: Sink,
}

#[derive(Default)]
struct Registry {
    by_event: HashMap<Arc<str>, Vec<Arc<Subscriber>>>,
    closed: bool,
}

/// The subscriptions of one client.
#[derive(Default, Clone)]
pub(super) struct Subscriptions(Arc<RwLock<Registry>>);

/// Keeps a subscription alive; dropping it ends it. A callback that is running then still ends.
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    registry: Weak<RwLock<Registry>>,
    event: Arc<str>,
    pub(super) subscriber: Arc<Subscriber>,
}

impl Subscription {
    /// Events that were dropped because the subscriber was too slow: the oldest ones.
    pub fn dropped(&self) -> u64 {
        self.subscriber.dropped.load(Ordering::Relaxed)
    }

    /// The next event; `None` once the subscription has ended. For streams only.
    pub(super) async fn next(&self) -> Option<Arc<Request>> {
        let Sink::Stream(arrived) = &self.subscriber.sink else {
            return None;
        };
        loop {
            {
                let mut queue = self.subscriber.queue.lock();
                if let Some(request) = queue.waiting.pop_front() {
                    return Some(request);
                }
                if queue.closed {
                    return None;
                }
            }
            arrived.notified().await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            let mut registry = registry.write();
            if let Some(subscribers) = registry.by_event.get_mut(&self.event) {
                subscribers.retain(|s| !Arc::ptr_eq(s, &self.subscriber));
                if subscribers.is_empty() {
                    registry.by_event.remove(&self.event);
                }
            }
        }
        self.subscriber.close();
    }
}

impl Subscriptions {
    /// Calls `handler` for every event of that name and contract.
    pub(super) fn handle(
        &self,
        contract_id: i64,
        event: &str,
        capacity: usize,
        handler: impl Fn(Arc<Request>) + Send + Sync + 'static,
    ) -> Subscription {
        self.add(
            contract_id,
            event,
            capacity,
            Sink::Handler(Box::new(handler)),
        )
    }

    /// Keeps events of that name and contract until they are asked for.
    pub(super) fn stream(&self, contract_id: i64, event: &str, capacity: usize) -> Subscription {
        self.add(contract_id, event, capacity, Sink::Stream(Notify::new()))
    }

    fn add(&self, contract_id: i64, event: &str, capacity: usize, sink: Sink) -> Subscription {
        let event: Arc<str> = event.into();
        let mut registry = self.0.write();
        let subscriber = Arc::new(Subscriber {
            contract_id,
            capacity: capacity.max(1),
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                scheduled: false,
                closed: registry.closed,
            }),
            dropped: AtomicU64::new(0),
            sink,
        });
        registry
            .by_event
            .entry(event.clone())
            .or_default()
            .push(subscriber.clone());
        Subscription {
            registry: Arc::downgrade(&self.0),
            event,
            subscriber,
        }
    }

    /// An event arrived.
    pub(super) fn deliver(&self, dispatcher: &Dispatcher, request: Request) {
        let registry = self.0.read();
        let name = request.method_name.as_deref().unwrap_or_default();
        let Some(subscribers) = registry.by_event.get(name) else {
            return;
        };
        let request = Arc::new(request);
        for subscriber in subscribers {
            // As the reference: an event without a contract is everybody's.
            if request.contract_id == 0 || request.contract_id == subscriber.contract_id {
                subscriber.push(dispatcher, request.clone());
            }
        }
    }

    /// No more events will come: streams end, those that are opened later too.
    pub(super) fn close(&self) {
        let mut registry = self.0.write();
        registry.closed = true;
        for subscriber in registry.by_event.values().flatten() {
            subscriber.close();
        }
    }
}

impl Subscriber {
    fn push(self: &Arc<Self>, dispatcher: &Dispatcher, request: Arc<Request>) {
        let mut queue = self.queue.lock();
        if queue.closed {
            return;
        }
        if queue.waiting.len() >= self.capacity {
            queue.waiting.pop_front();
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        queue.waiting.push_back(request);
        match &self.sink {
            Sink::Stream(arrived) => arrived.notify_one(),
            Sink::Handler(_) => {
                if !std::mem::replace(&mut queue.scheduled, true) {
                    let subscriber = self.clone();
                    dispatcher.post(move || subscriber.run_handler());
                }
            }
        }
    }

    /// Empties the queue into the handler. On the callback thread.
    fn run_handler(&self) {
        let Sink::Handler(handler) = &self.sink else {
            return;
        };
        loop {
            let request = {
                let mut queue = self.queue.lock();
                match queue.waiting.pop_front() {
                    Some(request) if !queue.closed => request,
                    _ => {
                        queue.scheduled = false;
                        return;
                    }
                }
            };
            let call = std::panic::AssertUnwindSafe(|| handler(request));
            if std::panic::catch_unwind(call).is_err() {
                tracing::error!("an event handler panicked");
            }
        }
    }

    fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        if let Sink::Stream(arrived) = &self.sink {
            arrived.notify_one();
        } else {
            queue.waiting.clear();
        }
    }
}

//! Events from the server to whoever subscribed: in order, each subscription behind a bounded queue
//! of its own.
//!
//! Owns the subscriptions and the queues. Subscribing is local (WitRPC sends every event to every
//! client), so subscriptions survive reconnections by themselves.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::dispatcher::{Dispatcher, Lane, Ticket};
use crate::error::{Error, ErrorCode};
use crate::event_queue::{EventQueue, EventQueueOptions, Push};
use crate::wire::Request;

/// An event that a subscription is interested in.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Topic {
    pub(super) contract_id: i64,
    pub(super) name: Arc<str>,
}

/// An event that arrived for a subscription.
pub(super) struct Arrival {
    /// Which of the subscription's topics.
    pub(super) topic: usize,
    pub(super) request: Arc<Request>,
    /// Of the job that hands it to the handler; 0 for streams.
    ticket: Ticket,
}

type Handler = Box<dyn Fn(Arrival) + Send + Sync>;

/// What a subscription has done and does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionStats {
    /// Events that were handed to the handler, or taken from the stream.
    pub delivered: u64,
    /// Events that were dropped because they came faster than they were taken.
    pub dropped: u64,
    /// Events that wait now.
    pub waiting: usize,
    /// Times that the handler panicked; the event counts as delivered.
    pub panics: u64,
}

struct State {
    queue: EventQueue<Arrival>,
    delivered: u64,
    panics: u64,
    closed: bool,
    /// Of the task that waits for the stream.
    waker: Option<Waker>,
}

struct Subscriber {
    topics: Vec<Topic>,
    state: Mutex<State>,
    /// `None` for streams.
    handler: Option<Handler>,
    lane: Lane,
    dispatcher: Dispatcher,
}

#[derive(Default)]
struct Registry {
    /// By the name of the event; with the subscriber's number of the topic.
    by_event: HashMap<Arc<str>, Vec<(usize, Arc<Subscriber>)>>,
    closed: bool,
}

/// The subscriptions of one client.
#[derive(Clone)]
pub(super) struct Subscriptions {
    registry: Arc<RwLock<Registry>>,
    dispatcher: Dispatcher,
    /// For subscriptions that ask for nothing else.
    pub(super) queue: EventQueueOptions,
}

/// Keeps a subscription alive; dropping it ends it. A callback that is running then still ends.
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    registry: Weak<RwLock<Registry>>,
    subscriber: Arc<Subscriber>,
}

impl Subscription {
    /// Events that were dropped because they came faster than they were taken.
    pub fn dropped(&self) -> u64 {
        self.stats().dropped
    }

    /// What it has done and does.
    pub fn stats(&self) -> SubscriptionStats {
        let state = self.subscriber.state.lock();
        SubscriptionStats {
            delivered: state.delivered,
            dropped: state.queue.dropped(),
            waiting: state.queue.len(),
            panics: state.panics,
        }
    }

    /// The next event; `None` once the subscription has ended. For streams.
    pub(super) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Arrival>> {
        let mut state = self.subscriber.state.lock();
        if let Some(arrival) = state.queue.pop() {
            state.delivered += 1;
            return Poll::Ready(Some(arrival));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let subscriber = &self.subscriber;
        if let Some(registry) = self.registry.upgrade() {
            let mut registry = registry.write();
            for topic in &subscriber.topics {
                if let Some(subscribers) = registry.by_event.get_mut(&topic.name) {
                    subscribers.retain(|(_, s)| !Arc::ptr_eq(s, subscriber));
                    if subscribers.is_empty() {
                        registry.by_event.remove(&topic.name);
                    }
                }
            }
        }
        subscriber.close();
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let topics = self.subscriber.topics.iter();
        f.debug_struct("Subscription")
            .field("events", &topics.map(|t| &*t.name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Subscriptions {
    pub(super) fn new(dispatcher: Dispatcher, queue: EventQueueOptions) -> Self {
        Self {
            registry: Arc::default(),
            dispatcher,
            queue,
        }
    }

    /// Subscribes to events by name and contract. Without a handler they wait to be asked for.
    pub(super) fn add(
        &self,
        topics: Vec<Topic>,
        queue: EventQueueOptions,
        handler: Option<Handler>,
    ) -> Subscription {
        let mut registry = self.registry.write();
        let subscriber = Arc::new(Subscriber {
            topics,
            state: Mutex::new(State {
                queue: EventQueue::new(queue),
                delivered: 0,
                panics: 0,
                closed: registry.closed,
                waker: None,
            }),
            handler,
            lane: Lane::new(),
            dispatcher: self.dispatcher.clone(),
        });
        for (number, topic) in subscriber.topics.iter().enumerate() {
            let subscribers = registry.by_event.entry(topic.name.clone()).or_default();
            subscribers.push((number, subscriber.clone()));
        }
        Subscription {
            registry: Arc::downgrade(&self.registry),
            subscriber,
        }
    }

    /// An event arrived. An error if the link is to be dropped for it.
    pub(super) fn deliver(&self, request: Request) -> Result<(), Error> {
        let registry = self.registry.read();
        let name = request.method_name.as_deref().unwrap_or_default();
        let Some(subscribers) = registry.by_event.get(name) else {
            return Ok(());
        };
        let size = size(&request);
        let request = Arc::new(request);
        let mut result = Ok(());
        for (topic, subscriber) in subscribers {
            // As the reference: an event without a contract is everybody's.
            let wanted = &subscriber.topics[*topic];
            if (request.contract_id == 0 || request.contract_id == wanted.contract_id)
                && !subscriber.push(*topic, &request, size)
            {
                result = Err(Error::new(
                    ErrorCode::Transport,
                    format!(
                        "the connection was dropped: events {} came faster than they were taken",
                        wanted.name
                    ),
                ));
            }
        }
        result
    }

    /// No more events will come: streams end, those that are opened later too.
    pub(super) fn close(&self) {
        let mut registry = self.registry.write();
        registry.closed = true;
        for (_, subscriber) in registry.by_event.values().flatten() {
            subscriber.close();
        }
    }
}

/// Bytes that an event holds while it waits.
fn size(request: &Request) -> usize {
    let blobs = request.parameters.iter().flatten().flatten();
    blobs.map(Bytes::len).sum()
}

impl Subscriber {
    /// Queues an event. False if the link is to be dropped.
    fn push(self: &Arc<Self>, topic: usize, request: &Arc<Request>, size: usize) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return true;
        }
        // Posted first, because the queue needs the ticket; the job waits for this lock.
        let ticket = match &self.handler {
            Some(_) => {
                let subscriber = self.clone();
                let run = move |ticket| subscriber.run_handler(ticket);
                self.dispatcher.post_in(self.lane, run)
            }
            None => 0,
        };
        let arrival = Arrival {
            topic,
            request: request.clone(),
            ticket,
        };
        let pushed = state.queue.push(arrival, size);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        if self.handler.is_some() {
            match &pushed {
                Push::Queued => {}
                Push::Instead(oldest) => self.withdraw(oldest),
                Push::Dropped | Push::Disconnect => self.dispatcher.withdraw(self.lane, [ticket]),
            }
        }
        !matches!(pushed, Push::Disconnect)
    }

    fn withdraw(&self, arrivals: &[Arrival]) {
        let tickets = arrivals.iter().map(|arrival| arrival.ticket);
        self.dispatcher.withdraw(self.lane, tickets);
    }

    /// Hands an event to the handler, unless it was dropped. On a callback thread.
    fn run_handler(&self, ticket: Ticket) {
        let Some(handler) = &self.handler else { return };
        let arrival = {
            let mut state = self.state.lock();
            match state.queue.front() {
                Some(front) if front.ticket == ticket && !state.closed => {}
                _ => return,
            }
            state.delivered += 1;
            state.queue.pop()
        };
        let Some(arrival) = arrival else { return };
        if catch_unwind(AssertUnwindSafe(|| handler(arrival))).is_err() {
            self.state.lock().panics += 1;
            tracing::error!("an event handler panicked");
        }
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let waker = state.waker.take();
        // What a stream has received is still there; what a handler has not seen it won't see.
        let waiting = match self.handler {
            Some(_) => state.queue.take_all(),
            None => Vec::new(),
        };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        self.withdraw(&waiting);
    }
}

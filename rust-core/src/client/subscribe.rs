//! Subscriptions as users see them: made with options, ended by dropping them, with arguments by the
//! types of the contract.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;

use super::events::{Arrival, Topic};
use super::{Client, Subscription, SubscriptionStats};
use crate::arguments::FromArguments;
use crate::codec::{Codec, Value};
use crate::contract::Event;
use crate::error::{Error, Result};
use crate::event_queue::EventQueueOptions;
use crate::wire::Request;

/// A subscription about to be made; from [`Service::subscribe`](super::Service::subscribe).
#[must_use = "nothing is subscribed before `handler` or `stream`"]
pub struct SubscribeBuilder {
    client: Client,
    events: Arc<[Event]>,
    queue: EventQueueOptions,
}

impl SubscribeBuilder {
    pub(super) fn new(client: &Client, mut events: Vec<Event>) -> Result<Self> {
        if events.is_empty() {
            return Err(Error::invalid_argument("a subscription to no event"));
        }
        // Who names an event twice means it once.
        let mut seen = Vec::new();
        events.retain(|event| {
            let topic = topic(event);
            let is_new = !seen.contains(&topic);
            seen.push(topic);
            is_new
        });
        Ok(Self {
            queue: client.0.driver.subscriptions.queue,
            client: client.clone(),
            events: events.into(),
        })
    }

    /// Bounds of its queue, and what happens beyond them. Default: that of the
    /// [client](super::ClientBuilder::event_queue).
    ///
    /// # Errors
    /// When the queue has no room at all.
    pub fn queue(mut self, options: EventQueueOptions) -> Result<Self> {
        options.check()?;
        self.queue = options;
        Ok(self)
    }

    /// Has each event handed to `handler`, one after the other and in order, on the client's callback
    /// thread, until the subscription is dropped. It may block and may call the client: one that
    /// takes longer than the [patience](super::ClientBuilder::handler_patience) of the client holds
    /// up its own events only. If it panics, that is [counted](SubscriptionStats::panics).
    pub fn handler(self, handler: impl Fn(EventArgs) + Send + Sync + 'static) -> Subscription {
        let (events, codec) = (self.events.clone(), self.client.0.codec);
        let handler = Box::new(move |arrival| handler(EventArgs::new(&events, codec, arrival)));
        self.start(Some(handler))
    }

    /// Has the events wait until they are asked for.
    pub fn stream(self) -> EventStream {
        EventStream {
            events: self.events.clone(),
            codec: self.client.0.codec,
            subscription: self.start(None),
        }
    }

    fn start(&self, handler: Option<Box<dyn Fn(Arrival) + Send + Sync>>) -> Subscription {
        let topics = self.events.iter().map(topic).collect();
        let subscriptions = &self.client.0.driver.subscriptions;
        subscriptions.add(topics, self.queue, handler)
    }
}

fn topic(event: &Event) -> Topic {
    Topic {
        contract_id: event.contract_id(),
        name: event.name().into(),
    }
}

/// The arguments of one event.
pub struct EventArgs {
    event: Event,
    codec: Codec,
    request: Arc<Request>,
}

impl EventArgs {
    fn new(events: &[Event], codec: Codec, arrival: Arrival) -> Self {
        Self {
            event: events[arrival.topic].clone(),
            codec,
            request: arrival.request,
        }
    }

    /// The event.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Name of the event.
    pub fn name(&self) -> &str {
        self.event.name()
    }

    /// The encoded arguments; an empty one is null.
    pub fn blobs(&self) -> Vec<Bytes> {
        let blobs = self.request.parameters.iter().flatten();
        blobs.map(|blob| blob.clone().unwrap_or_default()).collect()
    }

    /// The arguments by the types of the contract; the names of types on the wire play no part.
    ///
    /// # Errors
    /// When they do not fit those types.
    pub fn values(&self) -> Result<Vec<Value>> {
        self.event
            .decode_args(self.codec, &self.blobs(), &[])
            .map_err(|e| {
                Error::new(
                    crate::ErrorCode::Protocol,
                    format!("event {} can't be read", self.event.name()),
                )
                .with_details(Some(e.to_string()))
            })
    }

    /// The arguments as a JSON array.
    pub fn json(&self) -> Result<String> {
        let values = self.values()?;
        self.event
            .args_to_json(&values)
            .map_err(|e| Error::new(crate::ErrorCode::Protocol, e.to_string()))
    }

    /// The arguments as a tuple.
    pub fn get<A: FromArguments>(&self) -> Result<A> {
        A::from_json(&self.json()?)
            .map_err(|e| Error::invalid_argument(format!("event {}: {e}", self.event.name())))
    }
}

/// Events in order. Dropping it ends the subscription.
///
/// It is a [`Stream`], too, for those who have a crate with adapters for streams.
pub struct EventStream {
    subscription: Subscription,
    events: Arc<[Event]>,
    codec: Codec,
}

impl EventStream {
    /// The next event; `None` once the client is closed. Cancelling the future loses nothing.
    pub async fn next(&mut self) -> Option<EventArgs> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// Events that were dropped because they were not taken in time.
    pub fn dropped(&self) -> u64 {
        self.subscription.dropped()
    }

    /// What the subscription has done and does.
    pub fn stats(&self) -> SubscriptionStats {
        self.subscription.stats()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<EventArgs>> {
        let next = self.subscription.poll_next(cx);
        next.map(|arrival| Some(EventArgs::new(&self.events, self.codec, arrival?)))
    }
}

impl Stream for EventStream {
    type Item = EventArgs;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<EventArgs>> {
        self.poll(cx)
    }
}

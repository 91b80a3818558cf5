//! The client: options, connection, calls, events.
//!
//! Owns the tokio side of a client. What happens when is decided by the
//! [engine](crate::resilience::engine); nothing here waits, retries or reconnects by itself.

mod builder;
mod callbacks;
mod driver;
mod events;
mod health;
mod key;
mod naming;
mod retry;
mod service;
mod subscribe;
mod token;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

pub use self::builder::ClientBuilder;
pub use self::callbacks::RetryNotice;
use self::driver::{Completion, Driver};
pub use self::events::{Subscription, SubscriptionStats};
pub use self::health::{Health, HealthStatus};
use self::naming::Naming;
pub use self::naming::{MethodLookup, TypeNameForm};
pub use self::retry::RetryPolicy;
pub use self::service::{CallBuilder, CancelHandle, PreparedMethod, Service, TypedCall};
pub use self::subscribe::{EventArgs, EventStream, SubscribeBuilder};
use crate::codec::Codec;
use crate::contract::Contract;
use crate::dispatcher::Dispatcher;
use crate::error::{Error, ErrorCode, Outcome, Result};
use crate::resilience::engine::{Answer, CallKey, CallSpec, Engine, EngineStats, State};
use crate::session::PeerInfo;

/// A client of one service process, or of several that stand in for each other.
///
/// Clones are the same client; dropping the last one closes it. All methods may be called from any
/// thread and any callback.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

pub(crate) struct Shared {
    driver: Arc<Driver>,
    codec: Codec,
    naming: Naming,
    policy: RetryPolicy,
}

impl Shared {
    fn close(&self) {
        self.driver.close();
        self.driver.subscriptions.close();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}

impl Client {
    /// Starts a client's options. `endpoint` as `tcp://host:port`.
    pub fn builder(endpoint: &str) -> ClientBuilder {
        ClientBuilder::new(endpoint)
    }

    fn new(driver: Arc<Driver>, codec: Codec, naming: Naming, policy: RetryPolicy) -> Self {
        Self(Arc::new(Shared {
            driver,
            codec,
            naming,
            policy,
        }))
    }

    /// Connects. Ends when the server has authorised the client, or with the error that ended the
    /// attempt; with `retry_first_connect`, the attempts.
    ///
    /// Connected already, it does nothing. Dropping the future does not stop connecting.
    pub async fn connect(&self) -> Result<()> {
        ended(self.0.driver.connect().await)
    }

    /// Drops the link, if there is one, and connects anew without a delay.
    pub async fn reconnect(&self) -> Result<()> {
        ended(self.0.driver.reconnect().await)
    }

    /// Ends the wait before the next attempt to reconnect. Does nothing else.
    pub fn reconnect_now(&self) {
        self.0.driver.input(Engine::reconnect_now);
    }

    /// Ends attempts to reconnect in progress: the client is Disconnected, and no failure callback
    /// is called. Elsewhere it does nothing.
    pub fn stop_reconnection(&self) {
        self.0.driver.input(|engine, _| engine.stop_reconnection());
    }

    /// Drops the link and stays without one until [`connect`](Self::connect). Never starts to
    /// reconnect. Calls under way end as [`Closed`](ErrorCode::Closed).
    pub fn disconnect(&self) {
        self.0.driver.input(|engine, _| engine.disconnect());
    }

    /// Disconnects for good. What is asked of the client from now on is refused as
    /// [`Closed`](ErrorCode::Closed), and streams of events end.
    pub fn close(&self) {
        self.0.close();
    }

    /// The state now.
    pub fn state(&self) -> State {
        self.0.driver.state()
    }

    /// Makes a round trip to the server: a call of a method that no server has, which executes
    /// nothing and is remembered nowhere. `Ok` once the server has answered it.
    ///
    /// For health checks. A .NET server answers calls one after the other, so that this one waits
    /// behind those that run; while there are [any](EngineStats::in_flight), a timeout says little.
    ///
    /// # Errors
    /// Why there was no answer within `limit`, or that the server refused the token.
    pub async fn probe(&self, limit: Duration) -> Result<()> {
        match self.start(CallSpec::probe(limit)).await {
            Err(e) if e.code() == ErrorCode::BadRequest && e.outcome() == Outcome::Answered => {
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// The state, to wait for changes of it.
    pub fn watch_state(&self) -> watch::Receiver<State> {
        self.0.driver.watch_state()
    }

    /// Waits until the client is in this state.
    pub async fn wait_for(&self, state: State) -> Result<()> {
        let mut states = self.watch_state();
        match states.wait_for(|s| *s == state).await {
            Ok(_) => Ok(()),
            Err(_) => Err(stopped()),
        }
    }

    /// What the client has done and does.
    pub fn stats(&self) -> EngineStats {
        self.0.driver.with_engine(Engine::stats)
    }

    /// How long ago the server gave its last sign of life; `None` without a link.
    pub fn silence(&self) -> Option<Duration> {
        self.0.driver.silence()
    }

    /// What the server said about itself; `None` without a link.
    pub fn peer(&self) -> Option<PeerInfo> {
        self.0.driver.with_engine(Engine::peer)
    }

    /// Why the last link or attempt to connect failed.
    pub fn last_failure(&self) -> Option<Error> {
        self.0
            .driver
            .with_engine(|engine| engine.last_failure().cloned())
    }

    /// A service by the name of its contract, as `"Demo.IEcho"`, without declarations: methods and
    /// events are given as lines, and types that are not built in are known by name only.
    pub fn service(&self, contract: &str) -> Result<Service> {
        let contract = Contract::open(contract)
            .map_err(|e| Error::invalid_argument(format!("contract \"{contract}\": {e}")))?;
        Ok(self.service_of(contract))
    }

    /// A service whose contract declares its methods, events and types.
    pub fn service_of(&self, contract: Contract) -> Service {
        Service::new(self.clone(), contract)
    }

    /// What runs this client's callbacks.
    pub fn dispatcher(&self) -> &Dispatcher {
        &self.0.driver.dispatcher
    }

    fn start(&self, spec: CallSpec) -> PendingCall {
        let (sender, receiver) = oneshot::channel();
        let key = self.0.driver.call(spec, Completion::Wake(sender));
        PendingCall {
            driver: self.0.driver.clone(),
            key,
            receiver,
        }
    }
}

fn ended(result: std::result::Result<Result<()>, oneshot::error::RecvError>) -> Result<()> {
    result.unwrap_or_else(|_| Err(stopped()))
}

fn stopped() -> Error {
    Error::new(ErrorCode::Closed, "the runtime of the client has stopped")
}

/// A call under way: its encoded result. Dropping it cancels the call.
#[must_use = "dropping it cancels the call"]
pub struct PendingCall {
    driver: Arc<Driver>,
    /// `None` once it has ended.
    key: Option<CallKey>,
    receiver: oneshot::Receiver<Result<Answer>>,
}

impl Future for PendingCall {
    type Output = Result<Answer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(cx).map(|result| {
            self.key = None;
            result.unwrap_or_else(|_| Err(stopped()))
        })
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.driver.cancel(key);
        }
    }
}

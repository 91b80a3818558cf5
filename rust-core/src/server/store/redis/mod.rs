//! A store on Redis or Valkey, which the servers of a fleet share.
//!
//! Owns what a call's record means to a server: claiming it, waiting while another server runs it, storing its
//! answer, and what is told when Redis does not answer. The records themselves change in `scripts`
//! only, each of which is atomic; the `link` brings them there, the `leases` keep claims alive.
//!
//! How far it can be relied on, and on what, is in `docs/exactly-once.md`.

mod leases;
mod link;
mod scripts;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use redis::Client;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::leases::Leases;
use self::link::{Failure, Link, LinkOptions};
use self::scripts::{Begun, Keys, Times};
use super::{BoxFuture, CallStore, Claim, Fence, Opened, StoreError, StoredCall};
use crate::error::{Error, Result};
use crate::transport::tls::{ClientConfig, TlsClientOptions};

/// Where the store of a fleet is, and its bounds. All servers of a fleet must be given the same, but for
/// [`timeout`](Self::timeout).
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://[[user]:password@]host[:port][/database]`, `rediss://…` over TLS, or
    /// `redis+unix:///path/of/socket`. A Redis from 6.2 on or a Valkey that holds all keys: not a Redis
    /// Cluster, not a replica.
    pub url: String,
    /// Which certificate is trusted with `rediss://`. Default: by the authorities of the system.
    pub tls: TlsClientOptions,
    /// What the names of all keys begin with. Fleets that share a Redis need different ones. Default
    /// `witrpc:`.
    pub prefix: String,
    /// How long a call counts as running after the last sign of life of the server that runs it; its
    /// outcome is unknown from then on. Renewed three times in that time. Default 10 s, at least
    /// 100 ms.
    pub lease: Duration,
    /// How long an answer is held after its call ended, by the clock of Redis. Default 10 min.
    pub hold: Duration,
    /// How long the numbers of a libwitrpc client's calls are remembered after its last one: for so
    /// long its calls are never taken for new ones, also when their answers are gone. Default 24 h,
    /// at least [`hold`](Self::hold).
    pub client_hold: Duration,
    /// How long a request to Redis may take, reconnecting included. Default 5 s.
    pub timeout: Duration,
    /// Replicas that must have a record before it counts (`WAIT`): before a call is run, and before
    /// its answer is sent. Default 0.
    pub wait_replicas: u32,
    /// Redis loses nothing that it acknowledged when it is started again or replaced by a replica, so
    /// that the epoch may outlast that. Default false: then the fleet starts a new epoch, and clients
    /// end calls that were on their way as outcome unknown.
    pub trust_restarts: bool,
}

impl std::fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the URL, which may hold a password.
        f.debug_struct("RedisOptions")
            .field("prefix", &self.prefix)
            .field("lease", &self.lease)
            .field("hold", &self.hold)
            .field("client_hold", &self.client_hold)
            .field("timeout", &self.timeout)
            .field("wait_replicas", &self.wait_replicas)
            .field("trust_restarts", &self.trust_restarts)
            .finish_non_exhaustive()
    }
}

impl RedisOptions {
    /// The defaults, with this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            tls: TlsClientOptions::default(),
            prefix: "witrpc:".to_owned(),
            lease: Duration::from_secs(10),
            hold: Duration::from_secs(600),
            client_hold: Duration::from_secs(24 * 3600),
            timeout: Duration::from_secs(5),
            wait_replicas: 0,
            trust_restarts: false,
        }
    }

    fn times(&self) -> Times {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Times {
            lease: ms(self.lease),
            hold: ms(self.hold),
            client_hold: ms(self.client_hold),
        }
    }
}

/// What a store on Redis has done and does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisStats {
    /// Connections made to Redis so far; the second one is the first reconnection.
    pub connections: u64,
    /// There is a connection now.
    pub is_connected: bool,
    /// Leases of calls that run here.
    pub leases: usize,
    /// Calls that ended here after their leases had passed on: their outcome is unknown to their callers.
    pub leases_lost: u64,
    /// Calls answered with what another server, or an earlier life of this one, had stored.
    pub replayed: u64,
    /// Calls that waited for another server to end them.
    pub waited: u64,
    /// Calls that were refused because Redis did not answer.
    pub refused: u64,
    /// Answers that could not be stored in time.
    pub not_stored: u64,
    /// Times at which the fleet got a new epoch, the first one not counted.
    pub epochs: u64,
}

#[derive(Debug, Default)]
struct Counters {
    replayed: AtomicU64,
    waited: AtomicU64,
    refused: AtomicU64,
    not_stored: AtomicU64,
    epochs: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A store on Redis or Valkey: see the [module](self). Give it to the
/// [builder](crate::server::ServerBuilder::store) of each server of the fleet.
pub struct RedisStore {
    options: RedisOptions,
    client: Client,
    tls: Option<Arc<ClientConfig>>,
    keys: Keys,
    /// While a server uses it.
    open: Mutex<Option<Open>>,
    leases: Arc<Leases>,
    counters: Arc<Counters>,
}

/// What there is once the store has been opened.
struct Open {
    link: Link,
    epoch: watch::Receiver<u64>,
    tasks: Vec<AbortHandle>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Until it is known how a claim went, or when nobody wants to know any more, it is to be taken back.
struct Claiming<'a> {
    store: &'a RedisStore,
    link: Link,
    call: &'a StoredCall,
    token: u64,
    is_open: bool,
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        if self.is_open {
            let request = scripts::abandon(&self.store.keys, self.call, self.token);
            self.link.tell(request, self.store.options.lease);
        }
    }
}

/// Waits between questions whether another server has ended a call.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LAST_LOOK: Duration = Duration::from_millis(100);

impl RedisStore {
    /// Checks the options. Connects when the server starts.
    ///
    /// # Errors
    /// The URL is none, or a time is out of bounds.
    pub fn new(options: RedisOptions) -> Result<Self> {
        let bad = |what: String| {
            Err(Error::invalid_argument(format!(
                "the store on Redis: {what}"
            )))
        };
        // TLS is ours, so that nothing of it depends on the process.
        let (url, has_tls) = match options.url.split_once("://") {
            Some(("rediss" | "valkeys", rest)) => (format!("redis://{rest}"), true),
            _ => (options.url.clone(), false),
        };
        let tls = has_tls.then(|| options.tls.load()).transpose()?;
        let client = match Client::open(url) {
            Ok(client) => client,
            // The URL may hold a password.
            Err(error) => return bad(format!("not a URL of Redis: {error}")),
        };
        if options.lease < Duration::from_millis(100) {
            return bad(format!("a lease of {:?} is under 100 ms", options.lease));
        }
        if options.hold < Duration::from_millis(1) || options.client_hold < options.hold {
            return bad(format!(
                "hold ({:?}) must be over 0, and client_hold ({:?}) not shorter",
                options.hold, options.client_hold
            ));
        }
        if options.timeout < Duration::from_millis(10) {
            return bad(format!("a timeout of {:?} is under 10 ms", options.timeout));
        }
        // In ms it must be a number that Redis can add to its clock.
        let max = Duration::from_secs(365 * 24 * 3600);
        if [options.lease, options.client_hold, options.timeout]
            .iter()
            .any(|time| *time > max)
        {
            return bad("a time is over a year".to_owned());
        }
        Ok(Self {
            keys: Keys::new(&options.prefix),
            client,
            tls: tls.map(Arc::new),
            options,
            open: Mutex::default(),
            leases: Arc::default(),
            counters: Arc::default(),
        })
    }

    /// What it has done and does.
    pub fn stats(&self) -> RedisStats {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let link = self.link().ok();
        let link = link.as_ref();
        RedisStats {
            connections: link.map_or(0, Link::connected),
            is_connected: link.is_some_and(|link| link.why_down().is_none()),
            leases: self.leases.count(),
            leases_lost: self.leases.lost(),
            replayed: value(&self.counters.replayed),
            waited: value(&self.counters.waited),
            refused: value(&self.counters.refused),
            not_stored: value(&self.counters.not_stored),
            epochs: value(&self.counters.epochs),
        }
    }

    fn link(&self) -> std::result::Result<Link, StoreError> {
        let open = self.open.lock();
        let link = open.as_ref().map(|open| open.link.clone());
        link.ok_or_else(|| StoreError::new("the store on Redis is not open"))
    }

    async fn connect(&self) -> std::result::Result<Opened, StoreError> {
        const IN_USE: &str = "the store on Redis is in use by another server of this process: \
                              give each one its own";
        if self.open.lock().is_some() {
            return Err(StoreError::new(IN_USE));
        }
        let link = Link::start(LinkOptions {
            client: self.client.clone(),
            tls: self.tls.clone(),
            keys: self.keys.clone(),
            trust_restarts: self.options.trust_restarts,
            wait_replicas: self.options.wait_replicas,
            timeout: self.options.timeout,
        });
        let mut seen = link.epoch();
        let known = seen.wait_for(Option::is_some);
        let epoch = match tokio::time::timeout(self.options.timeout, known).await {
            Ok(Ok(epoch)) => epoch.unwrap_or_default(),
            _ => {
                let reason = link.why_down().unwrap_or_default();
                return Err(StoreError::new(format!("no store on Redis: {reason}")));
            }
        };
        let (told, epochs) = watch::channel(epoch);
        let counters = self.counters.clone();
        let watching = tokio::spawn(async move {
            while seen.changed().await.is_ok() {
                let epoch = seen.borrow_and_update().unwrap_or_default();
                if told.send_if_modified(|known| std::mem::replace(known, epoch) != epoch) {
                    tracing::warn!("Redis may have lost records: the fleet has a new epoch");
                    count(&counters.epochs);
                }
            }
        });
        let renewing =
            self.leases
                .clone()
                .renew(link.clone(), self.keys.clone(), self.options.times());
        let open = Open {
            link,
            epoch: epochs,
            tasks: vec![
                watching.abort_handle(),
                tokio::spawn(renewing).abort_handle(),
            ],
        };
        let mut place = self.open.lock();
        if place.is_some() {
            return Err(StoreError::new(IN_USE));
        }
        *place = Some(open);
        Ok(Opened {
            epoch,
            hold: self.options.hold,
        })
    }

    async fn claim(&self, call: &StoredCall) -> std::result::Result<Claim, StoreError> {
        let link = self.link()?;
        let mut claiming = Claiming {
            store: self,
            link: link.clone(),
            call,
            token: u64::from_ne_bytes(crate::random::bytes()),
            is_open: true,
        };
        let (token, mut pause, mut runs_elsewhere) = (claiming.token, FIRST_LOOK, false);
        loop {
            let request = scripts::begin(&self.keys, self.options.times(), call, token);
            let begun = match link.ask(request, runs_elsewhere).await {
                Ok(answer) => scripts::begun(answer),
                Err(_) if runs_elsewhere => {
                    // It was begun, and how it ended can't be known now.
                    return Ok(Claim::OutcomeUnknown);
                }
                Err(Failure {
                    reason,
                    may_have_happened,
                }) => {
                    claiming.is_open = may_have_happened;
                    count(&self.counters.refused);
                    return Err(StoreError::new(format!("Redis: {reason}")));
                }
            };
            let Some(begun) = begun else {
                return Err(StoreError::new("Redis answered a claim with nonsense"));
            };
            claiming.is_open = false;
            return Ok(match begun {
                Begun::Run => {
                    self.leases
                        .add(self.keys.call(&call.principal, call.invocation), token);
                    Claim::Run(Fence(token))
                }
                Begun::Done(answer) => {
                    count(&self.counters.replayed);
                    Claim::Replay(answer)
                }
                Begun::Unknown => Claim::OutcomeUnknown,
                Begun::Mismatch => Claim::Mismatch,
                Begun::OtherEpoch => {
                    link.suspect_epoch();
                    if call.repeated || runs_elsewhere {
                        // What the other epoch knew of it is lost.
                        return Ok(Claim::OutcomeUnknown);
                    }
                    count(&self.counters.refused);
                    return Err(StoreError::new(
                        "Redis has lost records since this client connected",
                    ));
                }
                Begun::Running(left) => {
                    if !runs_elsewhere {
                        runs_elsewhere = true;
                        count(&self.counters.waited);
                    }
                    tokio::time::sleep(pause.min(Duration::from_millis(left + 1))).await;
                    pause = (pause * 2).min(LAST_LOOK);
                    claiming.is_open = true;
                    continue;
                }
            });
        }
    }

    async fn store(
        &self,
        call: &StoredCall,
        Fence(token): Fence,
        answer: Option<&Bytes>,
    ) -> std::result::Result<(), StoreError> {
        let key = self.keys.call(&call.principal, call.invocation);
        let link = self.link()?;
        let request = scripts::finish(
            key.clone(),
            token,
            self.options.times().hold,
            answer.cloned(),
        );
        let stored = link.ask(request, true).await;
        self.leases.remove(&key, token);
        let problem = match stored.map(|answer| scripts::finished(&answer)) {
            Ok(Some(true)) => return Ok(()),
            Ok(Some(false)) => {
                self.leases.note_loss();
                "the call's lease had passed on before it ended".to_owned()
            }
            Ok(None) => "Redis answered with nonsense".to_owned(),
            Err(failure) => format!("Redis: {}", failure.reason),
        };
        count(&self.counters.not_stored);
        Err(StoreError::new(problem))
    }

    async fn give_back(
        &self,
        call: &StoredCall,
        Fence(token): Fence,
    ) -> std::result::Result<(), StoreError> {
        let key = self.keys.call(&call.principal, call.invocation);
        let taken_back = self
            .link()?
            .ask(scripts::abandon(&self.keys, call, token), true)
            .await;
        self.leases.remove(&key, token);
        taken_back
            .map(drop)
            .map_err(|failure| StoreError::new(format!("Redis: {}", failure.reason)))
    }
}

impl CallStore for RedisStore {
    fn open(&self) -> BoxFuture<'_, std::result::Result<Opened, StoreError>> {
        Box::pin(self.connect())
    }

    fn begin<'a>(
        &'a self,
        call: &'a StoredCall,
    ) -> BoxFuture<'a, std::result::Result<Claim, StoreError>> {
        Box::pin(self.claim(call))
    }

    fn finish<'a>(
        &'a self,
        call: &'a StoredCall,
        fence: Fence,
        answer: Option<&'a Bytes>,
    ) -> BoxFuture<'a, std::result::Result<(), StoreError>> {
        Box::pin(self.store(call, fence, answer))
    }

    fn abandon<'a>(
        &'a self,
        call: &'a StoredCall,
        fence: Fence,
    ) -> BoxFuture<'a, std::result::Result<(), StoreError>> {
        Box::pin(self.give_back(call, fence))
    }

    fn epoch(&self) -> Option<watch::Receiver<u64>> {
        let open = self.open.lock();
        open.as_ref().map(|open| open.epoch.clone())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        drop(self.open.lock().take());
        self.leases.clear();
        Box::pin(std::future::ready(()))
    }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the URL, which may hold a password.
        f.debug_struct("RedisStore")
            .field("prefix", &self.options.prefix)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

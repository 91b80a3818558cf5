//! Where the records of calls outlive the process: the boundary between dispatch and a store.
//!
//! Owns the words that both sides share. The memory of calls in the process stays the first layer: it holds the twins of calls that run here,
//! and all there is of methods that did not ask to be durable. A store is asked only about calls of durable methods, and only about those of which the
//! memory knows nothing; what it says then is what counts. It never runs a handler and never answers a client.

pub mod journal;
#[cfg(feature = "redis")]
pub mod redis;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use uuid::Uuid;

pub use self::journal::Journal;
#[cfg(feature = "redis")]
pub use self::redis::{RedisOptions, RedisStats, RedisStore};
use crate::resilience::dedup::Numbered;

/// A future behind a pointer.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A store of calls that outlives the process.
///
/// Its methods are called from many tasks at once, on the runtime of the server; what blocks belongs on a thread of its own. A future that is
/// dropped leaves the call as if the process had been killed at that moment.
pub trait CallStore: Send + Sync + 'static {
    /// Called once, before the server listens: recovers, connects.
    ///
    /// # Errors
    /// The server does not start.
    fn open(&self) -> BoxFuture<'_, Result<Opened, StoreError>>;

    /// Claims a call. When this returns [`Claim::Run`], the intent to run it is durable, and nobody else will run it. Waits while another server
    /// of the fleet runs it.
    ///
    /// # Errors
    /// The caller is told (503) that it did not run and may be sent again. If the claim may have been made all the same, the store must know it
    /// as one without an answer, should nobody claim it anew.
    fn begin<'a>(&'a self, call: &'a StoredCall) -> BoxFuture<'a, Result<Claim, StoreError>>;

    /// A call that was claimed has ended. When this returns, the answer (an encoded response) is durable; only then is it sent. `None`: it is too big
    /// to be kept, and twins are to be told that the outcome is unknown.
    ///
    /// # Errors
    /// All that wait are told that the outcome is unknown. Every later twin must be told the same, or this answer, should it have been stored after
    /// all. It is an error, too, if the fence has passed on to somebody else.
    fn finish<'a>(
        &'a self,
        call: &'a StoredCall,
        fence: Fence,
        answer: Option<&'a Bytes>,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The handler refused a call that was claimed, before it did anything: it is as if it had never come.
    ///
    /// # Errors
    /// The caller is told (503) all the same. The call may stay known as one without an answer.
    fn abandon<'a>(
        &'a self,
        call: &'a StoredCall,
        fence: Fence,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The epoch as it is now, for a store that may lose what it knew while a server runs. Clients that connect are told the new one; those that
    /// were told another are made to connect again, and none of their calls must be claimed any more. Asked for once it is open.
    fn epoch(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// The server has stopped, and no call that was claimed runs any more: files and connections are let go of. Not called when a server is dropped.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A store that others look at, too.
impl<S: CallStore> CallStore for Arc<S> {
    fn open(&self) -> BoxFuture<'_, Result<Opened, StoreError>> {
        S::open(self)
    }

    fn begin<'a>(&'a self, call: &'a StoredCall) -> BoxFuture<'a, Result<Claim, StoreError>> {
        S::begin(self, call)
    }

    fn finish<'a>(
        &'a self,
        call: &'a StoredCall,
        fence: Fence,
        answer: Option<&'a Bytes>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        S::finish(self, call, fence, answer)
    }

    fn abandon<'a>(
        &'a self,
        call: &'a StoredCall,
        fence: Fence,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        S::abandon(self, call, fence)
    }

    fn epoch(&self) -> Option<watch::Receiver<u64>> {
        S::epoch(self)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        S::close(self)
    }
}

/// What a store says about itself when it has been opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Under which clients may repeat their calls: the same for all lives of a server, or all servers of a fleet, that use this store, for as long as
    /// it loses nothing.
    pub epoch: u64,
    /// How long it holds an answer after the call ended. Clients are told the shorter of this and what the memory is set to.
    pub hold: Duration,
}

/// A call as a store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCall {
    /// Who calls, as the token validator said. With `invocation` it names the call.
    pub principal: Arc<str>,
    /// Stable over the attempts of one call. Never nil.
    pub invocation: Uuid,
    /// What a libwitrpc client adds.
    pub numbered: Option<Numbered>,
    /// The client says that an earlier attempt may have arrived, and that it must not run twice.
    pub repeated: bool,
    /// That attempt may have come to another process that uses this store.
    pub elsewhere: bool,
    /// The epoch that its client was told: of what was sent under another one, a store knows nothing.
    pub epoch: u64,
    /// Stands for the method and its arguments; the same in every process and release.
    pub digest: [u8; 16],
    /// The [resolver](super::Resolution) says that it was not executed: a record of it without an answer is no obstacle.
    pub not_executed: bool,
}

/// What is to be done with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Run it, then [finish](CallStore::finish) or [abandon](CallStore::abandon) it with this.
    Run(Fence),
    /// It has been executed; this was its answer.
    Replay(Bytes),
    /// It was claimed before, and its answer is not known.
    OutcomeUnknown,
    /// The id belongs to another call: other digest.
    Mismatch,
    /// The store has no room for one more; it was not claimed.
    Full,
}

/// Names one claim: who claims the same call after its time is over gets another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fence(pub u64);

/// Why a store can't do what it should, in one line for the log: what, where, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError(String);

impl StoreError {
    /// An error of this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreError {}

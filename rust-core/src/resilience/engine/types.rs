//! The words of the engine: what goes in and what comes out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::resilience::reconnect::ReconnectOptions;
use crate::resilience::retry::{Repeat, RetryOptions};
use crate::session::KeepAliveOptions;
use crate::wire::{Arguments, Request, TypeNames};

/// State of a client. The numbers are WitRPC's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum State {
    /// Connected and authorised.
    Connected = 0,
    /// Idle, and not reconnecting.
    Disconnected = 1,
    /// Attempts in progress.
    Reconnecting = 2,
    /// Attempts exhausted, or the server refused for good.
    Failed = 3,
}

impl State {
    /// The name, as WitRPC spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connected => "Connected",
            Self::Disconnected => "Disconnected",
            Self::Reconnecting => "Reconnecting",
            Self::Failed => "Failed",
        }
    }
}

/// A time limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Timeout {
    /// What the client's options give.
    #[default]
    Default,
    /// This long.
    After(Duration),
    /// No limit: the call may hang for ever.
    Never,
}

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Automatic reconnection; `None` = off (default).
    pub reconnect: Option<ReconnectOptions>,
    /// Retry policy; `None` = off (default).
    pub retry: Option<RetryOptions>,
    /// Limit of one attempt of a call; `None` = no limit. Default 30 s.
    pub attempt_timeout: Option<Duration>,
    /// Limit of one attempt to connect, handshake included. Default 10 s.
    pub connect_timeout: Duration,
    /// How many servers there are to try in turn. Default 1.
    pub endpoints: usize,
    /// True if the token may be another one when asked again.
    pub token_is_provided: bool,
    /// Calls that may wait for a link or for room at the same time. Default 4,096.
    pub max_queued_calls: usize,
    /// Bytes of arguments that may wait at the same time. Default 64 MiB.
    pub max_queued_bytes: usize,
    /// Requests without an answer at the same time. Default 16,384.
    pub max_in_flight: usize,
    /// How the death of a libwitrpc server is noticed that the network does not tell of; `None` = it
    /// is never pinged.
    pub keep_alive: Option<KeepAliveOptions>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            reconnect: None,
            retry: None,
            attempt_timeout: Some(Duration::from_secs(30)),
            connect_timeout: Duration::from_secs(10),
            endpoints: 1,
            token_is_provided: false,
            max_queued_calls: 4096,
            max_queued_bytes: 64 * 1024 * 1024,
            max_in_flight: 16_384,
            keep_alive: Some(KeepAliveOptions::default()),
        }
    }
}

/// One call to make.
#[derive(Debug, Clone)]
pub struct CallSpec {
    /// Id of the contract.
    pub contract_id: i64,
    /// Id of the method, 0 for a call by name.
    pub method_id: i64,
    /// Name of the method.
    pub method_name: Arc<str>,
    /// The encoded arguments.
    pub arguments: Arguments,
    /// Type names, for a call by name.
    pub types: Option<Arc<TypeNames>>,
    /// How it may be repeated.
    pub repeat: Repeat,
    /// The caller's own InvocationId; random if `None`.
    pub invocation_id: Option<Uuid>,
    /// Limit of the whole call: waiting for the link, all attempts, all delays. By default the sum
    /// of what all attempts and delays can take.
    pub timeout: Timeout,
    /// What the tracing of a libwitrpc server is told, at most
    /// [`MAX_TRACE_CONTEXT`](crate::wire::extension::MAX_TRACE_CONTEXT) bytes.
    pub trace_context: Option<Arc<[u8]>>,
}

/// Name of the method that a probe calls: no C# method can have it, so that every server answers
/// that there is none (status 400).
const PROBE_METHOD: &str = "<probe>";

impl CallSpec {
    /// A call that executes nothing and that no server remembers, for its round trip.
    pub fn probe(limit: Duration) -> Self {
        Self {
            contract_id: 0,
            method_id: 0,
            method_name: PROBE_METHOD.into(),
            arguments: Arguments::NONE,
            types: None,
            repeat: Repeat::Never,
            invocation_id: Some(Uuid::nil()),
            timeout: Timeout::After(limit),
            trace_context: None,
        }
    }

    /// True for what [`probe`](Self::probe) makes.
    pub fn is_probe(&self) -> bool {
        self.method_id == 0 && &*self.method_name == PROBE_METHOD
    }
}

/// Names a call until it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallKey {
    pub(super) index: usize,
    pub(super) number: u64,
}

/// Names one attempt at a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub(super) u64);

/// Why a link is gone.
#[derive(Debug, Clone)]
pub enum Loss {
    /// The server closed it in order: end of stream between frames, going away.
    Closed,
    /// Everything else: reset, half a frame, silence, nonsense.
    Dropped(Error),
}

/// How a call went well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The encoded result; `None` for void and null.
    pub data: Option<Bytes>,
    /// Attempts it took.
    pub attempts: u32,
    /// True if the server answered from its memory: an earlier attempt had been executed.
    pub replayed: bool,
}

/// What is to be told to the user.
#[derive(Debug)]
pub enum Notification {
    /// The state is another one.
    StateChanged(State),
    /// An attempt to reconnect follows after a delay.
    Reconnecting {
        /// Number of the attempt since the last authorised link, from 1.
        attempt: u32,
        /// The delay that follows.
        delay: Duration,
    },
    /// The link is back.
    Reconnected,
    /// The attempts are used up, or the server refused for good.
    ReconnectionFailed(Error),
    /// A call is tried again after a delay.
    Retrying {
        /// Name of the method.
        method_name: Arc<str>,
        /// Why the attempt failed.
        error: Error,
        /// Number of the attempt that failed, from 1.
        attempt: u32,
        /// The delay that follows.
        delay: Duration,
    },
    /// The server raised an event.
    Event(Box<Request>),
}

/// What a driver has to do.
#[derive(Debug)]
pub enum Action<T> {
    /// Ask for the token, connect, then report [`link_opened`](super::Engine::link_opened) or
    /// [`link_failed`](super::Engine::link_failed).
    Open {
        /// Name of the link.
        link: LinkId,
        /// Which endpoint.
        endpoint: usize,
    },
    /// Give up the attempt or drop the connection, without a report.
    Close {
        /// Name of the link.
        link: LinkId,
    },
    /// Ask the token provider again, then report
    /// [`token_refreshed`](super::Engine::token_refreshed).
    RefreshToken,
    /// Ask the user's predicate whether this failure is worth a retry, then report
    /// [`judged`](super::Engine::judged).
    Judge {
        /// The call.
        call: CallKey,
        /// Its failure.
        error: Error,
    },
    /// Tell the caller.
    Complete {
        /// What was given with the call.
        tag: T,
        /// How it ended.
        result: Result<Answer>,
    },
    /// Tell the user.
    Notify(Notification),
    /// What [`connect`](super::Engine::connect) or [`reconnect`](super::Engine::reconnect) asked
    /// for has ended.
    ConnectDone(Result<()>),
}

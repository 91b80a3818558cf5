//! What a handler gets and gives.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use uuid::Uuid;

use super::cancellation::CancellationToken;
use super::connection::Connection;
use super::publish::Publisher;
use crate::codec::Value;
use crate::contract::{Method, Type};
use crate::error::OUTCOME_UNKNOWN_TEXT;
use crate::transport::PeerAddr;
use crate::wire::{Response, status};

/// A call as its handler sees it.
#[derive(Clone)]
pub struct CallContext {
    pub(super) method: Method,
    pub(super) invocation_id: Uuid,
    pub(super) principal: Arc<str>,
    pub(super) peer: PeerAddr,
    pub(super) connection_id: Uuid,
    pub(super) connection: Weak<Connection>,
    pub(super) publisher: Publisher,
    pub(super) cancellation: CancellationToken,
    pub(super) deadline: Option<Instant>,
    pub(super) trace_context: Option<Arc<[u8]>>,
    pub(super) may_be_repetition: bool,
}

impl CallContext {
    /// The method called, a generic one with its type arguments.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The type arguments of a generic method, in order; else none.
    pub fn type_arguments(&self) -> &[Type] {
        self.method.generic_args()
    }

    /// Stable over the attempts of one call; nil from a client that switched de-duplication off.
    pub fn invocation_id(&self) -> Uuid {
        self.invocation_id
    }

    /// False only if nothing of this call can have been executed before: it is the first attempt of a libwitrpc client. Of a call whose client does
    /// not number it (a .NET client, an id of the caller's own) that can't be told. A call of which the server knows that it was begun before does
    /// not get this far, unless a [resolver](super::Resolution::NotExecuted) has said that it was not executed.
    pub fn may_be_repetition(&self) -> bool {
        self.may_be_repetition
    }

    /// Who calls, as the token validator said.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// Address of the client.
    pub fn peer(&self) -> PeerAddr {
        self.peer
    }

    /// Id of the connection that the call came on.
    pub fn connection(&self) -> Uuid {
        self.connection_id
    }

    /// Closes the connection that the call came on, at once: nothing more is read from it or sent on
    /// it, the answer of this call included. Calls that are running go on; what they come to is
    /// remembered, so that their repetitions find it.
    ///
    /// For clients that must be thrown out, and for testing how a client takes an outage.
    pub fn drop_connection(&self) {
        if let Some(connection) = self.connection.upgrade() {
            connection.drop_now();
        }
    }

    /// Says whether the caller still wants the answer. A handler that takes long should look at it,
    /// or wait for it beside its work:
    ///
    /// ```
    /// # use witrpc::server::{CallContext, Fault};
    /// # async fn work() -> i32 { 1 }
    /// async fn handler(call: CallContext, _: ()) -> Result<i32, Fault> {
    ///     tokio::select! {
    ///         result = work() => Ok(result),
    ///         () = call.cancellation().cancelled() => Err(Fault::cancelled()),
    ///     }
    /// }
    /// ```
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// When the caller gives up, as a libwitrpc client told with the call; `None` if it told
    /// nothing or waits for ever. A call whose time is over before it could begin never does.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// How long the caller still waits: nothing once its time is over. Otherwise as
    /// [`deadline`](Self::deadline).
    pub fn remaining(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    /// What the caller's tracing wants to be known here, as W3C's `traceparent`; only from libwitrpc
    /// clients, and opaque to this library.
    pub fn trace_context(&self) -> Option<&[u8]> {
        self.trace_context.as_deref()
    }

    /// Raises events. An event raised before the handler returns reaches the caller before the
    /// answer does.
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Raises events to the caller only: to the connection that the call came on.
    pub fn caller(&self) -> Publisher {
        self.publisher.to_connection(self.connection_id)
    }

    /// Raises events to all but the caller.
    pub fn others(&self) -> Publisher {
        self.publisher.to_all_except(&[self.connection_id])
    }

    /// Puts the caller's connection into a [group](super::Groups). If it has ended meanwhile,
    /// nothing happens.
    ///
    /// # Errors
    /// [`Overloaded`](crate::ErrorCode::Overloaded) when it is in 1,024 groups.
    pub fn join(&self, group: &str) -> crate::Result<()> {
        let groups = self.publisher.groups();
        groups.add(self.connection_id, group).map(drop)
    }

    /// Takes the caller's connection out of a group, if it is in it.
    pub fn leave(&self, group: &str) {
        self.publisher.groups().remove(self.connection_id, group);
    }
}

/// An execution that is about to begin.
#[derive(Debug, Clone, Copy)]
pub struct Execution<'a> {
    /// Name of the contract.
    pub contract: &'a str,
    /// Name of the method.
    pub method: &'a str,
    /// The call's id.
    pub invocation_id: Uuid,
}

/// Why a call failed. Any error converts into one: then the caller sees status 500, the text
/// `Failed to process request`, and the error's own text as details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    status: i32,
    message: String,
    details: Option<String>,
}

impl Fault {
    /// The method failed (status 500). `details` is what .NET callers find as the message of the
    /// inner exception.
    pub fn new(details: impl Into<String>) -> Self {
        Self {
            status: status::INTERNAL_SERVER_ERROR,
            message: "Failed to process request".into(),
            details: Some(details.into()),
        }
    }

    /// The request makes no sense (status 400).
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self {
            status: status::BAD_REQUEST,
            message: message.into(),
            details: None,
        }
    }

    /// The handler stopped because its caller took the call back (status 500).
    pub fn cancelled() -> Self {
        Self::new("The call was cancelled by its caller")
    }

    /// A status and texts of one's own. Status 503 means [`overloaded`](Self::overloaded).
    pub fn with_status(status: i32, message: impl Into<String>, details: Option<String>) -> Self {
        Self {
            status,
            message: message.into(),
            details,
        }
    }

    pub(super) fn internal(message: &str, details: String) -> Self {
        Self::with_status(status::INTERNAL_SERVER_ERROR, message, Some(details))
    }

    pub(super) fn outcome_unknown() -> Self {
        Self::with_status(status::INTERNAL_SERVER_ERROR, OUTCOME_UNKNOWN_TEXT, None)
    }

    pub(super) fn id_is_taken() -> Self {
        Self::bad_request(
            "The invocation id belongs to another call: other method, other arguments",
        )
    }

    pub(super) fn memory_is_full() -> Self {
        Self::overloaded("The server can't remember more calls")
    }

    /// The handler refuses for now, and has done nothing yet (status 503). That is not remembered:
    /// a repetition of the call runs, and a retry policy may make one.
    pub fn overloaded(message: impl Into<String>) -> Self {
        Self::with_status(status::TRANSPORT_ERROR, message, None)
    }

    pub(super) fn into_response(self) -> Response {
        // 0 makes a .NET client throw something else, and 200 would be a success.
        let status = match self.status {
            0 | status::OK => status::INTERNAL_SERVER_ERROR,
            status => status,
        };
        Response::error(status, self.message, self.details)
    }
}

impl<E: std::error::Error> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

pub(super) type HandlerFuture<T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send>>;

type Function<I, O> = Arc<dyn Fn(CallContext, I) -> HandlerFuture<O> + Send + Sync>;

/// How a method is carried out.
#[derive(Clone)]
pub(super) enum Handler {
    /// On JSON text: an array in, a value out.
    Json(Function<String, String>),
    /// On decoded values.
    Values(Function<Vec<Value>, Value>),
    /// On the encoded blobs, as they came; an empty one is null.
    Blobs(Function<Vec<Bytes>, Option<Bytes>>),
}

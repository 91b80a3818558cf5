//! The one error of the library: what happened, what the peer said, and whether the request left
//! this machine.

use std::fmt;

use crate::wire::{Response, status};

/// What kind of failure it is. The numbers are those of the C ABI and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum ErrorCode {
    /// A value, name, line or option given by the caller is wrong. Nothing was sent.
    InvalidArgument = 1,
    /// The server understood no such request: unknown method, undecodable argument (status 400).
    BadRequest = 2,
    /// The token was refused, at the handshake or for this call (status 561).
    Unauthorized = 3,
    /// No answer in time, or no connection in time (status 408).
    Timeout = 4,
    /// The connection could not be made, was lost, or is not there (status 503).
    Transport = 5,
    /// The method failed on the server (status 500).
    Remote = 6,
    /// Whether the call was executed can't be told, and repeating it could execute it twice.
    OutcomeUnknown = 7,
    /// The caller cancelled the call.
    Cancelled = 8,
    /// A queue or limit is full, here or at the server (status 503).
    Overloaded = 9,
    /// The client or server was closed or disconnected by its user.
    Closed = 10,
    /// The peer broke the protocol, or speaks another version of it.
    Protocol = 11,
    /// The peers do not agree on encryption, or a sealed frame did not open.
    Encryption = 12,
    /// The peer's certificate was not accepted, or it did not accept ours.
    Certificate = 13,
    /// A defect in this library or in a handler; the message says what is known.
    Internal = 14,
}

impl ErrorCode {
    /// The stable name, as every language binding shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::BadRequest => "bad_request",
            Self::Unauthorized => "unauthorized",
            Self::Timeout => "timeout",
            Self::Transport => "transport",
            Self::Remote => "remote",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Cancelled => "cancelled",
            Self::Overloaded => "overloaded",
            Self::Closed => "closed",
            Self::Protocol => "protocol",
            Self::Encryption => "encryption",
            Self::Certificate => "certificate",
            Self::Internal => "internal",
        }
    }

    /// WitRPC's status number for it, as retry policies name it; 0 where WitRPC has none.
    pub fn status(self) -> i32 {
        match self {
            Self::BadRequest => status::BAD_REQUEST,
            Self::Unauthorized => status::UNAUTHORIZED,
            Self::Timeout => status::TIMEOUT,
            Self::Transport | Self::Overloaded => status::TRANSPORT_ERROR,
            Self::Remote => status::INTERNAL_SERVER_ERROR,
            _ => 0,
        }
    }
}

/// What is known about a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Outcome {
    /// The request did not leave this machine: the method did not run.
    NotSent = 0,
    /// The request was sent and no answer came: the method may have run.
    Unknown = 1,
    /// The server answered.
    Answered = 2,
}

impl Outcome {
    /// The stable name, as every language binding shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotSent => "not_sent",
            Self::Unknown => "unknown",
            Self::Answered => "answered",
        }
    }
}

/// The text by which a server tells a .NET peer that the outcome is unknown.
pub const OUTCOME_UNKNOWN_TEXT: &str =
    "Outcome unknown: the call was received before, and whether it was executed can't be told";

/// An error. Cheap to move; `Display` gives one line with everything that matters.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    code: ErrorCode,
    message: String,
    details: Option<String>,
    outcome: Outcome,
    attempts: u32,
    replayed: bool,
    retry_after_ms: Option<u32>,
}

/// Result of everything that can fail in this library.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error about something that was not sent.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            message: message.into(),
            details: None,
            outcome: Outcome::NotSent,
            attempts: 0,
            replayed: false,
            retry_after_ms: None,
        }))
    }

    /// A wrong argument of the caller.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgument, message)
    }

    /// The error that a response stands for; `None` for a success.
    pub(crate) fn from_response(response: &Response) -> Option<Self> {
        if response.status == status::OK {
            return None;
        }
        let text = response.error_message.as_deref().unwrap_or_default();
        let code = match response.status {
            status::BAD_REQUEST => ErrorCode::BadRequest,
            status::UNAUTHORIZED => ErrorCode::Unauthorized,
            status::TRANSPORT_ERROR => ErrorCode::Overloaded,
            status::TIMEOUT => ErrorCode::Timeout,
            _ if text == OUTCOME_UNKNOWN_TEXT => ErrorCode::OutcomeUnknown,
            _ => ErrorCode::Remote,
        };
        let message = if text.is_empty() {
            format!("the server answered with status {}", response.status)
        } else {
            text.to_owned()
        };
        Some(
            Self::new(code, message)
                .with_details(response.error_details.clone())
                .with_outcome(match code {
                    ErrorCode::OutcomeUnknown => Outcome::Unknown,
                    _ => Outcome::Answered,
                }),
        )
    }

    /// What kind of failure it is.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// What happened, in words. For a remote failure the server's `ErrorMessage`.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What lies behind it: for a remote failure the server's `ErrorDetails` (the exception's
    /// message), for others the underlying cause.
    pub fn details(&self) -> Option<&str> {
        self.0.details.as_deref()
    }

    /// Whether the request left this machine and was answered.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// How many attempts were sent or tried; 0 where the call never got that far.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// True if the server answered from its memory: an earlier attempt had been executed and failed
    /// so.
    pub fn replayed(&self) -> bool {
        self.0.replayed
    }

    /// True if the same call may succeed later and repeating it is known not to execute it twice:
    /// it was not sent, or the server refused it before it began.
    pub fn is_retryable(&self) -> bool {
        matches!(
            (self.0.code, self.0.outcome),
            (
                ErrorCode::Transport | ErrorCode::Timeout | ErrorCode::Overloaded,
                Outcome::NotSent
            ) | (ErrorCode::Overloaded, Outcome::Answered)
        )
    }

    /// How long the server asks to wait before another try, in ms.
    pub fn retry_after_ms(&self) -> Option<u32> {
        self.0.retry_after_ms
    }

    pub(crate) fn with_details(mut self, details: Option<String>) -> Self {
        self.0.details = details;
        self
    }

    pub(crate) fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.0.outcome = outcome;
        self
    }

    pub(crate) fn with_attempts(mut self, attempts: u32) -> Self {
        self.0.attempts = attempts;
        self
    }

    pub(crate) fn with_replayed(mut self, replayed: bool) -> Self {
        self.0.replayed = replayed;
        self
    }

    pub(crate) fn with_retry_after(mut self, ms: Option<u32>) -> Self {
        self.0.retry_after_ms = ms;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(details) = self.details().filter(|d| !d.is_empty()) {
            write!(f, ": {details}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Error {}

impl std::error::Error for Error {}

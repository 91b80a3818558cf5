//! A command that failed: what stderr and `--json` say about it.

use serde::Serialize;
use witrpc::resilience::engine::Answer;
use witrpc::{Error, ErrorCode, Outcome};

use crate::exit::Exit;

/// Why a command ended without success.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    code: &'static str,
    message: String,
    details: Option<String>,
    outcome: Outcome,
    attempts: u32,
    replayed: bool,
    /// What was called where.
    place: Option<String>,
    advises: bool,
}

impl Failure {
    /// Something the user gave is wrong.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Error::invalid_argument(message).into()
    }

    /// The command line can't be read.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            code: "usage",
            ..Self::argument(message)
        }
    }

    /// The method ran, and what it gave is not what was expected.
    pub(crate) fn unreadable(message: &str, details: String, answer: &Answer) -> Self {
        Self {
            exit: Exit::Unreadable,
            code: ErrorCode::Protocol.name(),
            message: message.to_owned(),
            details: Some(details),
            outcome: Outcome::Answered,
            attempts: answer.attempts,
            replayed: answer.replayed,
            place: None,
            advises: true,
        }
    }

    /// A signal ended it.
    pub(crate) fn interrupted(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Says nothing about what to do.
    pub(crate) fn without_advice(mut self) -> Self {
        self.advises = false;
        self
    }

    /// Names what was called where.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.place = Some(place.to_owned());
        self
    }

    /// One line for stderr: what, where, what to do.
    pub(crate) fn line(&self) -> String {
        let mut line = self.message.clone();
        if let Some(details) = self.details.as_ref().filter(|d| !d.is_empty()) {
            line.push_str(&format!(": {details}"));
        }
        if let Some(place) = &self.place {
            line.push_str(&format!(" ({place})"));
        }
        let advice = match (self.exit, self.outcome) {
            (Exit::Interrupted | Exit::Terminated, Outcome::NotSent) => Some("it was not sent"),
            (Exit::Interrupted | Exit::Terminated, _) => Some("the method may have run"),
            (Exit::Protocol, _) if self.code == ErrorCode::Certificate.name() => Some(
                "check --ca-file, --server-name and --pin, and --cert if the server asks for one",
            ),
            (exit, _) => exit.advice(),
        };
        if let Some(advice) = advice.filter(|_| self.advises) {
            line.push_str(&format!("; {advice}"));
        }
        line
    }

    /// The object that `--json` prints.
    pub(crate) fn json(&self, elapsed_ms: f64) -> String {
        #[derive(Serialize)]
        struct Object<'a> {
            ok: bool,
            code: &'a str,
            message: &'a str,
            details: Option<&'a str>,
            outcome: &'a str,
            attempts: u32,
            replayed: bool,
            elapsed_ms: f64,
            exit_code: i32,
        }
        let object = Object {
            ok: false,
            code: self.code,
            message: &self.message,
            details: self.details.as_deref(),
            outcome: self.outcome.name(),
            attempts: self.attempts,
            replayed: self.replayed,
            elapsed_ms,
            exit_code: self.exit.code(),
        };
        // Numbers and text always have a JSON form.
        serde_json::to_string(&object).unwrap_or_default()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            exit: Exit::of(&error),
            code: error.code().name(),
            message: error.message().to_owned(),
            details: error.details().map(ToOwned::to_owned),
            outcome: error.outcome(),
            attempts: error.attempts(),
            replayed: error.replayed(),
            place: None,
            advises: true,
        }
    }
}

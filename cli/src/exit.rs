//! The exit codes: which end of a command has which number.

use witrpc::{Error, ErrorCode, Outcome};

/// How the command ended. The numbers are documented and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Exit {
    Ok = 0,
    Internal = 1,
    Usage = 2,
    Argument = 3,
    NotSent = 4,
    Timeout = 5,
    OutcomeUnknown = 6,
    Unauthorized = 7,
    Remote = 8,
    BadRequest = 9,
    Overloaded = 10,
    Protocol = 11,
    Unreadable = 12,
    Interrupted = 130,
    Terminated = 143,
}

impl Exit {
    pub(crate) fn code(self) -> i32 {
        self as i32
    }

    /// The end that an error of the library means.
    pub(crate) fn of(error: &Error) -> Self {
        match (error.code(), error.outcome()) {
            (ErrorCode::InvalidArgument, _) => Self::Argument,
            (ErrorCode::BadRequest, _) => Self::BadRequest,
            (ErrorCode::Unauthorized, _) => Self::Unauthorized,
            (ErrorCode::Remote, _) => Self::Remote,
            (ErrorCode::OutcomeUnknown, _) => Self::OutcomeUnknown,
            (ErrorCode::Cancelled, _) => Self::Interrupted,
            (ErrorCode::Overloaded, Outcome::Answered) => Self::Overloaded,
            (ErrorCode::Protocol, Outcome::Answered) => Self::Unreadable,
            (ErrorCode::Protocol | ErrorCode::Encryption | ErrorCode::Certificate, _) => {
                Self::Protocol
            }
            (
                ErrorCode::Timeout
                | ErrorCode::Transport
                | ErrorCode::Overloaded
                | ErrorCode::Closed,
                Outcome::NotSent,
            ) => Self::NotSent,
            (ErrorCode::Timeout, _) => Self::Timeout,
            (ErrorCode::Transport | ErrorCode::Overloaded | ErrorCode::Closed, _) => {
                Self::OutcomeUnknown
            }
            _ => Self::Internal,
        }
    }

    /// What the user may do about it, for the end of the error line.
    pub(crate) fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::NotSent => {
                "the call was not sent: check the endpoint, or wait for the server with --reconnect"
            }
            Self::Timeout => {
                "the method may have run: allow more time with --timeout, or repetition with --retry"
            }
            Self::OutcomeUnknown => {
                "the method may have run: allow repetition with --retry, or with --idempotent if it \
                 may run twice"
            }
            Self::Unauthorized => "give the token with --token or --token-file",
            Self::BadRequest => {
                "the method did not run: check the contract's name, the method line and --codec"
            }
            Self::Overloaded => "the method did not run: try again later, or with --retry",
            Self::Protocol => "is that a WitRPC 3 server, set to encrypt as --encrypt says?",
            Self::Unreadable => {
                "the method has run: check the return type in the method line, and --codec"
            }
            _ => return None,
        })
    }
}

/// The table for `--help`.
pub(crate) const TABLE: &str = "\
Exit codes:
    0  success
    1  internal error, or the output could not be written
    2  usage: unknown option, missing argument, option value that can't be read
    3  bad argument: method line, contract, ARG, endpoint, file
    4  not sent: no connection, or no time left before the call could be sent
    5  timeout: sent, no answer in time; the method may have run
    6  outcome unknown: sent, then the connection was lost; the method may have run
    7  unauthorized: the token was refused; the method did not run
    8  remote fault: the method ran and failed
    9  bad request: the server knows no such method or can't read the arguments
   10  overloaded: the server is full or stopping; the method did not run
   11  protocol: the peer is no WitRPC 3 server, not set to encrypt alike, or a certificate is not accepted
   12  the method ran, but its result can't be read as the declared type
  130  interrupted (Ctrl-C)
  143  terminated (SIGTERM)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_in_the_table() {
        for exit in [
            Exit::Ok,
            Exit::Internal,
            Exit::Usage,
            Exit::Argument,
            Exit::NotSent,
            Exit::Timeout,
            Exit::OutcomeUnknown,
            Exit::Unauthorized,
            Exit::Remote,
            Exit::BadRequest,
            Exit::Overloaded,
            Exit::Protocol,
            Exit::Unreadable,
            Exit::Interrupted,
            Exit::Terminated,
        ] {
            let start = format!("{:>5}  ", exit.code());
            assert!(
                TABLE.lines().any(|line| line.starts_with(&start)),
                "{exit:?}"
            );
        }
    }

    #[test]
    fn what_was_not_sent_is_told_from_what_may_have_run() {
        let timeout = Error::new(ErrorCode::Timeout, "");
        assert_eq!(Exit::of(&timeout), Exit::NotSent);
        let transport = Error::new(ErrorCode::Transport, "");
        assert_eq!(Exit::of(&transport), Exit::NotSent);
        assert_eq!(
            Exit::of(&Error::new(ErrorCode::Protocol, "")),
            Exit::Protocol
        );
    }
}

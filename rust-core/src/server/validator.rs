//! Who may come in: the check of a token, and the name it gives to its bearer.

use std::sync::Arc;

use crate::transport::PeerAddr;

/// What is to be checked.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// The token; empty where the client has none.
    pub token: &'a str,
    /// Address of the client.
    pub peer: PeerAddr,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Not accepted.
    Refused,
    /// Accepted. The principal says who it is: calls of one principal are told from those of
    /// another, so that nobody gets the stored answer of somebody else. Never use the token
    /// itself: it changes.
    Accepted(Arc<str>),
}

type Check = Arc<dyn Fn(Credentials<'_>) -> Verdict + Send + Sync>;

/// See the [module](self).
#[derive(Clone)]
pub(super) enum Validator {
    /// Only this token, compared in constant time; all bearers are one principal.
    Token(String),
    /// What the user says. Must not block.
    Check(Check),
}

impl Validator {
    pub(super) fn check(&self, credentials: Credentials<'_>) -> Verdict {
        match self {
            Self::Token(expected) => {
                if constant_time_eq(expected.as_bytes(), credentials.token.as_bytes()) {
                    Verdict::Accepted(Arc::from(""))
                } else {
                    Verdict::Refused
                }
            }
            Self::Check(check) => {
                let call = std::panic::AssertUnwindSafe(|| check(credentials));
                std::panic::catch_unwind(call).unwrap_or_else(|_| {
                    tracing::error!("the token validator panicked: refused");
                    Verdict::Refused
                })
            }
        }
    }
}

/// Takes the same time whatever the difference is; only the length shows.
fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |all, (x, y)| all | (x ^ y));
    a.len() == b.len() && std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: &str, token: &str) -> bool {
        let peer = PeerAddr::Local;
        let verdict = Validator::Token(expected.into()).check(Credentials { token, peer });
        verdict != Verdict::Refused
    }

    #[test]
    fn exactly_the_token_is_accepted() {
        assert!(check("", "") && check("secret", "secret"));
        for wrong in ["", "secre", "secrets", "Secret"] {
            assert!(!check("secret", wrong));
        }
        assert!(!check("", "x"));
    }

    #[test]
    fn a_panicking_validator_refuses() {
        let validator = Validator::Check(Arc::new(|_| panic!("on purpose")));
        let peer = PeerAddr::Local;
        assert_eq!(
            validator.check(Credentials { token: "", peer }),
            Verdict::Refused
        );
    }
}

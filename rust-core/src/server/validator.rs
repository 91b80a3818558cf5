//! Who may come in: the check of a token, and the name it gives to its bearer.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use crate::security::same_token;
use crate::token_file::TokenFile;

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

impl Verdict {
    /// All who bring the one token are one principal.
    fn of_token(accepted: bool) -> Self {
        // Every call is checked: its verdict costs no allocation.
        static NAMELESS: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));
        match accepted {
            true => Self::Accepted(Arc::clone(&NAMELESS)),
            false => Self::Refused,
        }
    }
}

type VerdictFuture = Pin<Box<dyn Future<Output = Verdict> + Send>>;
type Check = Arc<dyn Fn(Credentials<'_>) -> Verdict + Send + Sync>;
type AsyncCheck = Arc<dyn Fn(Credentials<'_>) -> VerdictFuture + Send + Sync>;

/// See the [module](self).
#[derive(Clone)]
pub(super) enum Validator {
    /// Only this token, compared in constant time.
    Token(String),
    /// Only the token in this file, compared in constant time.
    File(Arc<TokenFile>),
    /// What the user says. Must not block.
    Check(Check),
    /// What the user says in time.
    AsyncCheck(AsyncCheck),
}

/// A verdict, or the wait for one.
pub(super) enum Checked {
    Now(Verdict),
    Later(PendingCheck),
}

impl Validator {
    pub(super) fn asynchronous<T>(
        check: impl Fn(Credentials<'_>) -> T + Send + Sync + 'static,
    ) -> Self
    where
        T: Future<Output = Verdict> + Send + 'static,
    {
        Self::AsyncCheck(Arc::new(move |credentials| Box::pin(check(credentials))))
    }

    pub(super) fn check(&self, credentials: Credentials<'_>) -> Checked {
        let Credentials { token, .. } = credentials;
        Checked::Now(match self {
            Self::Token(expected) => Verdict::of_token(same_token(expected, token)),
            Self::File(file) => match file.with(|expected| same_token(expected, token)) {
                Ok(accepted) => Verdict::of_token(accepted),
                Err(error) => {
                    tracing::error!(error, "nobody is let in");
                    Verdict::Refused
                }
            },
            Self::Check(check) => {
                catch_unwind(AssertUnwindSafe(|| check(credentials))).unwrap_or_else(panicked)
            }
            Self::AsyncCheck(check) => {
                match catch_unwind(AssertUnwindSafe(|| check(credentials))) {
                    Ok(future) => return Checked::Later(PendingCheck(future)),
                    Err(panic) => panicked(panic),
                }
            }
        })
    }
}

/// A check that is not done yet. If it panics, the token is refused.
pub(super) struct PendingCheck(VerdictFuture);

impl Future for PendingCheck {
    type Output = Verdict;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Verdict> {
        let step = AssertUnwindSafe(|| self.0.as_mut().poll(cx));
        catch_unwind(step).unwrap_or_else(|panic| Poll::Ready(panicked(panic)))
    }
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Verdict {
    tracing::error!("the token validator panicked: refused");
    Verdict::Refused
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(validator: &Validator, token: &str) -> Verdict {
        let peer = PeerAddr::Local;
        match validator.check(Credentials { token, peer }) {
            Checked::Now(verdict) => verdict,
            Checked::Later(pending) => pending.await,
        }
    }

    #[tokio::test]
    async fn exactly_the_token_is_accepted() {
        let accepted = Verdict::Accepted("".into());
        let secret = Validator::Token("secret".into());
        assert_eq!(check(&secret, "secret").await, accepted);
        for wrong in ["", "secre", "secrets", "Secret"] {
            assert_eq!(check(&secret, wrong).await, Verdict::Refused);
        }
        let none = Validator::Token(String::new());
        assert_eq!(check(&none, "").await, accepted);
        assert_eq!(check(&none, "x").await, Verdict::Refused);
    }

    #[tokio::test]
    async fn a_validator_that_panics_at_once_or_later_refuses() {
        let at_once = Validator::Check(Arc::new(|_| panic!("on purpose")));
        assert_eq!(check(&at_once, "").await, Verdict::Refused);
        let at_once = Validator::asynchronous(|_| {
            if true {
                panic!("on purpose");
            }
            std::future::ready(Verdict::Refused)
        });
        assert_eq!(check(&at_once, "").await, Verdict::Refused);
        let later = Validator::asynchronous(|_| async {
            tokio::task::yield_now().await;
            panic!("on purpose")
        });
        assert_eq!(check(&later, "").await, Verdict::Refused);
    }

    #[tokio::test]
    async fn a_file_that_can_not_be_read_lets_nobody_in() {
        let path = std::env::temp_dir().join(format!("witrpc-none-{}", std::process::id()));
        let validator = Validator::File(Arc::new(TokenFile::new(path)));
        assert_eq!(check(&validator, "").await, Verdict::Refused);
    }
}

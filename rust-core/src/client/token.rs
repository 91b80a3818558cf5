//! Where a client's token comes from.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::error::{Error, ErrorCode, Result};

type TokenFuture = Pin<Box<dyn Future<Output = Result<String>> + Send>>;

/// A fixed token, or somebody to ask.
#[derive(Clone)]
pub(super) enum TokenSource {
    /// Always the same; empty for none.
    Fixed(String),
    /// Asked before every attempt to connect, and once more when a token was refused.
    Provider {
        ask: Arc<dyn Fn() -> TokenFuture + Send + Sync>,
        /// How long one answer may take.
        limit: Duration,
    },
}

impl TokenSource {
    pub(super) fn is_provided(&self) -> bool {
        matches!(self, Self::Provider { .. })
    }

    pub(super) async fn get(&self) -> Result<String> {
        match self {
            Self::Fixed(token) => Ok(token.clone()),
            Self::Provider { ask, limit } => {
                // A task of its own: if it panics, that is a failure of the provider. It is given up
                // with this future.
                let mut asking = JoinSet::new();
                let ask = ask.clone();
                asking.spawn(async move { ask().await });
                let failed = |why: String| {
                    Error::new(ErrorCode::Transport, "the token provider failed")
                        .with_details(Some(why))
                };
                match tokio::time::timeout(*limit, asking.join_next()).await {
                    Ok(Some(Ok(answer))) => answer.map_err(|error| failed(error.to_string())),
                    Ok(_) => Err(failed("it panicked".to_owned())),
                    Err(_) => Err(Error::new(
                        ErrorCode::Timeout,
                        format!("the token provider took longer than {limit:?}"),
                    )),
                }
            }
        }
    }
}

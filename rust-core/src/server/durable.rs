//! Calls of durable methods: claimed in the store before they run, and their answers kept there before they are sent.
//!
//! Owns how the store and the user's resolver are asked about one call, and what of that its caller is told. What is remembered in the process is
//! [`dispatch`](super::dispatch)'s.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::caught::Caught;
use super::dispatch::encode;
use super::handler::{CallContext, Fault, HandlerFuture};
use super::store::{CallStore, Claim, Fence, StoredCall};
use crate::codec::Codec;
use crate::wire::Response;

/// What became of a call that was claimed before and whose answer the store does not know: what a
/// [resolver](super::ServiceBuilder::resolver) finds in the handler's own database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// It was executed. Its result in JSON, as [`handle_json`](super::ServiceBuilder::handle_json) gives it: `null` for void.
    Executed(String),
    /// It was executed, and failed so.
    Failed(Fault),
    /// It was not executed, and what was begun of it can't be completed any more: it runs.
    NotExecuted,
    /// That can't be told: the caller is told that the outcome is unknown.
    Unknown,
}

impl Resolution {
    /// It was executed, with this result.
    pub fn executed<T: Serialize>(result: &T) -> Self {
        match serde_json::to_string(result) {
            Ok(json) => Self::Executed(json),
            Err(error) => {
                tracing::error!(%error, "a result that was kept can't be written");
                Self::Unknown
            }
        }
    }
}

pub(super) type Resolver = Arc<dyn Fn(CallContext) -> HandlerFuture<Resolution> + Send + Sync>;

/// A call of a durable method.
pub(super) struct DurableCall {
    pub(super) store: Arc<dyn CallStore>,
    pub(super) resolver: Option<Resolver>,
    pub(super) call: StoredCall,
    /// The claim, once there is one.
    pub(super) fence: Option<Fence>,
}

/// What came of asking for a call.
pub(super) enum Claimed {
    Run,
    /// It was executed before; an encoded response.
    Answer(Bytes),
    Refused(Fault),
}

impl DurableCall {
    /// Asks the store, and the resolver where that has no answer.
    pub(super) async fn claim(&mut self, context: &mut CallContext, codec: Codec) -> Claimed {
        loop {
            let begun = self.store.begin(&self.call);
            // Another server may run it for longer than anybody here waits.
            let begun = match context.deadline {
                Some(deadline) => tokio::time::timeout_at(deadline.into(), begun).await,
                None => Ok(begun.await),
            };
            let Ok(begun) = begun else {
                return Claimed::Refused(Fault::outcome_unknown());
            };
            match begun {
                Ok(Claim::Run(fence)) => {
                    self.fence = Some(fence);
                    return Claimed::Run;
                }
                Ok(Claim::Replay(answer)) => return Claimed::Answer(answer),
                Ok(Claim::Mismatch) => return Claimed::Refused(Fault::id_is_taken()),
                Ok(Claim::Full) => return Claimed::Refused(Fault::memory_is_full()),
                Ok(Claim::OutcomeUnknown) => {}
                Err(error) => {
                    tracing::debug!(%error, "a call was not claimed");
                    return Claimed::Refused(Fault::overloaded(
                        "The server can't make calls durable for now",
                    ));
                }
            }
            match self.resolve(context, codec).await {
                Some(Ok(answer)) => return Claimed::Answer(answer),
                Some(Err(NotExecuted)) if !self.call.not_executed => {
                    self.call.not_executed = true;
                    context.may_be_repetition = true;
                }
                _ => return Claimed::Refused(Fault::outcome_unknown()),
            }
        }
    }

    async fn resolve(
        &self,
        context: &CallContext,
        codec: Codec,
    ) -> Option<Result<Bytes, NotExecuted>> {
        let resolver = self.resolver.clone()?;
        let (method, context) = (context.method.clone(), context.clone());
        let resolution = Caught::new(move || resolver(context)).await;
        let response = match resolution.unwrap_or_else(|fault| {
            tracing::error!(%method, ?fault, "a resolver failed");
            Resolution::Unknown
        }) {
            Resolution::Executed(json) => match method.encode_result_json(codec, &json) {
                Ok(data) => Response::ok(data.filter(|blob| !blob.is_empty())),
                Err(error) => {
                    tracing::error!(%method, %error, "what a resolver said is no result of it");
                    return None;
                }
            },
            Resolution::Failed(fault) => fault.into_response(),
            Resolution::NotExecuted => return Some(Err(NotExecuted)),
            Resolution::Unknown => return None,
        };
        Some(Ok(encode(&response)))
    }

    /// Keeps the answer, if it is not too long. An error if it could not be kept: then it must not be sent.
    pub(super) async fn finish(&self, answer: &Bytes, max_answer: usize) -> Result<(), Fault> {
        let Some(fence) = self.fence else {
            return Err(Fault::outcome_unknown());
        };
        let kept = Some(answer).filter(|answer| answer.len() <= max_answer);
        let stored = self.store.finish(&self.call, fence, kept).await;
        stored.map_err(|error| {
            tracing::debug!(%error, "an answer was not stored");
            Fault::outcome_unknown()
        })
    }

    /// The handler refused it.
    pub(super) async fn abandon(&self) {
        if let Some(fence) = self.fence
            && let Err(error) = self.store.abandon(&self.call, fence).await
        {
            tracing::debug!(%error, "a refused call stays in the store");
        }
    }
}

struct NotExecuted;

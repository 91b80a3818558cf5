//! The key pair of a client that encrypts: made when it is first needed, and kept.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, ErrorCode, Result};
use crate::security::ClientKey;

/// See the [module](self).
#[derive(Clone, Default)]
pub(super) struct KeyPair(Arc<Mutex<Option<Arc<ClientKey>>>>);

impl KeyPair {
    /// The key pair. It is made on a thread for blocking work; should whoever asked for it give up,
    /// it is there for the next one.
    pub(super) async fn get(&self) -> Result<Arc<ClientKey>> {
        // Locked only while it is being made.
        if let Some(key) = self.0.try_lock().and_then(|slot| slot.clone()) {
            return Ok(key);
        }
        let slot = self.0.clone();
        let make = move || {
            let mut slot = slot.lock();
            match &*slot {
                Some(key) => Ok(key.clone()),
                None => {
                    let key = Arc::new(ClientKey::generate()?);
                    Ok(slot.insert(key).clone())
                }
            }
        };
        let made = tokio::task::spawn_blocking(make).await;
        made.unwrap_or(Err(crate::security::CryptoError))
            .map_err(|error| {
                Error::new(ErrorCode::Internal, "can't make a key pair")
                    .with_details(Some(error.to_string()))
            })
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    #[test]
    fn it_is_made_on_a_thread_for_blocking_work() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (release, wait) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || wait.recv());
            let pair = KeyPair::default();
            let mut get = pin!(pair.get());
            // The only such thread is busy, so there is nothing but the wait for it.
            let pending = poll_fn(|cx| Poll::Ready(get.as_mut().poll(cx).is_pending()));
            assert!(pending.await);
            assert!(pair.0.try_lock().unwrap().is_none());
            release.send(()).unwrap();
            get.await.unwrap();
            busy.await.unwrap().unwrap();
        });
    }

    #[tokio::test]
    async fn there_is_one_key_pair_also_for_those_who_ask_at_once_or_give_up() {
        let pair = KeyPair::default();
        let given_up = tokio::spawn({
            let pair = pair.clone();
            async move { pair.get().await }
        });
        tokio::task::yield_now().await;
        given_up.abort();
        let (a, b) = tokio::join!(pair.get(), pair.get());
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(Arc::ptr_eq(&a, &b));
        assert!(Arc::ptr_eq(&a, &pair.get().await.unwrap()));
    }
}

//! The journal: a store of calls in a directory of its own, which survives the death of the process at any instruction, and that of the machine.
//!
//! It is a table like that of the memory, and a log of what happened to it. What it must look up fits into memory anyway (the bounds of the table are its bounds), so
//! the disk is only ever written to, in order, one write and one `fdatasync` for all requests that came meanwhile; an embedded database would spend several pages and syncs on
//! each. When the log is long, a snapshot of the table takes the place of what came before.

mod core;
mod directory;
mod format;
mod log;
mod recovery;
mod snapshot;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::core::{Core, Request};
use self::directory::Directory;
use self::writer::Writer;
use super::{BoxFuture, CallStore, Claim, Fence, Opened, StoreError, StoredCall};
use crate::resilience::dedup::DedupOptions;
use crate::time::Time;

/// A store of calls in files, for one server. See the [module](self).
///
/// ```no_run
/// # use witrpc::server::{Server, ServiceBuilder};
/// # fn service() -> ServiceBuilder { ServiceBuilder::open("Demo.IBank") }
/// # async fn example() -> witrpc::Result<()> {
/// let server = Server::builder()
///     .listen("tcp://*:5000")
///     .service(service().durable("Transfer"))
///     .journal("/var/lib/demo/calls")
///     .start()
///     .await?;
/// # Ok(()) }
/// ```
pub struct Journal {
    path: PathBuf,
    bounds: DedupOptions,
    writer: Arc<Writer>,
    /// Tells when the thread has ended.
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

impl Journal {
    /// The journal in this directory, which is made if it is not there. Its files are for this user alone; they hold the answers of calls in clear.
    ///
    /// `bounds` are those of what it remembers, in memory as on disk, on top of what the server remembers by itself. The directory takes at most about
    /// six times [`max_bytes`](DedupOptions::max_bytes) and 150 bytes for each record, tombstone and client.
    pub fn new(path: impl AsRef<Path>, bounds: DedupOptions) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            bounds,
            writer: Writer::new(),
            ended: Mutex::new(None),
        }
    }

    async fn start(&self) -> Result<Opened, StoreError> {
        let (opened, is_open) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        if self.ended.lock().replace(has_ended).is_some() {
            return Err(StoreError::new("the journal was opened before"));
        }
        let (path, bounds, writer) = (self.path.clone(), self.bounds, self.writer.clone());
        // Everything that blocks is done there.
        let run = move || {
            let origin = Instant::now();
            let core = Directory::open(&path)
                .and_then(|directory| Core::open(directory, Time::ZERO, bounds));
            let core = match core {
                Ok(core) => core,
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            let _ = opened.send(Ok(core.epoch()));
            writer.run(core, origin);
            let _ = ended.send(());
        };
        std::thread::Builder::new()
            .name("witrpc-journal".into())
            .spawn(run)
            .map_err(|e| StoreError::new(format!("no thread for the journal: {e}")))?;
        let epoch = is_open
            .await
            .unwrap_or_else(|_| Err(StoreError::new("the journal panicked while it was read")))?;
        Ok(Opened {
            epoch,
            hold: self.bounds.hold,
        })
    }
}

impl CallStore for Journal {
    fn open(&self) -> BoxFuture<'_, Result<Opened, StoreError>> {
        Box::pin(self.start())
    }

    fn begin<'a>(&'a self, call: &'a StoredCall) -> BoxFuture<'a, Result<Claim, StoreError>> {
        Box::pin(self.writer.ask(Request::Begin(call.clone())))
    }

    fn finish<'a>(
        &'a self,
        _: &'a StoredCall,
        fence: Fence,
        answer: Option<&'a Bytes>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let request = Request::End(fence, answer.cloned());
        Box::pin(async { self.writer.ask(request).await.map(drop) })
    }

    fn abandon<'a>(
        &'a self,
        _: &'a StoredCall,
        fence: Fence,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.writer.ask(Request::Gone(fence)).await.map(drop) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.writer.close();
        let ended = self.ended.lock().take();
        Box::pin(async {
            if let Some(ended) = ended {
                // An error means that it panicked: it has ended, too.
                let _ = ended.await;
            }
        })
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.writer.close();
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

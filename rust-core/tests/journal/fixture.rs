//! Directories, calls, and journals to put them into.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use uuid::Uuid;
use witrpc::resilience::dedup::{DedupOptions, Numbered};
use witrpc::server::store::{CallStore, Claim, Fence, Journal, StoreError, StoredCall};

/// A directory that is removed in the end.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    /// One that is not there yet.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "journal-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    /// What a process leaves that is killed now.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        std::fs::create_dir_all(&copy.0).unwrap();
        for name in self.names() {
            std::fs::copy(self.0.join(&name), copy.0.join(&name)).unwrap();
        }
        copy
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.0).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// The last log.
    pub(crate) fn log(&self) -> PathBuf {
        let names = self.names();
        let last = names.iter().rfind(|name| name.ends_with(".log"));
        self.0.join(last.unwrap())
    }

    pub(crate) fn size(&self) -> u64 {
        // A snapshot may have taken the place of a file meanwhile.
        let files = self.names().into_iter();
        files
            .filter_map(|name| std::fs::metadata(self.0.join(name)).ok())
            .map(|file| file.len())
            .sum()
    }

    pub(crate) async fn open(&self) -> Opened {
        self.open_with(|_| {}).await.unwrap()
    }

    pub(crate) async fn open_with(
        &self,
        change: impl FnOnce(&mut DedupOptions),
    ) -> Result<Opened, StoreError> {
        let mut bounds = DedupOptions::default();
        change(&mut bounds);
        let journal = Journal::new(&self.0, bounds);
        let epoch = journal.open().await?.epoch;
        Ok(Opened { journal, epoch })
    }

    pub(crate) async fn error(&self) -> String {
        let opened = self.open_with(|_| {}).await;
        opened.map(|opened| opened.epoch).unwrap_err().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A journal that is open.
pub(crate) struct Opened {
    pub(crate) journal: Journal,
    pub(crate) epoch: u64,
}

impl Opened {
    pub(crate) async fn begin(&self, call: &StoredCall) -> Claim {
        self.journal.begin(call).await.unwrap()
    }

    pub(crate) async fn claim(&self, call: &StoredCall) -> Fence {
        match self.begin(call).await {
            Claim::Run(fence) => fence,
            other => panic!("{call:?} was {other:?}"),
        }
    }

    pub(crate) async fn finish(&self, call: &StoredCall, fence: Fence, answer: &str) {
        let answer = Bytes::from(answer.to_owned());
        let finished = self.journal.finish(call, fence, Some(&answer)).await;
        finished.unwrap();
    }

    /// Claims it and ends it.
    pub(crate) async fn run(&self, call: &StoredCall, answer: &str) {
        let fence = self.claim(call).await;
        self.finish(call, fence, answer).await;
    }

    pub(crate) async fn close(self) {
        self.journal.close().await;
    }
}

/// A call of a .NET client.
pub(crate) fn call(id: u128) -> StoredCall {
    StoredCall {
        principal: "somebody".into(),
        invocation: Uuid::from_u128(id + 1),
        numbered: None,
        repeated: false,
        elsewhere: false,
        epoch: 0,
        digest: [7; 16],
        not_executed: false,
    }
}

/// A call of a libwitrpc client.
pub(crate) fn numbered(number: u64, first_unfinished: u64) -> StoredCall {
    StoredCall {
        numbered: Some(Numbered {
            client: Uuid::from_u128(99),
            number,
            first_unfinished,
        }),
        ..call(1_000_000 + u128::from(number))
    }
}

pub(crate) fn repeated(call: StoredCall) -> StoredCall {
    StoredCall {
        repeated: true,
        ..call
    }
}

pub(crate) fn replay(answer: &str) -> Claim {
    Claim::Replay(Bytes::from(answer.to_owned()))
}

//! The directory of a journal: which files it has, and who may use it.
//!
//! Owns the lock, the names of the files, and how a file comes to be: under another name until it is whole and durable. What is in them is
//! [`format`](super::format)'s and [`recovery`](super::recovery)'s.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::format::Kind;
use crate::server::store::StoreError;

/// How long a process that was killed, or a server that was dropped, may take to let go of the lock.
const PATIENCE: Duration = Duration::from_secs(2);

const LOCK: &str = "lock";
const UNFINISHED: &str = "unfinished";

/// See the [module](self).
pub(super) struct Directory {
    path: PathBuf,
    /// Locked until it is closed.
    _lock: File,
}

/// The files of a journal, by their indexes.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) logs: Vec<u64>,
    pub(super) snapshots: Vec<u64>,
}

impl Directory {
    /// Makes the directory if need be, and locks it. May block for a while.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let cannot = |what: &str, error: io::Error| {
            StoreError::new(format!("the journal {}: {what}: {error}", path.display()))
        };
        make_directory(path).map_err(|e| cannot("its directory can't be made", e))?;
        let lock = open_new(&path.join(LOCK), false)
            .map_err(|e| cannot("its lock file can't be opened", e))?;
        let begun = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::new(format!(
                        "the journal {} is in use by another server: each needs a directory of its \
                         own",
                        path.display()
                    )));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(cannot("it can't be locked", error));
                }
            }
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self, kind: Kind, index: u64) -> PathBuf {
        let ending = match kind {
            Kind::Log => "log",
            Kind::Snapshot => "snapshot",
        };
        self.path.join(format!("{index:016}.{ending}"))
    }

    /// The files that are there, in order; what was not finished is removed.
    pub(super) fn files(&self) -> Result<Files, StoreError> {
        let cannot =
            |error| StoreError::new(format!("the journal {}: {error}", self.path.display()));
        let mut files = Files::default();
        for entry in fs::read_dir(&self.path).map_err(cannot)? {
            let name = entry.map_err(cannot)?.file_name();
            let (stem, ending) = match name.to_str() {
                Some(LOCK) => continue,
                Some(text) => text.split_once('.').unwrap_or((text, "")),
                None => ("", ""),
            };
            let list = match (stem.parse::<u64>(), ending) {
                (Ok(_), UNFINISHED) => {
                    fs::remove_file(self.path.join(&name)).map_err(cannot)?;
                    continue;
                }
                (Ok(_), "log") => &mut files.logs,
                (Ok(_), "snapshot") => &mut files.snapshots,
                _ => {
                    return Err(StoreError::new(format!(
                        "the journal {} has {name:?}, which is no file of a journal: it needs a \
                         directory of its own",
                        self.path.display()
                    )));
                }
            };
            list.extend(stem.parse::<u64>());
        }
        files.logs.sort_unstable();
        files.snapshots.sort_unstable();
        Ok(files)
    }

    /// Makes a file that is there as a whole or not at all.
    pub(super) fn create(
        &self,
        kind: Kind,
        index: u64,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<File> {
        let unfinished = match kind {
            Kind::Log => self.path.join(format!("{index:016}0.{UNFINISHED}")),
            Kind::Snapshot => self.path.join(format!("{index:016}1.{UNFINISHED}")),
        };
        let make = || {
            let mut file = open_new(&unfinished, true)?;
            fill(&mut file)?;
            file.sync_all()?;
            fs::rename(&unfinished, self.file(kind, index))?;
            self.sync()?;
            Ok(file)
        };
        let made = make();
        if made.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        made
    }

    /// Removes a file that a snapshot has made superfluous. One that can't be removed is harmless.
    pub(super) fn remove(&self, kind: Kind, index: u64) {
        let path = self.file(kind, index);
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(%error, path = %path.display(), "a file of the journal stays");
        }
    }

    /// What was renamed, made and removed stays so.
    #[cfg(unix)]
    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// NTFS keeps its own log of names.
    #[cfg(not(unix))]
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// What is in it is for nobody else: answers are.
#[cfg(unix)]
fn make_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

#[cfg(not(unix))]
fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

fn open_new(path: &Path, truncate: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(truncate);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

//! A file that tells which calls were executed: the witness that no client can touch.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::output;

/// Appends a line `exec METHOD INVOCATIONID` for each execution.
#[derive(Debug)]
pub struct Trace {
    file: File,
    path: PathBuf,
}

impl Trace {
    /// Opens the file for appending; it is made if it is not there.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).create(true).open(path)?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// A call is about to run. One write for the line, so that lines of several processes do not
    /// mix.
    pub(super) fn executes(&self, method: &str, id: Uuid) {
        let line = format!("exec {method} {id}\n");
        if let Err(error) = (&self.file).write_all(line.as_bytes()) {
            output::note(&format!("can't write to {}: {error}", self.path.display()));
        }
    }
}

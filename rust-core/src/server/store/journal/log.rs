//! The log that a journal writes to: frames one after another, each durable before the next one is begun.
//!
//! Owns the room ahead of what is written: it is filled with zeros before it is used, so that a full disk is noticed before a call is claimed, and so that a write changes no
//! metadata. A log to which a write failed is never written to again.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;

use super::directory::Directory;
use super::format::{HEADER, Header, Kind, begin_frame, end_frame};

/// Bytes by which a log grows, if the disk has so many.
const CHUNK: u64 = 512 * 1024;

/// The least that it grows by.
const LEAST: u64 = 16 * 1024;

/// See the [module](self).
pub(super) struct Log {
    pub(super) index: u64,
    path: PathBuf,
    file: File,
    nonce: [u8; 16],
    /// Bytes that are durable, or that nobody was told of.
    written: u64,
    allocated: u64,
    frames: u64,
    is_broken: bool,
}

impl Log {
    /// A new file. `sealed`: how many bytes of the log before it count. `first` in this process: whether something of what came before it may be lost.
    pub(super) fn create(
        directory: &Directory,
        index: u64,
        epoch: u64,
        sealed: u64,
        first: Option<bool>,
    ) -> io::Result<Self> {
        let nonce = crate::random::bytes();
        let header = Header {
            kind: Kind::Log,
            index,
            epoch,
            nonce,
            sealed,
            damaged: first.unwrap_or(false),
            is_first: first.is_some(),
        };
        let file = directory.create(Kind::Log, index, |file| file.write_all(&header.encode()))?;
        Ok(Self {
            index,
            path: directory.file(Kind::Log, index),
            file,
            nonce,
            written: HEADER as u64,
            allocated: HEADER as u64,
            frames: 0,
            is_broken: false,
        })
    }

    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Bytes that count.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Makes sure that so many bytes can be written.
    pub(super) fn make_room(&mut self, bytes: u64) -> io::Result<()> {
        let mut step = CHUNK;
        while self.allocated < self.written + bytes {
            match self.grow(step) {
                Ok(()) => {}
                Err(_) if step > LEAST => step /= 2,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn grow(&mut self, bytes: u64) -> io::Result<()> {
        let zeros = [0; LEAST as usize];
        let mut grow = || {
            self.file.seek(SeekFrom::Start(self.allocated))?;
            (0..bytes / LEAST).try_for_each(|_| self.file.write_all(&zeros))
        };
        let grown = grow();
        match &grown {
            Ok(()) => self.allocated += bytes,
            // What is left of it would only take room from others.
            Err(_) => self.file.set_len(self.allocated)?,
        }
        grown
    }

    /// Appends a frame that was [begun](begin_frame) and waits until it is durable.
    pub(super) fn append(&mut self, frame: &mut Vec<u8>) -> io::Result<()> {
        if !end_frame(frame, &self.nonce, self.frames) {
            return Ok(());
        }
        let mut write = || {
            self.file.seek(SeekFrom::Start(self.written))?;
            self.file.write_all(frame)?;
            self.file.sync_data()
        };
        match write() {
            Ok(()) => {
                self.written += frame.len() as u64;
                self.allocated = self.allocated.max(self.written);
                self.frames += 1;
                begin_frame(frame);
                Ok(())
            }
            Err(error) => {
                self.is_broken = true;
                Err(error)
            }
        }
    }
}

//! Writing down what is known, so that logs need not be kept for ever.

use std::io::{self, Write};

use super::directory::Directory;
use super::format::{Entry, FRAME, Header, Kind, begin_frame, end_frame};

/// Bytes of entries after which a frame ends.
const FRAME_SIZE: usize = 256 * 1024;

/// Writes the snapshot that takes the place of all logs up to this index, then removes the files that it makes superfluous. Returns its length in bytes.
pub(super) fn write(
    directory: &Directory,
    index: u64,
    epoch: u64,
    entries: Vec<Entry>,
    superfluous: &[(Kind, u64)],
) -> io::Result<u64> {
    let nonce = crate::random::bytes();
    let header = Header {
        kind: Kind::Snapshot,
        index,
        epoch,
        nonce,
        sealed: 0,
        damaged: false,
        is_first: false,
    };
    let file = directory.create(Kind::Snapshot, index, |file| {
        file.write_all(&header.encode())?;
        let (mut frame, mut number) = (Vec::new(), 0);
        begin_frame(&mut frame);
        for entry in entries.into_iter().chain([Entry::Complete]) {
            let is_last = entry == Entry::Complete;
            entry.encode(&mut frame);
            if is_last || frame.len() >= FRAME + FRAME_SIZE {
                end_frame(&mut frame, &nonce, number);
                file.write_all(&frame)?;
                begin_frame(&mut frame);
                number += 1;
            }
        }
        Ok(())
    })?;
    for (kind, index) in superfluous {
        directory.remove(*kind, *index);
    }
    Ok(file.metadata()?.len())
}

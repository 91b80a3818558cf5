//! Reading a journal back: the last snapshot, then the logs after it.
//!
//! Owns what is believed. A frame that was cut off while it was written was promised to nobody and is passed over; whatever else is missing or damaged before the end is an
//! error that changes nothing: a journal never starts empty where it was not.

use std::fs;

use super::directory::Directory;
use super::format::{
    BadHeader, Entry, HEADER, Header, Kind, has_later_frame, is_cut_off, split_frame,
};
use crate::resilience::dedup::Remembered;
use crate::server::store::StoreError;

/// What the files of a journal are and say.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// `None`: there was no journal.
    pub(super) epoch: Option<u64>,
    /// Of the last log.
    pub(super) last: u64,
    /// How many of its bytes count.
    pub(super) sealed: u64,
    /// Something of its end may be lost.
    pub(super) is_cut_short: bool,
    pub(super) files: Vec<(Kind, u64)>,
}

/// A file that was read.
struct Read {
    header: Header,
    bytes: Vec<u8>,
}

/// Reads everything, in order. `see` is shown each entry.
pub(super) fn recover(
    directory: &Directory,
    mut see: impl FnMut(Entry),
) -> Result<Past, StoreError> {
    let files = directory.files()?;
    let mut past = Past::default();
    past.files
        .extend(files.snapshots.iter().map(|index| (Kind::Snapshot, *index)));
    past.files
        .extend(files.logs.iter().map(|index| (Kind::Log, *index)));
    let snapshot = files.snapshots.last().copied().unwrap_or(0);
    let logs: Vec<u64> = files.logs.into_iter().filter(|i| *i > snapshot).collect();
    let expected = snapshot + 1..snapshot + 1 + logs.len() as u64;
    if let Some(missing) = expected.clone().zip(&logs).find(|(a, b)| a != *b) {
        return Err(missing_file(directory, missing.0));
    }
    if logs.is_empty() {
        return match snapshot {
            0 => Ok(past),
            _ => Err(missing_file(directory, snapshot + 1)),
        };
    }
    if snapshot > 0 {
        read_snapshot(directory, snapshot, &mut past, &mut see)?;
    }
    // How much of a log counts is said by the one after it.
    let mut log = read(directory, Kind::Log, snapshot + 1, &mut past)?;
    // That the one before the first was cut short is in the snapshot, as long as it matters.
    let mut is_incomplete = false;
    if log.header.is_first {
        see(Entry::NextLife);
    }
    for index in expected.skip(1) {
        let next = read(directory, Kind::Log, index, &mut past)?;
        let sealed = next.header.sealed;
        let end = frames(directory, &log, Some(sealed), &mut see)?.0;
        if end != sealed {
            return Err(damaged(directory, Kind::Log, index - 1, end));
        }
        is_incomplete |= next.header.damaged;
        if next.header.is_first {
            see(Entry::NextLife);
        }
        log = next;
    }
    let (end, rest) = frames(directory, &log, None, &mut see)?;
    past.last = log.header.index;
    past.sealed = end;
    if rest == Rest::Damaged {
        tracing::error!(
            path = %directory.file(Kind::Log, past.last).display(),
            at = end,
            "the end of the journal is damaged and given up: repetitions of calls that are not found are told that their outcome is unknown"
        );
        past.is_cut_short = true;
    }
    if is_incomplete || past.is_cut_short {
        see(Entry::Known(Remembered::Incomplete));
    }
    Ok(past)
}

fn read(
    directory: &Directory,
    kind: Kind,
    index: u64,
    past: &mut Past,
) -> Result<Read, StoreError> {
    let path = directory.file(kind, index);
    let bytes = fs::read(&path).map_err(|e| {
        StoreError::new(format!(
            "the journal can't be read: {}: {e}",
            path.display()
        ))
    })?;
    let header = Header::decode(&bytes).map_err(|bad| match bad {
        BadHeader::Damaged => damaged(directory, kind, index, 0),
        BadHeader::Format(format) => StoreError::new(format!(
            "the journal file {} is of format {format}, and this release reads format {}: use the release that wrote it",
            path.display(),
            super::format::FORMAT
        )),
    })?;
    if (header.kind, header.index) != (kind, index)
        || past.epoch.is_some_and(|epoch| epoch != header.epoch)
    {
        return Err(StoreError::new(format!(
            "the journal file {} is not from this journal",
            path.display()
        )));
    }
    past.epoch = Some(header.epoch);
    Ok(Read { header, bytes })
}

fn read_snapshot(
    directory: &Directory,
    index: u64,
    past: &mut Past,
    see: &mut impl FnMut(Entry),
) -> Result<(), StoreError> {
    let file = read(directory, Kind::Snapshot, index, past)?;
    let mut is_complete = false;
    let (end, rest) = frames(directory, &file, None, &mut |entry| match entry {
        Entry::Complete => is_complete = true,
        entry => see(entry),
    })?;
    match is_complete && rest == Rest::Clean && end == file.bytes.len() as u64 {
        true => Ok(()),
        false => Err(damaged(directory, Kind::Snapshot, index, end)),
    }
}

/// What is after the last frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Nothing, or a frame that was not written to its end.
    Clean,
    Damaged,
}

/// Shows the entries of all frames, up to `limit` if it is known. Returns where the last one ends, and what is after it.
fn frames(
    directory: &Directory,
    file: &Read,
    limit: Option<u64>,
    see: &mut impl FnMut(Entry),
) -> Result<(u64, Rest), StoreError> {
    let Header {
        kind, index, nonce, ..
    } = file.header;
    let limit = limit.map_or(file.bytes.len(), |limit| {
        usize::try_from(limit).map_or(file.bytes.len(), |limit| limit.min(file.bytes.len()))
    });
    let mut rest = file.bytes.get(HEADER..limit).unwrap_or_default();
    let at = |rest: &[u8]| (limit - rest.len()) as u64;
    let mut number = 0;
    while let Some((mut entries, after)) = split_frame(rest, &nonce, number) {
        while !entries.is_empty() {
            match Entry::decode(&mut entries) {
                Some(entry) => see(entry),
                None => return Err(damaged(directory, kind, index, at(rest))),
            }
        }
        (rest, number) = (after, number + 1);
    }
    if has_later_frame(rest, &nonce, number) {
        return Err(damaged(directory, kind, index, at(rest)));
    }
    let rest_is = match is_cut_off(rest) {
        true => Rest::Clean,
        false => Rest::Damaged,
    };
    Ok((at(rest), rest_is))
}

fn missing_file(directory: &Directory, index: u64) -> StoreError {
    StoreError::new(format!(
        "the journal file {} is missing. Nothing was changed. Put it back (never an older copy: what it does not know would run again), or move the whole directory away to start anew: then calls of before are not known any more, and libwitrpc clients repeat none of them",
        directory.file(Kind::Log, index).display()
    ))
}

fn damaged(directory: &Directory, kind: Kind, index: u64, at: u64) -> StoreError {
    StoreError::new(format!(
        "the journal file {} is damaged at byte {at}. Nothing was changed. Put back exactly what it was (never an older copy: what it does not know would run again), or move the whole directory {} away to start anew: then calls of before are not known any more, and libwitrpc clients repeat none of them",
        directory.file(kind, index).display(),
        directory.path().display()
    ))
}

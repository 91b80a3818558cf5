//! The bytes of a journal's files.
//!
//! ```text
//! file    header, then frames; of a log, zeros after the last one
//! header  "WITRPCJ" kind, format (u32), index (u64), epoch (u64), nonce (16), sealed (u64), flags (u8), check (16)
//! frame   check (16), length of what follows (u32), its complement (u32), number of the frame in its file (u64), entries, FF
//! ```
//!
//! Numbers are little-endian. A check is half of the SHA-256 of everything that follows in its frame, after the nonce of the file; so bytes of another file, or
//! of a frame that was given up, are never taken for a frame of this one. Owns what is written and what of it is believed; where files are and which of
//! them count is in `recovery`.

use std::sync::Arc;

use aws_lc_rs::digest;
use bytes::Bytes;
use uuid::Uuid;

use crate::resilience::dedup::{CallId, Numbered, Remembered};

/// The only format so far.
pub(super) const FORMAT: u32 = 1;

const MAGIC: &[u8; 7] = b"WITRPCJ";

pub(super) const HEADER: usize = 8 + 4 + 8 + 8 + 16 + 8 + 1 + CHECK;

const CHECK: usize = 16;

/// Where in the head of a frame its number is.
const NUMBER: usize = CHECK + 4 + 4;

/// Bytes of a frame before its entries.
pub(super) const FRAME: usize = CHECK + 4 + 4 + 8;

/// Ends a frame, so that one that was cut off does not look whole where zeros follow.
const LAST: u8 = 0xFF;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// What happened, in order.
    Log,
    /// What was known when the log of the same index ended.
    Snapshot,
}

/// How a file begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) index: u64,
    pub(super) epoch: u64,
    pub(super) nonce: [u8; 16],
    /// Of a log: how many bytes of the one before it count.
    pub(super) sealed: u64,
    /// Something of what came before it may be lost.
    pub(super) damaged: bool,
    /// Of a log: it is the first one of a process. What ran before does not run any more.
    pub(super) is_first: bool,
}

/// Why a file can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadHeader {
    Damaged,
    /// Another format.
    Format(u32),
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut out = Vec::with_capacity(HEADER);
        out.extend_from_slice(MAGIC);
        out.push(match self.kind {
            Kind::Log => b'L',
            Kind::Snapshot => b'S',
        });
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.sealed.to_le_bytes());
        out.push(u8::from(self.is_first) << 1 | u8::from(self.damaged));
        let check = check(&[&out]);
        out.extend_from_slice(&check);
        let mut header = [0; HEADER];
        header.copy_from_slice(&out);
        header
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let damaged = || BadHeader::Damaged;
        let mut rest = bytes.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let kind = match take::<1>(&mut rest).ok_or_else(damaged)? {
            b"L" => Kind::Log,
            b"S" => Kind::Snapshot,
            _ => return Err(BadHeader::Damaged),
        };
        // Before the check: another format may be checked otherwise.
        match take::<4>(&mut rest).map(|format| u32::from_le_bytes(*format)) {
            Some(FORMAT) => {}
            Some(other) => return Err(BadHeader::Format(other)),
            None => return Err(BadHeader::Damaged),
        }
        let mut read = || {
            let index = u64::from_le_bytes(*take(&mut rest)?);
            let epoch = u64::from_le_bytes(*take(&mut rest)?);
            let nonce = *take(&mut rest)?;
            let sealed = u64::from_le_bytes(*take(&mut rest)?);
            let [flags] = *take::<1>(&mut rest)?;
            let header = Self {
                kind,
                index,
                epoch,
                nonce,
                sealed,
                damaged: flags & 1 != 0,
                is_first: flags & 2 != 0,
            };
            let is_whole = take(&mut rest)? == &check(&[bytes.get(..HEADER - CHECK)?]);
            is_whole.then_some(header)
        };
        read().ok_or(BadHeader::Damaged)
    }
}

fn check(parts: &[&[u8]]) -> [u8; CHECK] {
    let mut hasher = digest::Context::new(&digest::SHA256);
    parts.iter().for_each(|part| hasher.update(part));
    let mut check = [0; CHECK];
    check.copy_from_slice(&hasher.finish().as_ref()[..CHECK]);
    check
}

/// Leaves room for the head of a frame whose entries follow.
pub(super) fn begin_frame(out: &mut Vec<u8>) {
    out.clear();
    out.resize(FRAME, 0);
}

/// Fills in the head. False if there are no entries.
pub(super) fn end_frame(frame: &mut Vec<u8>, nonce: &[u8; 16], number: u64) -> bool {
    if frame.len() <= FRAME {
        return false;
    }
    frame.push(LAST);
    let Some((head, entries)) = frame.split_at_mut_checked(FRAME) else {
        return false;
    };
    let Ok(length) = u32::try_from(entries.len()) else {
        unreachable!("entries of a frame are bounded");
    };
    head[CHECK..CHECK + 4].copy_from_slice(&length.to_le_bytes());
    head[CHECK + 4..NUMBER].copy_from_slice(&(!length).to_le_bytes());
    head[NUMBER..].copy_from_slice(&number.to_le_bytes());
    let check = check(&[nonce, &head[CHECK..], entries]);
    head[..CHECK].copy_from_slice(&check);
    true
}

/// The entries of the frame of this number, if `bytes` begin with it, and what follows.
pub(super) fn split_frame<'a>(
    bytes: &'a [u8],
    nonce: &[u8; 16],
    number: u64,
) -> Option<(&'a [u8], &'a [u8])> {
    let length = stated_length(bytes)?;
    let (head, rest) = bytes.split_at_checked(FRAME)?;
    if head[NUMBER..] != number.to_le_bytes() {
        return None;
    }
    let (entries, rest) = rest.split_at_checked(length - FRAME)?;
    let is_whole = head[..CHECK] == check(&[nonce, &head[CHECK..], entries]);
    is_whole.then_some((entries.strip_suffix(&[LAST])?, rest))
}

/// How long the frame is that bytes begin with, as it says itself.
fn stated_length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(bytes.get(CHECK..CHECK + 4)?.try_into().ok()?);
    let complement = u32::from_le_bytes(bytes.get(CHECK + 4..NUMBER)?.try_into().ok()?);
    (length == !complement).then_some(FRAME + length as usize)
}

/// True if nothing is left but what a write leaves that did not get to its end: room was made for all of it first, so zeros follow on what got
/// there.
pub(super) fn is_cut_off(rest: &[u8]) -> bool {
    let written = rest
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    match stated_length(rest) {
        _ if written == 0 => true,
        Some(length) => written < length && length <= rest.len(),
        None => written < FRAME && rest.len() >= FRAME,
    }
}

/// True if a later frame is found anywhere in bytes that do not begin with one: then what is before
/// it was damaged after it had been written.
pub(super) fn has_later_frame(bytes: &[u8], nonce: &[u8; 16], number: u64) -> bool {
    (1..bytes.len().saturating_sub(FRAME)).any(|at| {
        let stated: [u8; 8] = match bytes[at + NUMBER..at + FRAME].try_into() {
            Ok(stated) => stated,
            Err(_) => return false,
        };
        let stated = u64::from_le_bytes(stated);
        stated > number
            && stated - number < bytes.len() as u64
            && split_frame(&bytes[at..], nonce, stated).is_some()
    })
}

/// What is written about calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// A call was claimed.
    Intent {
        claim: u64,
        call: CallId,
        digest: u64,
    },
    /// It ended; with its answer, or with none that is kept.
    End { claim: u64, answer: Option<Bytes> },
    /// It was refused by its handler.
    Gone { claim: u64 },
    /// Snapshots only.
    Known(Remembered),
    /// Snapshots only: the last entry.
    Complete,
    /// Never written: what follows was written by another process.
    NextLife,
}

mod tag {
    pub(super) const INTENT: u8 = 1;
    pub(super) const END: u8 = 2;
    pub(super) const END_WITHOUT_ANSWER: u8 = 3;
    pub(super) const GONE: u8 = 4;
    pub(super) const CALL: u8 = 5;
    pub(super) const CLIENT: u8 = 6;
    pub(super) const TOMBSTONE: u8 = 7;
    pub(super) const INCOMPLETE: u8 = 8;
    pub(super) const LOST_TRACK: u8 = 9;
    pub(super) const COMPLETE: u8 = 10;
}

/// Bytes that an entry takes at most, but for its principal and its answer.
pub(super) const ENTRY: usize = 128;

impl Entry {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Intent {
                claim,
                call,
                digest,
            } => {
                out.push(tag::INTENT);
                out.extend_from_slice(&claim.to_le_bytes());
                put_call(out, call, *digest);
            }
            Self::End {
                claim,
                answer: Some(answer),
            } => {
                out.push(tag::END);
                out.extend_from_slice(&claim.to_le_bytes());
                put_bytes(out, answer);
            }
            Self::End { claim, .. } => {
                out.push(tag::END_WITHOUT_ANSWER);
                out.extend_from_slice(&claim.to_le_bytes());
            }
            Self::Gone { claim } => {
                out.push(tag::GONE);
                out.extend_from_slice(&claim.to_le_bytes());
            }
            Self::Known(Remembered::Call {
                call,
                digest,
                answer,
            }) => {
                out.push(tag::CALL);
                put_call(out, call, *digest);
                out.push(u8::from(answer.is_some()));
                if let Some(answer) = answer {
                    put_bytes(out, answer);
                }
            }
            Self::Known(Remembered::Client {
                principal,
                client,
                mark,
                unknown_below,
                forgotten,
            }) => {
                out.push(tag::CLIENT);
                put_bytes(out, principal.as_bytes());
                out.extend_from_slice(client.as_bytes());
                out.extend_from_slice(&mark.to_le_bytes());
                out.extend_from_slice(&unknown_below.to_le_bytes());
                out.extend_from_slice(&(forgotten.len() as u32).to_le_bytes());
                for (first, last) in forgotten {
                    out.extend_from_slice(&first.to_le_bytes());
                    out.extend_from_slice(&last.to_le_bytes());
                }
            }
            Self::Known(Remembered::Tombstone {
                principal,
                invocation,
            }) => {
                out.push(tag::TOMBSTONE);
                put_bytes(out, principal.as_bytes());
                out.extend_from_slice(invocation.as_bytes());
            }
            Self::Known(Remembered::Incomplete) => out.push(tag::INCOMPLETE),
            Self::Known(Remembered::LostTrack) => out.push(tag::LOST_TRACK),
            Self::Complete => out.push(tag::COMPLETE),
            Self::NextLife => {}
        }
    }

    /// Reads the next entry.
    pub(super) fn decode(rest: &mut &[u8]) -> Option<Self> {
        let [tag] = *take::<1>(rest)?;
        Some(match tag {
            tag::INTENT => {
                let claim = u64::from_le_bytes(*take(rest)?);
                let (call, digest) = take_call(rest)?;
                Self::Intent {
                    claim,
                    call,
                    digest,
                }
            }
            tag::END => Self::End {
                claim: u64::from_le_bytes(*take(rest)?),
                answer: Some(Bytes::copy_from_slice(take_bytes(rest)?)),
            },
            tag::END_WITHOUT_ANSWER => Self::End {
                claim: u64::from_le_bytes(*take(rest)?),
                answer: None,
            },
            tag::GONE => Self::Gone {
                claim: u64::from_le_bytes(*take(rest)?),
            },
            tag::CALL => {
                let (call, digest) = take_call(rest)?;
                let answer = match take::<1>(rest)? {
                    [0] => None,
                    _ => Some(Bytes::copy_from_slice(take_bytes(rest)?)),
                };
                Self::Known(Remembered::Call {
                    call,
                    digest,
                    answer,
                })
            }
            tag::CLIENT => {
                let principal = take_text(rest)?;
                let client = Uuid::from_bytes(*take(rest)?);
                let mark = u64::from_le_bytes(*take(rest)?);
                let unknown_below = u64::from_le_bytes(*take(rest)?);
                let count = u32::from_le_bytes(*take(rest)?);
                let mut forgotten = Vec::new();
                for _ in 0..count {
                    let first = u64::from_le_bytes(*take(rest)?);
                    forgotten.push((first, u64::from_le_bytes(*take(rest)?)));
                }
                Self::Known(Remembered::Client {
                    principal,
                    client,
                    mark,
                    unknown_below,
                    forgotten,
                })
            }
            tag::TOMBSTONE => Self::Known(Remembered::Tombstone {
                principal: take_text(rest)?,
                invocation: Uuid::from_bytes(*take(rest)?),
            }),
            tag::INCOMPLETE => Self::Known(Remembered::Incomplete),
            tag::LOST_TRACK => Self::Known(Remembered::LostTrack),
            tag::COMPLETE => Self::Complete,
            _ => return None,
        })
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // Messages, and so names and answers, are shorter than 2 GiB.
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_call(out: &mut Vec<u8>, call: &CallId, digest: u64) {
    put_bytes(out, call.principal.as_bytes());
    out.extend_from_slice(call.invocation.as_bytes());
    out.extend_from_slice(&digest.to_le_bytes());
    out.push(u8::from(call.repeated) << 1 | u8::from(call.numbered.is_some()));
    if let Some(numbered) = &call.numbered {
        out.extend_from_slice(numbered.client.as_bytes());
        out.extend_from_slice(&numbered.number.to_le_bytes());
        out.extend_from_slice(&numbered.first_unfinished.to_le_bytes());
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(taken)
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(*take(rest)?);
    let (taken, after) = rest.split_at_checked(length as usize)?;
    *rest = after;
    Some(taken)
}

fn take_text(rest: &mut &[u8]) -> Option<Arc<str>> {
    std::str::from_utf8(take_bytes(rest)?).ok().map(Arc::from)
}

fn take_call(rest: &mut &[u8]) -> Option<(CallId, u64)> {
    let principal = take_text(rest)?;
    let invocation = Uuid::from_bytes(*take(rest)?);
    let digest = u64::from_le_bytes(*take(rest)?);
    let [flags] = *take::<1>(rest)?;
    let numbered = match flags & 1 {
        0 => None,
        _ => Some(Numbered {
            client: Uuid::from_bytes(*take(rest)?),
            number: u64::from_le_bytes(*take(rest)?),
            first_unfinished: u64::from_le_bytes(*take(rest)?),
        }),
    };
    let call = CallId {
        principal,
        invocation,
        numbered,
        repeated: flags & 2 != 0,
        elsewhere: false,
    };
    Some((call, digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(numbered: bool) -> CallId {
        CallId {
            principal: "somebody".into(),
            invocation: Uuid::from_u128(1),
            numbered: numbered.then_some(Numbered {
                client: Uuid::from_u128(2),
                number: 3,
                first_unfinished: 4,
            }),
            repeated: numbered,
            elsewhere: false,
        }
    }

    fn entries() -> Vec<Entry> {
        vec![
            Entry::Intent {
                claim: 7,
                call: call(true),
                digest: 8,
            },
            Entry::End {
                claim: 7,
                answer: Some("answer".into()),
            },
            Entry::End {
                claim: 8,
                answer: None,
            },
            Entry::Gone { claim: 9 },
            Entry::Known(Remembered::Call {
                call: call(false),
                digest: 5,
                answer: None,
            }),
            Entry::Known(Remembered::Call {
                call: call(true),
                digest: 5,
                answer: Some("".into()),
            }),
            Entry::Known(Remembered::Client {
                principal: "p".into(),
                client: Uuid::from_u128(4),
                mark: 1,
                unknown_below: u64::MAX,
                forgotten: vec![(2, 3), (5, 5)],
            }),
            Entry::Known(Remembered::Tombstone {
                principal: "".into(),
                invocation: Uuid::from_u128(6),
            }),
            Entry::Known(Remembered::Incomplete),
            Entry::Known(Remembered::LostTrack),
            Entry::Complete,
        ]
    }

    fn frame(number: u64, entries: &[Entry]) -> Vec<u8> {
        let mut frame = Vec::new();
        begin_frame(&mut frame);
        entries.iter().for_each(|entry| entry.encode(&mut frame));
        assert!(end_frame(&mut frame, &[1; 16], number));
        frame
    }

    #[test]
    fn entries_survive_and_damage_of_a_frame_is_noticed_at_every_bit() {
        let frame = frame(5, &entries());
        let (mut rest, after) = split_frame(&frame, &[1; 16], 5).unwrap();
        let mut read = Vec::new();
        while !rest.is_empty() {
            read.push(Entry::decode(&mut rest).unwrap());
        }
        assert_eq!(read, entries());
        assert!(after.is_empty());
        assert_eq!(split_frame(&frame, &[2; 16], 5), None);
        assert_eq!(split_frame(&frame, &[1; 16], 6), None);
        for cut in 0..frame.len() {
            assert_eq!(split_frame(&frame[..cut], &[1; 16], 5), None);
        }
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(split_frame(&damaged, &[1; 16], 5), None);
        }
    }

    #[test]
    fn what_follows_on_damage_tells_whether_it_was_written_before() {
        // Where room was made, zeros follow.
        let room = [frame(6, &entries()), vec![0; 500]].concat();
        assert!(is_cut_off(&[]) && is_cut_off(&[0; 9]));
        let length = room.len() - 500;
        for cut in 0..length {
            let mut cut_off = room.clone();
            cut_off[cut..].fill(0);
            assert!(is_cut_off(&cut_off), "{cut}");
            assert!(cut == 0 || !is_cut_off(&room[..cut]) || room[..cut].iter().all(|b| *b == 0));
        }
        for at in 0..length {
            let mut damaged = room.clone();
            damaged[at] ^= 0x20;
            assert!(!is_cut_off(&damaged), "{at}");
        }
        let two = [frame(5, &entries()), frame(6, &entries())].concat();
        assert!(has_later_frame(&two, &[1; 16], 5));
        assert!(!has_later_frame(&two, &[1; 16], 6));
        assert!(!has_later_frame(&two, &[2; 16], 5));
        assert!(!has_later_frame(&two[..two.len() - 1], &[1; 16], 5));
    }

    #[test]
    fn a_header_survives_and_damage_is_noticed() {
        let header = Header {
            kind: Kind::Snapshot,
            index: 3,
            epoch: 4,
            nonce: [5; 16],
            sealed: 6,
            damaged: true,
            is_first: true,
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&damaged).is_err());
        }
        for cut in 0..bytes.len() {
            assert_eq!(Header::decode(&bytes[..cut]), Err(BadHeader::Damaged));
        }
        let mut newer = bytes;
        newer[8] = 2;
        assert_eq!(Header::decode(&newer), Err(BadHeader::Format(2)));
    }
}

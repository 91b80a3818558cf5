//! What two libwitrpc peers say to each other on top of WitRPC: one extra member, a byte array of
//! tagged fields, which a .NET peer skips.
//!
//! ```text
//! 57 58 54        "WXT"
//! 01              version
//! fields          tag (u8), length (u16 LE), bytes
//! ```
//!
//! The same bytes are all the data of the messages that only libwitrpc peers send each other
//! (cancellation, ping, pong, going away), so that encryption seals them like any other.
//!
//! A field with an unknown tag is skipped; an extension that does not parse, or of another
//! version, is ignored as a whole. Nothing in clear is trusted: capabilities only switch on what
//! the announcing side asked for itself. `docs/extension.md` has the table.

use uuid::Uuid;

use super::memorypack::Write;

const MAGIC: [u8; 4] = *b"WXT\x01";

/// What a peer understands beyond WitRPC, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities(pub u32);

impl Capabilities {
    /// Call numbers, first-unfinished marks and replay flags.
    pub const DEDUPLICATION: Self = Self(1);

    /// Messages that take back a request (understood by servers).
    pub const CANCELLATION: Self = Self(2);
    /// Pings, which are answered by pongs.
    pub const PING: Self = Self(4);
    /// Messages that announce the end of a connection (understood by clients).
    pub const GOING_AWAY: Self = Self(8);
    /// Remaining time and trace context of requests (understood by servers).
    pub const CALL_CONTEXT: Self = Self(16);

    /// Everything this library understands.
    pub const ALL: Self = Self(1 | 2 | 4 | 8 | 16);

    /// True if all bits of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Longest trace context, in bytes: twice what W3C's `traceparent` and a `tracestate` of the
/// recommended length take.
pub const MAX_TRACE_CONTEXT: usize = 1024;

/// How far a server's memory of executed calls reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Random at each start of a server that forgets when it stops.
    /// Otherwise the same for all lives of the server, or all servers, that share a store.
    pub epoch: u64,
    /// How long an answer is held after the call ended, in ms.
    pub hold_ms: u64,
    /// Random at each start of a server whose epoch outlasts it: what it does not keep in its store
    /// it knows for this life only. `None` where the epoch says that.
    pub life: Option<u64>,
}

/// The fields of an extension. Each message fills those that belong to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extension {
    /// Initialization, both ways.
    pub capabilities: Option<Capabilities>,
    /// Authorization, client to server: the lasting id of this client.
    pub client_id: Option<Uuid>,
    /// Authorization, server to client.
    pub reach: Option<Reach>,
    /// Request: number of the call within this client, from 1.
    pub call_number: Option<u64>,
    /// Request: no call below this number will be sent again.
    pub first_unfinished: Option<u64>,
    /// Request: which attempt this is, where an earlier one may have arrived and the call must not
    /// run twice.
    pub attempt: Option<u32>,
    /// Request: an earlier attempt may have been executed in another [life](Reach::life).
    pub elsewhere: bool,
    /// Request: an earlier attempt may have arrived, and the call may run twice.
    pub may_have_come: bool,
    /// Response: the stored answer of an earlier attempt.
    pub replayed: bool,
    /// Response: refused for load before anything ran; worth another try after so many ms.
    pub retry_after_ms: Option<u32>,
    /// Request: time until its caller gives up, in ms.
    pub remaining_ms: Option<u32>,
    /// Request: what the caller's tracing wants the handler's to know; at most
    /// [`MAX_TRACE_CONTEXT`] bytes.
    pub trace_context: Option<Box<[u8]>>,
    /// Authorization, client to server: silence that the client takes for death, in ms. A server
    /// that can't read for a while gives signs of life more often than this.
    pub patience_ms: Option<u32>,
    /// Cancellation: the message id of the request that is taken back.
    pub cancels: Option<Uuid>,
    /// Ping and pong: a number, the same in both.
    pub ping: Option<u64>,
}

mod tag {
    pub(super) const CAPABILITIES: u8 = 1;
    pub(super) const CLIENT_ID: u8 = 2;
    pub(super) const REACH: u8 = 3;
    pub(super) const CALL_NUMBER: u8 = 4;
    pub(super) const FIRST_UNFINISHED: u8 = 5;
    pub(super) const ATTEMPT: u8 = 6;
    pub(super) const REPLAYED: u8 = 7;
    pub(super) const RETRY_AFTER: u8 = 8;
    pub(super) const REMAINING: u8 = 9;
    pub(super) const TRACE_CONTEXT: u8 = 10;
    pub(super) const PATIENCE: u8 = 11;
    pub(super) const CANCELS: u8 = 12;
    pub(super) const PING: u8 = 13;
    pub(super) const LIFE: u8 = 14;
    pub(super) const ELSEWHERE: u8 = 15;
    pub(super) const MAY_HAVE_COME: u8 = 16;
}

impl Extension {
    /// Writes the fields that are set.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        self.encode_to(&mut out);
        out
    }

    /// Appends the fields that are set.
    pub fn encode_to(&self, out: &mut impl Write) {
        fn field(out: &mut impl Write, tag: u8, value: &[u8]) {
            out.u8(tag);
            out.raw(&(value.len() as u16).to_le_bytes());
            out.raw(value);
        }
        out.raw(&MAGIC);
        if let Some(Capabilities(bits)) = self.capabilities {
            field(out, tag::CAPABILITIES, &bits.to_le_bytes());
        }
        if let Some(id) = self.client_id {
            field(out, tag::CLIENT_ID, id.as_bytes());
        }
        if let Some(reach) = self.reach {
            let mut value = [0; 16];
            value[..8].copy_from_slice(&reach.epoch.to_le_bytes());
            value[8..].copy_from_slice(&reach.hold_ms.to_le_bytes());
            field(out, tag::REACH, &value);
            if let Some(life) = reach.life {
                field(out, tag::LIFE, &life.to_le_bytes());
            }
        }
        if let Some(number) = self.call_number {
            field(out, tag::CALL_NUMBER, &number.to_le_bytes());
        }
        if let Some(number) = self.first_unfinished {
            field(out, tag::FIRST_UNFINISHED, &number.to_le_bytes());
        }
        if let Some(attempt) = self.attempt {
            field(out, tag::ATTEMPT, &attempt.to_le_bytes());
        }
        if self.elsewhere {
            field(out, tag::ELSEWHERE, &[]);
        }
        if self.may_have_come {
            field(out, tag::MAY_HAVE_COME, &[]);
        }
        if self.replayed {
            field(out, tag::REPLAYED, &[]);
        }
        if let Some(ms) = self.retry_after_ms {
            field(out, tag::RETRY_AFTER, &ms.to_le_bytes());
        }
        if let Some(ms) = self.remaining_ms {
            field(out, tag::REMAINING, &ms.to_le_bytes());
        }
        if let Some(context) = &self.trace_context {
            field(
                out,
                tag::TRACE_CONTEXT,
                &context[..context.len().min(MAX_TRACE_CONTEXT)],
            );
        }
        if let Some(ms) = self.patience_ms {
            field(out, tag::PATIENCE, &ms.to_le_bytes());
        }
        if let Some(id) = self.cancels {
            field(out, tag::CANCELS, id.as_bytes());
        }
        if let Some(number) = self.ping {
            field(out, tag::PING, &number.to_le_bytes());
        }
    }

    /// Reads an extension. `None` for anything that is not one: another use of that member, another
    /// version, damaged bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(&MAGIC)?;
        let (mut extension, mut life) = (Self::default(), None);
        while let Some((&tag, after)) = rest.split_first() {
            let (length, after) = after.split_first_chunk::<2>()?;
            let (value, after) =
                after.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            rest = after;
            match tag {
                tag::CAPABILITIES => {
                    extension.capabilities =
                        Some(Capabilities(u32::from_le_bytes(value.try_into().ok()?)));
                }
                tag::CLIENT_ID => extension.client_id = Some(Uuid::from_slice(value).ok()?),
                tag::REACH => {
                    let (epoch, hold) = value.split_first_chunk::<8>()?;
                    extension.reach = Some(Reach {
                        epoch: u64::from_le_bytes(*epoch),
                        hold_ms: u64::from_le_bytes(hold.try_into().ok()?),
                        life: None,
                    });
                }
                tag::LIFE => life = Some(u64::from_le_bytes(value.try_into().ok()?)),
                tag::ELSEWHERE => extension.elsewhere = true,
                tag::MAY_HAVE_COME => extension.may_have_come = true,
                tag::CALL_NUMBER => {
                    extension.call_number = Some(u64::from_le_bytes(value.try_into().ok()?));
                }
                tag::FIRST_UNFINISHED => {
                    extension.first_unfinished = Some(u64::from_le_bytes(value.try_into().ok()?));
                }
                tag::ATTEMPT => {
                    extension.attempt = Some(u32::from_le_bytes(value.try_into().ok()?));
                }
                tag::REPLAYED => extension.replayed = true,
                tag::RETRY_AFTER => {
                    extension.retry_after_ms = Some(u32::from_le_bytes(value.try_into().ok()?));
                }
                tag::REMAINING => {
                    extension.remaining_ms = Some(u32::from_le_bytes(value.try_into().ok()?));
                }
                tag::TRACE_CONTEXT if value.len() > MAX_TRACE_CONTEXT => return None,
                tag::TRACE_CONTEXT => extension.trace_context = Some(value.into()),
                tag::PATIENCE => {
                    extension.patience_ms = Some(u32::from_le_bytes(value.try_into().ok()?));
                }
                tag::CANCELS => extension.cancels = Some(Uuid::from_slice(value).ok()?),
                tag::PING => extension.ping = Some(u64::from_le_bytes(value.try_into().ok()?)),
                _ => {}
            }
        }
        if let Some(reach) = &mut extension.reach {
            reach.life = life;
        }
        Some(extension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Extension {
        Extension {
            capabilities: Some(Capabilities::ALL),
            client_id: Some(Uuid::from_u128(7)),
            reach: Some(Reach {
                epoch: 9,
                hold_ms: 600_000,
                life: Some(12),
            }),
            call_number: Some(3),
            first_unfinished: Some(2),
            attempt: Some(4),
            elsewhere: true,
            may_have_come: true,
            replayed: true,
            retry_after_ms: Some(250),
            remaining_ms: Some(30_000),
            trace_context: Some(
                b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"[..].into(),
            ),
            patience_ms: Some(35_000),
            cancels: Some(Uuid::from_u128(11)),
            ping: Some(5),
        }
    }

    #[test]
    fn fields_survive_and_unknown_tags_are_skipped() {
        let mut bytes = full().encode();
        assert_eq!(Extension::decode(&bytes), Some(full()));
        bytes.extend_from_slice(&[200, 3, 0, 1, 2, 3]);
        assert_eq!(Extension::decode(&bytes), Some(full()));
    }

    #[test]
    fn damage_anywhere_is_ignored_as_a_whole_or_changes_a_value_and_never_panics() {
        let bytes = full().encode();
        for cut in 0..bytes.len() {
            if let Some(partial) = Extension::decode(&bytes[..cut]) {
                assert!(partial != full(), "cut at {cut}");
            }
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let _ = Extension::decode(&damaged);
            }
        }
        assert_eq!(Extension::decode(b"WXT\x02"), None);
        assert_eq!(Extension::decode(b""), None);
    }

    #[test]
    fn the_reply_to_an_encrypted_initialization_has_room_for_the_capabilities() {
        let reply = Extension {
            capabilities: Some(Capabilities::ALL),
            ..Extension::default()
        };
        assert!(reply.encode().len() <= 100);
    }
}

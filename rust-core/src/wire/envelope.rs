//! The envelope around every payload: Id, Type, Data.

use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};
use uuid::Uuid;

use super::memorypack::{Reader, Result, Write};

/// Number of members of an envelope.
const MEMBERS: u8 = 3;

/// What a message is. A receiver ignores numbers that it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind(pub i32);

impl Kind {
    /// Not a message; ignored by every receiver.
    pub const UNKNOWN: Self = Self(0);
    /// A call, and its answer.
    pub const REQUEST: Self = Self(1);
    /// An event, server to client.
    pub const CALLBACK: Self = Self(2);
    /// First step of the handshake, and its answer.
    pub const INITIALIZATION: Self = Self(3);
    /// Second step of the handshake, and its answer.
    pub const AUTHORIZATION: Self = Self(4);

    // Between libwitrpc peers that announced it. Their data is an extension; the numbers are far
    // from those that WitRPC counts up ("WXT" and a counter).

    /// A request is taken back, client to server.
    pub const CANCELLATION: Self = Self(0x5758_5401);
    /// "Are you there?", both ways.
    pub const PING: Self = Self(0x5758_5402);
    /// The answer to it.
    pub const PONG: Self = Self(0x5758_5403);
    /// The server will close this connection: no new calls on it, please. The client answers with
    /// the same: none will come.
    pub const GOING_AWAY: Self = Self(0x5758_5404);
}

/// One message as it travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<D = Bytes> {
    /// Chosen by the sender; an answer repeats it.
    pub id: Uuid,
    /// What the data is.
    pub kind: Kind,
    /// The payload, sealed or in clear. `None` and empty differ on the wire.
    pub data: Option<D>,
}

impl Envelope {
    /// Bytes of an envelope without its data.
    pub const OVERHEAD: usize = 25;

    /// Reads a frame body. `Ok(None)` is a null object. Members that are missing get their
    /// defaults, bytes behind the object are ignored, as the reference does.
    pub fn decode(body: &Bytes) -> Result<Option<Self>> {
        Ok(read(body)?.map(|Envelope { id, kind, data }| Self {
            id,
            kind,
            data: data.map(|range| body.slice(range)),
        }))
    }

    /// Writes the whole envelope, without a frame length.
    pub fn encode(&self, out: &mut impl Write) {
        Self::encode_head(out, self.id, self.kind);
        out.bytes(self.data.as_deref());
    }

    /// Writes all but the data, whose length and bytes must follow.
    pub(super) fn encode_head(out: &mut impl Write, id: Uuid, kind: Kind) {
        out.u8(MEMBERS);
        out.guid(id);
        out.i32(kind.0);
    }
}

impl Envelope<BytesMut> {
    /// Reads a frame body that nobody else holds, so that its data can be opened in place. As
    /// [`decode`](Envelope::decode).
    pub fn take(mut body: BytesMut) -> Result<Option<Self>> {
        Ok(read(&body)?.map(|Envelope { id, kind, data }| Self {
            id,
            kind,
            data: data.map(|range| {
                body.truncate(range.end);
                body.advance(range.start);
                body
            }),
        }))
    }
}

/// An envelope with the place of its data.
fn read(body: &[u8]) -> Result<Option<Envelope<Range<usize>>>> {
    let mut reader = Reader::new(body);
    let Some(count) = reader.object_header()? else {
        return Ok(None);
    };
    if count > MEMBERS {
        return Err(reader.error(format!("an envelope of {count} members")));
    }
    let id = if count > 0 {
        reader.guid()?
    } else {
        Uuid::nil()
    };
    let kind = Kind(if count > 1 { reader.i32()? } else { 0 });
    let data = if count > 2 { reader.bytes()? } else { None };
    let end = reader.position();
    Ok(Some(Envelope {
        id,
        kind,
        data: data.map(|data| end - data.len()..end),
    }))
}

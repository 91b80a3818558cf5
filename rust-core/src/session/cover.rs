//! What messages of a connection travel in: nothing, or a seal.
//!
//! Owns which messages are sealed (all that have data, but those of the initialization) for both
//! ends. Sealing happens where a message is put into the output, so that counters are in the order
//! of the wire.

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

use crate::security::{Channel, OVERHEAD, OpenError};
use crate::wire::{Kind, frame};

#[derive(Debug)]
pub(super) enum Cover {
    /// The connection is not encrypted.
    Clear,
    /// It will be, once the keys are agreed on.
    Agreeing,
    /// Both ends have the keys.
    Sealed(Channel),
}

impl Cover {
    /// Puts a framed message into the output. `payload` appends its data.
    pub(super) fn write(
        &mut self,
        out: &mut BytesMut,
        id: Uuid,
        kind: Kind,
        payload: impl FnOnce(&mut BytesMut),
    ) {
        match self {
            _ if kind == Kind::INITIALIZATION => frame::write(out, id, kind, payload),
            Self::Clear => frame::write(out, id, kind, payload),
            Self::Sealed(channel) => frame::write(out, id, kind, |out| {
                let start = out.len();
                out.put_bytes(0, OVERHEAD);
                payload(out);
                channel.sealer.seal(&mut out[start..]);
            }),
            // Rather nothing than something in clear.
            Self::Agreeing => debug_assert!(false, "a message of type {} without keys", kind.0),
        }
    }

    /// The data of a message that arrived, opened in place.
    pub(super) fn open(
        &mut self,
        kind: Kind,
        data: Option<BytesMut>,
    ) -> Result<Option<Bytes>, OpenError> {
        let Some(data) = data else { return Ok(None) };
        let data = match self {
            _ if kind == Kind::INITIALIZATION => data,
            Self::Clear => data,
            Self::Sealed(channel) => channel.opener.open(data)?,
            Self::Agreeing => return Err(OpenError::NoKeys),
        };
        Ok(Some(data.freeze()))
    }
}

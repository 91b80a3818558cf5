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
            // The states of the handshake let nobody come here; rather nothing than something in
            // clear.
            Self::Agreeing => {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::{Keys, Role};
    use crate::wire::Envelope;

    fn sealed(role: Role) -> Cover {
        let keys = Keys::from_bytes(&[1; 32], &[2; 16]).unwrap();
        Cover::Sealed(Channel::new(&keys, role).unwrap())
    }

    #[test]
    fn messages_are_sealed_and_opened_where_they_lie() {
        let (mut client, mut server) = (sealed(Role::Client), sealed(Role::Server));
        let payload = [7; 300];
        let mut output = BytesMut::with_capacity(1024);
        let place = output.as_ptr();
        for _ in 0..100 {
            output.clear();
            client.write(&mut output, Uuid::nil(), Kind::REQUEST, |out| {
                out.put_slice(&payload);
            });
            // Nothing was allocated: the buffer is the same.
            assert_eq!((output.as_ptr(), output.capacity()), (place, 1024));
            let mut arrived = output.clone();
            let body = frame::split(&mut arrived, 1024).unwrap().unwrap();
            let data = body.as_ptr().addr() + Envelope::OVERHEAD;
            let envelope = Envelope::take(body).unwrap().unwrap();
            let opened = server.open(envelope.kind, envelope.data).unwrap().unwrap();
            assert_eq!(opened, &payload[..]);
            // Nor copied.
            assert_eq!(opened.as_ptr().addr(), data + OVERHEAD);
        }
    }

    #[test]
    fn initializations_and_messages_without_data_are_never_sealed() {
        let mut cover = sealed(Role::Client);
        let mut output = BytesMut::new();
        cover.write(&mut output, Uuid::nil(), Kind::INITIALIZATION, |out| {
            out.put_slice(b"clear");
        });
        assert!(output.ends_with(b"clear"));
        let clear = BytesMut::from(&b"clear"[..]);
        let opened = cover.open(Kind::INITIALIZATION, Some(clear.clone()));
        assert_eq!(opened.unwrap().unwrap(), &b"clear"[..]);
        assert_eq!(cover.open(Kind::REQUEST, None), Ok(None));
        assert!(cover.open(Kind::REQUEST, Some(clear.clone())).is_err());
        let mut agreeing = Cover::Agreeing;
        assert_eq!(
            agreeing.open(Kind::REQUEST, Some(clear)),
            Err(OpenError::NoKeys)
        );
    }

    #[test]
    fn nothing_is_sent_in_clear_that_is_to_be_sealed() {
        let mut output = BytesMut::new();
        Cover::Agreeing.write(&mut output, Uuid::nil(), Kind::REQUEST, |out| {
            out.put_slice(b"secret");
        });
        assert!(output.is_empty());
    }
}

//! What lies between frames and the network: TLS, WebSocket, both, or nothing. Bytes in, bytes out;
//! no socket.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::pump::Ending;
use super::tls::Tls;
use super::websocket::WebSocket;

/// The layers of a connection, from the frames down.
#[derive(Default)]
pub(super) struct Layers {
    pub(super) websocket: Option<Box<WebSocket>>,
    pub(super) tls: Option<Box<Tls>>,
}

/// What has arrived and is not framed otherwise: a stream of length-prefixed frames, or messages.
#[derive(Default)]
pub(super) struct Received {
    pub(super) stream: BytesMut,
    pub(super) messages: VecDeque<Bytes>,
}

impl Layers {
    pub(super) fn is_empty(&self) -> bool {
        self.websocket.is_none() && self.tls.is_none()
    }

    /// Puts length-prefixed frames on their way: what the network is to be given is appended to
    /// `wire`.
    pub(super) fn encode(&mut self, frames: BytesMut, wire: &mut BytesMut) -> Result<(), Ending> {
        match (&mut self.websocket, &mut self.tls) {
            (None, None) => wire.unsplit(frames),
            (None, Some(tls)) => tls.encode(&frames, wire)?,
            (Some(websocket), None) => websocket.encode(frames, wire)?,
            (Some(websocket), Some(tls)) => {
                let mut plain = BytesMut::new();
                websocket.encode(frames, &mut plain)?;
                tls.encode(&plain, wire)?;
            }
        }
        Ok(())
    }

    /// Takes in what the network gave; what it makes necessary to send is appended to `wire`.
    pub(super) fn decode(
        &mut self,
        input: &mut BytesMut,
        received: &mut Received,
        wire: &mut BytesMut,
    ) -> Result<(), Ending> {
        match (&mut self.websocket, &mut self.tls) {
            (None, None) => {
                received.stream.unsplit(input.split());
                Ok(())
            }
            (None, Some(tls)) => tls.decode(input, &mut received.stream, wire),
            (Some(websocket), None) => websocket.decode(input, &mut received.messages, wire),
            (Some(websocket), Some(tls)) => {
                let mut plain = BytesMut::new();
                let ended = tls.decode(input, &mut plain, wire);
                let mut answer = BytesMut::new();
                let result = websocket.decode(&mut plain, &mut received.messages, &mut answer);
                tls.encode(&answer, wire)?;
                result.and(ended)
            }
        }
    }

    /// Something that any peer answers.
    pub(super) fn ping(&mut self, wire: &mut BytesMut) -> Result<(), Ending> {
        let Some(websocket) = &mut self.websocket else {
            return Ok(());
        };
        let mut ping = BytesMut::new();
        websocket.ping(&mut ping)?;
        match &mut self.tls {
            Some(tls) => tls.encode(&ping, wire),
            None => {
                wire.unsplit(ping);
                Ok(())
            }
        }
    }

    /// The polite end of a connection. Errors don't matter any more.
    pub(super) fn farewell(&mut self, text: &str, wire: &mut BytesMut) {
        let mut farewell = BytesMut::new();
        if let Some(websocket) = &mut self.websocket {
            websocket.close(text, &mut farewell);
        }
        match &mut self.tls {
            Some(tls) => {
                let _ = tls.encode(&farewell, wire);
                tls.close(wire);
            }
            None => wire.unsplit(farewell),
        }
    }
}

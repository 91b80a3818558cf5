//! WebSocket as a layer without a socket, by tungstenite: one message is one frame body.

mod client;
mod server;

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use bytes::{Buf, Bytes, BytesMut};
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame};
use tungstenite::protocol::{Message, Role, WebSocketConfig, WebSocketContext};

pub(super) use self::client::connect;
pub(super) use self::server::{Upgrade, accept};
use super::WebSocketOptions;
use super::pump::Ending;
use crate::error::{Error, ErrorCode};
use crate::wire::frame;

/// What is read and written at once; an idle connection keeps about this much.
const BUFFER: usize = 4096;

/// Bytes in and bytes out, where tungstenite wants a stream.
struct Pipe<'a> {
    input: &'a mut BytesMut,
    output: &'a mut BytesMut,
}

impl Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.input.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = buffer.len().min(self.input.len());
        self.input.copy_to_slice(&mut buffer[..n]);
        Ok(n)
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One connection's WebSocket.
pub(super) struct WebSocket {
    context: WebSocketContext,
    fragment: usize,
}

impl WebSocket {
    /// Behind the upgrade; `early` is what came with it.
    fn new(role: Role, early: Vec<u8>, max_message: usize, options: WebSocketOptions) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(0)
            .max_message_size(Some(max_message))
            .max_frame_size(Some(max_message));
        Self {
            context: WebSocketContext::from_partially_read(early, role, Some(config)),
            fragment: options.fragment.unwrap_or(usize::MAX).max(1),
        }
    }

    pub(super) fn set_max_message(&mut self, bytes: usize) {
        self.context.set_config(|config| {
            config.max_message_size = Some(bytes);
            config.max_frame_size = Some(bytes);
        });
    }

    pub(super) fn encode(
        &mut self,
        mut frames: BytesMut,
        wire: &mut BytesMut,
    ) -> Result<(), Ending> {
        // What we wrote ourselves is whole and of a good length.
        while let Ok(Some(body)) = frame::split(&mut frames, i32::MAX as usize) {
            if body.len() <= self.fragment {
                self.write(Message::Binary(body.freeze()), wire)?;
                continue;
            }
            let mut rest = body.freeze();
            let mut opcode = Data::Binary;
            while !rest.is_empty() {
                let piece = rest.split_to(self.fragment.min(rest.len()));
                let part = Frame::message(piece, OpCode::Data(opcode), rest.is_empty());
                self.write(Message::Frame(part), wire)?;
                opcode = Data::Continue;
            }
        }
        Ok(())
    }

    fn write(&mut self, message: Message, wire: &mut BytesMut) -> Result<(), Ending> {
        let mut pipe = Pipe {
            input: &mut BytesMut::new(),
            output: wire,
        };
        let written = self.context.write(&mut pipe, message);
        written
            .and_then(|()| self.context.flush(&mut pipe))
            .map_err(failed)
    }

    pub(super) fn decode(
        &mut self,
        input: &mut BytesMut,
        messages: &mut VecDeque<Bytes>,
        wire: &mut BytesMut,
    ) -> Result<(), Ending> {
        let mut pipe = Pipe {
            input,
            output: wire,
        };
        loop {
            match self.context.read(&mut pipe) {
                // An empty message is nothing, as the reference has it.
                Ok(Message::Binary(body)) if !body.is_empty() => messages.push_back(body),
                Ok(Message::Text(text)) if !text.is_empty() => messages.push_back(text.into()),
                Ok(Message::Close(_)) => {
                    // The answer to it goes out with what is written next.
                    let _ = self.context.flush(&mut pipe);
                    return Err(Ending::Closed);
                }
                Ok(_) => {}
                Err(tungstenite::Error::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => {
                    return self.context.flush(&mut pipe).map_err(failed);
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }

    pub(super) fn ping(&mut self, wire: &mut BytesMut) -> Result<(), Ending> {
        self.write(Message::Ping(Bytes::new()), wire)
    }

    pub(super) fn close(&mut self, text: &str, wire: &mut BytesMut) {
        let mut pipe = Pipe {
            input: &mut BytesMut::new(),
            output: wire,
        };
        let close = CloseFrame {
            code: CloseCode::Normal,
            reason: text.to_owned().into(),
        };
        let _ = self.context.close(&mut pipe, Some(close));
        let _ = self.context.flush(&mut pipe);
    }
}

fn failed(error: tungstenite::Error) -> Ending {
    match error {
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => Ending::Closed,
        error => Ending::Layer(
            Error::new(ErrorCode::Transport, "WebSocket failed")
                .with_details(Some(error.to_string())),
        ),
    }
}

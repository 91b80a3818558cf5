//! A connection on which a test says exactly what it wants, and sees exactly what comes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use witrpc::wire::{
    AuthorizationRequest, Envelope, InitializationRequest, Kind, PROTOCOL_VERSION, Request,
    Response,
};

use crate::{WATCHDOG, hex};

/// What comes next on a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A frame body.
    Frame(Bytes),
    /// An orderly end, between frames.
    End,
    /// A reset.
    Reset,
}

/// See the [module](self).
pub struct Raw(TcpStream);

impl Raw {
    /// Connects to a port of this machine.
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
        stream
            .set_read_timeout(Some(WATCHDOG))
            .expect("a timeout can be set");
        stream.set_nodelay(true).expect("an option can be set");
        Self(stream)
    }

    /// Connects, and is authorised.
    pub fn authorized(port: u16, token: &str) -> Self {
        let mut raw = Self::connect(port);
        raw.send(&frame(&message(
            Kind::INITIALIZATION,
            Some(initialization()),
        )));
        raw.expect_frame();
        raw.send(&frame(&message(
            Kind::AUTHORIZATION,
            Some(authorization(token)),
        )));
        raw.expect_frame();
        raw
    }

    /// Sends bytes as they are. The other end may have closed already.
    pub fn send(&mut self, bytes: &[u8]) {
        match self.0.write_all(bytes) {
            Err(e)
                if !matches!(
                    e.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                panic!("can't send: {e}");
            }
            _ => {}
        }
    }

    /// Says that nothing more will be sent.
    pub fn finish(&self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Waits for what comes next.
    pub fn receive(&mut self) -> Next {
        let mut prefix = [0; 4];
        match self.0.read(&mut prefix[..1]) {
            Ok(0) => return Next::End,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Next::Reset,
            Err(e) => panic!("nothing comes: {e}"),
        }
        self.0.read_exact(&mut prefix[1..]).expect("a whole length");
        let length = usize::try_from(i32::from_le_bytes(prefix)).expect("a length");
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a whole frame");
        Next::Frame(body.into())
    }

    pub fn expect_frame(&mut self) -> Envelope {
        match self.receive() {
            Next::Frame(body) => Envelope::decode(&body)
                .expect("an envelope")
                .expect("no null"),
            other => panic!("{other:?} where a frame was expected"),
        }
    }

    /// Sends a request and waits for its answer; events that come before it are dropped.
    pub fn ask(&mut self, request: &Request) -> Response {
        let message = message(Kind::REQUEST, Some(encode(|out| request.encode(out))));
        self.send(&frame(&message));
        loop {
            let answer = self.expect_frame();
            if answer.kind != Kind::CALLBACK {
                assert_eq!((answer.id, answer.kind), (message.id, Kind::REQUEST));
                return response(&answer);
            }
        }
    }
}

pub fn response(envelope: &Envelope) -> Response {
    let data = envelope.data.as_ref().expect("data");
    Response::decode(data)
        .expect("a response")
        .expect("no null")
}

/// The bytes that something encodes to.
pub fn encode(write: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::new();
    write(&mut out);
    out.freeze()
}

/// A message with a fresh id.
pub fn message(kind: Kind, data: Option<Bytes>) -> Envelope {
    Envelope {
        id: Uuid::new_v4(),
        kind,
        data,
    }
}

/// A body with its length.
pub fn framed(body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len()).expect("a small frame");
    [&length.to_le_bytes(), body].concat()
}

/// A message as it travels.
pub fn frame(message: &Envelope) -> Vec<u8> {
    framed(&encode(|out| message.encode(out)))
}

/// What a plain client begins with.
pub fn initialization() -> Bytes {
    encode(|out| {
        InitializationRequest {
            public_key: Some(vec![0]),
            protocol_version: PROTOCOL_VERSION,
            extension: None,
        }
        .encode(out);
    })
}

pub fn authorization(token: &str) -> Bytes {
    encode(|out| {
        AuthorizationRequest {
            token: Some(token.to_owned()),
            extension: None,
        }
        .encode(out);
    })
}

/// A request by id, as a client without type names sends it.
pub fn request(method: &str, method_id: i64, blobs: &[&str]) -> Request {
    let blobs = blobs
        .iter()
        .map(|blob| Some(Bytes::copy_from_slice(blob.as_bytes())));
    Request {
        token: Some(String::new()),
        method_name: Some(method.to_owned()),
        parameters: Some(blobs.collect()),
        parameter_types: Some(Vec::new()),
        parameter_types_by_name: Some(Vec::new()),
        generic_arguments: Some(Vec::new()),
        generic_arguments_by_name: Some(Vec::new()),
        invocation_id: Uuid::new_v4(),
        contract_id: witrpc_cli::demo::contract().id(),
        method_id,
        extension: None,
    }
}

/// A request of the demo contract by the line of its method.
pub fn call(line: &str, blobs: &[&str]) -> Request {
    let method = witrpc_cli::demo::contract().method(line).expect("a method");
    request(method.name(), method.method_id(), blobs)
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Raw({:?})", self.0.local_addr())
    }
}

/// Shows a body in a message.
pub fn shown(next: &Next) -> String {
    match next {
        Next::Frame(body) => hex(body),
        other => format!("{other:?}"),
    }
}

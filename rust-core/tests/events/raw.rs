//! Ends of a connection that a test drives by hand: a client that reads when it is told to, and a
//! server that sends any event.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use witrpc::security::ClientKey;
use witrpc::session::{Call, ClientReceived, ClientSession, ServerReceived, ServerSession, Slot};
use witrpc::wire::{Arguments, ParameterType, Request, frame};

use crate::contract;

/// What a client got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Got {
    Event(i64),
    Answer,
    End,
}

/// A client that reads nothing unless it is told to.
pub(crate) struct RawClient {
    socket: TcpStream,
    session: ClientSession,
    input: BytesMut,
}

impl RawClient {
    pub(crate) fn connect(endpoint: &str, token: &str, key: Option<Arc<ClientKey>>) -> Self {
        let socket = TcpStream::connect(endpoint.trim_start_matches("tcp://")).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let id = Uuid::from_u128(7);
        let session = match key {
            Some(key) => ClientSession::encrypted([1; 8], id, token, key),
            None => ClientSession::new([1; 8], id, token),
        };
        let input = BytesMut::new();
        let mut raw = Self {
            socket,
            session,
            input,
        };
        while !raw.session.is_ready() {
            raw.flush();
            assert_eq!(raw.step(), None);
        }
        raw
    }

    fn flush(&mut self) {
        let output = self.session.take_output();
        self.socket.write_all(&output).unwrap();
    }

    /// Takes in what arrives next. A message that does not open is a failure.
    fn step(&mut self) -> Option<Got> {
        let body = loop {
            if let Some(body) = frame::split(&mut self.input, 1 << 28).unwrap() {
                break body;
            }
            let mut buffer = [0; 65_536];
            match self.socket.read(&mut buffer) {
                Ok(0) => return Some(Got::End),
                Ok(n) => self.input.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => {
                    return Some(Got::End);
                }
                Err(e) => panic!("nothing comes: {e}"),
            }
        };
        match self.session.receive(body).unwrap() {
            ClientReceived::Event(request) => {
                let blob = request.parameters.unwrap()[0].clone().unwrap();
                Some(Got::Event(serde_json::from_slice(&blob).unwrap()))
            }
            ClientReceived::Answer(..) => Some(Got::Answer),
            _ => None,
        }
    }

    /// Asks for a sum, and waits for nothing.
    pub(crate) fn ask(&mut self) {
        let method = contract().method("Add").unwrap();
        let arguments = Arguments::from_blobs(&[Bytes::from_static(b"1"), "2".into()]);
        let call = Call {
            method_name: "Add",
            arguments: &arguments,
            types: None,
            invocation_id: Uuid::from_bytes(rand::random()),
            contract_id: method.contract_id(),
            method_id: method.method_id(),
            number: None,
            first_unfinished: 0,
            attempt: None,
            elsewhere: false,
            may_have_come: false,
            remaining: None,
            trace_context: None,
        };
        let slot = Slot {
            index: 0,
            serial: 1,
        };
        self.session.request(slot, &call);
        self.flush();
    }

    /// Reads up to an answer, or the end; that comes last.
    pub(crate) fn read(&mut self) -> (Vec<i64>, Got) {
        let mut events = Vec::new();
        loop {
            match self.step() {
                Some(Got::Event(n)) => events.push(n),
                Some(end) => return (events, end),
                None => {}
            }
        }
    }
}

/// A server of one client that sends these events, and then nothing until the client leaves.
pub(crate) fn server_of(events: Vec<Request>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut session = ServerSession::new(Uuid::from_u128(1));
        let (mut input, mut buffer) = (BytesMut::new(), [0; 4096]);
        loop {
            let n = socket.read(&mut buffer).unwrap_or(0);
            if n == 0 {
                return;
            }
            input.extend_from_slice(&buffer[..n]);
            while let Some(body) = frame::split(&mut input, 1 << 20).unwrap() {
                if let ServerReceived::Authorize { .. } = session.receive(body).unwrap() {
                    session.authorize(true, None).unwrap();
                    for event in &events {
                        let mut bytes = Vec::new();
                        event.encode(&mut bytes);
                        session.event(&bytes);
                    }
                }
            }
            socket.write_all(&session.take_output()).unwrap();
        }
    });
    endpoint
}

/// An event of the contract with these arguments, whose types have these names.
pub(crate) fn event(name: &str, blobs: &[&str], weak: &[&str], strong: &[&str]) -> Request {
    let text = |texts: &[&str]| texts.iter().map(|t| Some((*t).to_owned())).collect();
    let weak = weak.iter().map(|name| {
        Some(ParameterType {
            name: Some((*name).to_owned()),
            assembly: Some("No.Such.Assembly".to_owned()),
        })
    });
    let blobs = blobs
        .iter()
        .map(|b| Some(Bytes::copy_from_slice(b.as_bytes())));
    Request {
        token: Some(String::new()),
        method_name: Some(name.to_owned()),
        parameters: Some(blobs.collect()),
        parameter_types: Some(text(strong)),
        parameter_types_by_name: Some(weak.collect()),
        generic_arguments: Some(Vec::new()),
        generic_arguments_by_name: Some(Vec::new()),
        invocation_id: Uuid::from_u128(2),
        contract_id: contract().id(),
        method_id: 0,
        extension: None,
    }
}

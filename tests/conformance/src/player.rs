//! The server's side of a recorded conversation, played to a client under test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use uuid::Uuid;
use witrpc::wire::{Envelope, Kind, Request};

use crate::WATCHDOG;
use crate::conversation::{Call, load};
use crate::raw::frame;

/// Plays the server's side of a recording to one client. Requests are expected in the recorded order;
/// each is answered by what followed it, under the id that it came with.
pub struct Player {
    pub endpoint: String,
    /// The requests as they came.
    pub requests: Arc<Mutex<Vec<Request>>>,
    pub thread: std::thread::JoinHandle<()>,
}

pub fn play(name: &str) -> Player {
    let conversation = load(name);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a well-formed recording, and a socket");
    let endpoint = format!(
        "tcp://{}",
        listener
            .local_addr()
            .expect("a well-formed recording, and a socket")
    );
    let requests = Arc::new(Mutex::new(Vec::new()));
    let thread = std::thread::spawn({
        let requests = requests.clone();
        move || {
            let (mut stream, _) = listener
                .accept()
                .expect("a well-formed recording, and a socket");
            stream
                .set_read_timeout(Some(WATCHDOG))
                .expect("a well-formed recording, and a socket");
            // The recorded id, and the one that our client used instead.
            let mut ids = (Uuid::nil(), Uuid::nil());
            for recorded in &conversation.frames {
                let Some(message) = recorded.envelope() else {
                    continue;
                };
                if recorded.is_from_client() {
                    let Some(received) = read(&mut stream) else {
                        return;
                    };
                    assert_eq!(received.kind, message.kind);
                    ids = (message.id, received.id);
                    if message.kind == Kind::REQUEST {
                        let data = received
                            .data
                            .as_ref()
                            .expect("a well-formed recording, and a socket");
                        requests
                            .lock()
                            .expect("a well-formed recording, and a socket")
                            .push(
                                Request::decode(data)
                                    .expect("a well-formed recording, and a socket")
                                    .expect("a well-formed recording, and a socket"),
                            );
                    }
                } else if message.kind == Kind::CALLBACK {
                    stream
                        .write_all(&frame(&message))
                        .expect("a well-formed recording, and a socket");
                } else if message.id == ids.0 {
                    let answer = Envelope {
                        id: ids.1,
                        ..message
                    };
                    stream
                        .write_all(&frame(&answer))
                        .expect("a well-formed recording, and a socket");
                }
            }
        }
    });
    Player {
        endpoint,
        requests,
        thread,
    }
}

fn read(stream: &mut TcpStream) -> Option<Envelope> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![
        0;
        i32::from_le_bytes(length)
            .try_into()
            .expect("a well-formed recording, and a socket")
    ];
    stream.read_exact(&mut body).ok()?;
    Envelope::decode(&body.into()).expect("a well-formed recording, and a socket")
}

/// The recorded requests.
pub fn recorded_requests(name: &str) -> Vec<Request> {
    let frames = load(name).frames;
    let messages = frames
        .iter()
        .filter(|f| f.is_from_client())
        .filter_map(|f| f.envelope());
    messages
        .filter(|message| message.kind == Kind::REQUEST)
        .map(|message| {
            Request::decode(&message.data.expect("a well-formed recording, and a socket"))
                .expect("a well-formed recording, and a socket")
                .expect("a well-formed recording, and a socket")
        })
        .collect()
}

/// The line of a recorded call.
pub fn line(call: &Call) -> String {
    format!("{}({})", call.method, call.parameter_types.join(", "))
}

pub fn arguments(call: &Call) -> String {
    let all: Vec<_> = call.arguments.iter().map(|value| value.get()).collect();
    format!("[{}]", all.join(","))
}

/// JSON without blanks.
pub fn compact(json: &str) -> String {
    witrpc::codec::RawJson::parse(json)
        .expect("a well-formed recording, and a socket")
        .as_str()
        .to_owned()
}

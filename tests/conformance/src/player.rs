//! The server's side of a recording, played to our client.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use uuid::Uuid;
use witrpc::wire::{Envelope, Kind, Request};

use crate::WATCHDOG;
use crate::conversation::load;
use crate::raw::frame;

/// Plays the server's side of a recording to one client. Requests are expected in the recorded order;
/// each is answered by what followed it, under the id that it came with.
pub struct Player {
    pub endpoint: String,
    /// The requests as they came.
    pub requests: Arc<Mutex<Vec<Request>>>,
    pub thread: std::thread::JoinHandle<()>,
}

/// Starts it.
pub fn play(name: &str) -> Player {
    let conversation = load(name);
    let listener = TcpListener::bind("127.0.0.1:0").expect("it works");
    let endpoint = format!("tcp://{}", listener.local_addr().expect("it works"));
    let requests = Arc::new(Mutex::new(Vec::new()));
    let thread = std::thread::spawn({
        let requests = requests.clone();
        move || {
            let (mut stream, _) = listener.accept().expect("it works");
            stream.set_read_timeout(Some(WATCHDOG)).expect("it works");
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
                        let data = received.data.as_ref().expect("it works");
                        requests
                            .lock()
                            .expect("it works")
                            .push(Request::decode(data).expect("it works").expect("it works"));
                    }
                } else if message.kind == Kind::CALLBACK {
                    stream.write_all(&frame(&message)).expect("it works");
                } else if message.id == ids.0 {
                    let answer = Envelope {
                        id: ids.1,
                        ..message
                    };
                    stream.write_all(&frame(&answer)).expect("it works");
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
    let mut body = vec![0; i32::from_le_bytes(length).try_into().expect("it works")];
    stream.read_exact(&mut body).ok()?;
    Envelope::decode(&body.into()).expect("it works")
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
            Request::decode(&message.data.expect("it works"))
                .expect("it works")
                .expect("it works")
        })
        .collect()
}

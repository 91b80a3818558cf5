//! Encrypted conversations recorded with a .NET peer, replayed in both roles: its client's frames to
//! our server's side, its server's frames to our client's side.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use uuid::Uuid;
use witrpc::codec::Codec;
use witrpc::security::{Channel, ClientKey, Keys, Role};
use witrpc::session::{Call, ClientReceived, ClientSession, ServerReceived, ServerSession, Slot};
use witrpc::wire::{
    Arguments, AuthorizationRequest, ENCRYPTION_REFUSED, Envelope, InitializationRequest,
    InitializationResponse, Kind, Request, Response, status,
};
use witrpc::{ErrorCode, Outcome};

use crate::common::{compact, echo, hex, unbase64, vector};
use crate::{body, one, opened};

const TOKEN: &str = "s3cret";

#[derive(Deserialize)]
struct Conversation {
    #[serde(rename = "clientPrivateKeyPkcs8")]
    key: Option<String>,
    calls: Vec<Recorded>,
    frames: Vec<Frame>,
}

/// A call and how it ended at the .NET client.
#[derive(Deserialize)]
struct Recorded {
    method: String,
    result: Option<Box<RawValue>>,
    error: Option<String>,
    inner: Option<String>,
}

#[derive(Deserialize)]
struct Frame {
    from: String,
    #[serde(default)]
    hex: String,
}

impl Conversation {
    fn read(name: &str) -> Self {
        serde_json::from_str(&vector(&format!("conversations/{name}.json"))).unwrap()
    }

    fn key(&self) -> Arc<ClientKey> {
        let document = unbase64(self.key.as_ref().unwrap());
        Arc::new(ClientKey::from_pkcs8(&document).unwrap())
    }

    /// The messages of one side, in order.
    fn messages(&self, from: &str) -> Vec<Envelope> {
        let frames = self.frames.iter().filter(|f| f.from == from);
        frames
            .filter(|f| !f.hex.is_empty())
            .map(|f| one(hex(&f.hex)[..].into()))
            .collect()
    }

    /// The keys of the connection, from the server's first reply.
    fn keys(&self) -> Keys {
        let reply = &self.messages("server")[0];
        let clear = self.key().decrypt(reply.data.as_ref().unwrap()).unwrap();
        let reply = InitializationResponse::decode(&clear).unwrap().unwrap();
        Keys::from_bytes(&reply.symmetric_key.unwrap(), &reply.vector.unwrap()).unwrap()
    }
}

/// The recorded client talks to our server: every frame of ours is the recorded one, byte for byte,
/// but for the padding of the key exchange.
fn to_our_server(name: &str) {
    let conversation = Conversation::read(name);
    let (key, keys) = (conversation.key(), conversation.keys());
    let mut recorded = Channel::new(&keys, Role::Client).unwrap().opener;
    let mut session = ServerSession::encrypted(Uuid::from_u128(7), keys);
    let mut requests = 0;
    for frame in conversation.frames.iter().filter(|f| !f.hex.is_empty()) {
        let message = one(hex(&frame.hex)[..].into());
        if frame.from == "client" {
            match session.receive(body(&message)).unwrap() {
                ServerReceived::Nothing => assert_eq!(message.kind, Kind::INITIALIZATION),
                ServerReceived::Authorize {
                    token,
                    client_id,
                    patience,
                } => {
                    assert_eq!((&*token, client_id, patience), (TOKEN, None, None));
                    session.authorize(true, None).unwrap();
                }
                ServerReceived::Request(id, request) => {
                    assert_eq!(id, message.id);
                    assert_eq!(request.token.as_deref(), Some(TOKEN));
                    let call = &conversation.calls[requests];
                    assert_eq!(request.method_name.as_deref(), Some(&*call.method));
                    requests += 1;
                }
                other => panic!("{other:?}"),
            }
            continue;
        }
        match message.kind {
            Kind::INITIALIZATION => {
                let ours = one(session.take_output());
                assert_eq!((ours.id, ours.kind), (message.id, message.kind));
                let clear = |m: &Envelope| key.decrypt(m.data.as_ref().unwrap()).unwrap();
                assert_eq!(*clear(&ours), *clear(&message));
                continue;
            }
            Kind::AUTHORIZATION => drop(opened(&mut recorded, &message)),
            _ => session.respond(message.id, &opened(&mut recorded, &message)),
        }
        assert_eq!(&session.take_output()[..], &hex(&frame.hex)[..]);
    }
    assert_eq!(requests, conversation.calls.len());
}

/// The recorded server talks to our client, under the ids that ours gave to its messages.
fn to_our_client(name: &str, codec: Codec) {
    let conversation = Conversation::read(name);
    let keys = conversation.keys();
    let channel = |role| Channel::new(&keys, role).unwrap();
    let (mut theirs, mut ours) = (channel(Role::Server).opener, channel(Role::Server).opener);
    let requests = conversation.messages("client");
    let mut replies = conversation.messages("server").into_iter();
    let mut session =
        ClientSession::encrypted([5; 8], Uuid::from_u128(1), TOKEN, conversation.key());

    let message = one(session.take_output());
    let data = InitializationRequest::decode(message.data.as_ref().unwrap());
    let recorded = InitializationRequest::decode(requests[0].data.as_ref().unwrap());
    let text = |r: InitializationRequest| String::from_utf8(r.public_key.unwrap()).unwrap();
    let recorded = text(recorded.unwrap().unwrap());
    // All of its members, and then ours.
    assert!(text(data.unwrap().unwrap()).starts_with(recorded.strip_suffix('}').unwrap()));
    let mut reply = |id: Uuid| Envelope {
        id,
        ..replies.next().unwrap()
    };
    let received = session.receive(body(&reply(message.id))).unwrap();
    assert!(matches!(received, ClientReceived::Nothing) && session.is_sealed());

    let message = one(session.take_output());
    let data = opened(&mut ours, &message);
    // Byte for byte what the recorded client sent.
    assert_eq!(data, opened(&mut theirs, &requests[1]));
    let token = AuthorizationRequest::decode(&data).unwrap().unwrap().token;
    assert_eq!(token.as_deref(), Some(TOKEN));
    let received = session.receive(body(&reply(message.id))).unwrap();
    assert!(matches!(received, ClientReceived::Authorized));

    for (index, call) in conversation.calls.iter().enumerate() {
        let recorded = opened(&mut theirs, &requests[index + 2]);
        let recorded = Request::decode(&recorded).unwrap().unwrap();
        let slot = Slot {
            index: index as u32,
            serial: 9,
        };
        let blobs = recorded.parameters.as_deref().unwrap();
        let blobs: Vec<_> = blobs.iter().map(|b| b.clone().unwrap()).collect();
        session.request(
            slot,
            &Call {
                method_name: &call.method,
                arguments: &Arguments::from_blobs(&blobs),
                types: None,
                invocation_id: recorded.invocation_id,
                contract_id: recorded.contract_id,
                method_id: recorded.method_id,
                number: Some(1),
                first_unfinished: 1,
                attempt: Some(1),
                elsewhere: true,
                may_have_come: true,
                remaining: Some(std::time::Duration::from_secs(30)),
                trace_context: Some(b"trace"),
            },
        );
        let message = one(session.take_output());
        // The same request, without the type names that a call by id does not need.
        let expected = Request {
            parameter_types: Some(Vec::new()),
            ..recorded.clone()
        };
        let sent = Request::decode(&opened(&mut ours, &message))
            .unwrap()
            .unwrap();
        assert!(sent == expected, "{}", call.method);
        match session.receive(body(&reply(message.id))).unwrap() {
            ClientReceived::Answer(place, Ok((response, _))) => {
                assert_eq!(place, slot);
                check(call, codec, recorded.method_id, &response);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(replies.next().is_none());
}

fn check(call: &Recorded, codec: Codec, method_id: i64, response: &Response) {
    if call.error.is_some() {
        assert_eq!(response.status, status::INTERNAL_SERVER_ERROR);
        assert_eq!(response.error_details, call.inner);
        return;
    }
    assert_eq!(response.status, status::OK);
    let contract = echo();
    let method = contract.by_id(method_id).unwrap();
    let data = response.data.as_deref().unwrap_or_default();
    let shown = method.decode_result_json(codec, data).unwrap();
    let expected = call.result.as_ref().map_or("null", |r| r.get());
    assert_eq!(shown, compact(expected), "{}", call.method);
}

#[test]
fn calls_with_json() {
    to_our_server("calls-json-encrypted");
    to_our_client("calls-json-encrypted", Codec::Json);
}

#[test]
fn calls_with_memorypack() {
    to_our_server("calls-memorypack-encrypted");
    to_our_client("calls-memorypack-encrypted", Codec::MemoryPack);
}

#[test]
fn an_encrypting_client_meets_a_plain_server() {
    let conversation = Conversation::read("encrypted-client-plain-server");
    let (mut requests, mut replies) = (
        conversation.messages("client"),
        conversation.messages("server"),
    );
    // Our plain server answers as the recorded one did.
    let mut server = ServerSession::new(Uuid::from_u128(7));
    server.receive(body(&requests.remove(0))).unwrap();
    let reply = replies.remove(0);
    assert_eq!(one(server.take_output()), reply);
    // Our client, which encrypts, does not go on in clear.
    let mut client =
        ClientSession::encrypted([5; 8], Uuid::from_u128(1), "secret", conversation.key());
    let id = one(client.take_output()).id;
    let error = client.receive(body(&Envelope { id, ..reply })).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Encryption);
    assert_eq!(
        error.to_string(),
        "the server does not encrypt and this client does: switch encryption on in the server, or \
         off here"
    );
    assert_eq!(
        (client.pending_output(), error.outcome()),
        (0, Outcome::NotSent)
    );
}

#[test]
fn a_plain_client_meets_an_encrypting_server() {
    let conversation = Conversation::read("plain-client-encrypted-server");
    let (mut requests, mut replies) = (
        conversation.messages("client"),
        conversation.messages("server"),
    );
    // The recorded server sends its keys in clear; our client says what is wrong.
    let mut client = ClientSession::new([5; 8], Uuid::from_u128(1), "secret");
    let id = one(client.take_output()).id;
    let reply = replies.remove(0);
    let keys = InitializationResponse::decode(reply.data.as_ref().unwrap());
    assert_eq!(keys.unwrap().unwrap().symmetric_key.unwrap().len(), 32);
    let error = client.receive(body(&Envelope { id, ..reply })).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Encryption);
    assert!(error.to_string().contains("switch encryption on"));
    assert_eq!(client.pending_output(), 0);
    // Our server sends none, and says the same.
    let keys = Keys::from_bytes(&[0xA5; 32], &[0x5A; 16]).unwrap();
    let mut server = ServerSession::encrypted(Uuid::from_u128(7), keys);
    let violation = server.receive(body(&requests.remove(0))).unwrap_err();
    let reply = one(server.take_output());
    let reply = InitializationResponse::decode(reply.data.as_ref().unwrap());
    let reply = reply.unwrap().unwrap();
    assert_eq!((reply.symmetric_key, reply.vector), (None, None));
    let text = reply.error_message.unwrap();
    assert_eq!(text, violation.0);
    assert!(text.starts_with(ENCRYPTION_REFUSED) && text.contains("switch encryption on"));
}

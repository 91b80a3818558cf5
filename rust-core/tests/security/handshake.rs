//! What our server makes of a public key (the table of protocol section 12.1, cell by cell), and what
//! our client makes of a reply.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeySize, PrivateDecryptingKey};
use bytes::Bytes;
use uuid::Uuid;
use witrpc::ErrorCode;
use witrpc::security::{Channel, ClientKey, Keys, PublicKey, Role};
use witrpc::session::{ClientSession, ServerReceived, ServerSession, Violation};
use witrpc::wire::extension::{Capabilities, Extension};
use witrpc::wire::{
    AuthorizationRequest, ENCRYPTION_REFUSED, Envelope, InitializationRequest,
    InitializationResponse, Kind, Request, Response,
};

use crate::common::to_hex;
use crate::{KEY, body, one, opened};

const SYMMETRIC: [u8; 32] = [0xA5; 32];
const VECTOR: [u8; 16] = [0x5A; 16];

fn keys() -> Keys {
    Keys::from_bytes(&SYMMETRIC, &VECTOR).unwrap()
}

fn server() -> ServerSession {
    ServerSession::encrypted(Uuid::from_u128(7), keys())
}

fn envelope(kind: Kind, data: Option<Vec<u8>>) -> Envelope {
    Envelope {
        id: Uuid::from_u128(3),
        kind,
        data: data.map(Bytes::from),
    }
}

fn initialization(key: Option<&[u8]>, version: i32, extension: bool) -> Envelope {
    let announced = Extension {
        capabilities: Some(Capabilities::ALL),
        ..Extension::default()
    };
    let mut data = Vec::new();
    InitializationRequest {
        public_key: key.map(<[u8]>::to_vec),
        protocol_version: version,
        extension: extension.then(|| announced.encode()),
    }
    .encode(&mut data);
    envelope(Kind::INITIALIZATION, Some(data))
}

/// What our server answers to a public key. Whatever it is: no key of the connection is in it.
fn answer(key: &[u8]) -> (Result<ServerReceived, Violation>, ServerSession, Envelope) {
    let mut server = server();
    let received = server.receive(body(&initialization(Some(key), 3, false)));
    let output = server.take_output();
    let shown = to_hex(&output);
    assert!(!shown.contains(&"a5".repeat(8)) && !shown.contains(&"5a".repeat(8)));
    (received, server, one(output))
}

/// It is accepted: what comes back opens with the private key, and sealed messages do too.
fn accepts(text: &[u8], key: &ClientKey) {
    let (received, mut server, reply) = answer(text);
    let shown = String::from_utf8_lossy(text);
    assert!(matches!(received, Ok(ServerReceived::Nothing)), "{shown}");
    let clear = key.decrypt(reply.data.as_ref().unwrap()).unwrap();
    let reply = InitializationResponse::decode(&clear).unwrap().unwrap();
    assert_eq!(reply.symmetric_key.as_deref(), Some(&SYMMETRIC[..]));
    assert_eq!(reply.vector.as_deref(), Some(&VECTOR[..]));
    let mut channel = Channel::new(&keys(), Role::Client).unwrap();
    let mut data = vec![0; witrpc::security::OVERHEAD];
    AuthorizationRequest {
        token: Some("token".into()),
        extension: None,
    }
    .encode(&mut data);
    channel.sealer.seal(&mut data);
    let received = server.receive(body(&envelope(Kind::AUTHORIZATION, Some(data))));
    assert!(
        matches!(received, Ok(ServerReceived::Authorize { token, .. }) if token == "token"),
        "{shown}"
    );
}

/// It is refused in clear, with a reason, and the connection is closed.
fn refuses(text: &[u8], reason: &str) {
    let (received, mut server, reply) = answer(text);
    let shown = String::from_utf8_lossy(text);
    let reply = InitializationResponse::decode(reply.data.as_ref().unwrap());
    let reply = reply.unwrap().unwrap();
    assert_eq!((&reply.symmetric_key, &reply.vector), (&None, &None));
    let message = reply.error_message.unwrap();
    assert_eq!(received.unwrap_err(), Violation(message.clone()), "{shown}");
    let why = message.strip_prefix(ENCRYPTION_REFUSED).unwrap();
    assert!(why.contains(reason), "{shown}: {why}");
    // Whoever goes on all the same finds that nothing opens.
    let data = vec![0; 40];
    assert!(
        server
            .receive(body(&envelope(Kind::AUTHORIZATION, Some(data))))
            .is_err()
    );
}

/// Modulus and exponent of a key, in base64.
fn parts(key: &ClientKey) -> (String, String) {
    let text: serde_json::Value = serde_json::from_slice(key.public_text()).unwrap();
    let part = |name: &str| text[name].as_str().unwrap().to_owned();
    assert_eq!(part("mod"), part("Modulus"));
    assert_eq!(part("exp"), part("Exponent"));
    (part("mod"), part("exp"))
}

/// A text with `<M>` and `<E>` filled in.
fn text(pattern: &str) -> Vec<u8> {
    let (modulus, exponent) = parts(&KEY);
    let text = pattern.replace("<M>", &modulus).replace("<E>", &exponent);
    text.into_bytes()
}

#[test]
fn keys_that_the_reference_accepts_are_accepted() {
    for pattern in [
        // names, order, both at once
        r#"{"mod":"<M>","exp":"<E>"}"#,
        r#"{"n":"<M>","e":"<E>"}"#,
        r#"{"e":"<E>","mod":"<M>"}"#,
        // blanks and escapes
        "\r\n{ \"mod\"\t: \"<M>\", \"exp\" : \"<E>\" }\n",
        r#"{"\u006Dod":"<M>","exp":"\u0041QAB"}"#,
        // the same twice
        r#"{"mod":"<M>","n":"<M>","mod":"<M>","exp":"<E>"}"#,
        // other members that are null or base64
        r#"{"mod":"<M>","exp":"<E>","kid":null,"use":"c2ln","x":""}"#,
        r#"{"mod":"<M>","exp":"<E>","Modulus":"<M>","Exponent":"<E>"}"#,
        // a leading zero byte in the exponent
        r#"{"mod":"<M>","exp":"AAEAAQ=="}"#,
        // and what only a BouncyCastle server accepts
        r#"{"Modulus":"<M>","Exponent":"<E>"}"#,
    ] {
        accepts(&text(pattern), &KEY);
    }
    let (modulus, _) = parts(&KEY);
    let escaped = modulus.replace('+', "\\u002B").replace('/', "\\/");
    accepts(
        &text(&format!(r#"{{"mod":"{escaped}","exp":"<E>"}}"#)),
        &KEY,
    );
    accepts(KEY.public_text(), &KEY);
}

#[test]
fn longer_keys_are_accepted_and_the_reply_has_their_size() {
    for (size, bytes) in [(KeySize::Rsa3072, 384), (KeySize::Rsa4096, 512)] {
        let document = PrivateDecryptingKey::generate(size).unwrap();
        let key = ClientKey::from_pkcs8(document.as_der().unwrap().as_ref()).unwrap();
        accepts(key.public_text(), &key);
        let (_, _, reply) = answer(key.public_text());
        assert_eq!(reply.data.unwrap().len(), bytes);
    }
}

#[test]
fn list_a_which_the_reference_answers_with_keys_in_clear_is_refused() {
    refuses(&[0], "switch encryption on in the client");
    for no_json in [
        &b""[..],
        b"x",
        b"\x01",
        b"-----BEGIN PUBLIC KEY-----\nMII",
        b"\xff\xfe{",
    ] {
        refuses(no_json, "no JSON object");
    }
    for pattern in [
        "\u{feff}{\"mod\":\"<M>\",\"exp\":\"<E>\"}",
        "null",
        r#"["<M>","<E>"]"#,
        r#""<M>""#,
        "65537",
        r#"{"mod":"<M>","exp":"<E>",}"#,
        // accepted by the reference; not JSON all the same
        r#"{"mod":"<M>","exp":"<E>"} garbage"#,
    ] {
        refuses(&text(pattern), "no JSON object");
    }
    for pattern in [
        // base64url, without padding
        r#"{"mod":"-_-_","exp":"<E>"}"#,
        r#"{"mod":"<M>","exp":"AQ"}"#,
        // any member that is something else
        r#"{"kty":"RSA","mod":"<M>","exp":"<E>"}"#,
        r#"{"mod":"<M>","exp":65537}"#,
        r#"{"mod":"<M>","exp":"<E>","x":{}}"#,
        r#"{"mod":"<M>","exp":"<E>","x":["a"]}"#,
        r#"{"mod":"<M>","exp":"<E>","x":true}"#,
    ] {
        refuses(&text(pattern), "is no base64 text");
    }
}

#[test]
fn list_b_which_the_reference_leaves_open_is_refused() {
    for (pattern, reason) in [
        (r#"{"exp":"<E>"}"#, "no modulus"),
        (r#"{"mod":"<M>"}"#, "no exponent"),
        (r#"{"mod":null,"exp":"<E>"}"#, "no modulus"),
        (r#"{"mod":"","exp":"<E>"}"#, "no modulus"),
        (r#"{"mod":"AAAA","exp":"<E>"}"#, "no modulus"),
        (r#"{"mod":"<M>","exp":"AA=="}"#, "no exponent"),
        (r#"{"mod":"AQID","exp":"<E>"}"#, "17 bits: 2048 to 4096"),
        (r#"{}"#, "no modulus"),
        // other names
        (r#"{"N":"<M>","E":"<E>"}"#, "no modulus"),
        (r#"{"Mod":"<M>","Exp":"<E>"}"#, "no modulus"),
        // two keys in one
        (
            r#"{"mod":"<M>","mod":"AQAB","exp":"<E>"}"#,
            "more than one modulus",
        ),
        (
            r#"{"mod":"<M>","exp":"<E>","e":"Aw=="}"#,
            "more than one exponent",
        ),
        // a private key
        (r#"{"mod":"<M>","exp":"<E>","d":"AQAB"}"#, "private key"),
        // weak ones
        (r#"{"mod":"<M>","exp":"AQ=="}"#, "must be odd, at least 3"),
        (r#"{"mod":"<M>","exp":"Ag=="}"#, "must be odd, at least 3"),
        (r#"{"mod":"<M>","exp":"<M>"}"#, "must be odd, at least 3"),
    ] {
        refuses(&text(pattern), reason);
    }
    // By size: RSA-1024, 1536 (which the reference accepts), one bit short, one too long; and even.
    let odd = |bits: usize| {
        let mut number = vec![0xFF; bits.div_ceil(8)];
        number[0] >>= number.len() * 8 - bits;
        number
    };
    let named = |modulus: &[u8]| {
        let text = base64(modulus);
        format!(r#"{{"mod":"{text}","exp":"AQAB"}}"#).into_bytes()
    };
    for bits in [1024, 1536, 2047, 4097, 16_384] {
        refuses(&named(&odd(bits)), &format!("{bits} bits: 2048 to 4096"));
    }
    let mut even = odd(2048);
    even[255] = 0xFE;
    refuses(&named(&even), "even");
    let mut padded = vec![0; 128];
    padded.extend_from_slice(&odd(1024));
    refuses(&named(&padded), "1024 bits");
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=chunk.len()].copy_from_slice(chunk);
        let group = u32::from_be_bytes(group);
        for at in 0..4 {
            match at <= chunk.len() {
                true => out.push(DIGITS[(group >> (18 - 6 * at)) as usize & 63].into()),
                false => out.push('='),
            }
        }
    }
    out
}

#[test]
fn a_version_mismatch_is_told_so_that_a_dotnet_client_can_show_it() {
    for (key, encrypted) in [
        (Some(KEY.public_text().to_vec()), true),
        (Some(vec![0]), false),
        (Some(b"{}".to_vec()), false),
        (None, false),
    ] {
        let mut server = server();
        let request = initialization(key.as_deref(), 2, false);
        assert!(server.receive(body(&request)).is_err());
        let reply = one(server.take_output()).data.unwrap();
        let reply = match encrypted {
            true => Bytes::copy_from_slice(&KEY.decrypt(&reply).unwrap()),
            false => reply,
        };
        let reply = InitializationResponse::decode(&reply).unwrap().unwrap();
        assert_eq!((reply.symmetric_key, reply.vector), (None, None));
        let text = reply.error_message.unwrap();
        assert_eq!(text, "Protocol mismatch: client 2, server 3");
    }
}

#[test]
fn a_request_without_a_key_leaves_the_connection_as_it_was() {
    for empty in [
        envelope(Kind::INITIALIZATION, None),
        initialization(None, 3, false),
    ] {
        let mut server = server();
        assert!(server.receive(body(&empty)).is_ok());
        assert_eq!(one(server.take_output()).data, None);
        let good = initialization(Some(KEY.public_text()), 3, false);
        assert!(server.receive(body(&good)).is_ok());
        let reply = one(server.take_output()).data.unwrap();
        assert!(KEY.decrypt(&reply).is_some());
    }
    let mut server = server();
    let unreadable = envelope(Kind::INITIALIZATION, Some(Vec::new()));
    assert!(server.receive(body(&unreadable)).is_err());
    let reply = one(server.take_output()).data.unwrap();
    let reply = InitializationResponse::decode(&reply).unwrap().unwrap();
    assert!(reply.error_message.unwrap().contains("Cannot read"));
}

/// Clear messages at an encrypting server: section 14.1.
#[test]
fn a_clear_message_closes_in_every_state_unless_there_is_nothing_to_open() {
    for kind in [Kind::REQUEST, Kind::CALLBACK, Kind::AUTHORIZATION, Kind(9)] {
        for data in [vec![], vec![1; 6], vec![0; 24]] {
            let message = body(&envelope(kind, Some(data)));
            assert!(server().receive(message.clone()).is_err());
            let mut initialized = server();
            let good = initialization(Some(KEY.public_text()), 3, false);
            initialized.receive(body(&good)).unwrap();
            assert!(initialized.receive(message).is_err(), "{kind:?}");
        }
    }
    let mut server = server();
    let ignored = [
        envelope(Kind::UNKNOWN, Some(vec![1, 2, 3])),
        envelope(Kind::CALLBACK, None),
        envelope(Kind(9), None),
    ];
    for message in ignored {
        assert!(matches!(
            server.receive(body(&message)),
            Ok(ServerReceived::Nothing)
        ));
    }
    assert_eq!(server.pending_output(), 0);
}

#[test]
fn a_request_without_data_is_answered_under_the_seal_and_ignored_types_count() {
    let mut server = server();
    let good = initialization(Some(KEY.public_text()), 3, false);
    server.receive(body(&good)).unwrap();
    server.take_output();
    let mut client = Channel::new(&keys(), Role::Client).unwrap();
    let mut seal = |kind, payload: &[u8]| {
        let mut data = vec![0; witrpc::security::OVERHEAD];
        data.extend_from_slice(payload);
        client.sealer.seal(&mut data);
        body(&envelope(kind, Some(data)))
    };
    // An event and an unknown type are opened, ignored, and counted.
    for kind in [Kind::CALLBACK, Kind(77)] {
        let received = server.receive(seal(kind, b"anything"));
        assert!(matches!(received, Ok(ServerReceived::Nothing)));
    }
    let mut token = Vec::new();
    AuthorizationRequest {
        token: Some(String::new()),
        extension: None,
    }
    .encode(&mut token);
    let received = server.receive(seal(Kind::AUTHORIZATION, &token));
    assert!(matches!(received, Ok(ServerReceived::Authorize { .. })));
    server.authorize(true, None).unwrap();
    opened(&mut client.opener, &one(server.take_output()));
    let received = server.receive(body(&envelope(Kind::REQUEST, None)));
    assert!(matches!(received, Ok(ServerReceived::Nothing)));
    let reply = opened(&mut client.opener, &one(server.take_output()));
    let reply = Response::decode(&reply).unwrap().unwrap();
    assert_eq!(reply.error_message.as_deref(), Some("Request is empty"));
}

/// The reply to our own client holds our extension, and still fits.
#[test]
fn the_encrypted_reply_has_room_for_our_extension() {
    let mut server = server();
    let request = initialization(Some(KEY.public_text()), 3, true);
    server.receive(body(&request)).unwrap();
    let reply = one(server.take_output());
    let clear = KEY.decrypt(reply.data.as_ref().unwrap()).unwrap();
    assert!(clear.len() <= 190, "{}", clear.len());
    let reply = InitializationResponse::decode(&clear).unwrap().unwrap();
    let extension = Extension::decode(&reply.extension.unwrap()).unwrap();
    assert_eq!(extension.capabilities, Some(Capabilities::ALL));
    // The most that an extension may have.
    let mut most = Vec::new();
    InitializationResponse {
        extension: Some(vec![0; 100]),
        symmetric_key: Some(SYMMETRIC.to_vec()),
        vector: Some(VECTOR.to_vec()),
        ..reply
    }
    .encode(&mut most);
    let public = PublicKey::read(KEY.public_text()).unwrap();
    assert!(most.len() <= public.capacity(), "{}", most.len());
}

/// What our client says to a reply that is not encrypted for it.
fn client_says(reply: &InitializationResponse) -> witrpc::Error {
    let mut data = Vec::new();
    reply.encode(&mut data);
    client_says_to(Some(data))
}

fn client_says_to(data: Option<Vec<u8>>) -> witrpc::Error {
    let mut client = ClientSession::encrypted([1; 8], Uuid::from_u128(1), "secret", KEY.clone());
    let id = one(client.take_output()).id;
    let reply = Envelope {
        id,
        ..envelope(Kind::INITIALIZATION, data)
    };
    let error = client.receive(body(&reply)).unwrap_err();
    // Whatever it was: the token did not leave.
    assert_eq!(client.pending_output(), 0);
    assert!(!client.is_sealed());
    error
}

#[test]
fn a_client_that_encrypts_takes_nothing_in_clear() {
    let reply = |key: &[u8], vector: &[u8]| InitializationResponse {
        symmetric_key: Some(key.to_vec()),
        vector: Some(vector.to_vec()),
        protocol_version: 3,
        ..InitializationResponse::default()
    };
    let refusal = |text: &str| InitializationResponse {
        protocol_version: 3,
        error_message: Some(text.to_owned()),
        ..InitializationResponse::default()
    };
    for (error, part) in [
        (
            client_says(&reply(&[0], &[0])),
            "the server does not encrypt",
        ),
        (
            client_says(&reply(&SYMMETRIC, &VECTOR)),
            "sent its keys in clear",
        ),
        (
            client_says_to(None),
            "did not accept this client's public key",
        ),
        (
            client_says_to(Some(vec![7; 256])),
            "not encrypted for this client's key",
        ),
        (
            client_says_to(Some(vec![])),
            "not encrypted for this client's key",
        ),
        (
            client_says(&refusal("Encryption refused: too short")),
            "the server refused the connection: Encryption refused: too short",
        ),
    ] {
        assert_eq!(error.code(), ErrorCode::Encryption, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = client_says(&refusal("Protocol mismatch: client 3, server 4"));
    assert_eq!(error.code(), ErrorCode::Protocol);
    assert_eq!(
        error.details(),
        Some("Protocol mismatch: client 3, server 4")
    );
    // The same, under the client's key, as a .NET server sends it; and keys of a wrong size.
    let public = PublicKey::read(KEY.public_text()).unwrap();
    let sealed = |reply: &InitializationResponse| {
        let mut data = Vec::new();
        reply.encode(&mut data);
        client_says_to(Some(public.encrypt(&data).unwrap()))
    };
    let error = sealed(&refusal("Protocol mismatch: client 3, server 4"));
    assert_eq!(
        error.details(),
        Some("Protocol mismatch: client 3, server 4")
    );
    for bad in [
        reply(&[0], &[0]),
        reply(&SYMMETRIC, &[1; 15]),
        reply(&[2; 31], &VECTOR),
    ] {
        let error = sealed(&bad);
        assert_eq!(error.code(), ErrorCode::Encryption);
        assert!(error.message().contains("wrong length"), "{error}");
    }
    assert_eq!(
        sealed(&InitializationResponse::default()).code(),
        ErrorCode::Protocol
    );
    assert_eq!(
        client_says_to(Some(public.encrypt(&[255]).unwrap())).code(),
        ErrorCode::Protocol
    );
}

#[test]
fn a_plain_client_is_told_by_our_server_what_to_switch_on() {
    let mut client = ClientSession::new([1; 8], Uuid::from_u128(1), "secret");
    let mut server = server();
    let mut initialization = client.take_output();
    let initialization = witrpc::wire::frame::split(&mut initialization, 1 << 20);
    server
        .receive(initialization.unwrap().unwrap())
        .unwrap_err();
    let reply = one(server.take_output());
    let error = client.receive(body(&reply)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Encryption);
    assert!(
        error
            .to_string()
            .contains("switch encryption on in the client"),
        "{error}"
    );
    assert_eq!(client.pending_output(), 0);
}

/// An answer or event before the keys are there does not end up anywhere.
#[test]
fn nothing_is_taken_before_there_are_keys() {
    for kind in [Kind::REQUEST, Kind::CALLBACK, Kind::AUTHORIZATION] {
        let mut data = Vec::new();
        Request::default().encode(&mut data);
        let mut client =
            ClientSession::encrypted([1; 8], Uuid::from_u128(1), "secret", KEY.clone());
        let error = client
            .receive(body(&envelope(kind, Some(data))))
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::Encryption);
        assert_eq!(
            error.details(),
            Some("the message came before there were keys")
        );
    }
}

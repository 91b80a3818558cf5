//! The carrier of extensions under random bytes: what does not parse is ignored, nothing panics,
//! nothing grows beyond what was sent. The seeds are printed by the test that fails.

use bytes::{Bytes, BytesMut};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use uuid::Uuid;
use witrpc::session::{Call, ClientReceived, ClientSession, ServerReceived, ServerSession, Slot};
use witrpc::wire::extension::{Capabilities, Extension, MAX_TRACE_CONTEXT, Reach};
use witrpc::wire::{
    Arguments, AuthorizationRequest, AuthorizationResponse, Envelope, InitializationRequest,
    InitializationResponse, Kind, Request, Response, frame,
};

const ROUNDS: u64 = 20_000;

fn maybe<T>(rng: &mut StdRng, make: impl FnOnce(&mut StdRng) -> T) -> Option<T> {
    rng.random_bool(0.5).then(|| make(rng))
}

fn bytes(rng: &mut StdRng, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; rng.random_range(0..=most)];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn extension(rng: &mut StdRng) -> Extension {
    Extension {
        capabilities: maybe(rng, |rng| Capabilities(rng.random())),
        client_id: maybe(rng, |rng| Uuid::from_u128(rng.random())),
        reach: maybe(rng, |rng| Reach {
            epoch: rng.random(),
            hold_ms: rng.random(),
            life: maybe(rng, |rng| rng.random()),
        }),
        call_number: maybe(rng, |rng| rng.random()),
        first_unfinished: maybe(rng, |rng| rng.random()),
        attempt: maybe(rng, |rng| rng.random()),
        elsewhere: rng.random(),
        may_have_come: rng.random(),
        replayed: rng.random(),
        retry_after_ms: maybe(rng, |rng| rng.random()),
        remaining_ms: maybe(rng, |rng| rng.random()),
        trace_context: maybe(rng, |rng| bytes(rng, MAX_TRACE_CONTEXT).into()),
        patience_ms: maybe(rng, |rng| rng.random()),
        cancels: maybe(rng, |rng| Uuid::from_u128(rng.random())),
        ping: maybe(rng, |rng| rng.random()),
    }
}

/// Random, or a good one with something wrong with it.
fn damaged(rng: &mut StdRng) -> Vec<u8> {
    let mut data = match rng.random_range(0..4) {
        0 => bytes(rng, 300),
        1 => [&b"WXT\x01"[..], &bytes(rng, 300)].concat(),
        _ => extension(rng).encode(),
    };
    for _ in 0..rng.random_range(0..4) {
        if data.is_empty() {
            break;
        }
        let at = rng.random_range(0..data.len());
        match rng.random_range(0..4) {
            0 => data[at] = rng.random(),
            1 => data.truncate(at),
            2 => drop(data.remove(at)),
            _ => data.insert(at, rng.random()),
        }
    }
    data
}

#[test]
fn every_extension_survives_and_fields_of_the_future_are_skipped() {
    for seed in 0..ROUNDS {
        let mut rng = StdRng::seed_from_u64(seed);
        let sent = extension(&mut rng);
        let mut data = sent.encode();
        assert_eq!(Extension::decode(&data), Some(sent.clone()), "seed {seed}");
        let future = bytes(&mut rng, 200);
        data.push(rng.random_range(100..=255));
        data.extend_from_slice(&(future.len() as u16).to_le_bytes());
        data.extend_from_slice(&future);
        assert_eq!(Extension::decode(&data), Some(sent), "seed {seed}");
    }
}

#[test]
fn random_bytes_are_no_extension_or_a_small_one() {
    let mut read = 0;
    for seed in 0..ROUNDS * 5 {
        let mut rng = StdRng::seed_from_u64(seed);
        if let Some(extension) = Extension::decode(&damaged(&mut rng)) {
            read += 1;
            let trace = extension
                .trace_context
                .as_ref()
                .map_or(0, |trace| trace.len());
            assert!(trace <= MAX_TRACE_CONTEXT, "seed {seed}");
            // What was understood is what would be said.
            let again = Extension::decode(&extension.encode());
            assert_eq!(again, Some(extension), "seed {seed}");
        }
    }
    assert!(read > 1000, "the damage is too great to show anything");
}

/// Extra members in all payloads: the payload itself is read as if there were none.
#[test]
fn damaged_members_change_nothing_of_the_message_that_carries_them() {
    for seed in 0..ROUNDS {
        let mut rng = StdRng::seed_from_u64(seed);
        let member = damaged(&mut rng);
        let shared = Bytes::from(member.clone());
        let mut out = Vec::new();
        let init = InitializationRequest {
            public_key: Some(vec![0]),
            protocol_version: 3,
            extension: Some(member.clone()),
        };
        init.encode(&mut out);
        assert_eq!(InitializationRequest::decode(&out), Ok(Some(init)));
        out.clear();
        let init = InitializationResponse {
            symmetric_key: Some(vec![0]),
            vector: Some(vec![0]),
            protocol_version: 3,
            error_message: None,
            extension: Some(member),
        };
        init.encode(&mut out);
        assert_eq!(InitializationResponse::decode(&out), Ok(Some(init)));
        out.clear();
        let request = AuthorizationRequest {
            token: Some("t".into()),
            extension: Some(shared.clone()),
        };
        request.encode(&mut out);
        assert_eq!(AuthorizationRequest::decode(&out), Ok(Some(request)));
        out.clear();
        let response = AuthorizationResponse {
            is_authorized: true,
            message: None,
            extension: Some(shared.clone()),
        };
        response.encode(&mut out);
        assert_eq!(AuthorizationResponse::decode(&out), Ok(Some(response)));
        out.clear();
        let request = Request {
            method_name: Some("M".into()),
            extension: Some(shared.clone()),
            ..Request::default()
        };
        request.encode(&mut out);
        let read = Request::decode(&out.clone().into());
        assert_eq!(read, Ok(Some(request)), "seed {seed}");
        out.clear();
        let response = Response {
            extension: Some(shared),
            ..Response::ok(None)
        };
        response.encode(&mut out);
        let read = Response::decode(&out.into());
        assert_eq!(read, Ok(Some(response)), "seed {seed}");
    }
}

/// Two ends that have announced everything to each other.
fn pair() -> (ClientSession, ServerSession) {
    let mut client = ClientSession::new([1; 8], Uuid::from_u128(1), "");
    let mut server = ServerSession::new(Uuid::from_u128(2));
    while !client.is_ready() {
        let mut to_server = client.take_output();
        while let Some(body) = frame::split(&mut to_server, 1 << 20).unwrap() {
            if let ServerReceived::Authorize { .. } = server.receive(body).unwrap() {
                server.authorize(true, None).unwrap();
            }
        }
        let mut to_client = server.take_output();
        while let Some(body) = frame::split(&mut to_client, 1 << 20).unwrap() {
            client.receive(body).unwrap();
        }
    }
    (client, server)
}

fn body(rng: &mut StdRng) -> BytesMut {
    let data = maybe(rng, damaged).map(Bytes::from);
    let kind = Kind(0x5758_5400 + rng.random_range(0..6));
    let mut body = BytesMut::new();
    Envelope {
        id: Uuid::from_u128(rng.random()),
        kind,
        data,
    }
    .encode(&mut body);
    body
}

#[test]
fn both_ends_live_through_anything_that_peers_of_theirs_may_say() {
    let (mut client, mut server) = pair();
    let (mut understood, mut longest) = (0, 0);
    for seed in 0..ROUNDS * 5 {
        let mut rng = StdRng::seed_from_u64(seed);
        match server.receive(body(&mut rng)) {
            Ok(ServerReceived::Nothing) => {}
            Ok(ServerReceived::Cancel(_) | ServerReceived::Pong(_) | ServerReceived::Leaves) => {
                understood += 1
            }
            other => panic!("seed {seed}: {other:?}"),
        }
        match client.receive(body(&mut rng)) {
            Ok(ClientReceived::Nothing) => {}
            Ok(ClientReceived::Pong(_) | ClientReceived::GoingAway) => understood += 1,
            other => panic!("seed {seed}: {other:?}"),
        }
        // Nobody takes it: it must not grow.
        longest = longest.max(client.pending_output() + server.pending_output());
    }
    assert!(
        understood > 1000 && longest < 4000,
        "{understood}, {longest}"
    );
    assert!(client.is_ready() && server.is_authorized());
    // Calls go on.
    client.take_output();
    let slot = Slot {
        index: 0,
        serial: 1,
    };
    client.request(
        slot,
        &Call {
            method_name: "M",
            arguments: &Arguments::NONE,
            types: None,
            invocation_id: Uuid::from_u128(3),
            contract_id: 1,
            method_id: 2,
            number: Some(1),
            first_unfinished: 1,
            attempt: None,
            elsewhere: false,
            may_have_come: false,
            remaining: None,
            trace_context: Some(&[7; MAX_TRACE_CONTEXT]),
        },
    );
    let mut sent = client.take_output();
    let body = frame::split(&mut sent, 1 << 20).unwrap().unwrap();
    let received = server.receive(body).unwrap();
    assert!(matches!(received, ServerReceived::Request(..)));
}

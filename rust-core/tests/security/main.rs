//! Encryption and tokens: the bytes of a .NET peer, the handshake, damage on the way, tokens that
//! change.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod handshake;
mod proxy;
mod replay;
mod setups;
mod tampering;
mod tokens;
mod vectors;

use std::sync::Arc;
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use witrpc::security::ClientKey;
use witrpc::wire::{Envelope, frame};

/// A key pair for all tests of this process: making one takes a while.
static KEY: LazyLock<Arc<ClientKey>> = LazyLock::new(|| Arc::new(ClientKey::generate().unwrap()));

/// The bodies of whole frames.
fn bodies(mut bytes: BytesMut) -> Vec<BytesMut> {
    std::iter::from_fn(|| frame::split(&mut bytes, 1 << 28).unwrap()).collect()
}

/// The one message in there.
fn one(bytes: BytesMut) -> Envelope {
    let mut bodies = bodies(bytes);
    assert_eq!(bodies.len(), 1);
    Envelope::decode(&bodies.remove(0).freeze())
        .unwrap()
        .unwrap()
}

/// The body of a message.
fn body(envelope: &Envelope) -> BytesMut {
    let mut out = BytesMut::new();
    envelope.encode(&mut out);
    out
}

fn opened(opener: &mut witrpc::security::Opener, envelope: &Envelope) -> Bytes {
    let data = envelope.data.as_deref().unwrap();
    opener.open(data.into()).unwrap().freeze()
}

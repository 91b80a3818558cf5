//! The sealed channel: AES-256-GCM under a key for each direction, with a counter that both ends
//! keep.
//!
//! ```text
//! counter (u64, LE) | tag (16) | ciphertext      nonce = counter | 00 00 00 00,  AAD = 03 | direction
//! ```
//!
//! Owns the keys of one connection and the two counters. Sealing must happen in the order of the
//! wire: whoever seals a message holds what orders sending until it is on its way.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use bytes::{Buf, BytesMut};
use zeroize::Zeroizing;

use super::CryptoError;

const COUNTER: usize = 8;
const TAG: usize = 16;

/// Bytes that sealing adds in front of a message.
pub const OVERHEAD: usize = COUNTER + TAG;

/// First byte of what is authenticated besides the message: the version of the protocol.
const VERSION: u8 = 3;

/// One of the two ways that messages take.
#[derive(Clone, Copy)]
enum Direction {
    ClientToServer = 1,
    ServerToClient = 2,
}

impl Direction {
    fn info(self) -> &'static [u8] {
        match self {
            Self::ClientToServer => b"wit3c2s",
            Self::ServerToClient => b"wit3s2c",
        }
    }
}

/// What the server draws for each connection and the client is told under its public key.
#[derive(Clone)]
pub struct Keys {
    symmetric: Zeroizing<[u8; Self::SYMMETRIC]>,
    vector: Zeroizing<[u8; Self::VECTOR]>,
}

impl Keys {
    /// Bytes of the symmetric key.
    pub const SYMMETRIC: usize = 32;
    /// Bytes of the vector.
    pub const VECTOR: usize = 16;

    /// Fresh ones from the system's generator.
    pub fn generate() -> Result<Self, CryptoError> {
        let mut keys = Self {
            symmetric: Zeroizing::new([0; Self::SYMMETRIC]),
            vector: Zeroizing::new([0; Self::VECTOR]),
        };
        aws_lc_rs::rand::fill(&mut *keys.symmetric)?;
        aws_lc_rs::rand::fill(&mut *keys.vector)?;
        Ok(keys)
    }

    /// Given ones; `None` if a length is wrong.
    pub fn from_bytes(symmetric: &[u8], vector: &[u8]) -> Option<Self> {
        Some(Self {
            symmetric: Zeroizing::new(symmetric.try_into().ok()?),
            vector: Zeroizing::new(vector.try_into().ok()?),
        })
    }

    /// The symmetric key, to be told to the client.
    pub fn symmetric(&self) -> &[u8] {
        &*self.symmetric
    }

    /// The vector, to be told to the client.
    pub fn vector(&self) -> &[u8] {
        &*self.vector
    }

    /// HKDF-SHA256 with the vector as salt.
    fn derive(&self, direction: Direction) -> Result<LessSafeKey, CryptoError> {
        struct Length;
        impl hkdf::KeyType for Length {
            fn len(&self) -> usize {
                Keys::SYMMETRIC
            }
        }
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &*self.vector);
        let mut key = Zeroizing::new([0; Self::SYMMETRIC]);
        salt.extract(&*self.symmetric)
            .expand(&[direction.info()], Length)?
            .fill(&mut *key)?;
        Ok(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key)?))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// Which end of a connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The end that connected.
    Client,
    /// The end that accepted.
    Server,
}

/// Both directions of one connection, as one of its ends sees them.
#[derive(Debug)]
pub struct Channel {
    /// For what this end sends.
    pub sealer: Sealer,
    /// For what it receives.
    pub opener: Opener,
}

impl Channel {
    /// The channel of `role` under these keys. Both counters start at 0.
    pub fn new(keys: &Keys, role: Role) -> Result<Self, CryptoError> {
        let (out, back) = match role {
            Role::Client => (Direction::ClientToServer, Direction::ServerToClient),
            Role::Server => (Direction::ServerToClient, Direction::ClientToServer),
        };
        Ok(Self {
            sealer: Sealer(Half::new(keys, out)?),
            opener: Opener(Half::new(keys, back)?),
        })
    }
}

/// One direction: its key and the counter of its next message.
struct Half {
    key: LessSafeKey,
    counter: u64,
    aad: [u8; 2],
}

impl Half {
    fn new(keys: &Keys, direction: Direction) -> Result<Self, CryptoError> {
        Ok(Self {
            key: keys.derive(direction)?,
            counter: 0,
            aad: [VERSION, direction as u8],
        })
    }

    fn nonce(&self) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[..COUNTER].copy_from_slice(&self.counter.to_le_bytes());
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Seals what is sent.
pub struct Sealer(Half);

impl Sealer {
    /// Seals a message in place. `message` is [`OVERHEAD`] bytes to be filled in, then the
    /// plaintext, which becomes the ciphertext.
    ///
    /// Should sealing fail, which no message that fits a frame can bring about, the message is
    /// wiped: the peer then finds that it does not open, and nothing is sent in clear.
    pub fn seal(&mut self, message: &mut [u8]) {
        let half = &mut self.0;
        let (nonce, counter) = (half.nonce(), half.counter);
        // A nonce is never used twice, not even after 2^64 messages.
        let next = counter.checked_add(1);
        if let (Some(next), Some((head, text))) = (next, message.split_at_mut_checked(OVERHEAD))
            && let Ok(tag) = half
                .key
                .seal_in_place_separate_tag(nonce, Aad::from(half.aad), text)
        {
            head[..COUNTER].copy_from_slice(&counter.to_le_bytes());
            head[COUNTER..].copy_from_slice(tag.as_ref());
            half.counter = next;
        } else {
            message.fill(0);
        }
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer(next {})", self.0.counter)
    }
}

/// Why a message did not open. The connection can't go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    /// It is in clear, or cut: shorter than what sealing adds.
    TooShort {
        /// Its length in bytes.
        length: usize,
    },
    /// One before it is missing, or it came before.
    Counter {
        /// The number that it bears.
        got: u64,
        /// The number that is next.
        expected: u64,
    },
    /// It was changed on the way, or sealed under another key.
    Damaged,
    /// It came before there were keys to open it with.
    NoKeys,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { length } => write!(
                f,
                "{length} bytes are no sealed message, which has at least {OVERHEAD}"
            ),
            Self::Counter { got, expected } => write!(
                f,
                "message number {got} came where number {expected} was expected: one is missing, \
                 came twice, or was changed"
            ),
            Self::Damaged => f.write_str("the message was changed on the way"),
            Self::NoKeys => f.write_str("the message came before there were keys"),
        }
    }
}

impl std::error::Error for OpenError {}

/// Opens what is received.
pub struct Opener(Half);

impl Opener {
    /// Opens a message in place, without a copy. Only a message that opened counts.
    pub fn open(&mut self, mut message: BytesMut) -> Result<BytesMut, OpenError> {
        let half = &mut self.0;
        let Some((head, text)) = message.split_at_mut_checked(OVERHEAD) else {
            return Err(OpenError::TooShort {
                length: message.len(),
            });
        };
        let (counter, tag) = head.split_at(COUNTER);
        if counter != half.counter.to_le_bytes() {
            let mut got = [0; COUNTER];
            got.copy_from_slice(counter);
            return Err(OpenError::Counter {
                got: u64::from_le_bytes(got),
                expected: half.counter,
            });
        }
        let (nonce, next) = (half.nonce(), half.counter.checked_add(1));
        half.key
            .open_in_place_separate_tag(nonce, Aad::from(half.aad), tag, text)
            .map_err(|_| OpenError::Damaged)?;
        half.counter = next.ok_or(OpenError::Damaged)?;
        message.advance(OVERHEAD);
        Ok(message)
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opener(next {})", self.0.counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        let bytes: Vec<u8> = (0..32).collect();
        Keys::from_bytes(&bytes, &bytes[..16]).unwrap()
    }

    fn pair() -> (Channel, Channel) {
        let of = |role| Channel::new(&keys(), role).unwrap();
        (of(Role::Client), of(Role::Server))
    }

    fn seal(sealer: &mut Sealer, text: &[u8]) -> BytesMut {
        let mut message = BytesMut::zeroed(OVERHEAD);
        message.extend_from_slice(text);
        sealer.seal(&mut message);
        message
    }

    #[test]
    fn messages_open_in_order_and_in_their_own_direction_only() {
        let (mut client, mut server) = pair();
        for text in [&b"hello"[..], b"", &[7; 70_000]] {
            let sealed = seal(&mut client.sealer, text);
            assert_eq!(sealed.len(), OVERHEAD + text.len());
            assert_eq!(client.opener.open(sealed.clone()), Err(OpenError::Damaged));
            assert_eq!(server.opener.open(sealed).unwrap(), text);
            let sealed = seal(&mut server.sealer, text);
            assert_eq!(client.opener.open(sealed).unwrap(), text);
        }
    }

    #[test]
    fn no_changed_bit_opens_and_the_right_message_still_does() {
        let (mut client, mut server) = pair();
        let sealed = seal(&mut client.sealer, b"hello");
        for at in 0..sealed.len() {
            for bit in 0..8 {
                let mut changed = sealed.clone();
                changed[at] ^= 1 << bit;
                let error = server.opener.open(changed).unwrap_err();
                assert_eq!(matches!(error, OpenError::Counter { .. }), at < COUNTER);
            }
        }
        for cut in 0..sealed.len() {
            assert!(server.opener.open(sealed[..cut].into()).is_err(), "{cut}");
        }
        let mut longer = sealed.clone();
        longer.extend_from_slice(&[0]);
        assert_eq!(server.opener.open(longer), Err(OpenError::Damaged));
        assert_eq!(server.opener.open(sealed).unwrap(), &b"hello"[..]);
    }

    #[test]
    fn a_message_opens_once_and_none_may_be_missing() {
        let (mut client, mut server) = pair();
        let sealed: Vec<_> = (0..3).map(|_| seal(&mut client.sealer, b"x")).collect();
        let counter = |got, expected| Err(OpenError::Counter { got, expected });
        assert_eq!(server.opener.open(sealed[1].clone()), counter(1, 0));
        assert!(server.opener.open(sealed[0].clone()).is_ok());
        assert_eq!(server.opener.open(sealed[0].clone()), counter(0, 1));
        assert_eq!(server.opener.open(sealed[2].clone()), counter(2, 1));
        // A counter that is right does not make another message's tag right.
        let mut renumbered = sealed[2].clone();
        renumbered[..COUNTER].copy_from_slice(&1_u64.to_le_bytes());
        assert_eq!(server.opener.open(renumbered), Err(OpenError::Damaged));
        assert!(server.opener.open(sealed[1].clone()).is_ok());
    }

    #[test]
    fn a_nonce_is_never_used_twice() {
        let (mut client, mut server) = pair();
        client.sealer.0.counter = u64::MAX;
        let wiped = seal(&mut client.sealer, b"secret");
        assert!(wiped.iter().all(|byte| *byte == 0));
        server.opener.0.counter = u64::MAX;
        assert!(server.opener.open(wiped).is_err());
    }

    #[test]
    fn other_keys_open_nothing() {
        let (mut client, _) = pair();
        let sealed = seal(&mut client.sealer, b"hello");
        for _ in 0..2 {
            let mut other = Channel::new(&Keys::generate().unwrap(), Role::Server).unwrap();
            assert_eq!(other.opener.open(sealed.clone()), Err(OpenError::Damaged));
        }
        assert!(Keys::from_bytes(&[0; 31], &[0; 16]).is_none());
        assert!(Keys::from_bytes(&[0; 32], &[0; 1]).is_none());
    }

    #[test]
    fn no_secret_is_shown() {
        let (client, _) = pair();
        let shown = format!("{:?} {client:?}", keys());
        assert_eq!(
            shown,
            "Keys { .. } Channel { sealer: Sealer(next 0), opener: Opener(next 0) }"
        );
    }
}

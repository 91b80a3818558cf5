//! Encryption: the key exchange, the sealed channel, and what both need to keep secrets.
//!
//! * `exchange`: the RSA key pair of a client, the public key of a peer, OAEP both ways.
//! * `key_text`: how a public key is written and read.
//! * `channel`: what seals and opens messages once both ends have the keys of a connection.
//! * `token`: comparing access tokens, and the token in the text of a file.
//!
//! Owns all cryptography of the library but that of TLS. Knows no runtime, socket, file or clock.
//! Where a caller must be able to repeat what happens (a seeded simulator), keys come in from
//! outside; only the padding of OAEP is always drawn here. Secrets are wiped when they are dropped
//! and are in no `Debug` output.

mod channel;
mod exchange;
mod key_text;
mod token;

pub use channel::{Channel, Keys, OVERHEAD, OpenError, Opener, Role, Sealer};
pub use exchange::{ClientKey, MAX_KEY_BITS, MIN_KEY_BITS, PublicKey};
pub use key_text::BadKey;
pub use token::{same_token, token_of_file};

/// The cryptographic library failed where it can't: no memory, no randomness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CryptoError;

impl std::fmt::Display for CryptoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the cryptographic library failed")
    }
}

impl std::error::Error for CryptoError {}

impl From<aws_lc_rs::error::Unspecified> for CryptoError {
    fn from(_: aws_lc_rs::error::Unspecified) -> Self {
        Self
    }
}

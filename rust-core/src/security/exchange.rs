//! The key exchange: an RSA key pair of the client, and OAEP with SHA-256 under it.
//!
//! The public key is not authenticated by anything: who can change what passes between the peers can
//! put its own in. Against that only TLS helps.

use std::fmt;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{
    KeySize, OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
    PrivateDecryptingKey, PublicEncryptingKey, PublicKeyComponents,
};
use zeroize::Zeroizing;

use super::CryptoError;
use super::key_text::{self, BadKey};

/// The shortest key that is accepted, in bits.
pub const MIN_KEY_BITS: usize = 2048;

/// The longest key that is accepted, in bits: longer ones cost more time than they are worth.
pub const MAX_KEY_BITS: usize = 4096;

/// The key pair of a client. One serves all of its connections.
pub struct ClientKey {
    key: OaepPrivateDecryptingKey,
    text: Vec<u8>,
}

impl ClientKey {
    /// A new key of 2,048 bits, as WitRPC's own clients have them. Takes some 100 ms of computing:
    /// not for a thread that others wait for.
    pub fn generate() -> Result<Self, CryptoError> {
        Self::new(PrivateDecryptingKey::generate(KeySize::Rsa2048)?)
    }

    /// A given key, as a PKCS#8 document.
    pub fn from_pkcs8(document: &[u8]) -> Result<Self, CryptoError> {
        Self::new(PrivateDecryptingKey::from_pkcs8(document).map_err(|_| CryptoError)?)
    }

    fn new(key: PrivateDecryptingKey) -> Result<Self, CryptoError> {
        let der = key.public_key().as_der()?;
        let (modulus, exponent) = components(der.as_ref()).ok_or(CryptoError)?;
        Ok(Self {
            text: key_text::write(modulus, exponent),
            key: OaepPrivateDecryptingKey::new(key)?,
        })
    }

    /// The public key, as it is sent to a server.
    pub fn public_text(&self) -> &[u8] {
        &self.text
    }

    /// Opens what was encrypted for this key; `None` if it was not.
    pub fn decrypt(&self, data: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        if data.len() != self.key.key_size_bytes() {
            return None;
        }
        let mut out = Zeroizing::new(vec![0; self.key.min_output_size()]);
        let length = self
            .key
            .decrypt(&OAEP_SHA256_MGF1SHA256, data, &mut out, None)
            .ok()?
            .len();
        out.truncate(length);
        Some(out)
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

/// The public key of a client, checked.
pub struct PublicKey(OaepPublicEncryptingKey);

impl PublicKey {
    /// Reads the text of a key; refuses what is malformed, short or weak.
    pub fn read(text: &[u8]) -> Result<Self, BadKey> {
        let key = key_text::read(text)?;
        let components = PublicKeyComponents {
            n: key.modulus,
            e: key.exponent,
        };
        let key: PublicEncryptingKey = components.try_into().map_err(|_| BadKey::Unusable)?;
        Ok(Self(
            OaepPublicEncryptingKey::new(key).map_err(|_| BadKey::Unusable)?,
        ))
    }

    /// Most bytes that one message can hold: 190 for a key of 2,048 bits.
    pub fn capacity(&self) -> usize {
        self.0.max_plaintext_size(&OAEP_SHA256_MGF1SHA256)
    }

    /// Encrypts for the owner of the key. Fails if it is more than the [capacity](Self::capacity).
    pub fn encrypt(&self, plaintext: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let mut out = vec![0; self.0.ciphertext_size()];
        let length = self
            .0
            .encrypt(&OAEP_SHA256_MGF1SHA256, plaintext, &mut out, None)?
            .len();
        out.truncate(length);
        Ok(out)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({} bits)", self.0.key_size_bits())
    }
}

/// Modulus and exponent in an X.509 `SubjectPublicKeyInfo` of an RSA key: in a sequence an algorithm
/// and a bit string; in that, behind a zero, a sequence of two integers.
fn components(der: &[u8]) -> Option<(&[u8], &[u8])> {
    const INTEGER: u8 = 2;
    const BIT_STRING: u8 = 3;
    const SEQUENCE: u8 = 0x30;
    /// The content of the element at the front of `rest`, which is moved behind it.
    fn element<'a>(rest: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
        let after = rest.strip_prefix(&[tag])?;
        let (&first, after) = after.split_first()?;
        let (length, after) = match first {
            0..=127 => (usize::from(first), after),
            128.. => {
                let (digits, after) = after.split_at_checked(usize::from(first & 127))?;
                let fits = digits.len() <= 2;
                let value = digits.iter().fold(0, |n, d| n << 8 | usize::from(*d));
                (fits.then_some(value)?, after)
            }
        };
        let (content, after) = after.split_at_checked(length)?;
        *rest = after;
        Some(content)
    }
    let mut info = element(&mut &*der, SEQUENCE)?;
    element(&mut info, SEQUENCE)?;
    let key = element(&mut info, BIT_STRING)?.strip_prefix(&[0])?;
    let mut numbers = element(&mut &*key, SEQUENCE)?;
    let mut number = || {
        let bytes = element(&mut numbers, INTEGER)?;
        // A zero in front says that the number is not negative.
        Some(bytes.strip_prefix(&[0]).unwrap_or(bytes))
    };
    Some((number()?, number()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encrypted_for_a_key_opens_with_it_and_no_other() {
        let (one, other) = (
            ClientKey::generate().unwrap(),
            ClientKey::generate().unwrap(),
        );
        let public = PublicKey::read(one.public_text()).unwrap();
        assert_eq!(public.capacity(), 190);
        for length in [0, 1, 85, 190] {
            let text = vec![7; length];
            let sealed = public.encrypt(&text).unwrap();
            assert_eq!(sealed.len(), 256);
            assert_eq!(*one.decrypt(&sealed).unwrap(), text);
            assert!(other.decrypt(&sealed).is_none());
            let mut damaged = sealed.clone();
            damaged[100] ^= 1;
            assert!(one.decrypt(&damaged).is_none());
            assert!(one.decrypt(&sealed[1..]).is_none());
        }
        assert_eq!(public.encrypt(&[0; 191]), Err(CryptoError));
        assert!(one.decrypt(&[]).is_none());
        assert!(one.decrypt(&[0xFF; 256]).is_none());
        let shown = format!("{one:?} {public:?}");
        assert_eq!(shown, "ClientKey { .. } PublicKey(2048 bits)");
    }

    #[test]
    fn a_key_document_that_is_none_is_refused() {
        assert_eq!(ClientKey::from_pkcs8(b"none").err(), Some(CryptoError));
    }

    #[test]
    fn damaged_key_information_is_never_read_beyond_its_end() {
        let der = PrivateDecryptingKey::generate(KeySize::Rsa2048)
            .unwrap()
            .public_key()
            .as_der()
            .unwrap();
        let der = der.as_ref();
        let (modulus, exponent) = components(der).unwrap();
        assert_eq!((modulus.len(), exponent), (256, &[1, 0, 1][..]));
        for cut in 0..der.len() {
            assert_eq!(components(&der[..cut]), None);
        }
        for at in 0..der.len() {
            for value in [0, 1, 0x7F, 0x80, 0x84, 0xFF] {
                let mut damaged = der.to_vec();
                damaged[at] = value;
                let _ = components(&damaged);
            }
        }
    }
}

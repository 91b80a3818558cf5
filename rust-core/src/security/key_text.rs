//! The text in which a client sends its public key: a JSON object with modulus and exponent in
//! base64.
//!
//! Owns its names and how strictly it is read. .NET's own servers want `mod` and `exp` (and take `n`
//! and `e`), those with BouncyCastle want `Modulus` and `Exponent`. All are read, and the text is
//! written with the names of both kinds of server.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::{MAX_KEY_BITS, MIN_KEY_BITS};
use crate::codec::base64;

/// The longest exponent that is accepted, in bits: what the cryptographic library takes.
const MAX_EXPONENT_BITS: usize = 33;

/// Why a public key is not accepted. What it shows is meant for whoever sent the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadKey {
    /// It is the single byte that a client sends that does not encrypt.
    NoEncryption,
    /// It is no JSON object.
    NotJson,
    /// A member is neither null nor a base64 text.
    NotBase64(String),
    /// A part of a private key is among the members.
    Private(String),
    /// There is no modulus, or no exponent.
    Missing(&'static str),
    /// Several members name it, and differ.
    Ambiguous(&'static str),
    /// The modulus has fewer than [`MIN_KEY_BITS`] or more than [`MAX_KEY_BITS`] bits.
    Size(usize),
    /// The modulus is even.
    EvenModulus,
    /// The exponent is even, 1, or longer than 33 bits.
    Exponent,
    /// The cryptographic library does not take it.
    Unusable,
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEncryption => f.write_str(
                "this server encrypts and the client does not: switch encryption on in the client",
            ),
            Self::NotJson => f.write_str("the public key is no JSON object"),
            Self::NotBase64(member) => {
                write!(f, "member {member:?} of the public key is no base64 text")
            }
            Self::Private(member) => write!(
                f,
                "member {member:?} is a part of a private key, which must never be sent"
            ),
            Self::Missing(part) => write!(f, "the public key has no {part}"),
            Self::Ambiguous(part) => write!(f, "the public key has more than one {part}"),
            Self::Size(bits) => write!(
                f,
                "the public key has {bits} bits: {MIN_KEY_BITS} to {MAX_KEY_BITS} are accepted"
            ),
            Self::EvenModulus => f.write_str("the modulus of the public key is even"),
            Self::Exponent => write!(
                f,
                "the exponent of the public key must be odd, at least 3, and have at most \
                 {MAX_EXPONENT_BITS} bits"
            ),
            Self::Unusable => f.write_str("the public key can't be used"),
        }
    }
}

impl std::error::Error for BadKey {}

/// Modulus and exponent, big-endian, without leading zeros.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Components {
    pub(super) modulus: Vec<u8>,
    pub(super) exponent: Vec<u8>,
}

/// Writes a key with all four names.
pub(super) fn write(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(800);
    let names = [
        ("{\"mod\":\"", modulus),
        ("\",\"exp\":\"", exponent),
        ("\",\"Modulus\":\"", modulus),
        ("\",\"Exponent\":\"", exponent),
    ];
    for (name, value) in names {
        out.extend_from_slice(name.as_bytes());
        base64::encode(&mut out, value);
    }
    out.extend_from_slice(b"\"}");
    out
}

/// Reads a key and refuses one that is malformed, ambiguous, short or weak.
pub(super) fn read(text: &[u8]) -> Result<Components, BadKey> {
    if text == [0] {
        return Err(BadKey::NoEncryption);
    }
    let Members(members) = serde_json::from_slice(text).map_err(|_| BadKey::NotJson)?;
    let (mut modulus, mut exponent) = (None, None);
    for (name, value) in members {
        let bytes = match &value {
            Value::Null => continue,
            Value::String(text) => base64::decode(text),
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| BadKey::NotBase64(shown(&name)))?;
        match name.as_str() {
            "mod" | "n" | "Modulus" => set(&mut modulus, &bytes, "modulus")?,
            "exp" | "e" | "Exponent" => set(&mut exponent, &bytes, "exponent")?,
            // The names of both kinds of server for what only the owner of a key knows.
            "d" | "p" | "q" | "dp" | "dq" | "qi" | "iq" | "D" | "P" | "Q" | "DP" | "DQ"
            | "InverseQ" => return Err(BadKey::Private(shown(&name))),
            _ => {}
        }
    }
    let components = Components {
        modulus: modulus.ok_or(BadKey::Missing("modulus"))?,
        exponent: exponent.ok_or(BadKey::Missing("exponent"))?,
    };
    check(&components)?;
    Ok(components)
}

/// Takes a value that may be given under several names, but only once.
fn set(place: &mut Option<Vec<u8>>, bytes: &[u8], part: &'static str) -> Result<(), BadKey> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = &bytes[zeros..];
    match place {
        _ if bytes.is_empty() => Err(BadKey::Missing(part)),
        Some(known) if known != bytes => Err(BadKey::Ambiguous(part)),
        _ => {
            *place = Some(bytes.to_vec());
            Ok(())
        }
    }
}

fn check(Components { modulus, exponent }: &Components) -> Result<(), BadKey> {
    let size = bits(modulus);
    if !(MIN_KEY_BITS..=MAX_KEY_BITS).contains(&size) {
        return Err(BadKey::Size(size));
    }
    if !is_odd(modulus) {
        return Err(BadKey::EvenModulus);
    }
    if !is_odd(exponent) || *exponent == [1] || bits(exponent) > MAX_EXPONENT_BITS {
        return Err(BadKey::Exponent);
    }
    Ok(())
}

fn is_odd(number: &[u8]) -> bool {
    number.last().is_some_and(|byte| byte & 1 == 1)
}

/// Length in bits of a number without leading zero bytes.
fn bits(number: &[u8]) -> usize {
    number
        .first()
        .map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}

/// A name as it may stand in a message: it comes from the peer.
fn shown(name: &str) -> String {
    name.chars().take(32).collect()
}

/// The members of a JSON object in their order, repeated ones too.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a public key")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        base64::encode(&mut out, bytes);
        String::from_utf8(out).unwrap()
    }

    /// An odd number of so many bits.
    fn modulus(bits: usize) -> Vec<u8> {
        let mut number = vec![0xA5; bits.div_ceil(8)];
        let unused = number.len() * 8 - bits;
        number[0] = (0xFF >> unused) & (0x80 >> unused | 0x25);
        number
    }

    /// A text with these members, `M` standing for a good modulus.
    fn text(members: &str) -> String {
        members.replace('M', &encoded(&modulus(2048)))
    }

    fn refused(members: &str) -> BadKey {
        read(text(members).as_bytes()).unwrap_err()
    }

    #[test]
    fn every_spelling_is_read_and_ours_has_the_names_of_both_kinds_of_server() {
        let good = Components {
            modulus: modulus(2048),
            exponent: vec![1, 0, 1],
        };
        let ours = write(&good.modulus, &good.exponent);
        assert_eq!(
            ours,
            text(r#"{"mod":"M","exp":"AQAB","@odulus":"M","Exponent":"AQAB"}"#)
                .replace('@', "M")
                .as_bytes()
        );
        assert_eq!(read(&ours).unwrap(), good);
        for members in [
            r#"{"mod":"M","exp":"AQAB"}"#,
            r#"{"n":"M","e":"AQAB"}"#,
            r#"{"e":"AQAB","mod":"M"}"#,
            r#"{"@odulus":"M","Exponent":"AQAB"}"#,
            " {\n\"mod\" : \"M\" ,\t\"exp\":\"AQAB\" } ",
            r#"{"\u006dod":"M","exp":"\u0041QAB"}"#,
            r#"{"mod":"M","exp":"AQAB","kid":null,"use":"c2ln"}"#,
            r#"{"mod":"M","mod":"M","exp":"AQAB"}"#,
            // A leading zero byte.
            r#"{"mod":"M","exp":"AAEAAQ=="}"#,
        ] {
            let text = text(members).replace('@', "M");
            assert_eq!(read(text.as_bytes()).as_ref(), Ok(&good), "{members}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        assert_eq!(read(&[0]), Err(BadKey::NoEncryption));
        for text in [
            &b""[..],
            b"{",
            b"null",
            b"[]",
            b"\"key\"",
            b"5",
            b"\xff",
            b"\0\0",
            b"-----BEGIN PUBLIC KEY-----",
        ] {
            assert_eq!(read(text), Err(BadKey::NotJson), "{text:?}");
        }
        for members in [
            "\u{feff}{\"mod\":\"M\",\"exp\":\"AQAB\"}",
            r#"{"mod":"M","exp":"AQAB",}"#,
            r#"{"mod":"M","exp":"AQAB"} x"#,
        ] {
            assert_eq!(refused(members), BadKey::NotJson, "{members}");
        }
        let member = |name: &str| BadKey::NotBase64(name.to_owned());
        for (members, error) in [
            (r#"{"mod":"M","exp":"AQAB","kty":"RSA"}"#, member("kty")),
            (r#"{"mod":"M","exp":65537}"#, member("exp")),
            (r#"{"mod":["M"],"exp":"AQAB"}"#, member("mod")),
            (r#"{"mod":"M","exp":"AQA"}"#, member("exp")),
            (r#"{"mod":"A-_=","exp":"AQAB"}"#, member("mod")),
            (r#"{"mod":"M"}"#, BadKey::Missing("exponent")),
            (r#"{"exp":"AQAB"}"#, BadKey::Missing("modulus")),
            (r#"{"mod":"","exp":"AQAB"}"#, BadKey::Missing("modulus")),
            (r#"{"mod":"M","exp":null}"#, BadKey::Missing("exponent")),
            (r#"{"mod":"M","exp":"AAAA"}"#, BadKey::Missing("exponent")),
            (r#"{"N":"M","E":"AQAB"}"#, BadKey::Missing("modulus")),
            (
                r#"{"mod":"M","n":"AQAB","exp":"AQAB"}"#,
                BadKey::Ambiguous("modulus"),
            ),
            (
                r#"{"mod":"M","exp":"AQAB","exp":"Aw=="}"#,
                BadKey::Ambiguous("exponent"),
            ),
            (
                r#"{"mod":"M","exp":"AQAB","d":"AQAB"}"#,
                BadKey::Private("d".into()),
            ),
        ] {
            assert_eq!(refused(members), error, "{members}");
        }
    }

    #[test]
    fn short_long_and_weak_keys_are_refused() {
        let key = |modulus: &[u8], exponent: &[u8]| read(&write(modulus, exponent)).map(drop);
        for bits in [2048, 2050, 3072, 4096] {
            assert_eq!(key(&modulus(bits), &[1, 0, 1]), Ok(()), "{bits}");
        }
        for bits in [512, 1024, 2047, 4097, 8192] {
            assert_eq!(key(&modulus(bits), &[1, 0, 1]), Err(BadKey::Size(bits)));
        }
        // Zeros in front make no key longer.
        let mut padded = vec![0; 256];
        padded.extend_from_slice(&modulus(1024));
        assert_eq!(key(&padded, &[1, 0, 1]), Err(BadKey::Size(1024)));
        let mut even = modulus(2048);
        even[255] = 2;
        assert_eq!(key(&even, &[1, 0, 1]), Err(BadKey::EvenModulus));
        for exponent in [&[1][..], &[2], &[1, 0, 0], &[2, 0, 0, 0, 1], &[0xFF; 256]] {
            assert_eq!(key(&modulus(2048), exponent), Err(BadKey::Exponent));
        }
        for exponent in [&[3][..], &[17], &[1, 0, 1], &[1, 0, 0, 0, 1]] {
            assert_eq!(key(&modulus(2048), exponent), Ok(()));
        }
    }

    #[test]
    fn a_refusal_repeats_little_of_what_it_refuses() {
        let name = "\n\u{1b}".repeat(1000);
        let text = serde_json::to_string(&serde_json::json!({ name: 1 })).unwrap();
        let shown = read(text.as_bytes()).unwrap_err().to_string();
        assert!(shown.len() < 250 && !shown.contains(['\n', '\u{1b}']));
    }
}

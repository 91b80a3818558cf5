//! Values of a file that are text with a form of their own; the command line reads the same forms.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A time above zero, as `"500ms"`, `"1.5s"`, `"2m"`, `"1h"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Time(pub(super) Duration);

/// The SHA-256 of a certificate: 64 hexadecimal digits; colons between bytes are allowed.
pub(super) struct Sha256(pub(super) [u8; 32]);

/// Reads a time as `500ms`, `5s`, `1.5s`, `2m`, `1h`, in seconds; `0` needs no unit. `None` if it is none.
pub fn seconds(text: &str) -> Option<f64> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let number: f64 = match number.as_bytes() {
        [b'0'..=b'9', ..] => number.parse().ok()?,
        _ => return None,
    };
    match unit {
        "ms" => Some(number / 1000.0),
        "s" => Some(number),
        "m" => Some(number * 60.0),
        "h" => Some(number * 3600.0),
        "" if number == 0.0 => Some(0.0),
        _ => None,
    }
}

/// Reads a SHA-256 as `sha256sum` or OpenSSL write it: 64 hexadecimal digits, colons allowed. `None` if it is none.
pub fn sha256(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<char> = text.chars().filter(|c| *c != ':').collect();
    if digits.len() != 64 {
        return None;
    }
    let mut sha256 = [0; 32];
    for (byte, pair) in sha256.iter_mut().zip(digits.chunks_exact(2)) {
        let value = pair[0].to_digit(16)? * 16 + pair[1].to_digit(16)?;
        *byte = u8::try_from(value).ok()?;
    }
    Some(sha256)
}

fn time(text: &str) -> Option<Duration> {
    let time = Duration::try_from_secs_f64(seconds(text)?).ok()?;
    (!time.is_zero()).then_some(time)
}

struct Text<T>(fn(&str) -> Option<T>, &'static str);

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let form = "a time above zero with ms, s, m or h, as \"1.5s\"";
        from.deserialize_str(Text(time, form)).map(Self)
    }
}

impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let form = "the SHA-256 of a certificate, 64 hexadecimal digits";
        from.deserialize_str(Text(sha256, form)).map(Self)
    }
}

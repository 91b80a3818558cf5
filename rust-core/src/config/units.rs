//! Values of a file that are text with a form of their own.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A time above zero, as `"500ms"`, `"1.5s"`, `"2m"`, `"1h"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Time(pub(super) Duration);

/// The SHA-256 of a certificate: 64 hexadecimal digits; colons between bytes are allowed.
pub(super) struct Sha256(pub(super) [u8; 32]);

fn time(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(unit_at);
    let number: f64 = match number.as_bytes() {
        [b'0'..=b'9', ..] => number.parse().ok()?,
        _ => return None,
    };
    let seconds = number
        * match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    (!time.is_zero()).then_some(time)
}

fn sha256(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| *c != ':')
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|d| match d {
            [high, low] => high * 16 + low,
            _ => 0,
        })
        .collect();
    (digits.len() == 64)
        .then(|| bytes.try_into().ok())
        .flatten()
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

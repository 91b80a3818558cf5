//! Scalars in JSON: from their text and to it, as `System.Text.Json` has them.

use super::escape::Dialect;
use crate::codec::error::{CodecError, Result};
use crate::codec::number::{Half, write_f32, write_f64, write_half};
use crate::codec::schema::{self, mismatch, out_of_range};
use crate::codec::time_text;
use crate::codec::value::Value;
use crate::contract::Scalar;

/// An integer of a scalar type from its text.
pub(super) fn integer(text: &str, scalar: Scalar) -> Result<Value> {
    if let Some(value) = small_integer(text.as_bytes())
        && scalar
            .integer_range()
            .is_some_and(|(min, max)| min <= value.into() && i128::from(value) <= max)
    {
        return Ok(Value::Int(value));
    }
    if text.contains(['.', 'e', 'E']) {
        return Err(CodecError::new(format!("{text} is no integer")));
    }
    let value = match scalar {
        Scalar::UInt128 => text.parse::<u128>().ok().map(Value::from),
        _ => text
            .parse::<i64>()
            .map(i128::from)
            .or_else(|_| text.parse::<i128>())
            .ok()
            .filter(|value| {
                scalar.integer_range().is_some_and(|(min, max)| (min..=max).contains(value))
                    // An unsigned -0 is refused by .NET.
                    && !(text.starts_with('-') && *value >= 0 && is_unsigned(scalar))
            })
            .map(Value::from),
    };
    value.ok_or_else(|| out_of_range(text, scalar.short_name()))
}

/// A plain integer of up to 18 digits, but not -0, which unsigned types refuse.
fn small_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let minus_zero = negative && digits.iter().all(|byte| *byte == b'0');
    let fits = (1..=18).contains(&digits.len()) && !minus_zero;
    if !fits || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits
        .iter()
        .fold(0, |value, byte| value * 10 + i64::from(byte - b'0'));
    Some(if negative { -value } else { value })
}

fn is_unsigned(scalar: Scalar) -> bool {
    scalar.integer_range().is_some_and(|(min, _)| min == 0)
}

/// A `Half`, `float`, `double` or `decimal` from a JSON number.
pub(super) fn float(text: &str, scalar: Scalar) -> Result<Value> {
    let not_a_number = || CodecError::new("not a number");
    Ok(match scalar {
        Scalar::Single => Value::Single(text.parse().map_err(|_| not_a_number())?),
        Scalar::Double => Value::Double(text.parse().map_err(|_| not_a_number())?),
        Scalar::Half => {
            let half = Half::from_f64(text.parse().map_err(|_| not_a_number())?);
            if !half.is_finite() {
                return Err(out_of_range(text, "Half"));
            }
            Value::Half(half)
        }
        _ => Value::Decimal(
            text.parse()
                .map_err(|e| CodecError::new(format!("{text}: {e}")))?,
        ),
    })
}

/// `NaN`, `Infinity` and `-Infinity`.
pub(super) fn named_float(text: &str, scalar: Scalar) -> Option<Value> {
    let value = match text {
        // With the bits that NaN has in .NET.
        "NaN" => f64::from_bits(0xFFF8_0000_0000_0000),
        "Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        _ => return None,
    };
    Some(match scalar {
        Scalar::Half => Value::Half(Half::from_f64(value)),
        Scalar::Single => Value::Single(value as f32),
        _ => Value::Double(value),
    })
}

/// A scalar that JSON holds as a string.
pub(super) fn string_scalar(
    text: &str,
    scalar: Scalar,
) -> std::result::Result<Value, &'static str> {
    Ok(match scalar {
        Scalar::String => Value::String(text.into()),
        Scalar::Char => {
            let mut units = text.encode_utf16();
            match (units.next(), units.next()) {
                (Some(unit), None) => Value::Char(unit),
                _ => return Err("not exactly one UTF-16 unit"),
            }
        }
        Scalar::Guid => Value::Guid(guid(text).ok_or("not a Guid with hyphens")?),
        Scalar::DateTime => Value::DateTime(time_text::read_date_time(text)?),
        Scalar::DateTimeOffset => Value::DateTimeOffset(time_text::read_date_time_offset(text)?),
        Scalar::TimeSpan => Value::TimeSpan(time_text::read_time_span(text)?),
        Scalar::DateOnly => Value::DateOnly(time_text::read_date_only(text)?),
        Scalar::TimeOnly => Value::TimeOnly(time_text::read_time_only(text)?),
        Scalar::Version => Value::Version(time_text::read_version(text)?),
        Scalar::Uri => {
            if ["http://", "https://", "ws://", "wss://", "ftp://"].contains(&text) {
                return Err("a URI without a host");
            }
            Value::String(text.into())
        }
        _ => return Err("not a string"),
    })
}

/// The `D` form, in either case.
pub(crate) fn guid(text: &str) -> Option<uuid::Uuid> {
    let hyphens = text.len() == 36
        && [8, 13, 18, 23]
            .iter()
            .all(|at| text.as_bytes()[*at] == b'-');
    hyphens.then(|| uuid::Uuid::try_parse(text).ok()).flatten()
}

/// The scalar type that a value is by itself.
pub(super) fn scalar_of(value: &Value) -> Scalar {
    match value {
        Value::Bool(_) => Scalar::Bool,
        Value::Int(_) => Scalar::Int64,
        Value::UInt(_) => Scalar::UInt64,
        Value::Int128(_) => Scalar::Int128,
        Value::UInt128(_) => Scalar::UInt128,
        Value::Half(_) => Scalar::Half,
        Value::Single(_) => Scalar::Single,
        Value::Double(_) => Scalar::Double,
        Value::Decimal(_) => Scalar::Decimal,
        Value::Char(_) => Scalar::Char,
        Value::Guid(_) => Scalar::Guid,
        Value::DateTime(_) => Scalar::DateTime,
        Value::DateTimeOffset(_) => Scalar::DateTimeOffset,
        Value::TimeSpan(_) => Scalar::TimeSpan,
        Value::DateOnly(_) => Scalar::DateOnly,
        Value::TimeOnly(_) => Scalar::TimeOnly,
        Value::Version(_) => Scalar::Version,
        _ => Scalar::String,
    }
}

/// The text of a scalar, without quotes.
pub(super) fn scalar_text(value: &Value, scalar: Scalar, dialect: Dialect) -> Result<String> {
    let finite = |name: &str, is_nan: bool, negative: bool| match dialect {
        Dialect::Wire => Err(CodecError::new(format!(
            "JSON has no form for a {name} that is not finite"
        ))),
        Dialect::Text => Ok(match (is_nan, negative) {
            (true, _) => "NaN",
            (false, false) => "Infinity",
            (false, true) => "-Infinity",
        }
        .to_owned()),
    };
    let ascii = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        // Digits, signs and points.
        String::from_utf8(out).unwrap_or_default()
    };
    Ok(match scalar {
        Scalar::Bool => schema::boolean(value)?.to_string(),
        Scalar::UInt128 => match value.as_u128() {
            Some(number) => number.to_string(),
            None => schema::integer(value, scalar)?.to_string(),
        },
        _ if scalar.is_integer() => schema::integer(value, scalar)?.to_string(),
        Scalar::Half => match schema::half(value)? {
            half if half.is_finite() => ascii(&|out| write_half(out, half)),
            half => {
                let number = half.to_f32();
                finite("Half", number.is_nan(), number < 0.0)?
            }
        },
        Scalar::Single => match schema::single(value)? {
            number if number.is_finite() => ascii(&|out| write_f32(out, number)),
            number => finite("float", number.is_nan(), number < 0.0)?,
        },
        Scalar::Double => match schema::double(value)? {
            number if number.is_finite() => ascii(&|out| write_f64(out, number)),
            number => finite("double", number.is_nan(), number < 0.0)?,
        },
        Scalar::Decimal => schema::decimal(value)?.to_string(),
        Scalar::Char => match char::from_u32(schema::character(value)?.into()) {
            Some(c) => c.to_string(),
            None => {
                return Err(CodecError::new(
                    "half of a surrogate pair has no form in JSON",
                ));
            }
        },
        Scalar::String | Scalar::Uri => schema::text(value, scalar.short_name())?.to_owned(),
        Scalar::Guid => schema::guid(value)?.to_string(),
        Scalar::DateTime => time_text::date_time(schema::date_time(value)?),
        Scalar::DateTimeOffset => time_text::date_time_offset(schema::date_time_offset(value)?),
        Scalar::TimeSpan => time_text::time_span(schema::time_span(value)?),
        Scalar::DateOnly => time_text::date_only(schema::date_only(value)?),
        Scalar::TimeOnly => time_text::time_only(schema::time_only(value)?),
        Scalar::Version => version_text(schema::version(value)?)?,
        _ => return Err(mismatch(value.kind(), scalar.short_name())),
    })
}

/// The numbers of a version up to the first that is missing.
pub(crate) fn version_text(parts: [i32; 4]) -> Result<String> {
    let count = parts.iter().take_while(|part| **part >= 0).count();
    if count < 2 || parts[count..].iter().any(|part| *part >= 0) {
        return Err(CodecError::new("a version has two to four numbers"));
    }
    Ok(parts[..count]
        .iter()
        .map(i32::to_string)
        .collect::<Vec<_>>()
        .join("."))
}

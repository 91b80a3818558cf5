//! Single scalars as fields: which wire type they have, what counts as zero, and what a reader takes
//! for them.

use super::well_known;
use super::wire::{
    FIXED32, FIXED64, Field, Payload, Reader, VARINT, unzigzag, wrap, write_bytes, write_tag,
    write_varint, zigzag,
};
use crate::codec::error::{CodecError, Result};
use crate::codec::schema::{self, mismatch, out_of_range, unusable};
use crate::codec::time::{
    DateOnly, DateTime, DateTimeKind, DateTimeOffset, SECOND, TimeOnly, TimeSpan, UNIX_EPOCH,
};
use crate::codec::value::Value;
use crate::contract::{ProtobufFormat, Scalar, Type};

/// Ticks in a millisecond.
const MILLISECOND: i64 = SECOND / 1000;

/// Whether the integer type has 64 bits.
fn is_wide(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Int64 | Scalar::UInt64)
}

/// The bits of an integer, sign-extended to 64.
fn bits(value: i128) -> u64 {
    value as u64
}

/// Appends a scalar as a field, whatever its value.
pub(super) fn write(
    out: &mut Vec<u8>,
    number: u32,
    value: &Value,
    scalar: Scalar,
    format: ProtobufFormat,
) -> Result<()> {
    match scalar {
        _ if scalar.is_integer() => {
            let value = schema::integer(value, scalar)?;
            match format {
                ProtobufFormat::Default => write_tag(out, number, VARINT),
                ProtobufFormat::ZigZag => write_tag(out, number, VARINT),
                ProtobufFormat::Fixed if is_wide(scalar) => write_tag(out, number, FIXED64),
                ProtobufFormat::Fixed => write_tag(out, number, FIXED32),
            }
            write_integer(out, value, scalar, format);
        }
        Scalar::Bool | Scalar::Char | Scalar::DateOnly | Scalar::TimeOnly => {
            write_tag(out, number, VARINT);
            write_packed(out, value, scalar, format)?;
        }
        Scalar::Single => {
            write_tag(out, number, FIXED32);
            write_packed(out, value, scalar, format)?;
        }
        Scalar::Double => {
            write_tag(out, number, FIXED64);
            write_packed(out, value, scalar, format)?;
        }
        Scalar::String | Scalar::Uri => {
            let text = schema::text(value, scalar.short_name())?;
            write_bytes(out, number, text.as_bytes());
        }
        _ => {
            if format != ProtobufFormat::Default {
                return Err(CodecError::new(format!(
                    "a {} of another format than the default is not supported",
                    scalar.short_name()
                )));
            }
            let start = out.len();
            write_message(out, value, scalar)?;
            wrap(out, number, start);
        }
    }
    Ok(())
}

fn write_integer(out: &mut Vec<u8>, value: i128, scalar: Scalar, format: ProtobufFormat) {
    match format {
        ProtobufFormat::Default => write_varint(out, bits(value)),
        ProtobufFormat::ZigZag => write_varint(out, zigzag(bits(value).cast_signed())),
        ProtobufFormat::Fixed if is_wide(scalar) => {
            out.extend_from_slice(&bits(value).to_le_bytes());
        }
        ProtobufFormat::Fixed => out.extend_from_slice(&(bits(value) as u32).to_le_bytes()),
    }
}

/// Appends a scalar that is a number, without its tag.
pub(super) fn write_packed(
    out: &mut Vec<u8>,
    value: &Value,
    scalar: Scalar,
    format: ProtobufFormat,
) -> Result<()> {
    match scalar {
        Scalar::Bool => out.push(schema::boolean(value)?.into()),
        Scalar::Char => write_varint(out, schema::character(value)?.into()),
        Scalar::Single => out.extend_from_slice(&schema::single(value)?.to_le_bytes()),
        Scalar::Double => out.extend_from_slice(&schema::double(value)?.to_le_bytes()),
        Scalar::DateOnly => {
            write_varint(out, bits(schema::date_only(value)?.day_number().into()));
        }
        Scalar::TimeOnly => write_varint(out, bits(schema::time_only(value)?.ticks().into())),
        _ => write_integer(out, schema::integer(value, scalar)?, scalar, format),
    }
    Ok(())
}

/// Appends the fields of a scalar that is a message.
pub(super) fn write_message(out: &mut Vec<u8>, value: &Value, scalar: Scalar) -> Result<()> {
    match scalar {
        Scalar::Guid => well_known::write_guid(out, schema::guid(value)?),
        Scalar::Decimal => well_known::write_decimal(out, schema::decimal(value)?),
        Scalar::DateTime => {
            well_known::write_date_time(out, schema::date_time(value)?.ticks());
        }
        Scalar::TimeSpan => {
            well_known::write_time_span(out, schema::time_span(value)?.ticks());
        }
        Scalar::DateTimeOffset => {
            let ticks = schema::date_time_offset(value)?.utc_ticks() - UNIX_EPOCH;
            // The epoch is written too: without a field the reader takes it for the year 1.
            write_tag(out, 1, VARINT);
            write_varint(out, ticks.div_euclid(MILLISECOND).cast_unsigned());
        }
        _ => return Err(unusable(&Type::Scalar(scalar), "protobuf")),
    }
    Ok(())
}

/// Whether a member of a class is left out.
pub(super) fn is_zero_member(value: &Value, scalar: Scalar) -> bool {
    match value {
        Value::Guid(guid) => guid.is_nil(),
        Value::Decimal(decimal) => decimal.mantissa() == 0,
        Value::TimeSpan(span) => span.ticks() == 0,
        Value::DateOnly(_) | Value::TimeOnly(_) => false,
        _ => is_zero_entry(value, scalar),
    }
}

/// Whether a key or a value of a dictionary is left out.
pub(super) fn is_zero_entry(value: &Value, scalar: Scalar) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0 && scalar != Scalar::Decimal,
        Value::Char(value) => *value == 0,
        // -0 too.
        Value::Single(value) => *value == 0.0,
        Value::Double(value) => *value == 0.0,
        Value::DateOnly(day) => day.day_number() == 0,
        Value::TimeOnly(time) => time.ticks() == 0,
        _ => false,
    }
}

/// Whether a scalar is a message by itself.
pub(super) fn is_message(scalar: Scalar) -> bool {
    matches!(
        scalar,
        Scalar::Guid
            | Scalar::Decimal
            | Scalar::DateTime
            | Scalar::DateTimeOffset
            | Scalar::TimeSpan
    )
}

fn wrong(field: &Field<'_>, scalar: Scalar) -> CodecError {
    let found = match field.payload {
        Payload::Varint(_) => "a varint",
        Payload::Fixed32(_) => "four bytes",
        Payload::Fixed64(_) => "eight bytes",
        Payload::Length(_) => "bytes",
    };
    CodecError::at(mismatch(found, scalar.short_name()).message(), field.at)
}

/// Reads a scalar that is no message from a field.
pub(super) fn read(field: &Field<'_>, scalar: Scalar, format: ProtobufFormat) -> Result<Value> {
    match (scalar, field.payload) {
        (Scalar::Single | Scalar::Double, Payload::Fixed32(bits)) => {
            Ok(float(f32::from_bits(bits).into(), scalar))
        }
        (Scalar::Single | Scalar::Double, Payload::Fixed64(bits)) => {
            Ok(float(f64::from_bits(bits), scalar))
        }
        (Scalar::String | Scalar::Uri, Payload::Length(bytes)) => {
            match std::str::from_utf8(bytes) {
                // .NET has null for an empty Uri.
                Ok("") if scalar == Scalar::Uri => Ok(Value::Null),
                Ok(text) => Ok(Value::String(text.into())),
                Err(e) => Err(CodecError::at(
                    "a string is not UTF-8",
                    field.at + e.valid_up_to(),
                )),
            }
        }
        (
            Scalar::Single | Scalar::Double | Scalar::String | Scalar::Uri,
            Payload::Varint(_) | Payload::Length(_) | Payload::Fixed32(_) | Payload::Fixed64(_),
        ) => Err(wrong(field, scalar)),
        (_, Payload::Varint(bits)) => {
            let bits = match format {
                ProtobufFormat::ZigZag if scalar.is_integer() => unzigzag(bits).cast_unsigned(),
                _ => bits,
            };
            number(bits, scalar, field.at)
        }
        // Four bytes are sign-extended for signed types.
        (_, Payload::Fixed32(bits)) => {
            let wide = match scalar {
                Scalar::UInt64 => u64::from(bits),
                _ => i64::from(bits.cast_signed()).cast_unsigned(),
            };
            number(wide, scalar, field.at)
        }
        (_, Payload::Fixed64(bits)) => number(bits, scalar, field.at),
        (_, Payload::Length(_)) => Err(wrong(field, scalar)),
    }
}

fn float(value: f64, scalar: Scalar) -> Value {
    match scalar {
        Scalar::Single => Value::Single(value as f32),
        _ => Value::Double(value),
    }
}

/// The value of a number's 64 bits. Narrower types take 32 bits with or without sign, as
/// protobuf-net does.
fn number(bits: u64, scalar: Scalar, at: usize) -> Result<Value> {
    let range =
        |text: String| CodecError::at(out_of_range(&text, scalar.short_name()).message(), at);
    let narrow = || {
        u32::try_from(bits)
            .or_else(|_| i32::try_from(bits.cast_signed()).map(i32::cast_unsigned))
            .map_err(|_| range(bits.to_string()))
    };
    let signed = || narrow().map(|bits| i128::from(bits.cast_signed()));
    let value: i128 = match scalar {
        Scalar::Int64 | Scalar::TimeOnly => bits.cast_signed().into(),
        Scalar::UInt64 => bits.into(),
        Scalar::Int32 | Scalar::Int16 | Scalar::SByte | Scalar::DateOnly => signed()?,
        _ => narrow()?.into(),
    };
    let out = || range(value.to_string());
    Ok(match scalar {
        Scalar::Bool => Value::Bool(value != 0),
        Scalar::Char => Value::Char(u16::try_from(value).map_err(|_| out())?),
        Scalar::DateOnly => {
            let day = DateOnly::from_day_number(value as i32);
            Value::DateOnly(day.ok_or_else(out)?)
        }
        Scalar::TimeOnly => {
            let time = TimeOnly::from_ticks(value as i64);
            Value::TimeOnly(time.ok_or_else(out)?)
        }
        _ => match scalar.integer_range() {
            Some((min, max)) if (min..=max).contains(&value) => value.into(),
            _ => return Err(out()),
        },
    })
}

/// Reads a scalar that is a message from its bytes.
pub(super) fn read_message(bytes: &[u8], scalar: Scalar, at: usize) -> Result<Value> {
    let wrong = || CodecError::at(format!("not a valid {}", scalar.short_name()), at);
    Ok(match scalar {
        Scalar::Guid => Value::Guid(well_known::read_guid(bytes, at)?),
        Scalar::Decimal => Value::Decimal(well_known::read_decimal(bytes, at)?),
        Scalar::DateTime => {
            let ticks = well_known::read_date_time(bytes, at)?;
            let time = DateTime::from_ticks(ticks, DateTimeKind::Unspecified);
            Value::DateTime(time.ok_or_else(wrong)?)
        }
        Scalar::TimeSpan => {
            Value::TimeSpan(TimeSpan::from_ticks(well_known::read_time_span(bytes, at)?))
        }
        _ => {
            let mut milliseconds = 0;
            let mut reader = Reader::new(bytes, at);
            while let Some(field) = reader.field()? {
                if field.number == 1 {
                    let value = read(&field, Scalar::Int64, ProtobufFormat::Default)?;
                    milliseconds = value.as_i128().unwrap_or_default() as i64;
                }
            }
            milliseconds
                .checked_mul(MILLISECOND)
                .and_then(|ticks| ticks.checked_add(UNIX_EPOCH))
                .and_then(|ticks| DateTimeOffset::from_utc_ticks(ticks, 0))
                .map(Value::DateTimeOffset)
                .ok_or_else(wrong)?
        }
    })
}

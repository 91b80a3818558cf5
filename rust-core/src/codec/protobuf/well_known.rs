//! The messages that protobuf-net has for single values: Guid, decimal, DateTime and TimeSpan.

use super::wire::{
    FIXED64, Field, Payload, Reader, VARINT, unzigzag, write_tag, write_varint, zigzag,
};
use crate::codec::decimal::Decimal;
use crate::codec::error::{CodecError, Result};
use crate::codec::time::{DAY, HOUR, MAX_TICKS, MINUTE, SECOND, UNIX_EPOCH};

/// The units of a time, by their number on the wire.
const UNITS: [i64; 6] = [DAY, HOUR, MINUTE, SECOND, SECOND / 1000, 1];
/// The number that stands for the least and the greatest value.
const MIN_MAX: u64 = 15;

fn varint(field: &Field<'_>) -> Result<u64> {
    match field.payload {
        Payload::Varint(value) => Ok(value),
        _ => Err(CodecError::at("a varint was expected", field.at)),
    }
}

/// Appends the fields of a Guid: nothing if it is all zero, else both halves.
pub(super) fn write_guid(out: &mut Vec<u8>, guid: uuid::Uuid) {
    if guid.is_nil() {
        return;
    }
    let bytes = guid.to_bytes_le();
    for (number, half) in [(1, &bytes[..8]), (2, &bytes[8..])] {
        write_tag(out, number, FIXED64);
        out.extend_from_slice(half);
    }
}

pub(super) fn read_guid(bytes: &[u8], at: usize) -> Result<uuid::Uuid> {
    let mut halves = [0; 16];
    let mut reader = Reader::new(bytes, at);
    while let Some(field) = reader.field()? {
        let half = match field.number {
            1 => &mut halves[..8],
            2 => &mut halves[8..],
            _ => continue,
        };
        match field.payload {
            Payload::Fixed64(value) => half.copy_from_slice(&value.to_le_bytes()),
            _ => return Err(CodecError::at("half a Guid was expected", field.at)),
        }
    }
    Ok(uuid::Uuid::from_bytes_le(halves))
}

/// Appends the fields of a decimal; zeros are left out.
pub(super) fn write_decimal(out: &mut Vec<u8>, decimal: Decimal) {
    let mantissa = decimal.mantissa();
    let sign_scale = u64::from(decimal.scale()) << 1 | u64::from(decimal.is_negative());
    for (number, value) in [
        (1, mantissa as u64),
        (2, (mantissa >> 64) as u64),
        (3, sign_scale),
    ] {
        if value != 0 {
            write_tag(out, number, VARINT);
            write_varint(out, value);
        }
    }
}

pub(super) fn read_decimal(bytes: &[u8], at: usize) -> Result<Decimal> {
    let (mut low, mut high, mut sign_scale) = (0, 0, 0);
    let mut reader = Reader::new(bytes, at);
    while let Some(field) = reader.field()? {
        match field.number {
            1 => low = varint(&field)?,
            2 => high = varint(&field)?,
            3 => sign_scale = varint(&field)?,
            _ => {}
        }
    }
    let mantissa = u128::from(high) << 64 | u128::from(low);
    u8::try_from(sign_scale >> 1)
        .ok()
        .and_then(|scale| Decimal::from_parts(sign_scale & 1 == 1, mantissa, scale))
        .ok_or_else(|| CodecError::at("not a valid decimal", at))
}

/// Appends the fields of a count of ticks, in the greatest unit that divides it.
fn write_ticks(out: &mut Vec<u8>, ticks: i64, min: i64, max: i64) {
    let (count, unit) = if ticks == min {
        (-1, MIN_MAX)
    } else if ticks == max {
        (1, MIN_MAX)
    } else {
        // A unit of one tick divides everything.
        let unit = UNITS
            .iter()
            .position(|unit| ticks % unit == 0)
            .unwrap_or(UNITS.len() - 1);
        (ticks / UNITS[unit], unit as u64)
    };
    if count != 0 {
        write_tag(out, 1, VARINT);
        write_varint(out, zigzag(count));
        if unit != 0 {
            write_tag(out, 2, VARINT);
            write_varint(out, unit);
        }
    }
}

fn read_ticks(bytes: &[u8], at: usize, min: i64, max: i64) -> Result<i64> {
    let wrong = || CodecError::at("not a valid time", at);
    let (mut count, mut unit) = (0, 0);
    let mut reader = Reader::new(bytes, at);
    while let Some(field) = reader.field()? {
        match field.number {
            1 => count = unzigzag(varint(&field)?),
            2 => unit = varint(&field)?,
            // The kind, which protobuf-net ignores too.
            _ => {}
        }
    }
    match (unit, count) {
        (MIN_MAX, -1) => return Ok(min),
        (MIN_MAX, 1) => return Ok(max),
        _ => {}
    }
    usize::try_from(unit)
        .ok()
        .and_then(|unit| UNITS.get(unit))
        .and_then(|unit| count.checked_mul(*unit))
        .ok_or_else(wrong)
}

/// Appends the fields of a DateTime, counted from 1970.
pub(super) fn write_date_time(out: &mut Vec<u8>, ticks: i64) {
    write_ticks(out, ticks - UNIX_EPOCH, -UNIX_EPOCH, MAX_TICKS - UNIX_EPOCH);
}

pub(super) fn read_date_time(bytes: &[u8], at: usize) -> Result<i64> {
    read_ticks(bytes, at, -UNIX_EPOCH, MAX_TICKS - UNIX_EPOCH)?
        .checked_add(UNIX_EPOCH)
        .filter(|ticks| (0..=MAX_TICKS).contains(ticks))
        .ok_or_else(|| CodecError::at("a date outside the years 1 to 9999", at))
}

/// Appends the fields of a TimeSpan.
pub(super) fn write_time_span(out: &mut Vec<u8>, ticks: i64) {
    write_ticks(out, ticks, i64::MIN, i64::MAX);
}

pub(super) fn read_time_span(bytes: &[u8], at: usize) -> Result<i64> {
    read_ticks(bytes, at, i64::MIN, i64::MAX)
}

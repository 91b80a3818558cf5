//! From MessagePack to values.

use std::collections::HashSet;
use std::sync::Arc;

use super::reader::{Kind, Number, Reader};
use super::{MAX_DEPTH, TIMESTAMP, too_deep};
use crate::codec::error::{CodecError, Place, Result};
use crate::codec::json::guid;
use crate::codec::number::Half;
use crate::codec::schema::{self, definition, member_type, object, out_of_range, unusable};
use crate::codec::time::{
    DateOnly, DateTime, DateTimeKind, DateTimeOffset, MAX_TICKS, SECOND, TimeOnly, TimeSpan,
    UNIX_EPOCH,
};
use crate::codec::time_text::read_version;
use crate::codec::value::Value;
use crate::contract::{
    DeclaredRef, MessagePackLayout, RecordDef, Scalar, Shape, Type, TypeKind, Types,
};

/// Most items that room is made for before they are seen.
const FIRST_ITEMS: usize = 4096;

/// Reads a value that is not compressed.
pub(super) fn decode(bytes: &[u8], ty: &Type, types: &Types) -> Result<Value> {
    let mut decoder = Decoder {
        reader: Reader::new(bytes),
        types,
    };
    decoder
        .read(ty, 0)
        .map_err(|e| e.or_at(decoder.reader.position()))
}

struct Decoder<'a> {
    reader: Reader<'a>,
    types: &'a Types,
}

impl Decoder<'_> {
    fn read(&mut self, ty: &Type, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        if let Type::ByRef(inner) = ty {
            return self.read(inner, depth);
        }
        if self.reader.kind()? == Kind::Nil {
            if ty.is_value_type() == Some(true) && !matches!(ty, Type::Nullable(_)) {
                let error = schema::mismatch("null", &ty.to_string());
                return Err(self.reader.error(error.message()));
            }
            self.reader.nil()?;
            return Ok(Value::Null);
        }
        match ty {
            Type::Scalar(Scalar::Object) | Type::Untyped => self.untyped(depth),
            Type::Scalar(scalar) => self.scalar(*scalar),
            Type::Nullable(inner) => self.read(inner, depth),
            Type::Array(item, 1) => self.list(item, depth),
            Type::Array(item, rank) => self.dimensions(item, *rank, depth),
            Type::Framework(framework, args) => match (framework.shape(), &args[..]) {
                (Shape::List | Shape::Stack, [item]) => self.list(item, depth),
                (Shape::Map, [key, value]) => self.map(key, value, depth),
                (Shape::Pair | Shape::Tuple | Shape::ValueTuple, args) => {
                    let at = self.reader.position();
                    let count = self.reader.array_length()?;
                    if count != args.len() {
                        return Err(CodecError::at(
                            format!("{count} items where {ty} has {}", args.len()),
                            at,
                        ));
                    }
                    args.iter()
                        .enumerate()
                        .map(|(i, arg)| self.read(arg, depth + 1).in_item(i))
                        .collect::<Result<_>>()
                        .map(Value::List)
                }
                _ => Err(unusable(ty, "MessagePack")),
            },
            Type::Declared(declared) => {
                let definition = definition(declared, self.types)?;
                match definition.kind() {
                    TypeKind::Enum(def) => self.scalar(def.underlying()),
                    TypeKind::Record(record) => self.record(declared, record, depth),
                    _ => Err(unusable(ty, "MessagePack")),
                }
            }
            _ => Err(unusable(ty, "MessagePack")),
        }
    }

    fn integer(&mut self, min: i128, max: i128, name: &str) -> Result<i128> {
        let at = self.reader.position();
        let value = self.reader.integer()?;
        if (min..=max).contains(&value) {
            Ok(value)
        } else {
            let error = out_of_range(&value.to_string(), name);
            Err(CodecError::at(error.message(), at))
        }
    }

    fn scalar(&mut self, scalar: Scalar) -> Result<Value> {
        let at = self.reader.position();
        let name = scalar.short_name();
        let wrong = || CodecError::at(format!("not a valid {name}"), at);
        if let Some((min, max)) = scalar.integer_range() {
            if matches!(scalar, Scalar::Int128 | Scalar::UInt128) {
                return Err(unusable(&Type::Scalar(scalar), "MessagePack"));
            }
            return self.integer(min, max, name).map(Value::from);
        }
        Ok(match scalar {
            Scalar::Bool => Value::Bool(self.reader.bool()?),
            Scalar::Char => Value::Char(self.integer(0, u16::MAX.into(), name)? as u16),
            Scalar::Half => Value::Half(match self.reader.number()? {
                Number::Int(value) => Half::from_f64(value as f64),
                Number::Single(value) => Half::from_f64(value.into()),
                Number::Double(value) => Half::from_f64(value),
            }),
            Scalar::Single => Value::Single(match self.reader.number()? {
                Number::Int(value) => value as f32,
                Number::Single(value) => value,
                Number::Double(value) => value as f32,
            }),
            Scalar::Double => Value::Double(match self.reader.number()? {
                Number::Int(value) => value as f64,
                Number::Single(value) => value.into(),
                Number::Double(value) => value,
            }),
            Scalar::String | Scalar::Uri => Value::String(self.reader.string()?.into()),
            Scalar::Version => Value::Version(
                read_version(self.reader.string()?).map_err(|e| CodecError::at(e, at))?,
            ),
            Scalar::Decimal => Value::Decimal(
                self.reader
                    .string()?
                    .parse()
                    .map_err(|e| CodecError::at(format!("{e}"), at))?,
            ),
            Scalar::Guid => Value::Guid(guid(self.reader.string()?).ok_or_else(wrong)?),
            Scalar::DateTime => {
                let ticks = self.timestamp()?;
                Value::DateTime(DateTime::from_ticks(ticks, DateTimeKind::Utc).ok_or_else(wrong)?)
            }
            Scalar::DateTimeOffset => {
                if self.reader.array_length()? != 2 {
                    return Err(wrong());
                }
                let local = self.timestamp()?;
                let minutes = self.integer(i16::MIN.into(), i16::MAX.into(), name)? as i16;
                let time = DateTimeOffset::from_local_ticks(local, minutes);
                Value::DateTimeOffset(time.ok_or_else(wrong)?)
            }
            Scalar::TimeSpan => {
                let ticks = self.integer(i64::MIN.into(), i64::MAX.into(), name)?;
                Value::TimeSpan(TimeSpan::from_ticks(ticks as i64))
            }
            Scalar::TimeOnly => {
                let ticks = self.integer(0, i64::MAX.into(), name)?;
                Value::TimeOnly(TimeOnly::from_ticks(ticks as i64).ok_or_else(wrong)?)
            }
            Scalar::DateOnly => {
                let day = self.integer(0, i32::MAX.into(), name)?;
                Value::DateOnly(DateOnly::from_day_number(day as i32).ok_or_else(wrong)?)
            }
            _ => return Err(unusable(&Type::Scalar(scalar), "MessagePack")),
        })
    }

    /// The ticks of a timestamp extension.
    fn timestamp(&mut self) -> Result<i64> {
        let at = self.reader.position();
        let wrong = || CodecError::at("not a valid timestamp", at);
        let (ty, bytes) = self.reader.extension()?;
        if ty != TIMESTAMP {
            return Err(CodecError::at(
                format!("the extension {ty} where a timestamp is expected"),
                at,
            ));
        }
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let (nanoseconds, seconds) = match bytes.len() {
            4 => (0, number(bytes).cast_signed()),
            8 => {
                let bits = number(bytes);
                (bits >> 34, (bits & ((1 << 34) - 1)).cast_signed())
            }
            12 => (number(&bytes[..4]), number(&bytes[4..]).cast_signed()),
            _ => return Err(wrong()),
        };
        seconds
            .checked_mul(SECOND)
            .and_then(|ticks| ticks.checked_add(UNIX_EPOCH))
            .and_then(|ticks| ticks.checked_add(nanoseconds.cast_signed() / 100))
            .filter(|ticks| (0..=MAX_TICKS).contains(ticks))
            .ok_or_else(wrong)
    }

    fn list(&mut self, item: &Type, depth: usize) -> Result<Value> {
        if *item == Type::Scalar(Scalar::Byte) {
            return self.bytes();
        }
        let count = self.reader.array_length()?;
        let mut items = Vec::with_capacity(count.min(FIRST_ITEMS));
        for i in 0..count {
            items.push(self.read(item, depth + 1).in_item(i)?);
        }
        Ok(Value::List(items))
    }

    /// Bytes, or an array of integers.
    fn bytes(&mut self) -> Result<Value> {
        if self.reader.kind()? != Kind::Array {
            return Ok(Value::Bytes(self.reader.binary()?.to_vec()));
        }
        let count = self.reader.array_length()?;
        let mut bytes = Vec::with_capacity(count);
        for i in 0..count {
            bytes.push(self.integer(0, u8::MAX.into(), "byte").in_item(i)? as u8);
        }
        Ok(Value::Bytes(bytes))
    }

    fn dimensions(&mut self, item: &Type, rank: u8, depth: usize) -> Result<Value> {
        let at = self.reader.position();
        let count = self.reader.array_length()?;
        if count != usize::from(rank) + 1 {
            return Err(CodecError::at(
                format!(
                    "{count} parts where an array of rank {rank} has {}",
                    rank + 1
                ),
                at,
            ));
        }
        let mut lengths = Vec::new();
        for _ in 0..rank {
            lengths.push(self.reader.length()?);
        }
        let count = self.reader.array_length()?;
        let mut items = Vec::with_capacity(count.min(FIRST_ITEMS));
        for i in 0..count {
            items.push(self.read(item, depth + 1).in_item(i)?);
        }
        schema::rows(items, &lengths)
    }

    fn map(&mut self, key: &Type, value: &Type, depth: usize) -> Result<Value> {
        let count = self.reader.map_length()?;
        let mut entries = Vec::with_capacity(count.min(FIRST_ITEMS));
        let mut seen = HashSet::with_capacity(count.min(FIRST_ITEMS));
        for i in 0..count {
            let at = self.reader.position();
            let k = self.read(key, depth + 1).in_item(i)?;
            let text = schema::key_text(&k);
            let v = self
                .read(value, depth + 1)
                .map_err(|e| e.in_key(text.as_str()))?;
            if k.is_null() || !seen.insert(text.clone()) {
                return Err(CodecError::at(
                    format!("the key {text} is null or there twice"),
                    at,
                ));
            }
            entries.push((k, v));
        }
        Ok(Value::Map(entries))
    }

    fn record(
        &mut self,
        declared: &DeclaredRef,
        record: &RecordDef,
        depth: usize,
    ) -> Result<Value> {
        let mut values: Vec<Option<Value>> = record.members().iter().map(|_| None).collect();
        match record.messagepack() {
            MessagePackLayout::Array(slots) => {
                let count = self.reader.array_length()?;
                for i in 0..count {
                    match slots.get(i).copied().flatten() {
                        Some(index) => {
                            values[index] = Some(self.member(declared, record, index, depth)?);
                        }
                        None => self.reader.skip()?,
                    }
                }
            }
            MessagePackLayout::Map(names) => {
                let count = self.reader.map_length()?;
                for _ in 0..count {
                    let name = self.reader.string()?;
                    match names.iter().find(|(known, _)| **known == *name) {
                        Some((_, index)) => {
                            values[*index] = Some(self.member(declared, record, *index, depth)?);
                        }
                        None => self.reader.skip()?,
                    }
                }
            }
            MessagePackLayout::Union(keys) => return self.union(declared, keys, depth),
            _ => {
                return Err(CodecError::new(format!(
                    "{} has no MessagePack layout: add \"messagepack\" to it in the contract",
                    declared.name()
                )));
            }
        }
        Ok(object(record, declared.args(), self.types, values))
    }

    fn member(
        &mut self,
        declared: &DeclaredRef,
        record: &RecordDef,
        index: usize,
        depth: usize,
    ) -> Result<Value> {
        let member = &record.members()[index];
        let ty = member_type(member, declared.args());
        self.read(&ty, depth + 1).in_member(member.name())
    }

    fn union(
        &mut self,
        declared: &DeclaredRef,
        keys: &[(i32, Type)],
        depth: usize,
    ) -> Result<Value> {
        let at = self.reader.position();
        if self.reader.array_length()? != 2 {
            return Err(CodecError::at(
                format!(
                    "{} is a union: a key and a value are expected",
                    declared.name()
                ),
                at,
            ));
        }
        let key = self.reader.integer()?;
        let concrete = keys
            .iter()
            .find(|(known, _)| i128::from(*known) == key)
            .map(|(_, ty)| ty.substitute(declared.args()))
            .ok_or_else(|| CodecError::at(format!("{} has no key {key}", declared.name()), at))?;
        let mut value = self.read(&concrete, depth + 1)?;
        if let (Value::Object(object), Type::Declared(concrete)) = (&mut value, &concrete) {
            object.type_name = Some(Arc::from(concrete.name()));
        }
        Ok(value)
    }

    /// A value by what it is.
    fn untyped(&mut self, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        Ok(match self.reader.kind()? {
            Kind::Nil => {
                self.reader.nil()?;
                Value::Null
            }
            Kind::Bool => Value::Bool(self.reader.bool()?),
            Kind::Integer | Kind::Single | Kind::Double => match self.reader.number()? {
                Number::Int(value) => value.into(),
                Number::Single(value) => Value::Single(value),
                Number::Double(value) => Value::Double(value),
            },
            Kind::String => Value::String(self.reader.string()?.into()),
            Kind::Binary => Value::Bytes(self.reader.binary()?.to_vec()),
            Kind::Extension => self.scalar(Scalar::DateTime)?,
            Kind::Array => {
                let count = self.reader.array_length()?;
                let mut items = Vec::with_capacity(count.min(FIRST_ITEMS));
                for i in 0..count {
                    items.push(self.untyped(depth + 1).in_item(i)?);
                }
                Value::List(items)
            }
            Kind::Map => {
                let count = self.reader.map_length()?;
                let mut entries = Vec::with_capacity(count.min(FIRST_ITEMS));
                for i in 0..count {
                    let key = self.untyped(depth + 1).in_item(i)?;
                    let value = self
                        .untyped(depth + 1)
                        .map_err(|e| e.in_key(schema::key_text(&key)))?;
                    entries.push((key, value));
                }
                Value::Map(entries)
            }
        })
    }
}

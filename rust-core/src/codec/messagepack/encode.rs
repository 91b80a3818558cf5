//! From values to MessagePack.

use super::reader::{
    write_array, write_binary, write_integer, write_map, write_string, write_wide,
};
use super::{MAX_DEPTH, TIMESTAMP, too_deep};
use crate::codec::error::{CodecError, Place, Result};
use crate::codec::json::{self, Dialect, tuple_items, version_text};
use crate::codec::schema::{
    self, check_members, default_value, definition, member_type, member_value, mismatch, unusable,
};
use crate::codec::time::{SECOND, UNIX_EPOCH};
use crate::codec::value::{Object, Value};
use crate::contract::{
    DeclaredRef, MessagePackLayout, RecordDef, Scalar, Shape, Type, TypeKind, Types,
};

const NIL: u8 = 0xC0;

/// Appends a value, not compressed.
pub(super) fn encode(out: &mut Vec<u8>, value: &Value, ty: &Type, types: &Types) -> Result<()> {
    Encoder { out, types }.write(value, ty, 0)
}

struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    types: &'a Types,
}

impl Encoder<'_> {
    fn write(&mut self, value: &Value, ty: &Type, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        if value.is_null() {
            if ty.is_value_type() == Some(true) && !matches!(ty, Type::Nullable(_)) {
                return Err(mismatch("null", &ty.to_string()));
            }
            self.out.push(NIL);
            return Ok(());
        }
        match ty {
            Type::Scalar(Scalar::Object) | Type::Untyped => return self.untyped(value, depth),
            Type::Nullable(inner) | Type::ByRef(inner) => return self.write(value, inner, depth),
            _ => {}
        }
        if let Value::Json(raw) = value {
            let mut reader = json::Reader::new(raw.as_str());
            let value = json::read(&mut reader, ty, self.types, Dialect::Text)?;
            if !matches!(value, Value::Json(_)) {
                return self.write(&value, ty, depth);
            }
        }
        match ty {
            Type::Scalar(scalar) => self.scalar(value, *scalar),
            Type::Array(item, 1) if **item == Type::Scalar(Scalar::Byte) => match value {
                Value::Bytes(bytes) => {
                    write_binary(self.out, bytes);
                    Ok(())
                }
                _ => Err(mismatch(value.kind(), "byte[]")),
            },
            Type::Array(item, 1) => self.list(value, item, ty, depth),
            Type::Array(item, rank) => self.dimensions(value, item, *rank, depth),
            Type::Framework(framework, args) => match (framework.shape(), &args[..]) {
                (Shape::List | Shape::Stack, [item]) => self.list(value, item, ty, depth),
                (Shape::Map, [key, item]) => self.map(value, ty, key, item, depth),
                (Shape::Pair | Shape::Tuple | Shape::ValueTuple, args) => {
                    let items = tuple_items(value, ty, args)?;
                    write_array(self.out, items.len());
                    for (i, (item, arg)) in items.iter().zip(args).enumerate() {
                        self.write(item, arg, depth + 1).in_item(i)?;
                    }
                    Ok(())
                }
                _ => Err(unusable(ty, "MessagePack")),
            },
            Type::Declared(declared) => {
                let definition = definition(declared, self.types)?;
                match definition.kind() {
                    TypeKind::Enum(def) => {
                        write_integer(self.out, schema::enum_value(value, definition, def)?);
                        Ok(())
                    }
                    TypeKind::Record(record) => match value {
                        Value::Object(object) => {
                            self.record(value, object, declared, record, depth)
                        }
                        _ => Err(mismatch(value.kind(), definition.name())),
                    },
                    _ => Err(unusable(ty, "MessagePack")),
                }
            }
            _ => Err(unusable(ty, "MessagePack")),
        }
    }

    fn scalar(&mut self, value: &Value, scalar: Scalar) -> Result<()> {
        match scalar {
            Scalar::Int128 | Scalar::UInt128 => {
                return Err(unusable(&Type::Scalar(scalar), "MessagePack"));
            }
            _ if scalar.is_integer() => write_integer(self.out, schema::integer(value, scalar)?),
            Scalar::Char => write_integer(self.out, schema::character(value)?.into()),
            Scalar::Bool => self
                .out
                .push(if schema::boolean(value)? { 0xC3 } else { 0xC2 }),
            Scalar::Half => self.single(schema::half(value)?.to_f32()),
            Scalar::Single => self.single(schema::single(value)?),
            Scalar::Double => self.double(schema::double(value)?),
            Scalar::String | Scalar::Uri => {
                write_string(self.out, schema::text(value, scalar.short_name())?);
            }
            Scalar::Version => write_string(self.out, &version_text(schema::version(value)?)?),
            Scalar::Decimal => write_string(self.out, &schema::decimal(value)?.to_string()),
            Scalar::Guid => write_string(self.out, &schema::guid(value)?.to_string()),
            Scalar::DateTime => self.timestamp(schema::date_time(value)?.ticks()),
            Scalar::DateTimeOffset => {
                let time = schema::date_time_offset(value)?;
                write_array(self.out, 2);
                self.timestamp(time.local_ticks());
                write_integer(self.out, time.offset_minutes().into());
            }
            Scalar::TimeSpan => write_integer(self.out, schema::time_span(value)?.ticks().into()),
            Scalar::TimeOnly => write_integer(self.out, schema::time_only(value)?.ticks().into()),
            Scalar::DateOnly => {
                write_integer(self.out, schema::date_only(value)?.day_number().into());
            }
            _ => return Err(unusable(&Type::Scalar(scalar), "MessagePack")),
        }
        Ok(())
    }

    fn single(&mut self, value: f32) {
        write_wide(self.out, 0xCA, &value.to_be_bytes());
    }

    fn double(&mut self, value: f64) {
        write_wide(self.out, 0xCB, &value.to_be_bytes());
    }

    /// A point in time, whatever its kind: the zone of a local one is not known here.
    fn timestamp(&mut self, ticks: i64) {
        let since = ticks - UNIX_EPOCH;
        let seconds = since.div_euclid(SECOND);
        let nanoseconds = since.rem_euclid(SECOND) * 100;
        let ty = TIMESTAMP.cast_unsigned();
        match (u32::try_from(seconds), u64::try_from(seconds)) {
            (Ok(seconds), _) if nanoseconds == 0 => {
                self.out.extend_from_slice(&[0xD6, ty]);
                self.out.extend_from_slice(&seconds.to_be_bytes());
            }
            (_, Ok(seconds)) if seconds < 1 << 34 => {
                let bits = nanoseconds.cast_unsigned() << 34 | seconds;
                self.out.extend_from_slice(&[0xD7, ty]);
                self.out.extend_from_slice(&bits.to_be_bytes());
            }
            _ => {
                self.out.extend_from_slice(&[0xC7, 12, ty]);
                self.out
                    .extend_from_slice(&(nanoseconds as u32).to_be_bytes());
                self.out.extend_from_slice(&seconds.to_be_bytes());
            }
        }
    }

    fn list(&mut self, value: &Value, item: &Type, ty: &Type, depth: usize) -> Result<()> {
        match value {
            Value::Bytes(bytes) if *item == Type::Scalar(Scalar::Byte) => {
                write_array(self.out, bytes.len());
                for byte in bytes {
                    write_integer(self.out, (*byte).into());
                }
                Ok(())
            }
            Value::List(items) => {
                write_array(self.out, items.len());
                for (i, value) in items.iter().enumerate() {
                    self.write(value, item, depth + 1).in_item(i)?;
                }
                Ok(())
            }
            _ => Err(mismatch(value.kind(), &ty.to_string())),
        }
    }

    /// The lengths of all dimensions, then the items row by row.
    fn dimensions(&mut self, value: &Value, item: &Type, rank: u8, depth: usize) -> Result<()> {
        let lengths = schema::dimensions(value, rank)?;
        write_array(self.out, lengths.len() + 1);
        for length in &lengths {
            write_integer(self.out, *length as i128);
        }
        let mut items = Vec::new();
        schema::flatten_rows(value, &lengths, &mut items)?;
        write_array(self.out, items.len());
        for (i, value) in items.into_iter().enumerate() {
            self.write(value, item, depth + 1).in_item(i)?;
        }
        Ok(())
    }

    fn map(
        &mut self,
        value: &Value,
        ty: &Type,
        key: &Type,
        item: &Type,
        depth: usize,
    ) -> Result<()> {
        let Value::Map(entries) = value else {
            return Err(mismatch(value.kind(), &ty.to_string()));
        };
        write_map(self.out, entries.len());
        for (k, v) in entries {
            if k.is_null() {
                return Err(CodecError::new("a key can not be null"));
            }
            self.write(k, key, depth + 1)
                .and_then(|()| self.write(v, item, depth + 1))
                .map_err(|e| e.in_key(schema::key_text(k)))?;
        }
        Ok(())
    }

    fn record(
        &mut self,
        value: &Value,
        object: &Object,
        declared: &DeclaredRef,
        record: &RecordDef,
        depth: usize,
    ) -> Result<()> {
        if object.type_name.is_none() && !record.is_abstract() {
            check_members(object, record)?;
        }
        match record.messagepack() {
            MessagePackLayout::Array(slots) => {
                write_array(self.out, slots.len());
                for slot in slots {
                    match slot {
                        Some(index) => self.member(object, declared, record, *index, depth)?,
                        None => self.out.push(NIL),
                    }
                }
                Ok(())
            }
            MessagePackLayout::Map(names) => {
                write_map(self.out, names.len());
                for (name, index) in names {
                    write_string(self.out, name);
                    self.member(object, declared, record, *index, depth)?;
                }
                Ok(())
            }
            MessagePackLayout::Union(keys) => {
                let name = object.type_name.as_deref().ok_or_else(|| {
                    CodecError::new(format!(
                        "{} is a union: the object does not say which type it is",
                        declared.name()
                    ))
                })?;
                let (key, concrete) = keys
                    .iter()
                    .find(|(_, ty)| matches!(ty, Type::Declared(d) if d.name() == name))
                    .ok_or_else(|| {
                        CodecError::new(format!(
                            "{name} has no MessagePack key in {}",
                            declared.name()
                        ))
                    })?;
                write_array(self.out, 2);
                write_integer(self.out, (*key).into());
                let concrete = concrete.substitute(declared.args());
                self.write(value, &concrete, depth + 1)
            }
            _ => Err(CodecError::new(format!(
                "{} has no MessagePack layout: add \"messagepack\" to it in the contract, as the C# \
                 type has [MessagePackObject]",
                declared.name()
            ))),
        }
    }

    fn member(
        &mut self,
        object: &Object,
        declared: &DeclaredRef,
        record: &RecordDef,
        index: usize,
        depth: usize,
    ) -> Result<()> {
        let member = &record.members()[index];
        let ty = member_type(member, declared.args());
        match member_value(object, index, member.name()) {
            Some(value) => self.write(value, &ty, depth + 1),
            None => {
                let value = default_value(&ty, self.types);
                self.write(&value, &ty, depth + 1)
            }
        }
        .in_member(member.name())
    }

    /// A value by what it is; numbers say their .NET width.
    fn untyped(&mut self, value: &Value, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        match value {
            Value::Null => self.out.push(NIL),
            Value::Int(number) => match i32::try_from(*number) {
                Ok(number) => write_wide(self.out, 0xD2, &number.to_be_bytes()),
                Err(_) => write_wide(self.out, 0xD3, &number.to_be_bytes()),
            },
            Value::UInt(number) => write_wide(self.out, 0xCF, &number.to_be_bytes()),
            Value::Int128(_) | Value::UInt128(_) => {
                return Err(unusable(&Type::Scalar(Scalar::Int128), "MessagePack"));
            }
            Value::Bool(_) => self.scalar(value, Scalar::Bool)?,
            Value::Half(_) => self.scalar(value, Scalar::Half)?,
            Value::Single(_) => self.scalar(value, Scalar::Single)?,
            Value::Double(_) => self.scalar(value, Scalar::Double)?,
            Value::Decimal(_) => self.scalar(value, Scalar::Decimal)?,
            Value::Char(_) => self.scalar(value, Scalar::Char)?,
            Value::String(_) => self.scalar(value, Scalar::String)?,
            Value::Guid(_) => self.scalar(value, Scalar::Guid)?,
            Value::DateTime(_) => self.scalar(value, Scalar::DateTime)?,
            Value::DateTimeOffset(_) => self.scalar(value, Scalar::DateTimeOffset)?,
            Value::TimeSpan(_) => self.scalar(value, Scalar::TimeSpan)?,
            Value::DateOnly(_) => self.scalar(value, Scalar::DateOnly)?,
            Value::TimeOnly(_) => self.scalar(value, Scalar::TimeOnly)?,
            Value::Version(_) => self.scalar(value, Scalar::Version)?,
            Value::Bytes(bytes) => write_binary(self.out, bytes),
            Value::List(items) => {
                write_array(self.out, items.len());
                for (i, item) in items.iter().enumerate() {
                    self.untyped(item, depth + 1).in_item(i)?;
                }
            }
            Value::Map(entries) => {
                write_map(self.out, entries.len());
                for (key, item) in entries {
                    self.untyped(key, depth + 1)
                        .and_then(|()| self.untyped(item, depth + 1))
                        .map_err(|e| e.in_key(schema::key_text(key)))?;
                }
            }
            Value::Object(object) => {
                write_map(self.out, object.members.len());
                for (name, item) in &object.members {
                    write_string(self.out, name);
                    self.untyped(item, depth + 1).in_member(name)?;
                }
            }
            Value::Json(raw) => return self.untyped(&json::untyped(raw)?, depth),
        }
        Ok(())
    }
}

//! From protobuf to values. Unknown fields are skipped, the last of several wins, messages of one
//! field are merged.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::scalar::{is_message, read, read_message};
use super::wire::{Field, Payload, Reader};
use super::{Kind, MAX_DEPTH, is_packable, kind, levels, no_layout, too_deep};
use crate::codec::error::{CodecError, Place, Result};
use crate::codec::schema::{default_value, key_text, member_type, mismatch, object, unusable};
use crate::codec::value::Value;
use crate::contract::{DeclaredRef, ProtobufFormat, RecordDef, Scalar, Type, TypeKind, Types};

/// Reads a value that stands alone.
pub(in crate::codec) fn decode(bytes: &[u8], ty: &Type, types: &Types) -> Result<Value> {
    let decoder = Decoder { types };
    match kind(ty, types) {
        Kind::Unsupported => Err(unusable(ty, "protobuf")),
        Kind::Tuple(_) | Kind::Record(..) | Kind::Scalar(Scalar::DateTimeOffset) => {
            decoder.message(bytes, ty, 0, 0)
        }
        _ => {
            let mut slot = Slot::new(ty, ProtobufFormat::Default);
            let mut reader = Reader::new(bytes, 0);
            while let Some(field) = reader.field()? {
                if field.number == 1 {
                    decoder.add(&mut slot, &field, 0)?;
                }
            }
            let value = decoder.finish(slot, 0)?;
            // There is a message, so there is a value, also where its field was left out.
            Ok(value.unwrap_or_else(|| decoder.zero(ty)))
        }
    }
}

/// What was read of one field so far.
struct Slot<'a, 't> {
    ty: Cow<'t, Type>,
    format: ProtobufFormat,
    value: Option<Value>,
    /// Bytes that are only looked at once all of them are there.
    raw: Option<(Cow<'a, [u8]>, usize)>,
    /// Places of a dictionary's keys: the last duplicate wins.
    keys: HashMap<String, usize>,
}

impl<'t> Slot<'_, 't> {
    fn new(ty: &'t Type, format: ProtobufFormat) -> Self {
        Self::of(Cow::Borrowed(ty), format)
    }

    fn of(ty: Cow<'t, Type>, format: ProtobufFormat) -> Self {
        Self {
            ty,
            format,
            value: None,
            raw: None,
            keys: HashMap::new(),
        }
    }
}

#[derive(Clone, Copy)]
struct Decoder<'d> {
    types: &'d Types,
}

impl Decoder<'_> {
    /// What an absent value is inside an entry or a message that is there.
    fn zero(self, ty: &Type) -> Value {
        match (ty, kind(ty, self.types)) {
            (Type::Nullable(inner), _) => self.zero(inner),
            (_, Kind::Scalar(Scalar::String)) => Value::String(String::new()),
            (_, Kind::Bytes) => Value::Bytes(Vec::new()),
            (_, Kind::List(item)) if *item == Type::Scalar(Scalar::Byte) => {
                Value::Bytes(Vec::new())
            }
            (_, Kind::List(_)) => Value::List(Vec::new()),
            (_, Kind::Map(..)) => Value::Map(Vec::new()),
            (_, Kind::Tuple(args)) => Value::List(
                args.iter()
                    .map(|arg| default_value(arg, self.types))
                    .collect(),
            ),
            (_, Kind::Record(declared, record)) if !record.is_abstract() => object(
                record,
                declared.args(),
                self.types,
                record.members().iter().map(|_| None).collect(),
            ),
            _ => default_value(ty, self.types),
        }
    }

    /// Reads the fields of a value that is a message.
    fn message(self, bytes: &[u8], ty: &Type, at: usize, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        match kind(ty, self.types) {
            Kind::Scalar(scalar) => read_message(bytes, scalar, at),
            Kind::Tuple(args) => {
                let mut slots: Vec<_> = args
                    .iter()
                    .map(|arg| Slot::new(arg, ProtobufFormat::Default))
                    .collect();
                let mut reader = Reader::new(bytes, at);
                while let Some(field) = reader.field()? {
                    let index = field.number as usize - 1;
                    if let Some(slot) = slots.get_mut(index) {
                        self.add(slot, &field, depth).in_item(index)?;
                    }
                }
                let mut items = Vec::with_capacity(args.len());
                for (i, (slot, arg)) in slots.into_iter().zip(args).enumerate() {
                    let value = self.finish(slot, depth).in_item(i)?;
                    items.push(value.unwrap_or_else(|| default_value(arg, self.types)));
                }
                Ok(Value::List(items))
            }
            Kind::Record(declared, _) => self.record(bytes, declared, at, depth),
            _ => Err(unusable(ty, "protobuf")),
        }
    }

    /// Takes a field into its slot.
    fn add<'a>(self, slot: &mut Slot<'a, '_>, field: &Field<'a>, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        match kind(&slot.ty, self.types) {
            Kind::List(item) => {
                let (mut items, mut bytes) = match slot.value.take() {
                    Some(Value::List(items)) => (items, Vec::new()),
                    Some(Value::Bytes(bytes)) => (Vec::new(), bytes),
                    _ => (Vec::new(), Vec::new()),
                };
                let count = items.len() + bytes.len();
                let is_byte = *item == Type::Scalar(Scalar::Byte);
                let mut push = |value: Value| match (is_byte, value.as_i128()) {
                    (true, Some(byte)) => bytes.push(byte as u8),
                    _ => items.push(value),
                };
                self.items(item, field, slot.format, depth, &mut push)
                    .in_item(count)?;
                slot.value = Some(if is_byte {
                    Value::Bytes(bytes)
                } else {
                    Value::List(items)
                });
                Ok(())
            }
            Kind::Map(key, value) => {
                let (k, v) = self.entry(key, value, field, depth)?;
                let mut entries = match slot.value.take() {
                    Some(Value::Map(entries)) => entries,
                    _ => Vec::new(),
                };
                match slot.keys.get(&key_text(&k)) {
                    Some(place) => entries[*place].1 = v,
                    None => {
                        slot.keys.insert(key_text(&k), entries.len());
                        entries.push((k, v));
                    }
                }
                slot.value = Some(Value::Map(entries));
                Ok(())
            }
            Kind::Scalar(scalar) if !is_message(scalar) => {
                slot.value = Some(read(field, scalar, slot.format)?);
                Ok(())
            }
            Kind::Enum(def) => {
                slot.value = Some(read(field, def.underlying(), ProtobufFormat::Default)?);
                Ok(())
            }
            Kind::Unsupported => Err(unusable(&slot.ty, "protobuf")),
            _ => {
                let Payload::Length(bytes) = field.payload else {
                    let error = mismatch("a number", &slot.ty.to_string());
                    return Err(CodecError::at(error.message(), field.at));
                };
                slot.raw = Some(match slot.raw.take() {
                    None => (Cow::Borrowed(bytes), field.at),
                    // Messages one after the other are one message, and bytes are bytes.
                    Some((first, at)) => ([&*first, bytes].concat().into(), at),
                });
                Ok(())
            }
        }
    }

    /// The value of a slot; `None` if there was no field.
    fn finish(self, slot: Slot<'_, '_>, depth: usize) -> Result<Option<Value>> {
        let Some((bytes, at)) = slot.raw else {
            return Ok(slot.value);
        };
        match kind(&slot.ty, self.types) {
            Kind::Bytes => Ok(Some(Value::Bytes(bytes.into_owned()))),
            _ => self.message(&bytes, &slot.ty, at, depth + 1).map(Some),
        }
    }

    /// One item of a list, or several that are packed.
    fn items(
        self,
        item: &Type,
        field: &Field<'_>,
        format: ProtobufFormat,
        depth: usize,
        push: &mut impl FnMut(Value),
    ) -> Result<()> {
        let scalar = match kind(item, self.types) {
            Kind::Scalar(scalar) if is_packable(scalar) => Some((scalar, format)),
            Kind::Enum(def) => Some((def.underlying(), ProtobufFormat::Default)),
            Kind::List(_) | Kind::Map(..) => {
                return Err(CodecError::at(
                    format!("protobuf has no form for {item} inside a list"),
                    field.at,
                ));
            }
            _ => None,
        };
        if let (Payload::Length(bytes), Some((scalar, format))) = (field.payload, scalar) {
            let mut reader = Reader::new(bytes, field.at);
            while !reader.is_empty() {
                let payload = match (scalar, format) {
                    (Scalar::Single, _) => Payload::Fixed32(reader.fixed32()?),
                    (Scalar::Double, _) => Payload::Fixed64(reader.fixed64()?),
                    (Scalar::Int64 | Scalar::UInt64, ProtobufFormat::Fixed) => {
                        Payload::Fixed64(reader.fixed64()?)
                    }
                    (_, ProtobufFormat::Fixed) if scalar.is_integer() => {
                        Payload::Fixed32(reader.fixed32()?)
                    }
                    _ => Payload::Varint(reader.varint()?),
                };
                push(read(&Field { payload, ..*field }, scalar, format)?);
            }
            return Ok(());
        }
        if let Some((scalar, format)) = scalar {
            push(read(field, scalar, format)?);
            return Ok(());
        }
        let mut slot = Slot::new(item, format);
        self.add(&mut slot, field, depth)?;
        let value = self.finish(slot, depth)?;
        push(value.unwrap_or_else(|| self.zero(item)));
        Ok(())
    }

    fn entry(
        self,
        key: &Type,
        value: &Type,
        field: &Field<'_>,
        depth: usize,
    ) -> Result<(Value, Value)> {
        let Payload::Length(bytes) = field.payload else {
            return Err(CodecError::at(
                "a number where an entry of a dictionary is expected",
                field.at,
            ));
        };
        let mut keys = Slot::new(key, ProtobufFormat::Default);
        let mut values = Slot::new(value, ProtobufFormat::Default);
        let mut reader = Reader::new(bytes, field.at);
        while let Some(field) = reader.field()? {
            match field.number {
                1 => self.add(&mut keys, &field, depth + 1)?,
                2 => self.add(&mut values, &field, depth + 1)?,
                _ => {}
            }
        }
        let key = self
            .finish(keys, depth + 1)?
            .unwrap_or_else(|| self.zero(key));
        let value = match self.finish(values, depth + 1) {
            Ok(Some(value)) => value,
            Ok(None) if matches!(value, Type::Nullable(_)) => Value::Null,
            Ok(None) => self.zero(value),
            Err(error) => return Err(error.in_key(key_text(&key))),
        };
        Ok((key, value))
    }

    fn record(
        self,
        bytes: &[u8],
        declared: &DeclaredRef,
        at: usize,
        depth: usize,
    ) -> Result<Value> {
        let root = levels(declared, self.types);
        let Some((level, record)) = root.first().copied() else {
            return Err(no_layout(declared));
        };
        let mut found = Found {
            concrete: level.clone(),
            slots: HashMap::new(),
        };
        self.level(bytes, level, record, at, depth, &mut found)?;
        let concrete = found.concrete;
        // A message of a base is no message of a type derived from it.
        if !levels(&concrete, self.types)
            .iter()
            .any(|(level, _)| level.name() == declared.name())
        {
            return Err(CodecError::at(
                format!("{} where {} is expected", concrete.name(), declared.name()),
                at,
            ));
        }
        let Some(TypeKind::Record(record)) = self.types.definition(&concrete).map(|d| d.kind())
        else {
            return Err(no_layout(declared));
        };
        if record.is_abstract() {
            return Err(CodecError::at(
                format!(
                    "{} is a base or an interface: the message does not say which type it is",
                    concrete.name()
                ),
                at,
            ));
        }
        let mut values: Vec<Option<Value>> = record.members().iter().map(|_| None).collect();
        for (index, slot) in found.slots {
            let Some(member) = record.members().get(index) else {
                continue;
            };
            values[index] = self.finish(slot, depth).in_member(member.name())?;
        }
        let mut value = object(record, concrete.args(), self.types, values);
        if concrete.name() != declared.name()
            && let Value::Object(object) = &mut value
        {
            object.type_name = Some(Arc::from(concrete.name()));
        }
        Ok(value)
    }

    /// The fields of one level of an object, and of the derived levels inside it.
    fn level<'a>(
        self,
        bytes: &'a [u8],
        declared: &DeclaredRef,
        record: &RecordDef,
        at: usize,
        depth: usize,
        found: &mut Found<'a>,
    ) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        let layout = record.protobuf().ok_or_else(|| no_layout(declared))?;
        let mut reader = Reader::new(bytes, at);
        while let Some(field) = reader.field()? {
            let include = layout
                .includes()
                .iter()
                .find(|(number, _)| *number == field.number);
            if let Some((_, Type::Declared(derived))) = include {
                let (Payload::Length(bytes), Some(TypeKind::Record(record))) = (
                    field.payload,
                    self.types.definition(derived).map(|d| d.kind()),
                ) else {
                    return Err(CodecError::at("not a derived message", field.at));
                };
                found.concrete = (**derived).clone();
                self.level(bytes, derived, record, field.at, depth + 1, found)?;
                continue;
            }
            let Some(known) = layout
                .fields()
                .iter()
                .find(|known| known.number() == field.number)
            else {
                continue;
            };
            let member = &record.members()[known.member()];
            let slot = found.slots.entry(known.member()).or_insert_with(|| {
                let ty = member_type(member, declared.args()).into_owned();
                Slot::of(Cow::Owned(ty), known.format())
            });
            self.add(slot, &field, depth + 1).in_member(member.name())?;
        }
        Ok(())
    }
}

/// What was found of an object on all its levels.
struct Found<'a> {
    concrete: DeclaredRef,
    /// By index into the members, which is the same on all levels.
    slots: HashMap<usize, Slot<'a, 'static>>,
}

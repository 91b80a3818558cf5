//! From MemoryPack to values. Bytes after a value are ignored, as the library does.

use std::collections::HashSet;

use super::raw::{Raw, RawEntry, read_scalar, scalar_size};
use super::{MAX_DEPTH, copies_items, reverses_items, too_deep};
use crate::codec::error::{CodecError, Place, Result};
use crate::codec::json::version_text;
use crate::codec::schema::{self, default_object, definition, member_type, object, unusable};
use crate::codec::time::{DateTimeOffset, MINUTE};
use crate::codec::value::Value;
use crate::contract::{
    DeclaredRef, Form, MemoryPackLayout, RecordDef, Scalar, Shape, Type, TypeKind, Types,
};
use crate::wire::memorypack::{NULL_OBJECT, Reader};

/// First union tag that needs two more bytes.
const WIDE_TAG: u8 = 250;
/// Most items that room is made for before they are seen.
const FIRST_ITEMS: usize = 4096;

/// Reads a value that stands alone.
///
/// A nullable may come without its flag: .NET servers encode a result by what it is, and a boxed
/// `int?` is an `int`. The two forms never have the same length.
pub(in crate::codec) fn decode(bytes: &[u8], ty: &Type, types: &Types) -> Result<Value> {
    let read = |ty: &Type| {
        let mut decoder = Decoder {
            reader: Reader::new(bytes),
            types,
        };
        let value = decoder.formatted(ty, 0);
        // The place of an error is where reading stopped, unless it says better.
        value
            .map(|value| (value, decoder.reader.remaining()))
            .map_err(|e| e.or_at(decoder.reader.position()))
    };
    let Type::Nullable(inner) = ty else {
        return read(ty).map(|(value, _)| value);
    };
    if let Some(raw) = Raw::of(ty, types) {
        return read(if bytes.len() < raw.size { inner } else { ty }).map(|(value, _)| value);
    }
    match read(ty) {
        Ok((value, 0)) => Ok(value),
        whole => match read(inner) {
            Ok((value, 0)) => Ok(value),
            _ => whole.map(|(value, _)| value),
        },
    }
}

struct Decoder<'a> {
    reader: Reader<'a>,
    types: &'a Types,
}

impl Decoder<'_> {
    /// A value as the formatter of its type reads it.
    fn formatted(&mut self, ty: &Type, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        match ty {
            Type::Scalar(scalar) => self.scalar(*scalar),
            Type::ByRef(inner) => self.formatted(inner, depth),
            Type::Nullable(inner) => match Raw::of(ty, self.types) {
                Some(raw) => self.raw(&raw),
                None => match self.reader.object_header()? {
                    None => Ok(Value::Null),
                    Some(1) => self.formatted(inner, depth + 1),
                    Some(count) => Err(self.count_error(count, 1, ty)),
                },
            },
            Type::Array(item, 1) => self.list(item, true, false, depth),
            Type::Array(item, rank) => self.dimensions(item, *rank, depth),
            Type::Framework(framework, args) => match (framework.shape(), &args[..]) {
                (Shape::List | Shape::Stack, [item]) => self.list(
                    item,
                    copies_items(framework),
                    reverses_items(framework),
                    depth,
                ),
                (Shape::Map, [key, value]) => self.map(key, value, depth),
                (Shape::Pair | Shape::ValueTuple, args) => match Raw::of(ty, self.types) {
                    Some(raw) => self.raw(&raw),
                    None => self.items(args, depth),
                },
                (Shape::Tuple, args) => match self.reader.object_header()? {
                    None => Ok(Value::Null),
                    Some(count) if usize::from(count) == args.len() => self.items(args, depth),
                    Some(count) => Err(self.count_error(count, args.len(), ty)),
                },
                _ => Err(unusable(ty, "MemoryPack")),
            },
            Type::Declared(declared) => {
                let definition = definition(declared, self.types)?;
                match definition.kind() {
                    TypeKind::Enum(def) => self.scalar(def.underlying()),
                    TypeKind::Record(record) => self.record(declared, record, ty, depth),
                    _ => Err(unusable(ty, "MemoryPack")),
                }
            }
            _ => Err(unusable(ty, "MemoryPack")),
        }
    }

    fn count_error(&self, count: u8, expected: usize, ty: &Type) -> CodecError {
        CodecError::at(
            format!("{count} members where {ty} has {expected}"),
            self.reader.position().saturating_sub(1),
        )
    }

    /// A value where the library copies what has no references.
    fn member(&mut self, ty: &Type, depth: usize) -> Result<Value> {
        match ty {
            Type::Scalar(scalar) if scalar.is_value_type() => {
                let bytes = self.reader.take(scalar_size(*scalar).unwrap_or_default())?;
                read_scalar(bytes, *scalar)
            }
            _ => match Raw::of(ty, self.types) {
                Some(raw) => self.raw(&raw),
                None => self.formatted(ty, depth),
            },
        }
    }

    fn raw(&mut self, raw: &Raw) -> Result<Value> {
        raw.read(self.reader.take(raw.size)?)
    }

    fn items(&mut self, args: &[Type], depth: usize) -> Result<Value> {
        args.iter()
            .enumerate()
            .map(|(i, arg)| self.formatted(arg, depth + 1).in_item(i))
            .collect::<Result<_>>()
            .map(Value::List)
    }

    fn scalar(&mut self, scalar: Scalar) -> Result<Value> {
        match scalar {
            Scalar::String | Scalar::Uri => Ok(self.reader.string()?.into()),
            Scalar::Version => match self.reader.object_header()? {
                None => Ok(Value::Null),
                Some(4) => {
                    let mut parts = [0; 4];
                    for part in &mut parts {
                        *part = self.reader.i32()?;
                    }
                    version_text(parts)?;
                    Ok(Value::Version(parts))
                }
                Some(count) => Err(self.count_error(count, 4, &Type::Scalar(scalar))),
            },
            Scalar::DateTimeOffset => {
                let local = self.reader.i64()?;
                let offset = self.reader.i64()?;
                let minutes = i16::try_from(offset / MINUTE)
                    .ok()
                    .filter(|_| offset % MINUTE == 0);
                minutes
                    .and_then(|minutes| DateTimeOffset::from_local_ticks(local, minutes))
                    .map(Value::DateTimeOffset)
                    .ok_or_else(|| CodecError::new("not a valid DateTimeOffset"))
            }
            Scalar::Object => Err(unusable(&Type::Scalar(scalar), "MemoryPack")),
            _ => self.member(&Type::Scalar(scalar), 0),
        }
    }

    fn list(&mut self, item: &Type, copied: bool, reversed: bool, depth: usize) -> Result<Value> {
        let raw = Raw::of(item, self.types).filter(|_| copied);
        let size = raw.as_ref().map_or(1, |raw| raw.size);
        let Some(count) = self.reader.collection_header(size)? else {
            return Ok(Value::Null);
        };
        if *item == Type::Scalar(Scalar::Byte) {
            let mut bytes = self.reader.take(count)?.to_vec();
            if reversed {
                bytes.reverse();
            }
            return Ok(Value::Bytes(bytes));
        }
        let mut items = Vec::with_capacity(count.min(FIRST_ITEMS));
        for i in 0..count {
            items.push(
                match &raw {
                    Some(raw) => self.raw(raw),
                    None => self.formatted(item, depth + 1),
                }
                .in_item(i)?,
            );
        }
        if reversed {
            items.reverse();
        }
        Ok(Value::List(items))
    }

    fn dimensions(&mut self, item: &Type, rank: u8, depth: usize) -> Result<Value> {
        match self.reader.object_header()? {
            None => return Ok(Value::Null),
            Some(count) if count == rank + 1 => {}
            Some(count) => {
                return Err(self.count_error(
                    count,
                    usize::from(rank) + 1,
                    &Type::Array(item.clone().into(), rank),
                ));
            }
        }
        let mut lengths = Vec::new();
        for _ in 0..rank {
            let length = self.reader.i32()?;
            let length = usize::try_from(length)
                .map_err(|_| CodecError::new(format!("{length} is no length of an array")))?;
            lengths.push(length);
        }
        let raw = Raw::of(item, self.types);
        let size = raw.as_ref().map_or(1, |raw| raw.size);
        let count = self.reader.collection_header(size)?.unwrap_or_default();
        let mut items = Vec::with_capacity(count.min(FIRST_ITEMS));
        for i in 0..count {
            items.push(
                match &raw {
                    Some(raw) => self.raw(raw),
                    None => self.formatted(item, depth + 1),
                }
                .in_item(i)?,
            );
        }
        schema::rows(items, &lengths)
    }

    fn map(&mut self, key: &Type, value: &Type, depth: usize) -> Result<Value> {
        let pair = RawEntry::of(key, value, self.types);
        let size = pair.as_ref().map_or(2, |pair| pair.size);
        let Some(count) = self.reader.collection_header(size)? else {
            return Ok(Value::Null);
        };
        let mut entries = Vec::with_capacity(count.min(FIRST_ITEMS));
        let mut seen = HashSet::with_capacity(count.min(FIRST_ITEMS));
        for i in 0..count {
            let (k, v) = match &pair {
                Some(pair) => pair.read(self.reader.take(pair.size)?).in_item(i)?,
                None => {
                    let k = self.formatted(key, depth + 1).in_item(i)?;
                    let v = self
                        .formatted(value, depth + 1)
                        .map_err(|e| e.in_key(schema::key_text(&k)))?;
                    (k, v)
                }
            };
            let text = schema::key_text(&k);
            if k.is_null() || !seen.insert(text.clone()) {
                return Err(CodecError::new(format!(
                    "the key {text} is null or there twice"
                )));
            }
            entries.push((k, v));
        }
        Ok(Value::Map(entries))
    }

    fn record(
        &mut self,
        declared: &DeclaredRef,
        record: &RecordDef,
        ty: &Type,
        depth: usize,
    ) -> Result<Value> {
        match record.memorypack() {
            MemoryPackLayout::None => Err(CodecError::new(format!(
                "{} has no MemoryPack layout: add \"memorypack\" to it in the contract",
                declared.name()
            ))),
            MemoryPackLayout::Union(tags) => self.union(declared, tags, depth),
            layout => {
                if declared.args().is_empty()
                    && record.form() == Form::Struct
                    && let Some(raw) = Raw::of(ty, self.types)
                {
                    return self.raw(&raw);
                }
                let Some(count) = self.reader.object_header()? else {
                    return Ok(match record.form() {
                        Form::Struct => default_object(record, declared.args(), self.types),
                        _ => Value::Null,
                    });
                };
                match layout {
                    MemoryPackLayout::VersionTolerant(slots) => {
                        self.tolerant(declared, record, slots, count, depth)
                    }
                    MemoryPackLayout::Object(order) => {
                        if usize::from(count) > order.len() {
                            return Err(self.count_error(count, order.len(), ty));
                        }
                        let mut values = no_values(record);
                        for index in order.iter().take(count.into()) {
                            let member = &record.members()[*index];
                            let ty = member_type(member, declared.args());
                            values[*index] =
                                Some(self.member(&ty, depth + 1).in_member(member.name())?);
                        }
                        Ok(object(record, declared.args(), self.types, values))
                    }
                    _ => Err(unusable(ty, "MemoryPack")),
                }
            }
        }
    }

    fn tolerant(
        &mut self,
        declared: &DeclaredRef,
        record: &RecordDef,
        slots: &[Option<usize>],
        count: u8,
        depth: usize,
    ) -> Result<Value> {
        let mut lengths = Vec::with_capacity(count.into());
        for _ in 0..count {
            let length = self.reader.varint()?;
            lengths.push(
                usize::try_from(length)
                    .map_err(|_| CodecError::new(format!("{length} is no length")))?,
            );
        }
        let mut values = no_values(record);
        for (i, length) in lengths.into_iter().enumerate() {
            match slots.get(i).copied().flatten() {
                // A length of nothing is an absent member.
                _ if length == 0 => {}
                Some(index) => {
                    let member = &record.members()[index];
                    let ty = member_type(member, declared.args());
                    values[index] = Some(self.member(&ty, depth + 1).in_member(member.name())?);
                }
                None => {
                    self.reader.take(length)?;
                }
            }
        }
        Ok(object(record, declared.args(), self.types, values))
    }

    fn union(
        &mut self,
        declared: &DeclaredRef,
        tags: &[(u16, Type)],
        depth: usize,
    ) -> Result<Value> {
        let at = self.reader.position();
        let tag = match self.reader.u8()? {
            NULL_OBJECT => return Ok(Value::Null),
            WIDE_TAG => self.reader.u16()?,
            tag => tag.into(),
        };
        let concrete = tags
            .iter()
            .find(|(known, _)| *known == tag)
            .map(|(_, ty)| ty.substitute(declared.args()))
            .ok_or_else(|| CodecError::at(format!("{} has no tag {tag}", declared.name()), at))?;
        let mut value = self.formatted(&concrete, depth + 1)?;
        if let (Value::Object(object), Type::Declared(concrete)) = (&mut value, &concrete) {
            object.type_name = Some(concrete.name().into());
        }
        Ok(value)
    }
}

fn no_values(record: &RecordDef) -> Vec<Option<Value>> {
    record.members().iter().map(|_| None).collect()
}

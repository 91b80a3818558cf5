//! From values to MemoryPack.

use super::raw::{Raw, RawEntry, scalar_size, write_scalar};
use super::{MAX_DEPTH, copies_items, reverses_items, too_deep};
use crate::codec::error::{CodecError, Place, Result};
use crate::codec::json::{self, Dialect, tuple_items, version_text};
use crate::codec::schema::{
    self, check_members, default_value, definition, member_type, member_value, mismatch, unusable,
};
use crate::codec::time::MINUTE;
use crate::codec::value::{Object, Value};
use crate::contract::{
    DeclaredRef, Form, MemoryPackLayout, RecordDef, Scalar, Shape, Type, TypeKind, Types,
};
use crate::wire::memorypack::{NULL_OBJECT, Write as _};

/// First union tag that needs two more bytes.
const WIDE_TAG: u8 = 250;

/// Appends a value that stands alone. On error `out` may hold a part of it.
pub(in crate::codec) fn encode(
    out: &mut Vec<u8>,
    value: &Value,
    ty: &Type,
    types: &Types,
) -> Result<()> {
    Encoder { out, types }.formatted(value, ty, 0)
}

struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    types: &'a Types,
}

impl Encoder<'_> {
    /// A value as the formatter of its type writes it.
    fn formatted(&mut self, value: &Value, ty: &Type, depth: usize) -> Result<()> {
        if let Value::Json(raw) = value {
            let mut reader = json::Reader::new(raw.as_str());
            let value = json::read(&mut reader, ty, self.types, Dialect::Text)?;
            if !matches!(value, Value::Json(_)) {
                return self.formatted(&value, ty, depth);
            }
        }
        match ty {
            Type::Scalar(scalar) => self.scalar(value, *scalar),
            Type::ByRef(inner) => self.formatted(value, inner, depth),
            Type::Nullable(inner) => self.nullable(value, inner, ty, depth),
            Type::Array(item, 1) => self.list(value, item, ty, true, false, depth),
            Type::Array(item, rank) => self.dimensions(value, item, *rank, depth),
            Type::Framework(framework, args) => match (framework.shape(), &args[..]) {
                (Shape::List | Shape::Stack, [item]) => self.list(
                    value,
                    item,
                    ty,
                    copies_items(framework),
                    reverses_items(framework),
                    depth,
                ),
                (Shape::Map, [key, item]) => self.map(value, ty, key, item, depth),
                (Shape::Pair | Shape::ValueTuple, args) => {
                    if let Some(raw) = Raw::of(ty, self.types) {
                        return self.raw(value, &raw);
                    }
                    let items = tuple_items(value, ty, args)?;
                    for (i, (item, arg)) in items.iter().zip(args).enumerate() {
                        self.formatted(item, arg, depth + 1).in_item(i)?;
                    }
                    Ok(())
                }
                (Shape::Tuple, args) => {
                    if value.is_null() {
                        self.out.u8(NULL_OBJECT);
                        return Ok(());
                    }
                    let items = tuple_items(value, ty, args)?;
                    self.out.u8(args.len() as u8);
                    for (i, (item, arg)) in items.iter().zip(args).enumerate() {
                        self.formatted(item, arg, depth + 1).in_item(i)?;
                    }
                    Ok(())
                }
                _ => Err(unusable(ty, "MemoryPack")),
            },
            Type::Declared(declared) => {
                let definition = definition(declared, self.types)?;
                match definition.kind() {
                    TypeKind::Enum(def) => {
                        schema::enum_value(value, definition, def)?;
                        self.scalar(value, def.underlying())
                    }
                    TypeKind::Record(record) => self.record(value, declared, record, ty, depth),
                    _ => Err(unusable(ty, "MemoryPack")),
                }
            }
            _ => Err(unusable(ty, "MemoryPack")),
        }
    }

    /// A value where the library copies what has no references.
    fn member(&mut self, value: &Value, ty: &Type, depth: usize) -> Result<()> {
        match ty {
            Type::Scalar(scalar) if scalar.is_value_type() => {
                let size = scalar_size(*scalar).unwrap_or_default();
                let start = self.out.len();
                self.out.resize(start + size, 0);
                write_scalar(&mut self.out[start..], value, *scalar)
            }
            _ => match Raw::of(ty, self.types) {
                Some(raw) => self.raw(value, &raw),
                None => self.formatted(value, ty, depth),
            },
        }
    }

    fn raw(&mut self, value: &Value, raw: &Raw) -> Result<()> {
        let start = self.out.len();
        self.out.resize(start + raw.size, 0);
        raw.write(&mut self.out[start..], value, self.types)
    }

    fn scalar(&mut self, value: &Value, scalar: Scalar) -> Result<()> {
        match scalar {
            Scalar::String | Scalar::Uri => match value {
                Value::Null => {
                    self.out.string(None);
                    Ok(())
                }
                _ => {
                    let text = schema::text(value, scalar.short_name())?;
                    length(text.len())?;
                    self.out.string(Some(text));
                    Ok(())
                }
            },
            Scalar::Version => {
                if value.is_null() {
                    self.out.u8(NULL_OBJECT);
                    return Ok(());
                }
                let parts = schema::version(value)?;
                version_text(parts)?;
                self.out.u8(4);
                parts.iter().for_each(|part| self.out.i32(*part));
                Ok(())
            }
            // Alone it has a form of its own; everywhere else it is copied.
            Scalar::DateTimeOffset => {
                let time = schema::date_time_offset(value)?;
                self.out.i64(time.local_ticks());
                self.out.i64(i64::from(time.offset_minutes()) * MINUTE);
                Ok(())
            }
            Scalar::Object => Err(unusable(&Type::Scalar(scalar), "MemoryPack")),
            _ => self.member(value, &Type::Scalar(scalar), 0),
        }
    }

    fn nullable(&mut self, value: &Value, inner: &Type, ty: &Type, depth: usize) -> Result<()> {
        if let Some(raw) = Raw::of(ty, self.types) {
            return self.raw(value, &raw);
        }
        if value.is_null() {
            self.out.u8(NULL_OBJECT);
            return Ok(());
        }
        // A struct with references is wrapped like an object of one member.
        self.out.u8(1);
        self.formatted(value, inner, depth + 1)
    }

    fn list(
        &mut self,
        value: &Value,
        item: &Type,
        ty: &Type,
        copied: bool,
        reversed: bool,
        depth: usize,
    ) -> Result<()> {
        match value {
            Value::Null => {
                self.out.collection_header(None);
                Ok(())
            }
            Value::Bytes(bytes) if *item == Type::Scalar(Scalar::Byte) => {
                length(bytes.len())?;
                self.out.collection_header(Some(bytes.len()));
                if reversed {
                    self.out.extend(bytes.iter().rev());
                } else {
                    self.out.raw(bytes);
                }
                Ok(())
            }
            Value::List(items) => {
                length(items.len())?;
                self.out.collection_header(Some(items.len()));
                let last = items.len().wrapping_sub(1);
                let at = |i: usize| if reversed { last - i } else { i };
                let raw = Raw::of(item, self.types).filter(|_| copied);
                for i in (0..items.len()).map(at) {
                    match &raw {
                        Some(raw) => self.raw(&items[i], raw),
                        None => self.nested(&items[i], item, depth),
                    }
                    .in_item(i)?;
                }
                Ok(())
            }
            _ => Err(mismatch(value.kind(), &ty.to_string())),
        }
    }

    /// An item one level deeper.
    fn nested(&mut self, value: &Value, ty: &Type, depth: usize) -> Result<()> {
        if depth >= MAX_DEPTH {
            return Err(too_deep());
        }
        self.formatted(value, ty, depth + 1)
    }

    fn dimensions(&mut self, value: &Value, item: &Type, rank: u8, depth: usize) -> Result<()> {
        if value.is_null() {
            self.out.u8(NULL_OBJECT);
            return Ok(());
        }
        let lengths = schema::dimensions(value, rank)?;
        let mut items = Vec::new();
        schema::flatten_rows(value, &lengths, &mut items)?;
        length(items.len())?;
        self.out.u8(rank + 1);
        for length in &lengths {
            self.out.i32(*length as i32);
        }
        self.out.collection_header(Some(items.len()));
        let raw = Raw::of(item, self.types);
        for (i, value) in items.into_iter().enumerate() {
            match &raw {
                Some(raw) => self.raw(value, raw),
                None => self.nested(value, item, depth),
            }
            .in_item(i)?;
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
        let entries = match value {
            Value::Null => {
                self.out.collection_header(None);
                return Ok(());
            }
            Value::Map(entries) => entries,
            _ => return Err(mismatch(value.kind(), &ty.to_string())),
        };
        length(entries.len())?;
        self.out.collection_header(Some(entries.len()));
        // An entry without references is copied whole, with the padding of a KeyValuePair.
        let pair = RawEntry::of(key, item, self.types);
        for (k, v) in entries {
            match &pair {
                Some(pair) => {
                    let start = self.out.len();
                    self.out.resize(start + pair.size, 0);
                    pair.write(&mut self.out[start..], k, v, self.types)
                }
                None => self
                    .nested(k, key, depth)
                    .and_then(|()| self.nested(v, item, depth)),
            }
            .map_err(|e| e.in_key(schema::key_text(k)))?;
        }
        Ok(())
    }

    fn record(
        &mut self,
        value: &Value,
        declared: &DeclaredRef,
        record: &RecordDef,
        ty: &Type,
        depth: usize,
    ) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        if value.is_null() && record.form() != Form::Struct {
            if matches!(record.memorypack(), MemoryPackLayout::None) {
                return Err(no_layout(declared));
            }
            self.out.u8(NULL_OBJECT);
            return Ok(());
        }
        let Value::Object(object) = value else {
            return Err(mismatch(value.kind(), declared.name()));
        };
        match record.memorypack() {
            MemoryPackLayout::None => Err(no_layout(declared)),
            MemoryPackLayout::Union(tags) => self.union(value, object, declared, tags, depth),
            layout => {
                // The formatter of a generic struct does not know that it has no references.
                if declared.args().is_empty()
                    && record.form() == Form::Struct
                    && let Some(raw) = Raw::of(ty, self.types)
                {
                    return self.raw(value, &raw);
                }
                if object.type_name.is_none() {
                    check_members(object, record)?;
                }
                match layout {
                    MemoryPackLayout::VersionTolerant(slots) => {
                        self.tolerant(object, declared, record, slots, depth)
                    }
                    MemoryPackLayout::Object(order) => {
                        self.out.u8(order.len() as u8);
                        for index in order {
                            self.member_of(object, declared, record, *index, depth)?;
                        }
                        Ok(())
                    }
                    _ => Err(no_layout(declared)),
                }
            }
        }
    }

    fn member_of(
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
            Some(value) => self.member(value, &ty, depth + 1),
            None => {
                let value = default_value(&ty, self.types);
                self.member(&value, &ty, depth + 1)
            }
        }
        .in_member(member.name())
    }

    fn tolerant(
        &mut self,
        object: &Object,
        declared: &DeclaredRef,
        record: &RecordDef,
        slots: &[Option<usize>],
        depth: usize,
    ) -> Result<()> {
        self.out.u8(slots.len() as u8);
        // The lengths come first, so the members are written aside.
        let mut body = Vec::new();
        let mut lengths = Vec::with_capacity(slots.len());
        for slot in slots {
            let start = body.len();
            if let Some(index) = slot {
                let mut aside = Encoder {
                    out: &mut body,
                    types: self.types,
                };
                aside.member_of(object, declared, record, *index, depth)?;
            }
            lengths.push(body.len() - start);
        }
        lengths.iter().for_each(|length| self.out.varint(*length));
        self.out.raw(&body);
        Ok(())
    }

    fn union(
        &mut self,
        value: &Value,
        object: &Object,
        declared: &DeclaredRef,
        tags: &[(u16, Type)],
        depth: usize,
    ) -> Result<()> {
        let name = object.type_name.as_deref().ok_or_else(|| {
            CodecError::new(format!(
                "{} is a union: the object does not say which type it is",
                declared.name()
            ))
        })?;
        let (tag, concrete) = tags
            .iter()
            .find(|(_, ty)| matches!(ty, Type::Declared(d) if d.name() == name))
            .ok_or_else(|| {
                CodecError::new(format!(
                    "{name} has no MemoryPack tag in {}",
                    declared.name()
                ))
            })?;
        match u8::try_from(*tag) {
            Ok(tag) if tag < WIDE_TAG => self.out.u8(tag),
            _ => {
                self.out.u8(WIDE_TAG);
                self.out.raw(&tag.to_le_bytes());
            }
        }
        let concrete = concrete.substitute(declared.args());
        self.formatted(value, &concrete, depth + 1)
    }
}

fn no_layout(declared: &DeclaredRef) -> CodecError {
    CodecError::new(format!(
        "{} has no MemoryPack layout: add \"memorypack\" to it in the contract, as the C# type has \
         [MemoryPackable]",
        declared.name()
    ))
}

/// Lengths are 32-bit and signed.
fn length(len: usize) -> Result<()> {
    match i32::try_from(len) {
        Ok(_) => Ok(()),
        Err(_) => Err(CodecError::new(format!("{len} items are too many"))),
    }
}

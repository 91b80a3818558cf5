//! From values to protobuf.

use super::scalar::{is_zero_entry, is_zero_member, write, write_message, write_packed};
use super::wire::{wrap, write_bytes};
use super::{Kind, MAX_DEPTH, include_of, is_packable, kind, levels, no_layout, too_deep};
use crate::codec::error::{CodecError, Place as _, Result};
use crate::codec::json::{self, Dialect, tuple_items};
use crate::codec::schema::{
    self, check_members, concrete, default_value, member_type, member_value, mismatch, unusable,
};
use crate::codec::value::{Object, Value};
use crate::contract::{DeclaredRef, ProtobufFormat, RecordDef, Scalar, Type, Types};

/// Where a field stands, which decides what is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Field 1 of a value that is no message, an item of a list or of a tuple: nothing.
    Item,
    /// A member of a class: what is zero.
    Member { packed: bool },
    /// The key or the value of a dictionary: numbers that are zero.
    Entry,
}

/// A field to be written.
#[derive(Clone, Copy)]
struct Spot {
    number: u32,
    place: Place,
    format: ProtobufFormat,
    depth: usize,
}

impl Spot {
    fn new(number: u32, place: Place, depth: usize) -> Self {
        Self {
            number,
            place,
            format: ProtobufFormat::Default,
            depth,
        }
    }
}

/// Appends a value that stands alone. On error `out` may hold a part of it.
pub(in crate::codec) fn encode(
    out: &mut Vec<u8>,
    value: &Value,
    ty: &Type,
    types: &Types,
) -> Result<()> {
    let mut encoder = Encoder { out, types };
    match kind(ty, types) {
        Kind::Tuple(_) | Kind::Record(..) | Kind::Scalar(Scalar::DateTimeOffset) => {
            encoder.message(value, ty, 0)
        }
        _ => encoder.field(Spot::new(1, Place::Item, 0), value, ty),
    }
}

struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    types: &'a Types,
}

impl Encoder<'_> {
    /// Appends the fields of a value that is a message.
    fn message(&mut self, value: &Value, ty: &Type, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        if let Some(value) = self.typed(value, ty)? {
            return self.message(&value, ty, depth);
        }
        match kind(ty, self.types) {
            Kind::Tuple(args) => {
                let items = tuple_items(value, ty, args)?;
                for (i, (item, arg)) in items.iter().zip(args).enumerate() {
                    let spot = Spot::new(i as u32 + 1, Place::Item, depth + 1);
                    self.field(spot, item, arg).in_item(i)?;
                }
                Ok(())
            }
            Kind::Record(declared, record) => match value {
                _ if record.protobuf().is_none() => Err(no_layout(declared)),
                Value::Object(object) => self.record(object, declared, depth),
                _ => Err(mismatch(value.kind(), declared.name())),
            },
            Kind::Scalar(scalar) => write_message(self.out, value, scalar),
            _ => Err(unusable(ty, "protobuf")),
        }
    }

    /// JSON that was given for a known type, by that type.
    fn typed(&self, value: &Value, ty: &Type) -> Result<Option<Value>> {
        let Value::Json(raw) = value else {
            return Ok(None);
        };
        let mut reader = json::Reader::new(raw.as_str());
        let value = json::read(&mut reader, ty, self.types, Dialect::Text)?;
        Ok(Some(value).filter(|value| !matches!(value, Value::Json(_))))
    }

    /// Appends a field, or the fields of a list, unless it is left out there.
    fn field(&mut self, spot: Spot, value: &Value, ty: &Type) -> Result<()> {
        if spot.depth > MAX_DEPTH {
            return Err(too_deep());
        }
        if let Some(value) = self.typed(value, ty)? {
            return self.field(spot, &value, ty);
        }
        if value.is_null() {
            return match ty.is_value_type() {
                Some(true) if !matches!(ty, Type::Nullable(_)) => {
                    Err(mismatch("null", &ty.to_string()))
                }
                _ if matches!(kind(ty, self.types), Kind::Unsupported) => {
                    Err(unusable(ty, "protobuf"))
                }
                _ => Ok(()),
            };
        }
        let start = self.out.len();
        let left_out = match kind(ty, self.types) {
            Kind::List(item) => return self.list(spot, value, item, ty),
            Kind::Map(key, item) => return self.map(spot, value, key, item, ty),
            Kind::Scalar(scalar) => match spot.place {
                Place::Item => false,
                Place::Member { .. } => is_zero_member(value, scalar),
                Place::Entry => is_zero_entry(value, scalar),
            },
            Kind::Enum(_) => {
                matches!(spot.place, Place::Member { .. }) && value.as_i128() == Some(0)
            }
            _ => false,
        };
        self.one(spot, value, ty)?;
        // A zero of a nullable type is not nothing.
        if left_out && !matches!(ty, Type::Nullable(_)) {
            self.out.truncate(start);
        }
        Ok(())
    }

    /// Appends a single value that is not null.
    fn one(&mut self, spot: Spot, value: &Value, ty: &Type) -> Result<()> {
        match kind(ty, self.types) {
            Kind::Scalar(scalar) => write(self.out, spot.number, value, scalar, spot.format),
            Kind::Enum(def) => {
                if value.as_i128().is_none() {
                    return Err(mismatch(value.kind(), &ty.to_string()));
                }
                let format = ProtobufFormat::Default;
                write(self.out, spot.number, value, def.underlying(), format)
            }
            Kind::Bytes => match value {
                Value::Bytes(bytes) => {
                    write_bytes(self.out, spot.number, bytes);
                    Ok(())
                }
                _ => Err(mismatch(value.kind(), "byte[]")),
            },
            Kind::Tuple(_) | Kind::Record(..) => {
                let start = self.out.len();
                self.message(value, ty, spot.depth + 1)?;
                wrap(self.out, spot.number, start);
                Ok(())
            }
            Kind::List(_) | Kind::Map(..) => Err(CodecError::new(format!(
                "protobuf has no form for {} inside a list",
                schema::a(ty)
            ))),
            Kind::Unsupported => Err(unusable(ty, "protobuf")),
        }
    }

    fn map(&mut self, spot: Spot, value: &Value, key: &Type, item: &Type, ty: &Type) -> Result<()> {
        let Value::Map(entries) = value else {
            return Err(mismatch(value.kind(), &ty.to_string()));
        };
        for (k, v) in entries {
            let start = self.out.len();
            let depth = spot.depth + 1;
            self.field(Spot::new(1, Place::Entry, depth), k, key)
                .and_then(|()| self.field(Spot::new(2, Place::Entry, depth), v, item))
                .map_err(|e| e.in_key(schema::key_text(k)))?;
            wrap(self.out, spot.number, start);
        }
        Ok(())
    }

    fn list(&mut self, spot: Spot, value: &Value, item: &Type, ty: &Type) -> Result<()> {
        let numbers;
        let items: &[Value] = match value {
            Value::List(items) => items,
            Value::Bytes(bytes) if *item == Type::Scalar(Scalar::Byte) => {
                numbers = bytes.iter().map(|b| Value::from(*b)).collect::<Vec<_>>();
                &numbers
            }
            _ => return Err(mismatch(value.kind(), &ty.to_string())),
        };
        let packed = match (kind(item, self.types), spot.place) {
            (Kind::Scalar(scalar), Place::Entry | Place::Member { packed: true })
                if is_packable(scalar) =>
            {
                Some(scalar)
            }
            // As a member, a list of enums is never packed.
            (Kind::Enum(def), Place::Entry) => Some(def.underlying()),
            _ => None,
        };
        if let Some(scalar) = packed
            && items.len() != 1
        {
            let start = self.out.len();
            for (i, value) in items.iter().enumerate() {
                write_packed(self.out, value, scalar, spot.format).in_item(i)?;
            }
            wrap(self.out, spot.number, start);
            return Ok(());
        }
        for (i, value) in items.iter().enumerate() {
            if value.is_null() {
                let error = CodecError::new("protobuf has no form for null in a list");
                return Err(error.in_item(i));
            }
            self.one(spot, value, item).in_item(i)?;
        }
        Ok(())
    }

    /// The fields of an object: those of derived types inside those of the base.
    fn record(&mut self, object: &Object, declared: &DeclaredRef, depth: usize) -> Result<()> {
        let concrete = match &object.type_name {
            Some(name) => concrete(declared, self.types, name)?,
            None => Type::Declared(declared.clone().into()),
        };
        let Type::Declared(concrete) = &concrete else {
            return Err(no_layout(declared));
        };
        let levels = levels(concrete, self.types);
        if !levels
            .iter()
            .any(|(level, _)| level.name() == declared.name())
        {
            return Err(CodecError::new(format!(
                "{} does not include {}",
                declared.name(),
                concrete.name()
            )));
        }
        if let Some((_, record)) = levels.last() {
            if record.is_abstract() {
                return Err(CodecError::new(format!(
                    "{} is a base or an interface: the object does not say which type it is",
                    concrete.name()
                )));
            }
            check_members(object, record)?;
        }
        self.level(object, &levels, depth)
    }

    fn level(
        &mut self,
        object: &Object,
        levels: &[(&DeclaredRef, &RecordDef)],
        depth: usize,
    ) -> Result<()> {
        let Some(((declared, record), derived)) = levels.split_first() else {
            return Ok(());
        };
        let layout = record.protobuf().ok_or_else(|| no_layout(declared))?;
        if let Some((next, _)) = derived.first() {
            let number = include_of(record, next.name()).ok_or_else(|| no_layout(next))?;
            let start = self.out.len();
            self.level(object, derived, depth)?;
            wrap(self.out, number, start);
        }
        for field in layout.fields() {
            let member = &record.members()[field.member()];
            let ty = member_type(member, declared.args());
            let spot = Spot {
                number: field.number(),
                place: Place::Member {
                    packed: field.is_packed(),
                },
                format: field.format(),
                depth: depth + 1,
            };
            let value = member_value(object, field.member(), member.name());
            let default;
            let value = match value {
                Some(value) => value,
                None => {
                    default = default_value(&ty, self.types);
                    &default
                }
            };
            self.field(spot, value, &ty).in_member(member.name())?;
        }
        Ok(())
    }
}

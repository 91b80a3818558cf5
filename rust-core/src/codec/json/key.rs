//! Keys of dictionaries, which JSON holds as text.

use super::escape::Dialect;
use super::scalar::{float, integer, named_float, scalar_text, string_scalar};
use crate::codec::error::{CodecError, Result};
use crate::codec::schema::{definition, enum_value, mismatch, unusable};
use crate::codec::value::Value;
use crate::contract::{EnumDef, Scalar, Type, TypeDef, TypeKind, Types};

/// Whether keys of this type have a text.
pub(super) fn has_text_key(ty: &Type, types: &Types) -> bool {
    match ty {
        Type::Scalar(scalar) => *scalar != Scalar::Object,
        Type::Declared(declared) => matches!(
            types.definition(declared).map(TypeDef::kind),
            Some(TypeKind::Enum(_))
        ),
        _ => false,
    }
}

/// A key from its text.
pub(super) fn read(text: &str, ty: &Type, types: &Types) -> Result<Value> {
    let wrong = |message: String| CodecError::at(format!("the key {text:?}: {message}"), 0);
    match ty {
        Type::Scalar(scalar) => match scalar {
            Scalar::Object => Err(unusable(ty, "a key in JSON")),
            Scalar::Bool => match () {
                () if text.eq_ignore_ascii_case("true") => Ok(Value::Bool(true)),
                () if text.eq_ignore_ascii_case("false") => Ok(Value::Bool(false)),
                () => Err(wrong("not a bool".into())),
            },
            Scalar::Half | Scalar::Single | Scalar::Double => match named_float(text, *scalar) {
                Some(value) => Ok(value),
                None => float(text, *scalar).map_err(|e| wrong(e.message().into())),
            },
            Scalar::Decimal => float(text, *scalar).map_err(|e| wrong(e.message().into())),
            _ if scalar.is_integer() => {
                // .NET takes a sign here, and zeros in front.
                let digits = text.strip_prefix('+').unwrap_or(text);
                integer(digits, *scalar).map_err(|e| wrong(e.message().into()))
            }
            _ => string_scalar(text, *scalar).map_err(|e| wrong(e.into())),
        },
        Type::Declared(declared) => {
            let definition = definition(declared, types)?;
            match definition.kind() {
                TypeKind::Enum(def) => enum_from_text(text, def)
                    .map(Value::from)
                    .ok_or_else(|| wrong(format!("no value of {}", definition.name()))),
                _ => Err(unusable(ty, "a key in JSON")),
            }
        }
        _ => Err(unusable(ty, "a key in JSON")),
    }
}

/// The text of a key.
pub(super) fn write(value: &Value, ty: &Type, types: &Types, dialect: Dialect) -> Result<String> {
    match ty {
        Type::Scalar(Scalar::Bool) => match value {
            Value::Bool(true) => Ok("True".into()),
            Value::Bool(false) => Ok("False".into()),
            other => Err(mismatch(other.kind(), "bool")),
        },
        Type::Scalar(scalar) if *scalar != Scalar::Object => {
            if value.is_null() {
                return Err(CodecError::new("a key can not be null"));
            }
            scalar_text(value, *scalar, dialect)
        }
        Type::Declared(declared) => {
            let definition = definition(declared, types)?;
            match definition.kind() {
                TypeKind::Enum(def) => Ok(enum_to_text(enum_value(value, definition, def)?, def)),
                _ => Err(unusable(ty, "a key in JSON")),
            }
        }
        _ => Err(unusable(ty, "a key in JSON")),
    }
}

/// The name of an enum's value, the names of its flags, or its number.
pub(super) fn enum_to_text(value: i128, def: &EnumDef) -> String {
    if let Some((name, _)) = def.members().iter().find(|(_, number)| *number == value) {
        return name.to_string();
    }
    if !def.is_flags() || value == 0 {
        return value.to_string();
    }
    // As .NET does: the greatest flags first, shown the smallest first.
    let mut members: Vec<_> = def.members().iter().filter(|(_, n)| *n != 0).collect();
    members.sort_by_key(|(_, number)| *number as u64);
    let mut left = value as u64;
    let mut names = Vec::new();
    for (name, number) in members.iter().rev() {
        let bits = *number as u64;
        if left & bits == bits {
            left &= !bits;
            names.push(&**name);
        }
    }
    if left != 0 {
        return value.to_string();
    }
    names.reverse();
    names.join(", ")
}

/// The value of names separated by commas, or of a number; case does not matter.
pub(super) fn enum_from_text(text: &str, def: &EnumDef) -> Option<i128> {
    let trimmed = text.trim();
    if trimmed.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+')) {
        return integer(
            trimmed.strip_prefix('+').unwrap_or(trimmed),
            def.underlying(),
        )
        .ok()
        .and_then(|value| value.as_i128());
    }
    trimmed
        .split(',')
        .map(str::trim)
        .try_fold(0, |value, part| {
            let exact = def.members().iter().find(|(name, _)| **name == *part);
            let (_, number) = exact.or_else(|| {
                def.members()
                    .iter()
                    .find(|(name, _)| name.eq_ignore_ascii_case(part))
            })?;
            Some(value | number)
        })
}

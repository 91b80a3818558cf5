//! What all codecs ask about types: defaults, members, concrete types, and the conversions of a
//! value to what its type wants.

use std::borrow::Cow;
use std::sync::Arc;

use uuid::Uuid;

use super::decimal::Decimal;
use super::error::{CodecError, Place, Result};
use super::number::Half;
use super::time::{DateOnly, DateTime, DateTimeOffset, TimeOnly, TimeSpan};
use super::value::{Object, Value};
use crate::contract::{
    DeclaredRef, EnumDef, Form, Member, MemoryPackLayout, MessagePackLayout, RecordDef, Scalar,
    Shape, Type, TypeDef, TypeKind, Types,
};

/// Deepest nesting of a value in any codec; the JSON reader of .NET stops there too.
pub(crate) const MAX_DEPTH: usize = 64;

/// Deepest nesting of a value in the binary codecs.
pub(crate) const MAX_BINARY_DEPTH: usize = 256;

/// A key of a dictionary, to be shown and to be compared.
pub(crate) fn key_text(key: &Value) -> String {
    match key {
        Value::String(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// A type with an article: `an int`, `a List<int>`.
pub(crate) fn a(ty: &Type) -> String {
    with_article(&ty.to_string())
}

pub(crate) fn with_article(name: &str) -> String {
    let article = match name.chars().next() {
        Some('a' | 'e' | 'i' | 'o' | 'A' | 'E' | 'I' | 'O') => "an",
        _ => "a",
    };
    format!("{article} {name}")
}

/// The error for a value of another kind than its type wants.
pub(crate) fn mismatch(found: &str, expected: &str) -> CodecError {
    CodecError::new(format!(
        "{found} where {} is expected",
        with_article(expected)
    ))
}

/// The error for a type that no codec can do anything with.
pub(crate) fn unusable(ty: &Type, codec: &str) -> CodecError {
    CodecError::new(match ty {
        Type::Untyped => format!("{codec} needs the return type in the method line"),
        Type::Parameter(_) => "the method's type arguments were not given".into(),
        Type::Named(_) | Type::Unresolved(_) => {
            format!("{codec} needs to know {ty}: declare the type in the contract")
        }
        _ => format!("{codec} can not hold {}", a(ty)),
    })
}

/// The declaration behind a use.
pub(crate) fn definition<'a>(declared: &DeclaredRef, types: &'a Types) -> Result<&'a TypeDef> {
    types.definition(declared).ok_or_else(|| {
        CodecError::new(format!(
            "{} is of another contract than the value",
            declared.name()
        ))
    })
}

/// The type of a member, for the type arguments of the object that it is in.
pub(crate) fn member_type<'a>(member: &'a Member, args: &[Type]) -> Cow<'a, Type> {
    if args.is_empty() || !member.ty().is_open() {
        Cow::Borrowed(member.ty())
    } else {
        Cow::Owned(member.ty().substitute(args))
    }
}

/// What .NET has where nothing was given: null, zero, or a struct of such.
pub(crate) fn default_value(ty: &Type, types: &Types) -> Value {
    let mut budget = MAX_FIELDS;
    default_within(ty, types, &mut budget)
}

/// Most fields of a struct with all that is in it: nested generic structs double and double.
pub(crate) const MAX_FIELDS: usize = 4096;

fn default_within(ty: &Type, types: &Types, budget: &mut usize) -> Value {
    if *budget == 0 {
        return Value::Null;
    }
    *budget -= 1;
    match ty {
        Type::Scalar(scalar) => match scalar {
            Scalar::Bool => Value::Bool(false),
            Scalar::Char => Value::Char(0),
            Scalar::Half => Value::Half(Half::default()),
            Scalar::Single => Value::Single(0.0),
            Scalar::Double => Value::Double(0.0),
            Scalar::Decimal => Value::Decimal(Decimal::ZERO),
            Scalar::Guid => Value::Guid(Uuid::nil()),
            Scalar::DateTime => Value::DateTime(DateTime::MIN),
            Scalar::DateTimeOffset => Value::DateTimeOffset(DateTimeOffset::MIN),
            Scalar::TimeSpan => Value::TimeSpan(TimeSpan::default()),
            Scalar::DateOnly => Value::DateOnly(DateOnly::default()),
            Scalar::TimeOnly => Value::TimeOnly(TimeOnly::default()),
            _ if scalar.is_integer() => Value::Int(0),
            _ => Value::Null,
        },
        Type::Framework(framework, args)
            if matches!(framework.shape(), Shape::Pair | Shape::ValueTuple) =>
        {
            let items = args.iter().map(|arg| default_within(arg, types, budget));
            Value::List(items.collect())
        }
        Type::Declared(declared) if declared.is_value_type() => {
            let Some(TypeKind::Record(record)) = types.definition(declared).map(TypeDef::kind)
            else {
                return Value::Int(0);
            };
            let members = record.members().iter().map(|member| {
                let ty = member_type(member, declared.args());
                (
                    member.name_arc().clone(),
                    default_within(&ty, types, budget),
                )
            });
            Value::Object(Box::new(Object {
                type_name: None,
                members: members.collect(),
            }))
        }
        Type::ByRef(inner) => default_within(inner, types, budget),
        _ => Value::Null,
    }
}

/// An object of defaults.
pub(crate) fn default_object(record: &RecordDef, args: &[Type], types: &Types) -> Value {
    object(
        record,
        args,
        types,
        (0..record.members().len()).map(|_| None).collect(),
    )
}

/// An object of all members of a record, with defaults for those without a value.
pub(crate) fn object(
    record: &RecordDef,
    args: &[Type],
    types: &Types,
    values: Vec<Option<Value>>,
) -> Value {
    let members = record
        .members()
        .iter()
        .zip(values)
        .map(|(member, value)| {
            let value = value.unwrap_or_else(|| default_value(&member_type(member, args), types));
            (member.name_arc().clone(), value)
        })
        .collect();
    Value::Object(Box::new(Object {
        type_name: None,
        members,
    }))
}

/// The value of a member in an object; members in declared order are found at once.
pub(crate) fn member_value<'a>(object: &'a Object, index: usize, name: &str) -> Option<&'a Value> {
    match object.members.get(index) {
        Some((member, value)) if **member == *name => Some(value),
        _ => object.get(name),
    }
}

/// Members of an object that its type does not have.
pub(crate) fn check_members(object: &Object, record: &RecordDef) -> Result<()> {
    for (i, (name, _)) in object.members.iter().enumerate() {
        let known = record.members().get(i).is_some_and(|m| *m.name() == **name)
            || record.members().iter().any(|m| *m.name() == **name);
        if !known {
            return Err(CodecError::new(format!("there is no member {name:?}")));
        }
    }
    Ok(())
}

/// The concrete type of an object that is declared as a base or an interface: among those that the
/// declaration lists, else any declared type of that name.
pub(crate) fn concrete(declared: &DeclaredRef, types: &Types, name: &str) -> Result<Type> {
    let definition = definition(declared, types)?;
    if definition.name() == name {
        return Ok(Type::Declared(Arc::new(declared.clone())));
    }
    let TypeKind::Record(record) = definition.kind() else {
        return Err(CodecError::new(format!("{name:?} is no type of it")));
    };
    let mut found = None;
    for listed in listed_types(record) {
        if let Type::Declared(candidate) = listed {
            if has_name(candidate.name(), name) {
                found = Some(listed.substitute(declared.args()));
                break;
            }
            // A derived type may list types of its own.
            if let Ok(inner) = concrete_below(candidate, types, name, MAX_DEPTH) {
                found = Some(inner);
                break;
            }
        }
    }
    found
        .or_else(|| {
            types
                .use_of(name)
                .filter(|ty| derives_from(ty, declared, types))
        })
        .ok_or_else(|| {
            CodecError::new(format!(
                "{name:?} is no declared type that is {}",
                with_article(declared.name())
            ))
        })
}

fn concrete_below(
    declared: &DeclaredRef,
    types: &Types,
    name: &str,
    depth: usize,
) -> std::result::Result<Type, ()> {
    let Some(TypeKind::Record(record)) = types.definition(declared).map(TypeDef::kind) else {
        return Err(());
    };
    if depth == 0 {
        return Err(());
    }
    listed_types(record)
        .find_map(|listed| match listed {
            Type::Declared(candidate) if has_name(candidate.name(), name) => Some(listed.clone()),
            Type::Declared(candidate) => concrete_below(candidate, types, name, depth - 1).ok(),
            _ => None,
        })
        .ok_or(())
}

fn listed_types(record: &RecordDef) -> impl Iterator<Item = &Type> {
    let memorypack = match record.memorypack() {
        MemoryPackLayout::Union(tags) => tags.as_slice(),
        _ => &[],
    };
    let messagepack = match record.messagepack() {
        MessagePackLayout::Union(keys) => keys.as_slice(),
        _ => &[],
    };
    let protobuf = record
        .protobuf()
        .map(|layout| layout.includes())
        .unwrap_or_default();
    memorypack
        .iter()
        .map(|(_, ty)| ty)
        .chain(messagepack.iter().map(|(_, ty)| ty))
        .chain(protobuf.iter().map(|(_, ty)| ty))
}

/// Whether `name` is the full name or its last part.
fn has_name(full: &str, name: &str) -> bool {
    full == name
        || full
            .strip_suffix(name)
            .is_some_and(|head| head.ends_with(['.', '+']))
}

fn derives_from(ty: &Type, base: &DeclaredRef, types: &Types) -> bool {
    // Implementations of an interface are not declared as such.
    if let Some(TypeKind::Record(record)) = types.definition(base).map(TypeDef::kind)
        && record.form() == Form::Interface
    {
        return true;
    }
    let mut at = ty.clone();
    for _ in 0..=MAX_DEPTH {
        let Type::Declared(declared) = &at else {
            return false;
        };
        if declared.name() == base.name() {
            return true;
        }
        let Some(TypeKind::Record(record)) = types.definition(declared).map(TypeDef::kind) else {
            return false;
        };
        match record.base() {
            Some(next) => at = next.clone(),
            None => return false,
        }
    }
    false
}

/// Decodes a value that is declared as one type and travelled as another: by the latter, where the
/// former is `object` or a base of it.
pub(crate) fn specialised(
    declared: &Type,
    wire: &Type,
    types: &Types,
    decode: impl Fn(&Type) -> Result<Value>,
) -> Result<Value> {
    match (declared, wire) {
        (Type::Scalar(Scalar::Object), wire) if !matches!(wire, Type::Named(_)) => decode(wire),
        (Type::Declared(base), Type::Declared(concrete))
            if base.name() != concrete.name() && derives_from(wire, base, types) =>
        {
            let mut value = decode(wire)?;
            if let Value::Object(object) = &mut value {
                object.type_name = Some(concrete.name().into());
            }
            Ok(value)
        }
        _ => decode(declared),
    }
}

/// The lengths of a multi-dimensional array, by its first rows.
pub(crate) fn dimensions(value: &Value, rank: u8) -> Result<Vec<usize>> {
    let mut lengths = Vec::with_capacity(rank.into());
    let mut level = Some(value);
    for _ in 0..rank {
        match level {
            Some(Value::List(items)) => {
                lengths.push(items.len());
                level = items.first();
            }
            Some(other) => return Err(mismatch(other.kind(), "multi-dimensional array")),
            // An empty outer level has no inner ones to measure.
            None => lengths.push(0),
        }
    }
    Ok(lengths)
}

/// The items of a multi-dimensional array row by row; all rows of a level are equally long.
pub(crate) fn flatten_rows<'a>(
    value: &'a Value,
    lengths: &[usize],
    out: &mut Vec<&'a Value>,
) -> Result<()> {
    let Some((length, inner)) = lengths.split_first() else {
        out.push(value);
        return Ok(());
    };
    match value {
        Value::List(items) if items.len() == *length => {
            for (i, item) in items.iter().enumerate() {
                flatten_rows(item, inner, out).in_item(i)?;
            }
            Ok(())
        }
        Value::List(items) => Err(CodecError::new(format!(
            "a row of {} items beside one of {length}",
            items.len()
        ))),
        other => Err(mismatch(other.kind(), "multi-dimensional array")),
    }
}

/// A multi-dimensional array of its items, row by row. Without items there is nothing to show of
/// its lengths.
pub(crate) fn rows(mut items: Vec<Value>, lengths: &[usize]) -> Result<Value> {
    let product = lengths
        .iter()
        .try_fold(1_usize, |total, length| total.checked_mul(*length));
    if product != Some(items.len()) {
        return Err(CodecError::new(format!(
            "{} items for an array of {lengths:?}",
            items.len()
        )));
    }
    if items.is_empty() {
        return Ok(Value::List(items));
    }
    for length in lengths.iter().skip(1).rev() {
        let mut rest = items.into_iter();
        let mut level = Vec::new();
        loop {
            let row: Vec<Value> = rest.by_ref().take(*length).collect();
            if row.is_empty() {
                break;
            }
            level.push(Value::List(row));
        }
        items = level;
    }
    Ok(Value::List(items))
}

/// An integer of a scalar type, checked against its range.
pub(crate) fn integer(value: &Value, scalar: Scalar) -> Result<i128> {
    let number = value
        .as_i128()
        .ok_or_else(|| mismatch(value.kind(), scalar.short_name()))?;
    match scalar.integer_range() {
        Some((min, max)) if (min..=max).contains(&number) => Ok(number),
        _ => Err(out_of_range(&number.to_string(), scalar.short_name())),
    }
}

pub(crate) fn out_of_range(number: &str, ty: &str) -> CodecError {
    CodecError::new(format!("{number} is out of the range of {ty}"))
}

/// The integer behind an enum.
pub(crate) fn enum_value(value: &Value, definition: &TypeDef, def: &EnumDef) -> Result<i128> {
    if value.as_i128().is_none() {
        return Err(mismatch(value.kind(), definition.name()));
    }
    integer(value, def.underlying())
}

macro_rules! extract {
    ($($(#[$doc:meta])* $name:ident($variant:ident) -> $ty:ty, $expected:literal;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(value: &Value) -> Result<$ty> {
            match value {
                Value::$variant(inner) => Ok(inner.clone()),
                other => Err(mismatch(other.kind(), $expected)),
            }
        }
    )*};
}
extract! {
    boolean(Bool) -> bool, "bool";
    character(Char) -> u16, "char";
    guid(Guid) -> Uuid, "Guid";
    date_time(DateTime) -> DateTime, "DateTime";
    date_time_offset(DateTimeOffset) -> DateTimeOffset, "DateTimeOffset";
    time_span(TimeSpan) -> TimeSpan, "TimeSpan";
    date_only(DateOnly) -> DateOnly, "DateOnly";
    time_only(TimeOnly) -> TimeOnly, "TimeOnly";
    version(Version) -> [i32; 4], "Version";
}

/// A string, or the text of a Uri.
pub(crate) fn text<'a>(value: &'a Value, expected: &str) -> Result<&'a str> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(mismatch(other.kind(), expected)),
    }
}

/// A double; an integer or a narrower number that it holds exactly will do.
pub(crate) fn double(value: &Value) -> Result<f64> {
    match value {
        Value::Double(number) => Ok(*number),
        Value::Single(number) => Ok((*number).into()),
        Value::Half(number) => Ok(number.to_f32().into()),
        Value::Int(number) if (*number as f64) as i128 == i128::from(*number) => Ok(*number as f64),
        other => Err(mismatch(other.kind(), "double")),
    }
}

/// A float; a double is rounded to it.
pub(crate) fn single(value: &Value) -> Result<f32> {
    match value {
        Value::Single(number) => Ok(*number),
        Value::Double(number) => Ok(*number as f32),
        Value::Half(number) => Ok(number.to_f32()),
        Value::Int(number) if (*number as f32) as i128 == i128::from(*number) => Ok(*number as f32),
        other => Err(mismatch(other.kind(), "float")),
    }
}

/// A half; a double is rounded to it.
pub(crate) fn half(value: &Value) -> Result<Half> {
    match value {
        Value::Half(number) => Ok(*number),
        Value::Single(number) => Ok(Half::from_f64((*number).into())),
        Value::Double(number) => Ok(Half::from_f64(*number)),
        Value::Int(number)
            if f64::from(Half::from_f64(*number as f64).to_f32()) == *number as f64 =>
        {
            Ok(Half::from_f64(*number as f64))
        }
        other => Err(mismatch(other.kind(), "Half")),
    }
}

/// A decimal; an integer will do.
pub(crate) fn decimal(value: &Value) -> Result<Decimal> {
    match value {
        Value::Decimal(number) => Ok(*number),
        Value::Int(number) => Ok((*number).into()),
        other => Err(mismatch(other.kind(), "decimal")),
    }
}

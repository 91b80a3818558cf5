//! From JSON to values, by declared type.

use std::collections::HashMap;

use super::base64;
use super::escape::Dialect;
use super::key::{self, has_text_key};
use super::raw::{self, RawJson};
use super::reader::{Reader, Token};
use super::scalar::{float, integer, named_float, string_scalar};
use crate::codec::error::{CodecError, Place, Result};
use crate::codec::schema::{
    concrete, default_value, definition, member_type, mismatch, object, unusable, with_article,
};
use crate::codec::value::Value;
use crate::contract::{
    DeclaredRef, EnumDef, MemberKind, RecordDef, Scalar, Shape, Type, TypeDef, TypeKind, Types,
};

/// Takes the next value of `reader` as one of type `ty`.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    ty: &Type,
    types: &Types,
    dialect: Dialect,
) -> Result<Value> {
    Context { types, dialect }.read(reader, ty)
}

#[derive(Clone, Copy)]
struct Context<'a> {
    types: &'a Types,
    dialect: Dialect,
}

/// What stands where something else was expected.
fn unexpected(reader: &Reader<'_>, token: Token, expected: &str) -> CodecError {
    reader.error(mismatch(token.name(), expected).message())
}

/// The words of an error of another part, at the value that began at `at`.
fn placed<T>(result: std::result::Result<T, impl std::fmt::Display>, at: usize) -> Result<T> {
    result.map_err(|e| CodecError::at(e.to_string(), at))
}

impl Context<'_> {
    fn read(self, reader: &mut Reader<'_>, ty: &Type) -> Result<Value> {
        match ty {
            Type::Void => match reader.peek()? {
                Token::Null => {
                    reader.null()?;
                    Ok(Value::Null)
                }
                token => Err(unexpected(reader, token, "null")),
            },
            Type::Scalar(Scalar::Object) | Type::Untyped | Type::Named(_) | Type::Unresolved(_) => {
                any(reader)
            }
            Type::Scalar(scalar) => self.scalar(reader, *scalar),
            Type::Nullable(inner) => {
                if reader.null()? {
                    Ok(Value::Null)
                } else {
                    self.read(reader, inner)
                }
            }
            Type::ByRef(inner) => self.read(reader, inner),
            Type::Array(item, rank) => self.array(reader, item, *rank),
            Type::Framework(framework, args) => match (framework.shape(), &args[..]) {
                (Shape::List | Shape::Stack, [item]) => {
                    if !framework.is_value_type() && reader.null()? {
                        return Ok(Value::Null);
                    }
                    self.list(reader, item, &ty.to_string())
                }
                (Shape::Map, [key, value]) => self.map(reader, ty, key, value),
                (Shape::Pair, [_, _]) => self.tuple(reader, ty, args, &["Key", "Value"]),
                (Shape::Tuple | Shape::ValueTuple, _) => self.tuple(reader, ty, args, &ITEMS),
                _ => any(reader),
            },
            Type::Declared(declared) => {
                let definition = definition(declared, self.types)?;
                match definition.kind() {
                    TypeKind::Enum(def) => self.enumeration(reader, definition, def),
                    TypeKind::Record(record) => self.record(reader, declared, definition, record),
                    _ => any(reader),
                }
            }
            Type::Parameter(_) => Err(unusable(ty, "JSON")),
        }
    }

    fn scalar(self, reader: &mut Reader<'_>, scalar: Scalar) -> Result<Value> {
        let token = reader.peek()?;
        let at = reader.offset();
        if token == Token::Null && !scalar.is_value_type() {
            reader.null()?;
            return Ok(Value::Null);
        }
        let name = scalar.short_name();
        if scalar.is_integer() {
            if token != Token::Number {
                return Err(unexpected(reader, token, name));
            }
            return placed(integer(reader.number()?, scalar), at);
        }
        if matches!(
            scalar,
            Scalar::Half | Scalar::Single | Scalar::Double | Scalar::Decimal
        ) {
            return self.number(reader, token, scalar);
        }
        if scalar == Scalar::Bool {
            return match token {
                Token::True | Token::False => reader.bool().map(Value::Bool),
                _ => Err(unexpected(reader, token, name)),
            };
        }
        if token != Token::String {
            return Err(unexpected(reader, token, name));
        }
        let text = reader.string()?;
        placed(string_scalar(&text, scalar), at + 1)
    }

    fn number(self, reader: &mut Reader<'_>, token: Token, scalar: Scalar) -> Result<Value> {
        let at = reader.offset();
        let name = scalar.short_name();
        match token {
            Token::Number => {
                let text = reader.number()?;
                placed(float(text, scalar), at)
            }
            Token::String if self.dialect == Dialect::Text && scalar != Scalar::Decimal => {
                let text = reader.string()?;
                named_float(&text, scalar).ok_or_else(|| {
                    CodecError::at(
                        format!(
                            "a string where {} is expected (only \"NaN\", \"Infinity\" and \
                             \"-Infinity\" are)",
                            with_article(name)
                        ),
                        at,
                    )
                })
            }
            _ => Err(unexpected(reader, token, name)),
        }
    }

    fn enumeration(
        self,
        reader: &mut Reader<'_>,
        definition: &TypeDef,
        def: &EnumDef,
    ) -> Result<Value> {
        let token = reader.peek()?;
        let at = reader.offset();
        match token {
            Token::Number => placed(integer(reader.number()?, def.underlying()), at),
            Token::String => {
                let text = reader.string()?;
                let value = key::enum_from_text(&text, def);
                if def.has_json_names() {
                    let value = value.ok_or_else(|| {
                        CodecError::at(format!("{text:?} is no value of {}", definition.name()), at)
                    });
                    return value.map(Value::from);
                }
                let hint = value.map_or(String::new(), |value| format!(": write {value}"));
                Err(CodecError::at(
                    format!("the enum {} travels as a number{hint}", definition.name()),
                    at,
                ))
            }
            _ => Err(unexpected(reader, token, definition.name())),
        }
    }

    fn array(self, reader: &mut Reader<'_>, item: &Type, rank: u8) -> Result<Value> {
        if reader.null()? {
            return Ok(Value::Null);
        }
        if rank > 1 {
            if self.dialect == Dialect::Wire {
                return Err(reader.error("JSON has no form for multi-dimensional arrays"));
            }
            return self.dimensions(reader, item, rank, &mut vec![None; usize::from(rank)]);
        }
        if *item == Type::Scalar(Scalar::Byte) {
            let token = reader.peek()?;
            let at = reader.offset();
            if token != Token::String {
                return Err(reader.error(format!("{} where base64 is expected", token.name())));
            }
            let text = reader.string()?;
            let bytes = base64::decode(&text);
            return placed(bytes.ok_or("not base64"), at + 1).map(Value::Bytes);
        }
        self.list(reader, item, &format!("{item}[]"))
    }

    /// Lists of lists, all of one level equally long.
    fn dimensions(
        self,
        reader: &mut Reader<'_>,
        item: &Type,
        rank: u8,
        lengths: &mut [Option<usize>],
    ) -> Result<Value> {
        let token = reader.peek()?;
        let at = reader.offset();
        if token != Token::Array {
            return Err(unexpected(reader, token, "multi-dimensional array"));
        }
        reader.enter()?;
        let mut items = Vec::new();
        let level = lengths.len() - usize::from(rank);
        while reader.next_item(items.is_empty())? {
            items.push(
                if rank == 1 {
                    self.read(reader, item)
                } else {
                    self.dimensions(reader, item, rank - 1, lengths)
                }
                .in_item(items.len())?,
            );
        }
        match lengths[level] {
            Some(length) if length != items.len() => {
                return Err(CodecError::at(
                    format!("a row of {} items beside one of {length}", items.len()),
                    at,
                ));
            }
            _ => lengths[level] = Some(items.len()),
        }
        Ok(Value::List(items))
    }

    fn list(self, reader: &mut Reader<'_>, item: &Type, name: &str) -> Result<Value> {
        let token = reader.peek()?;
        if token != Token::Array {
            return Err(unexpected(reader, token, name));
        }
        reader.enter()?;
        if *item == Type::Scalar(Scalar::Byte) {
            return self.numbers(reader);
        }
        let mut items = Vec::new();
        while reader.next_item(items.is_empty())? {
            items.push(self.read(reader, item).in_item(items.len())?);
        }
        Ok(Value::List(items))
    }

    /// The numbers of a `List<byte>`, kept as bytes.
    fn numbers(self, reader: &mut Reader<'_>) -> Result<Value> {
        let mut bytes = Vec::new();
        while reader.next_item(bytes.is_empty())? {
            let at = reader.offset();
            match self.scalar(reader, Scalar::Byte).in_item(bytes.len())? {
                Value::Int(byte) => bytes.push(byte as u8),
                other => return Err(CodecError::at(mismatch(other.kind(), "byte").message(), at)),
            }
        }
        Ok(Value::Bytes(bytes))
    }

    fn map(self, reader: &mut Reader<'_>, ty: &Type, key: &Type, value: &Type) -> Result<Value> {
        if reader.null()? {
            return Ok(Value::Null);
        }
        let token = reader.peek()?;
        if self.dialect == Dialect::Text && !has_text_key(key, self.types) {
            return self.pairs(reader, ty, key, value);
        }
        if token != Token::Object {
            return Err(unexpected(reader, token, &ty.to_string()));
        }
        reader.enter()?;
        let mut entries: Vec<(Value, Value)> = Vec::new();
        // Where a key is, by its text: the last duplicate wins, in the place of the first.
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut first = true;
        loop {
            let at = reader.offset();
            let Some(name) = reader.next_member(first)? else {
                return Ok(Value::Map(entries));
            };
            first = false;
            let parsed = key::read(&name, key, self.types).map_err(|e| e.shifted(at))?;
            let item = self
                .read(reader, value)
                .map_err(|e| e.in_key(name.as_ref()))?;
            let canonical = key::write(&parsed, key, self.types, Dialect::Text)?;
            match places.get(&canonical) {
                Some(place) => entries[*place].1 = item,
                None => {
                    places.insert(canonical, entries.len());
                    entries.push((parsed, item));
                }
            }
        }
    }

    /// A dictionary whose keys have no text: a list of pairs.
    fn pairs(self, reader: &mut Reader<'_>, ty: &Type, key: &Type, value: &Type) -> Result<Value> {
        let token = reader.peek()?;
        if token != Token::Array {
            return Err(reader.error(format!(
                "{} where a list of {{\"Key\":…,\"Value\":…}} is expected, since {} has no text",
                token.name(),
                with_article(&key.to_string())
            )));
        }
        let args = [key.clone(), value.clone()];
        reader.enter()?;
        let mut entries = Vec::new();
        while reader.next_item(entries.is_empty())? {
            let pair = self
                .tuple(reader, ty, &args, &["Key", "Value"])
                .in_item(entries.len())?;
            if let Value::List(items) = pair
                && let Ok([key, value]) = <[Value; 2]>::try_from(items)
            {
                entries.push((key, value));
            }
        }
        Ok(Value::Map(entries))
    }

    /// A pair or tuple: an object of its items; in text also a list.
    fn tuple(
        self,
        reader: &mut Reader<'_>,
        ty: &Type,
        args: &[Type],
        names: &[&str],
    ) -> Result<Value> {
        if ty.is_value_type() != Some(true) && reader.null()? {
            return Ok(Value::Null);
        }
        let token = reader.peek()?;
        let at = reader.offset();
        let mut items: Vec<Option<Value>> = args.iter().map(|_| None).collect();
        match token {
            Token::Object => {
                reader.enter()?;
                let mut first = true;
                while let Some(name) = reader.next_member(first)? {
                    first = false;
                    match names.iter().take(args.len()).position(|n| *n == name) {
                        Some(i) => items[i] = Some(self.read(reader, &args[i]).in_member(&name)?),
                        None => raw::skip(reader)?,
                    }
                }
            }
            Token::Array if self.dialect == Dialect::Text => {
                reader.enter()?;
                let mut count = 0;
                while reader.next_item(count == 0)? {
                    let Some(arg) = args.get(count) else {
                        raw::skip(reader)?;
                        count += 1;
                        continue;
                    };
                    items[count] = Some(self.read(reader, arg).in_item(count)?);
                    count += 1;
                }
                if count != args.len() {
                    return Err(CodecError::at(
                        format!("{count} items where {ty} has {}", args.len()),
                        at,
                    ));
                }
            }
            _ => return Err(unexpected(reader, token, &ty.to_string())),
        }
        let items = items
            .into_iter()
            .zip(args)
            .map(|(item, arg)| item.unwrap_or_else(|| default_value(arg, self.types)))
            .collect();
        Ok(Value::List(items))
    }

    fn record(
        self,
        reader: &mut Reader<'_>,
        declared: &DeclaredRef,
        definition: &TypeDef,
        record: &RecordDef,
    ) -> Result<Value> {
        if !definition.is_value_type() && reader.null()? {
            return Ok(Value::Null);
        }
        if record.is_abstract() && self.dialect == Dialect::Wire {
            // The concrete type is not on the wire; the data is not thrown away.
            return any(reader);
        }
        let token = reader.peek()?;
        let at = reader.offset();
        if token != Token::Object {
            return Err(unexpected(reader, token, definition.name()));
        }
        reader.enter()?;
        if self.dialect == Dialect::Text {
            let mut ahead = reader.clone();
            if let Some(name) = ahead.next_member(true)?
                && name == "$type"
                && ahead.peek()? == Token::String
            {
                let name = ahead.string()?;
                *reader = ahead;
                let ty = placed(concrete(declared, self.types, &name), at)?;
                return self.concrete(reader, declared, &ty);
            }
        }
        if record.is_abstract() {
            return Err(CodecError::at(
                format!(
                    "{} is a base or an interface: say which type it is with a first member \
                     \"$type\"",
                    definition.name()
                ),
                at,
            ));
        }
        self.members(reader, declared, record, true)
    }

    /// The members of an object whose concrete type was named.
    fn concrete(self, reader: &mut Reader<'_>, declared: &DeclaredRef, ty: &Type) -> Result<Value> {
        let Type::Declared(concrete) = ty else {
            return Err(reader.error(format!("{ty} is no declared type")));
        };
        let definition = definition(concrete, self.types)?;
        let TypeKind::Record(record) = definition.kind() else {
            return Err(reader.error(format!("{ty} has no members")));
        };
        if record.is_abstract() {
            return Err(reader.error(format!("{ty} is a base or an interface itself")));
        }
        let mut value = self.members(reader, concrete, record, false)?;
        if concrete.name() != declared.name()
            && let Value::Object(object) = &mut value
        {
            object.type_name = Some(concrete.name().into());
        }
        Ok(value)
    }

    fn members(
        self,
        reader: &mut Reader<'_>,
        declared: &DeclaredRef,
        record: &RecordDef,
        mut first: bool,
    ) -> Result<Value> {
        let mut values: Vec<Option<Value>> = record.members().iter().map(|_| None).collect();
        // Members mostly come in the order in which .NET writes them.
        let mut expected = 0;
        while let Some(name) = reader.next_member(first)? {
            first = false;
            match self.member(record, &name, &mut expected) {
                Some(index) => {
                    let member = &record.members()[index];
                    let ty = member_type(member, declared.args());
                    values[index] = Some(self.read(reader, &ty).in_member(&name)?);
                }
                None => raw::skip(reader)?,
            }
        }
        Ok(object(record, declared.args(), self.types, values))
    }

    fn member(self, record: &RecordDef, name: &str, expected: &mut usize) -> Option<usize> {
        let order = record.json_members();
        let is = |index: &usize| record.members()[*index].json_name() == Some(name);
        if order.get(*expected).is_some_and(is) {
            *expected += 1;
            return order.get(*expected - 1).copied();
        }
        if let Some(place) = order.iter().position(is) {
            *expected = place + 1;
            return order.get(place).copied();
        }
        // Text shows what .NET's JSON leaves out. On the wire a field may come from another peer;
        // a property that .NET ignores is ignored.
        record.members().iter().position(|member| {
            member.json_name().is_none()
                && member.name() == name
                && (self.dialect == Dialect::Text || member.kind() == MemberKind::Field)
        })
    }
}

/// Names of a tuple's items in JSON.
pub(super) const ITEMS: [&str; 8] = [
    "Item1", "Item2", "Item3", "Item4", "Item5", "Item6", "Item7", "Rest",
];

fn any(reader: &mut Reader<'_>) -> Result<Value> {
    if reader.null()? {
        Ok(Value::Null)
    } else {
        raw::read(reader).map(Value::Json)
    }
}

/// JSON by what it is: numbers become integers where they are some, else doubles.
pub(crate) fn untyped(json: &RawJson) -> Result<Value> {
    untyped_value(&mut Reader::new(json.as_str()))
}

fn untyped_value(reader: &mut Reader<'_>) -> Result<Value> {
    Ok(match reader.peek()? {
        Token::Null => {
            reader.null()?;
            Value::Null
        }
        Token::True | Token::False => Value::Bool(reader.bool()?),
        Token::String => Value::String(reader.string()?.into_owned()),
        Token::Number => {
            let text = reader.number()?;
            match text
                .parse::<i64>()
                .map(Value::from)
                .or_else(|_| text.parse::<u64>().map(Value::from))
            {
                // An integer has no -0.
                Ok(number) if text != "-0" => number,
                _ => float(text, Scalar::Double)?,
            }
        }
        Token::Array => {
            reader.enter()?;
            let mut items = Vec::new();
            while reader.next_item(items.is_empty())? {
                items.push(untyped_value(reader)?);
            }
            Value::List(items)
        }
        Token::Object => {
            reader.enter()?;
            let mut entries = Vec::new();
            while let Some(name) = reader.next_member(entries.is_empty())? {
                let value = untyped_value(reader)?;
                entries.push((Value::String(name.into_owned()), value));
            }
            Value::Map(entries)
        }
    })
}

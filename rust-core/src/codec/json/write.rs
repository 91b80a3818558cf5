//! From values to JSON, by declared type.

use super::base64;
use super::escape::{Dialect, write_string};
use super::key;
use super::raw;
use super::read::ITEMS;
use super::reader::Reader;
use super::scalar::{scalar_of, scalar_text};
use crate::codec::error::{CodecError, Place, Result};
use crate::codec::number::write_i64;
use crate::codec::schema::{
    self, MAX_BINARY_DEPTH, MAX_DEPTH, concrete, definition, enum_value, member_type, member_value,
    mismatch, unusable,
};
use crate::codec::value::{Object, Value};
use crate::contract::{DeclaredRef, RecordDef, Scalar, Shape, Type, TypeKind, Types};

/// Appends a value of a declared type. `depth` counts the containers around it.
///
/// On error `out` may hold a part of it.
pub(crate) fn write(
    out: &mut Vec<u8>,
    value: &Value,
    ty: &Type,
    types: &Types,
    dialect: Dialect,
    depth: usize,
) -> Result<()> {
    Writer {
        out,
        types,
        dialect,
    }
    .write(value, ty, depth)
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    types: &'a Types,
    dialect: Dialect,
}

impl Writer<'_> {
    fn write(&mut self, value: &Value, ty: &Type, depth: usize) -> Result<()> {
        match (value, ty) {
            (_, Type::ByRef(inner)) => return self.write(value, inner, depth),
            (Value::Null, ty) => return self.null(ty),
            (_, Type::Nullable(inner)) => return self.write(value, inner, depth),
            (Value::Json(json), ty) if is_typed(ty, self.types) => {
                // JSON that was given for a known type must be of that type.
                let mut reader = Reader::new(json.as_str());
                let value = super::read(&mut reader, ty, self.types, Dialect::Text)?;
                return self.write(&value, ty, depth);
            }
            _ => {}
        }
        match ty {
            Type::Void => Err(mismatch(value.kind(), "null")),
            Type::Scalar(Scalar::Object) | Type::Untyped | Type::Named(_) | Type::Unresolved(_) => {
                self.untyped(value, depth)
            }
            Type::Scalar(scalar) => self.scalar(value, *scalar),
            Type::Array(item, rank) if *rank > 1 => {
                if self.dialect == Dialect::Wire {
                    return Err(CodecError::new(
                        "JSON has no form for multi-dimensional arrays",
                    ));
                }
                self.dimensions(value, item, *rank, depth)
            }
            Type::Array(item, _) => match value {
                Value::Bytes(bytes) if **item == Type::Scalar(Scalar::Byte) => {
                    self.bytes(bytes);
                    Ok(())
                }
                Value::List(_) if **item == Type::Scalar(Scalar::Byte) => {
                    Err(mismatch(value.kind(), "byte[]"))
                }
                _ => self.list(value, item, ty, depth),
            },
            Type::Framework(framework, args) => match (framework.shape(), &args[..]) {
                (Shape::List | Shape::Stack, [item]) => self.list(value, item, ty, depth),
                (Shape::Map, [key, item]) => self.map(value, ty, key, item, depth),
                (Shape::Pair, _) => self.tuple(value, ty, args, &["Key", "Value"], depth),
                (Shape::Tuple, _) => self.tuple(value, ty, args, &ITEMS, depth),
                (Shape::ValueTuple, _) if self.dialect == Dialect::Text => {
                    self.tuple(value, ty, args, &ITEMS, depth)
                }
                // .NET's JSON leaves the items out: they are fields.
                (Shape::ValueTuple, _) => {
                    tuple_items(value, ty, args)?;
                    self.out.extend_from_slice(b"{}");
                    Ok(())
                }
                _ => self.untyped(value, depth),
            },
            Type::Declared(declared) => {
                let definition = definition(declared, self.types)?;
                match definition.kind() {
                    TypeKind::Enum(def) => {
                        let number = enum_value(value, definition, def)?;
                        if def.has_json_names() {
                            let name = key::enum_to_text(number, def);
                            if name.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
                                self.out.extend_from_slice(name.as_bytes());
                            } else {
                                write_string(self.out, &name, self.dialect);
                            }
                        } else {
                            self.display(number);
                        }
                        Ok(())
                    }
                    TypeKind::Record(record) => match value {
                        Value::Object(object) => self.record(object, declared, record, depth),
                        // Of an interface that came from the wire nothing more is known.
                        Value::Json(json) => raw::write(self.out, json, self.dialect),
                        _ => Err(mismatch(value.kind(), definition.name())),
                    },
                    _ => self.untyped(value, depth),
                }
            }
            _ => Err(unusable(ty, "JSON")),
        }
    }

    fn null(&mut self, ty: &Type) -> Result<()> {
        if ty.is_value_type() == Some(true) && !matches!(ty, Type::Nullable(_)) {
            return Err(mismatch("null", &ty.to_string()));
        }
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn display(&mut self, value: impl std::fmt::Display) {
        self.out.extend_from_slice(value.to_string().as_bytes());
    }

    fn quoted(&mut self, plain: &str) {
        self.out.push(b'"');
        self.out.extend_from_slice(plain.as_bytes());
        self.out.push(b'"');
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.out.push(b'"');
        base64::encode(self.out, bytes);
        self.out.push(b'"');
    }

    fn scalar(&mut self, value: &Value, scalar: Scalar) -> Result<()> {
        let quoted = !scalar.is_integer()
            && !matches!(
                scalar,
                Scalar::Bool | Scalar::Half | Scalar::Single | Scalar::Double | Scalar::Decimal
            );
        match value {
            // The hot cases need no text of their own.
            Value::String(text) if matches!(scalar, Scalar::String | Scalar::Uri) => {
                write_string(self.out, text, self.dialect);
            }
            Value::Int(number) if scalar.is_integer() => {
                schema::integer(value, scalar)?;
                write_i64(self.out, *number);
            }
            _ => {
                let text = scalar_text(value, scalar, self.dialect)?;
                // Infinity and NaN, which only come here in text, are quoted.
                let word = scalar != Scalar::Bool && text.ends_with(|c: char| c.is_alphabetic());
                if matches!(scalar, Scalar::String | Scalar::Uri | Scalar::Char) {
                    write_string(self.out, &text, self.dialect);
                } else if quoted || word {
                    // .NET escapes the `+` of a string, but not that of an offset.
                    self.quoted(&text);
                } else {
                    self.out.extend_from_slice(text.as_bytes());
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, depth: usize) -> Result<()> {
        // Other codecs hold more than the JSON reader of .NET takes; text shows all of it.
        let max = match self.dialect {
            Dialect::Wire => MAX_DEPTH,
            Dialect::Text => MAX_BINARY_DEPTH,
        };
        if depth >= max {
            return Err(CodecError::new(format!(
                "nested more than {max} levels deep"
            )));
        }
        Ok(())
    }

    fn list(&mut self, value: &Value, item: &Type, ty: &Type, depth: usize) -> Result<()> {
        self.enter(depth)?;
        let start = self.out.len();
        match value {
            Value::List(items) => {
                for (i, value) in items.iter().enumerate() {
                    self.separate(start, b'[');
                    self.write(value, item, depth + 1).in_item(i)?;
                }
            }
            // A `List<byte>` is numbers.
            Value::Bytes(bytes) if *item == Type::Scalar(Scalar::Byte) => {
                for byte in bytes {
                    self.separate(start, b'[');
                    write_i64(self.out, i64::from(*byte));
                }
            }
            _ => return Err(mismatch(value.kind(), &ty.to_string())),
        }
        self.close(start, b'[', b']');
        Ok(())
    }

    fn dimensions(&mut self, value: &Value, item: &Type, rank: u8, depth: usize) -> Result<()> {
        if rank == 0 {
            return self.write(value, item, depth);
        }
        self.enter(depth)?;
        let Value::List(items) = value else {
            return Err(mismatch(value.kind(), "multi-dimensional array"));
        };
        let start = self.out.len();
        for (i, value) in items.iter().enumerate() {
            self.separate(start, b'[');
            self.dimensions(value, item, rank - 1, depth + 1)
                .in_item(i)?;
        }
        self.close(start, b'[', b']');
        Ok(())
    }

    /// The opening bracket before the first item, a comma before any other.
    fn separate(&mut self, start: usize, open: u8) {
        self.out
            .push(if self.out.len() == start { open } else { b',' });
    }

    /// The closing bracket, and the opening one if there was no item.
    fn close(&mut self, start: usize, open: u8, close: u8) {
        if self.out.len() == start {
            self.out.push(open);
        }
        self.out.push(close);
    }

    fn map(
        &mut self,
        value: &Value,
        ty: &Type,
        key: &Type,
        item: &Type,
        depth: usize,
    ) -> Result<()> {
        self.enter(depth)?;
        let Value::Map(entries) = value else {
            return Err(mismatch(value.kind(), &ty.to_string()));
        };
        let start = self.out.len();
        if self.dialect == Dialect::Text && !key::has_text_key(key, self.types) {
            for (i, (k, v)) in entries.iter().enumerate() {
                self.separate(start, b'[');
                self.out.extend_from_slice(b"{\"Key\":");
                self.write(k, key, depth + 2).in_item(i)?;
                self.out.extend_from_slice(b",\"Value\":");
                self.write(v, item, depth + 2).in_item(i)?;
                self.out.push(b'}');
            }
            self.close(start, b'[', b']');
            return Ok(());
        }
        for (k, v) in entries {
            self.separate(start, b'{');
            let name = key::write(k, key, self.types, self.dialect)?;
            match key {
                Type::Scalar(Scalar::String | Scalar::Uri | Scalar::Char) | Type::Declared(_) => {
                    write_string(self.out, &name, self.dialect);
                }
                _ => self.quoted(&name),
            }
            self.out.push(b':');
            self.write(v, item, depth + 1).map_err(|e| e.in_key(name))?;
        }
        self.close(start, b'{', b'}');
        Ok(())
    }

    fn tuple(
        &mut self,
        value: &Value,
        ty: &Type,
        args: &[Type],
        names: &[&str],
        depth: usize,
    ) -> Result<()> {
        self.enter(depth)?;
        let items = tuple_items(value, ty, args)?;
        let start = self.out.len();
        for ((item, arg), name) in items.iter().zip(args).zip(names) {
            self.separate(start, b'{');
            write_string(self.out, name, self.dialect);
            self.out.push(b':');
            self.write(item, arg, depth + 1).in_member(name)?;
        }
        self.close(start, b'{', b'}');
        Ok(())
    }

    fn record(
        &mut self,
        object: &Object,
        declared: &DeclaredRef,
        record: &RecordDef,
        depth: usize,
    ) -> Result<()> {
        self.enter(depth)?;
        let start = self.out.len();
        if self.dialect == Dialect::Text {
            // All members of the concrete type, in their own order.
            if let Some(name) = &object.type_name {
                let ty = concrete(declared, self.types, name)?;
                if let Type::Declared(concrete) = &ty
                    && concrete.name() != declared.name()
                    && let TypeKind::Record(record) = definition(concrete, self.types)?.kind()
                {
                    self.separate(start, b'{');
                    self.out.extend_from_slice(b"\"$type\":");
                    write_string(self.out, concrete.name(), self.dialect);
                    return self.members(
                        object,
                        concrete,
                        record,
                        record.members().len(),
                        start,
                        depth,
                    );
                }
            }
            return self.members(
                object,
                declared,
                record,
                record.members().len(),
                start,
                depth,
            );
        }
        self.members(object, declared, record, 0, start, depth)
    }

    /// Members in JSON's order, then up to `all` of those that JSON leaves out.
    fn members(
        &mut self,
        object: &Object,
        declared: &DeclaredRef,
        record: &RecordDef,
        all: usize,
        start: usize,
        depth: usize,
    ) -> Result<()> {
        if object.type_name.is_none() {
            if record.is_abstract() {
                return Err(CodecError::new(format!(
                    "{} is a base or an interface: the object does not say which type it is",
                    declared.name()
                )));
            }
            schema::check_members(object, record)?;
        }
        let hidden = (0..all).filter(|i| record.members()[*i].json_name().is_none());
        for index in record.json_members().iter().copied().chain(hidden) {
            let member = &record.members()[index];
            let name = member.json_name().unwrap_or(member.name());
            let ty = member_type(member, declared.args());
            self.separate(start, b'{');
            write_string(self.out, name, self.dialect);
            self.out.push(b':');
            match member_value(object, index, member.name()) {
                Some(value) => self.write(value, &ty, depth + 1),
                None => {
                    let value = schema::default_value(&ty, self.types);
                    self.write(&value, &ty, depth + 1)
                }
            }
            .in_member(member.name())?;
        }
        self.close(start, b'{', b'}');
        Ok(())
    }

    /// A value by what it is.
    fn untyped(&mut self, value: &Value, depth: usize) -> Result<()> {
        let scalar = match value {
            Value::Null => {
                self.out.extend_from_slice(b"null");
                return Ok(());
            }
            Value::Json(json) => return raw::write(self.out, json, self.dialect),
            Value::List(items) => {
                self.enter(depth)?;
                let start = self.out.len();
                for (i, item) in items.iter().enumerate() {
                    self.separate(start, b'[');
                    self.untyped(item, depth + 1).in_item(i)?;
                }
                self.close(start, b'[', b']');
                return Ok(());
            }
            Value::Map(entries) => {
                self.enter(depth)?;
                let start = self.out.len();
                for (key, item) in entries {
                    self.separate(start, b'{');
                    let name = untyped_key(key, self.dialect)?;
                    write_string(self.out, &name, self.dialect);
                    self.out.push(b':');
                    self.untyped(item, depth + 1).map_err(|e| e.in_key(name))?;
                }
                self.close(start, b'{', b'}');
                return Ok(());
            }
            Value::Object(object) => {
                self.enter(depth)?;
                let start = self.out.len();
                for (name, item) in &object.members {
                    self.separate(start, b'{');
                    write_string(self.out, name, self.dialect);
                    self.out.push(b':');
                    self.untyped(item, depth + 1).in_member(name)?;
                }
                self.close(start, b'{', b'}');
                return Ok(());
            }
            Value::Bytes(bytes) => {
                self.bytes(bytes);
                return Ok(());
            }
            other => scalar_of(other),
        };
        self.scalar(value, scalar)
    }
}

/// Whether a type says what JSON must look like.
fn is_typed(ty: &Type, types: &Types) -> bool {
    match ty {
        Type::Scalar(scalar) => *scalar != Scalar::Object,
        Type::Array(..) => true,
        Type::Framework(framework, _) => matches!(
            framework.shape(),
            Shape::List
                | Shape::Stack
                | Shape::Map
                | Shape::Pair
                | Shape::Tuple
                | Shape::ValueTuple
        ),
        Type::Declared(declared) => match types.definition(declared).map(|d| d.kind()) {
            Some(TypeKind::Enum(_)) => true,
            // On the wire the concrete type of an interface is not known.
            Some(TypeKind::Record(record)) => !record.is_abstract(),
            _ => false,
        },
        _ => false,
    }
}

/// The items of a pair or tuple, as many as its type has.
pub(crate) fn tuple_items<'a>(value: &'a Value, ty: &Type, args: &[Type]) -> Result<&'a [Value]> {
    match value {
        Value::List(items) if items.len() == args.len() => Ok(items),
        Value::List(items) => Err(CodecError::new(format!(
            "{} items where {ty} has {}",
            items.len(),
            args.len()
        ))),
        _ => Err(mismatch(value.kind(), &ty.to_string())),
    }
}

fn untyped_key(key: &Value, dialect: Dialect) -> Result<String> {
    match key {
        Value::Bool(true) => Ok("True".into()),
        Value::Bool(false) => Ok("False".into()),
        Value::Null | Value::List(_) | Value::Map(_) | Value::Object(_) | Value::Bytes(_) => Err(
            CodecError::new(format!("{} can not be a key in JSON", key.kind())),
        ),
        Value::Json(_) => Err(CodecError::new("JSON can not be a key in JSON")),
        other => scalar_text(other, scalar_of(other), dialect),
    }
}

//! From Python objects to values, by declared type.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyInt, PyList,
    PyMapping, PyMemoryView, PyString, PyTime, PyTuple, PyType,
};
use uuid::Uuid;
use witrpc::codec::{Decimal, Half, Object, Value};
use witrpc::contract::{
    DeclaredRef, EnumDef, Form, Member, RecordDef, Scalar, Shape, Type, TypeDef, TypeKind, Types,
};

use super::names::{alike, snake_case};
use super::{Converted, MAX_DEPTH, Mismatch, copied_bytes, json, time};

/// Classes of Python's library that are looked for.
#[derive(Clone, Copy)]
pub(super) enum Class {
    Uuid,
    Decimal,
    Enum,
    Date,
    Time,
}

pub(super) fn is_a(object: &Bound<'_, PyAny>, class: Class) -> PyResult<bool> {
    static UUID: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static ENUM: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let (cell, module, name) = match class {
        Class::Uuid => (&UUID, "uuid", "UUID"),
        Class::Decimal => (&DECIMAL, "decimal", "Decimal"),
        Class::Enum => (&ENUM, "enum", "Enum"),
        Class::Date => return Ok(object.is_instance_of::<PyDate>()),
        Class::Time => return Ok(object.is_instance_of::<PyTime>()),
    };
    let py = object.py();
    let found = cell.get_or_try_init(py, || {
        PyResult::Ok(py.import(module)?.getattr(name)?.unbind())
    })?;
    object.is_instance(found.bind(py))
}

pub(super) fn to_value(
    object: &Bound<'_, PyAny>,
    ty: &Type,
    types: &Types,
    depth: usize,
) -> Converted<Value> {
    if object.is_none() {
        return Ok(Value::Null);
    }
    if depth > MAX_DEPTH {
        return Err(Mismatch::new(format!(
            "nested more than {MAX_DEPTH} levels deep"
        )));
    }
    match ty {
        Type::Scalar(Scalar::Object) => json::to_json(object),
        Type::Scalar(scalar) => to_scalar(object, *scalar, ty, types),
        Type::Nullable(inner) | Type::ByRef(inner) => to_value(object, inner, types, depth),
        Type::Array(item, 1) if **item == Type::Scalar(Scalar::Byte) => to_bytes(object, ty),
        Type::Array(item, 1) => list(object, item, ty, types, depth),
        Type::Array(item, rank) => list(
            object,
            &Type::Array(item.clone(), rank - 1),
            ty,
            types,
            depth,
        ),
        Type::Framework(framework, args) => match (framework.shape(), &args[..]) {
            (Shape::List | Shape::Stack, [item]) => list(object, item, ty, types, depth),
            (Shape::Map, [key, item]) => map(object, key, item, ty, types, depth),
            (Shape::Pair | Shape::Tuple | Shape::ValueTuple, args) => {
                tuple(object, args, ty, types, depth)
            }
            _ => json::to_json(object),
        },
        Type::Declared(declared) => match types.definition(declared).map(TypeDef::kind) {
            Some(TypeKind::Enum(def)) => enumeration(object, def, ty),
            Some(TypeKind::Record(record)) => to_record(object, record, declared, ty, types, depth),
            _ => json::to_json(object),
        },
        Type::Void => Err(Mismatch::expected(object, ty)),
        _ => json::to_json(object),
    }
}

fn to_scalar(
    object: &Bound<'_, PyAny>,
    scalar: Scalar,
    ty: &Type,
    types: &Types,
) -> Converted<Value> {
    let wrong = || Mismatch::expected(object, ty);
    // The text forms of all languages, for what has no type of its own or is at hand as text.
    let from_text = |text: &str| {
        Value::from_json(&json::quoted(text), ty, types).map_err(|e| Mismatch::new(e.to_string()))
    };
    let text = object.cast::<PyString>().ok();
    let value = match scalar {
        Scalar::Bool => match object.cast::<PyBool>() {
            Ok(value) => Value::Bool(value.is_true()),
            Err(_) => return plain(object, ty, types),
        },
        Scalar::Char => match text {
            Some(text) => {
                let units = text.call_method1("encode", ("utf-16-le", "surrogatepass"))?;
                match units.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes() {
                    [low, high] => Value::Char(u16::from_le_bytes([*low, *high])),
                    _ => return Err(Mismatch::new("a char is one UTF-16 unit")),
                }
            }
            None => return Err(wrong()),
        },
        Scalar::String | Scalar::Uri => match text {
            Some(text) => Value::String(
                text.to_str()
                    .map_err(|_| Mismatch::new("the text has half of a surrogate pair"))?
                    .to_owned(),
            ),
            None => return Err(wrong()),
        },
        Scalar::Half | Scalar::Single | Scalar::Double => {
            if text.is_some() || object.is_instance_of::<PyBool>() {
                return Err(wrong());
            }
            let Ok(value) = object.extract::<f64>() else {
                return plain(object, ty, types);
            };
            match scalar {
                Scalar::Half => Value::Half(Half::from_f64(value)),
                // As C# narrows: to the nearest.
                Scalar::Single => Value::Single(value as f32),
                _ => Value::Double(value),
            }
        }
        Scalar::Decimal => {
            let digits = if is_a(object, Class::Decimal)? || object.is_instance_of::<PyFloat>() {
                object.str()?.to_string()
            } else if text.is_some() || object.is_instance_of::<PyBool>() {
                return Err(wrong());
            } else if object.is_instance_of::<PyInt>() {
                object.call_method0("__int__")?.str()?.to_string()
            } else {
                return plain(object, ty, types);
            };
            let decimal: Result<Decimal, _> = digits.parse();
            Value::Decimal(decimal.map_err(|e| Mismatch::new(format!("{digits} is {e}")))?)
        }
        Scalar::Guid => {
            if is_a(object, Class::Uuid)? {
                Value::Guid(Uuid::from_u128(object.getattr("int")?.extract()?))
            } else {
                return from_text(text.ok_or_else(wrong)?.to_str()?);
            }
        }
        Scalar::DateTime | Scalar::DateTimeOffset => match object.cast::<PyDateTime>() {
            Ok(value) if scalar == Scalar::DateTime => Value::DateTime(time::date_time(value)?),
            Ok(value) => Value::DateTimeOffset(time::date_time_offset(value)?),
            Err(_) => return from_text(text.ok_or_else(wrong)?.to_str()?),
        },
        Scalar::TimeSpan => match object.cast::<PyDelta>() {
            Ok(value) => Value::TimeSpan(time::time_span(value)?),
            Err(_) => return from_text(text.ok_or_else(wrong)?.to_str()?),
        },
        Scalar::DateOnly => match object.cast::<PyDate>() {
            Ok(value) if !object.is_instance_of::<PyDateTime>() => {
                Value::DateOnly(time::date_only(value)?)
            }
            _ => return from_text(text.ok_or_else(wrong)?.to_str()?),
        },
        Scalar::TimeOnly => match object.cast::<PyTime>() {
            Ok(value) => Value::TimeOnly(time::time_only(value)?),
            Err(_) => return from_text(text.ok_or_else(wrong)?.to_str()?),
        },
        Scalar::Version => return from_text(text.ok_or_else(wrong)?.to_str()?),
        _ => return integer(object, ty, types),
    };
    Ok(value)
}

fn integer(object: &Bound<'_, PyAny>, ty: &Type, types: &Types) -> Converted<Value> {
    if object.is_instance_of::<PyBool>() {
        return Err(Mismatch::expected(object, ty));
    }
    if object.is_instance_of::<PyInt>() {
        if let Ok(small) = object.extract::<i64>() {
            return Ok(Value::Int(small));
        }
        if let Ok(value) = object.extract::<i128>() {
            return Ok(Value::from(value));
        }
        return match object.extract::<u128>() {
            Ok(value) => Ok(Value::from(value)),
            Err(_) => Err(Mismatch::new(format!("beyond the range of {ty}"))),
        };
    }
    plain(object, ty, types)
}

/// An object of another library that stands for a plain one: a scalar of `numpy`.
fn plain(object: &Bound<'_, PyAny>, ty: &Type, types: &Types) -> Converted<Value> {
    let is_foreign = !object.is_instance_of::<PyFloat>() && !object.is_instance_of::<PyInt>();
    if is_foreign && let Ok(item) = object.getattr("item") {
        let item = item.call0()?;
        if !item.get_type().is(object.get_type()) {
            return to_value(&item, ty, types, MAX_DEPTH);
        }
    }
    if is_a(object, Class::Enum)? {
        return to_value(&object.getattr("value")?, ty, types, MAX_DEPTH);
    }
    Err(Mismatch::expected(object, ty))
}

fn enumeration(object: &Bound<'_, PyAny>, def: &EnumDef, ty: &Type) -> Converted<Value> {
    let member = is_a(object, Class::Enum)?;
    let value = if member {
        object.getattr("value")?
    } else {
        object.clone()
    };
    if !value.is_instance_of::<PyBool>()
        && let Ok(number) = value.extract::<i128>()
    {
        return Ok(Value::from(number));
    }
    // An enum of names, as `StrEnum`; or one whose values mean something else.
    let mut names = vec![value];
    if member {
        names.push(object.getattr("name")?);
    }
    for name in &names {
        let Ok(name) = name.cast::<PyString>() else {
            continue;
        };
        let name = name.to_str()?;
        if let Some((_, number)) = def.members().iter().find(|(known, _)| alike(known, name)) {
            return Ok(Value::from(*number));
        }
    }
    let known: Vec<&str> = def.members().iter().map(|(name, _)| &**name).collect();
    match names[0].cast::<PyString>() {
        Ok(text) => Err(Mismatch::new(format!(
            "{text} is no member of {ty}: it has {}",
            known.join(", ")
        ))),
        Err(_) => Err(Mismatch::expected(object, ty)),
    }
}

fn to_bytes(object: &Bound<'_, PyAny>, ty: &Type) -> Converted<Value> {
    if object.is_instance_of::<PyString>() || object.is_instance_of::<PyList>() {
        return Err(Mismatch::expected(object, ty));
    }
    copied_bytes(object)
        .map(Value::Bytes)
        .map_err(|_| Mismatch::expected(object, ty))
}

fn list(
    object: &Bound<'_, PyAny>,
    item: &Type,
    ty: &Type,
    types: &Types,
    depth: usize,
) -> Converted<Value> {
    if object.is_instance_of::<PyString>() || object.is_instance_of::<PyDict>() {
        return Err(Mismatch::expected(object, ty));
    }
    // Arrays of numbers (`array`, `numpy`) give all items at once.
    let builtin = object.is_instance_of::<PyList>()
        || object.is_instance_of::<PyTuple>()
        || object.is_instance_of::<PyBytes>()
        || object.is_instance_of::<PyByteArray>();
    let items = match builtin {
        true => None,
        false => PyMemoryView::from(object).ok(),
    };
    let items = match items {
        Some(view) => view.call_method0("tolist").ok(),
        None => None,
    };
    let items = items.as_ref().unwrap_or(object);
    let Ok(iterator) = items.try_iter() else {
        return Err(Mismatch::expected(object, ty));
    };
    let mut values = Vec::with_capacity(items.len().unwrap_or(0));
    for (i, object) in iterator.enumerate() {
        let value = to_value(&object?, item, types, depth + 1);
        values.push(value.map_err(|e| e.within(|| format!("[{i}]")))?);
    }
    Ok(Value::List(values))
}

fn map(
    object: &Bound<'_, PyAny>,
    key: &Type,
    item: &Type,
    ty: &Type,
    types: &Types,
    depth: usize,
) -> Converted<Value> {
    let Ok(mapping) = object.cast::<PyMapping>() else {
        return Err(Mismatch::expected(object, ty));
    };
    let mut entries = Vec::with_capacity(mapping.len()?);
    for entry in mapping.items()?.iter() {
        let (name, object): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry.extract()?;
        let place = || {
            name.repr()
                .map_or_else(|_| "[…]".into(), |text| format!("[{text}]"))
        };
        let key = to_value(&name, key, types, depth + 1)
            .map_err(|e| e.within(|| format!(" key {}", place())))?;
        let value = to_value(&object, item, types, depth + 1).map_err(|e| e.within(place))?;
        entries.push((key, value));
    }
    Ok(Value::Map(entries))
}

fn tuple(
    object: &Bound<'_, PyAny>,
    args: &[Type],
    ty: &Type,
    types: &Types,
    depth: usize,
) -> Converted<Value> {
    let is_text = object.is_instance_of::<PyString>() || object.is_instance_of::<PyDict>();
    let items: Vec<Bound<'_, PyAny>> = match object.try_iter() {
        Ok(items) if !is_text => items.collect::<PyResult<_>>()?,
        _ => return Err(Mismatch::expected(object, ty)),
    };
    tuple_items(&items, args, ty, types, depth)
}

/// The eighth argument of a tuple type holds the rest; in Python they are one row.
fn tuple_items(
    items: &[Bound<'_, PyAny>],
    args: &[Type],
    ty: &Type,
    types: &Types,
    depth: usize,
) -> Converted<Value> {
    let (own, rest) = match args {
        [own @ .., rest] if own.len() == 7 => (own, rest_args(rest)),
        all => (all, None),
    };
    if rest.is_none() && items.len() != own.len() || items.len() < own.len() {
        return Err(Mismatch::new(format!(
            "{} items where {ty} has {}",
            items.len(),
            args.len()
        )));
    }
    let mut values = Vec::with_capacity(args.len());
    for (i, (object, arg)) in items.iter().zip(own).enumerate() {
        let value = to_value(object, arg, types, depth + 1);
        values.push(value.map_err(|e| e.within(|| format!("[{i}]")))?);
    }
    if let Some(rest) = rest {
        values.push(tuple_items(
            &items[own.len()..],
            rest,
            ty,
            types,
            depth + 1,
        )?);
    }
    Ok(Value::List(values))
}

/// The arguments of the tuple that holds the rest.
pub(super) fn rest_args(rest: &Type) -> Option<&[Type]> {
    match rest {
        Type::Framework(framework, args)
            if matches!(framework.shape(), Shape::Tuple | Shape::ValueTuple) =>
        {
            Some(args)
        }
        _ => None,
    }
}

/// .NET names and attributes of the fields of an object: what the package noted for its class, or the
/// fields of a dataclass, a pydantic model or a named tuple. `None` for any other object.
pub(super) fn fields_of(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<(String, String)>>> {
    let class = object.get_type();
    let found = |name: &str| class.getattr_opt(name);
    if let Some(noted) = found("__witrpc_members__")?
        && let Ok(noted) = noted.cast::<PyDict>()
    {
        let pairs = noted
            .iter()
            .map(|(net, attribute)| Ok((net.extract()?, attribute.extract()?)));
        return pairs.collect::<PyResult<_>>().map(Some);
    }
    for fields in ["__dataclass_fields__", "__pydantic_fields__", "_fields"] {
        if let Some(fields) = found(fields)? {
            let names = fields.try_iter()?.map(|name| name?.extract::<String>());
            let names = names.map(|name| name.map(|name| (name.clone(), name)));
            return names.collect::<PyResult<_>>().map(Some);
        }
    }
    Ok(None)
}

fn to_record(
    object: &Bound<'_, PyAny>,
    record: &RecordDef,
    declared: &DeclaredRef,
    ty: &Type,
    types: &Types,
    depth: usize,
) -> Converted<Value> {
    let dict = object.cast::<PyDict>().ok();
    let type_name = type_name(object, dict, record, declared)?;
    // The members are those of the concrete type.
    let concrete = type_name.as_deref().and_then(|name| types.use_of(name));
    let concrete = match &concrete {
        Some(Type::Declared(concrete)) => Some(concrete),
        _ => None,
    };
    let members = match concrete
        .and_then(|c| types.definition(c))
        .map(TypeDef::kind)
    {
        Some(TypeKind::Record(record)) => record.members(),
        _ => record.members(),
    };
    let args = concrete.map_or(declared.args(), |concrete| concrete.args());
    let mut values: Vec<(Arc<str>, Value)> = Vec::with_capacity(members.len());
    let mut put = |member: &Member, object: &Bound<'_, PyAny>| -> Converted<()> {
        let value = match args.is_empty() {
            true => to_value(object, member.ty(), types, depth + 1),
            false => to_value(object, &member.ty().substitute(args), types, depth + 1),
        };
        let value = value.map_err(|e| e.within(|| format!(".{}", member.name())))?;
        values.push((member.name_arc().clone(), value));
        Ok(())
    };
    if let Some(dict) = dict {
        for (key, value) in dict.iter() {
            let Ok(key) = key.cast::<PyString>() else {
                return Err(Mismatch::new(format!("the keys of {ty} are texts")));
            };
            let key = key.to_str()?;
            if key == "$type" {
                continue;
            }
            match find(members, key) {
                Some(member) => put(member, &value)?,
                None => return Err(unknown(key, ty, members)),
            }
        }
    } else if object.is_instance_of::<PyType>() {
        return Err(Mismatch::new(format!(
            "{} where an object of {ty} is expected: a class, not an object of it",
            object.repr()?
        )));
    } else if let Some(fields) = fields_of(object)? {
        let mut given = Vec::with_capacity(members.len());
        for (name, attribute) in fields {
            // What the contract does not know, .NET has no use for.
            if let Some(member) = find(members, &name) {
                put(member, &object.getattr(attribute.as_str())?)?;
                given.push(member.name());
            }
        }
        complete(object, ty, members, &given)?;
    } else {
        let mut given = Vec::with_capacity(members.len());
        for member in members {
            let value = match object.getattr_opt(member.name())? {
                Some(value) => Some(value),
                None => object.getattr_opt(snake_case(member.name()))?,
            };
            if let Some(value) = value {
                put(member, &value)?;
                given.push(member.name());
            }
        }
        complete(object, ty, members, &given)?;
    }
    Ok(Value::Object(Box::new(Object {
        type_name,
        members: values,
    })))
}

/// Refuses an object of another class: one that does not have all members. Only a dict may leave some out.
fn complete(
    object: &Bound<'_, PyAny>,
    ty: &Type,
    members: &[Member],
    given: &[&str],
) -> Converted<()> {
    if given.is_empty() && !members.is_empty() {
        return Err(Mismatch::expected(object, ty));
    }
    let lacks = |member: &&Member| !given.contains(&member.name());
    match members.iter().find(lacks) {
        Some(member) => Err(Mismatch::new(format!(
            "{} has no member \"{}\", which {ty} has: give an object of its class, or a dict to leave members out",
            object.get_type().name()?,
            member.name(),
        ))),
        None => Ok(()),
    }
}

fn find<'a>(members: &'a [Member], name: &str) -> Option<&'a Member> {
    let exact = members.iter().find(|member| member.name() == name);
    exact.or_else(|| members.iter().find(|member| alike(member.name(), name)))
}

fn unknown(name: &str, ty: &Type, members: &[Member]) -> Mismatch {
    let known: Vec<&str> = members.iter().map(Member::name).collect();
    Mismatch::new(format!(
        "{ty} has no member \"{name}\": it has {}",
        known.join(", ")
    ))
}

/// The concrete type, where the declared one is not it.
fn type_name(
    object: &Bound<'_, PyAny>,
    dict: Option<&Bound<'_, PyDict>>,
    record: &RecordDef,
    declared: &DeclaredRef,
) -> PyResult<Option<Arc<str>>> {
    let said: Option<String> = match dict {
        Some(dict) => dict
            .get_item("$type")?
            .map(|name| name.extract())
            .transpose()?,
        None => match object.get_type().getattr_opt("__witrpc_type__")? {
            Some(name) => name.extract()?,
            None if record.is_abstract() || record.form() == Form::Interface => {
                Some(object.get_type().name()?.to_string())
            }
            None => None,
        },
    };
    Ok(said.filter(|name| name != declared.name()).map(Arc::from))
}

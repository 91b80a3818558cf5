//! protobuf, by declared type, as version 3.4 of protobuf-net writes it.
//!
//! A value that is no message itself is the field 1 of one. Where protobuf-net leaves out a value
//! that its own reader then does not get back, and there is a form that the reader understands,
//! that form is written: the Unix epoch as a `DateTimeOffset`, and a zero of a nullable type in a
//! dictionary.

mod decode;
mod encode;
mod scalar;
mod well_known;
mod wire;

pub(super) use decode::decode;
pub(super) use encode::encode;

use super::error::CodecError;
use crate::contract::{
    DeclaredRef, EnumDef, RecordDef, Scalar, Shape, Type, TypeDef, TypeKind, Types,
};

/// Deepest nesting of a value.
const MAX_DEPTH: usize = super::schema::MAX_BINARY_DEPTH;

fn too_deep() -> CodecError {
    CodecError::new(format!("nested more than {MAX_DEPTH} levels deep"))
}

/// What a type is to protobuf.
enum Kind<'a> {
    /// A number, a string or one of the messages for a single value.
    Scalar(Scalar),
    Enum(&'a EnumDef),
    /// `byte[]`.
    Bytes,
    /// Pairs and tuples: messages of their items.
    Tuple(&'a [Type]),
    Record(&'a DeclaredRef, &'a RecordDef),
    List(&'a Type),
    Map(&'a Type, &'a Type),
    Unsupported,
}

fn kind<'a>(ty: &'a Type, types: &'a Types) -> Kind<'a> {
    match ty {
        Type::Nullable(inner) | Type::ByRef(inner) => kind(inner, types),
        Type::Scalar(scalar) => match scalar {
            Scalar::Half | Scalar::Int128 | Scalar::UInt128 | Scalar::Version | Scalar::Object => {
                Kind::Unsupported
            }
            _ => Kind::Scalar(*scalar),
        },
        Type::Array(item, 1) if **item == Type::Scalar(Scalar::Byte) => Kind::Bytes,
        Type::Array(item, 1) => Kind::List(item),
        Type::Framework(framework, args) => match (framework.shape(), &args[..]) {
            (Shape::List | Shape::Stack, [item]) => Kind::List(item),
            (Shape::Map, [key, value]) => Kind::Map(key, value),
            (Shape::Pair | Shape::Tuple | Shape::ValueTuple, args) => Kind::Tuple(args),
            _ => Kind::Unsupported,
        },
        Type::Declared(declared) => match types.definition(declared).map(TypeDef::kind) {
            Some(TypeKind::Enum(def)) => Kind::Enum(def),
            Some(TypeKind::Record(record)) => Kind::Record(declared, record),
            _ => Kind::Unsupported,
        },
        _ => Kind::Unsupported,
    }
}

/// Whether an empty blob can be a value of a type that has no null: a message whose fields were
/// all left out.
pub(super) fn may_be_empty(ty: &Type, types: &Types) -> bool {
    matches!(
        kind(ty, types),
        Kind::Tuple(_) | Kind::Record(..) | Kind::Scalar(Scalar::DateTimeOffset)
    )
}

/// Whether lists of the scalar can be packed.
fn is_packable(scalar: Scalar) -> bool {
    scalar.is_integer()
        || matches!(
            scalar,
            Scalar::Bool | Scalar::Char | Scalar::Single | Scalar::Double
        )
}

/// The types of a message from its root to the concrete one: protobuf-net writes the derived parts
/// inside those of the base that includes them.
fn levels<'a>(
    declared: &'a DeclaredRef,
    types: &'a Types,
) -> Vec<(&'a DeclaredRef, &'a RecordDef)> {
    let mut levels = Vec::new();
    let mut at = declared;
    while let Some(TypeKind::Record(record)) = types.definition(at).map(TypeDef::kind) {
        levels.push((at, record));
        let Some(Type::Declared(base)) = record.base() else {
            break;
        };
        let included = match types.definition(base).map(TypeDef::kind) {
            Some(TypeKind::Record(record)) => include_of(record, at.name()).is_some(),
            _ => false,
        };
        if !included || levels.len() > MAX_DEPTH {
            break;
        }
        at = base;
    }
    levels.reverse();
    levels
}

/// The field number under which a base has a derived type.
fn include_of(record: &RecordDef, name: &str) -> Option<u32> {
    record
        .protobuf()?
        .includes()
        .iter()
        .find(|(_, ty)| matches!(ty, Type::Declared(derived) if derived.name() == name))
        .map(|(number, _)| *number)
}

fn no_layout(declared: &DeclaredRef) -> CodecError {
    CodecError::new(format!(
        "{} has no protobuf fields: add \"protobuf\" to it in the contract, as the C# type has \
         [ProtoContract]",
        declared.name()
    ))
}

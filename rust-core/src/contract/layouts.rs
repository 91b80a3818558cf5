//! What the binary codecs do with a declared type: which members, under which numbers.

use std::sync::Arc;

use serde_json::Value as Json;

use super::build::{ContractError, Declaration, Flat};
use super::declared::{
    MemoryPackLayout, MessagePackLayout, ProtobufField, ProtobufFormat, ProtobufLayout,
};
use super::parse;
use super::resolve::Scope;
use super::types::Type;

/// Most members of a MemoryPack object: greater counts are codes.
const MAX_MEMORYPACK: usize = 249;
/// Greatest MessagePack key: the array has a place for each key below it.
const MAX_KEY: u64 = 4095;
/// Greatest protobuf field number.
const MAX_FIELD: u64 = (1 << 29) - 1;

type Result<T> = std::result::Result<T, ContractError>;

/// `memorypack` of a type: "object", "version-tolerant", tags, or false.
pub(super) fn memorypack(
    declaration: &Declaration<'_>,
    layout: &Json,
    members: &[Flat<'_>],
    scope: &Scope<'_>,
) -> Result<MemoryPackLayout> {
    match layout {
        Json::Bool(false) => Ok(MemoryPackLayout::None),
        Json::Object(_) => Ok(MemoryPackLayout::Union(tags(
            declaration,
            "memorypack",
            layout,
            scope,
        )?)),
        Json::String(text) if text == "object" => {
            let mut ordered = numbered(declaration, "memorypack", members, MAX_MEMORYPACK as u64)?;
            ordered.sort_by_key(|(number, _)| *number);
            if ordered.len() > MAX_MEMORYPACK {
                return Err(declaration.error(format!(
                    "MemoryPack writes at most {MAX_MEMORYPACK} members"
                )));
            }
            Ok(MemoryPackLayout::Object(
                ordered.into_iter().map(|(_, member)| member).collect(),
            ))
        }
        Json::String(text) if text == "version-tolerant" => {
            let numbered = numbered(
                declaration,
                "memorypack",
                members,
                MAX_MEMORYPACK as u64 - 1,
            )?;
            Ok(MemoryPackLayout::VersionTolerant(slots(&numbered)))
        }
        other => Err(declaration.error(format!(
            "\"memorypack\" is \"object\", \"version-tolerant\", an object of tags and type names, \
             or false, not {other}"
        ))),
    }
}

/// `messagepack` of a type: "keys", "names", an object of keys, or false.
pub(super) fn messagepack(
    declaration: &Declaration<'_>,
    layout: &Json,
    members: &[Flat<'_>],
    scope: &Scope<'_>,
) -> Result<MessagePackLayout> {
    match layout {
        Json::Bool(false) => Ok(MessagePackLayout::None),
        Json::Object(_) => Ok(MessagePackLayout::Union(tags(
            declaration,
            "messagepack",
            layout,
            scope,
        )?)),
        Json::String(text) if text == "keys" => {
            let numbered = numbered(declaration, "messagepack", members, MAX_KEY)?;
            Ok(MessagePackLayout::Array(slots(&numbered)))
        }
        Json::String(text) if text == "names" => {
            let mut names: Vec<(Arc<str>, usize)> = Vec::new();
            for (i, flat) in members.iter().enumerate() {
                let name: Arc<str> = match &flat.decl.messagepack {
                    None => flat.member.name.clone(),
                    Some(Json::Bool(false)) => continue,
                    Some(Json::String(name)) => name.as_str().into(),
                    Some(other) => {
                        return Err(declaration.member_error(
                            flat.index,
                            format!("\"messagepack\" is a name or false, not {other}"),
                        ));
                    }
                };
                if names.iter().any(|(other, _)| *other == name) {
                    return Err(declaration.member_error(
                        flat.index,
                        format!("the MessagePack name {name:?} is taken"),
                    ));
                }
                names.push((name, i));
            }
            Ok(MessagePackLayout::Map(names))
        }
        other => Err(declaration.error(format!(
            "\"messagepack\" is \"keys\", \"names\", an object of keys and type names, or false, \
             not {other}"
        ))),
    }
}

/// `protobuf` of a type: "fields", an object of includes, or false.
pub(super) fn protobuf(
    declaration: &Declaration<'_>,
    layout: &Json,
    members: &[Flat<'_>],
    scope: &Scope<'_>,
) -> Result<Option<ProtobufLayout>> {
    let includes = match layout {
        Json::Bool(false) => return Ok(None),
        Json::String(text) if text == "fields" => Vec::new(),
        Json::Object(_) => tags(declaration, "protobuf", layout, scope)?,
        other => {
            return Err(declaration.error(format!(
                "\"protobuf\" is \"fields\", an object of field numbers and derived types, or \
                 false, not {other}"
            )));
        }
    };
    let own: Vec<(usize, &Flat<'_>)> = members
        .iter()
        .enumerate()
        .filter(|(_, flat)| flat.own && flat.decl.protobuf != Some(Json::Bool(false)))
        .collect();
    let explicit = own.iter().any(|(_, flat)| flat.decl.protobuf.is_some());
    let mut fields: Vec<ProtobufField> = Vec::new();
    for (position, (member, flat)) in own.into_iter().enumerate() {
        let decl = flat.decl;
        let number = match &decl.protobuf {
            // Without a number a member is left out as soon as another has one, as in .NET.
            None if explicit => continue,
            None => position as u64 + 1,
            Some(number) => number
                .as_u64()
                .filter(|n| (1..=MAX_FIELD).contains(n))
                .ok_or_else(|| {
                    declaration.member_error(
                        flat.index,
                        format!(
                            "\"protobuf\" is a field number from 1 to {MAX_FIELD}, or false, not \
                             {number}"
                        ),
                    )
                })?,
        } as u32;
        let format = match decl.format.as_deref() {
            None => ProtobufFormat::Default,
            Some("zigzag") => ProtobufFormat::ZigZag,
            Some("fixed") => ProtobufFormat::Fixed,
            Some(other) => {
                return Err(declaration.member_error(
                    flat.index,
                    format!("\"format\" is \"zigzag\" or \"fixed\", not {other:?}"),
                ));
            }
        };
        let taken = fields.iter().any(|field| field.number == number)
            || includes.iter().any(|(other, _)| *other == number);
        if taken {
            return Err(
                declaration.member_error(flat.index, format!("the field number {number} is taken"))
            );
        }
        fields.push(ProtobufField {
            number,
            member,
            format,
            packed: decl.packed,
        });
    }
    if let Some((number, _)) = includes
        .iter()
        .find(|(number, _)| !(1..=MAX_FIELD).contains(&u64::from(*number)))
    {
        return Err(declaration.error(format!("{number} is no field number")));
    }
    fields.sort_by_key(|field| field.number);
    Ok(Some(ProtobufLayout { fields, includes }))
}

/// The members that a codec writes with their numbers: as given, or by position if none is given.
fn numbered(
    declaration: &Declaration<'_>,
    codec: &str,
    members: &[Flat<'_>],
    max: u64,
) -> Result<Vec<(u64, usize)>> {
    let number_of = |flat: &Flat<'_>| match codec {
        "memorypack" => flat.decl.memorypack.clone(),
        _ => flat.decl.messagepack.clone(),
    };
    let written: Vec<(usize, &Flat<'_>, Option<Json>)> = members
        .iter()
        .enumerate()
        .map(|(i, flat)| (i, flat, number_of(flat)))
        .filter(|(_, _, number)| *number != Some(Json::Bool(false)))
        .collect();
    let explicit = written.iter().any(|(_, _, number)| number.is_some());
    let mut out: Vec<(u64, usize)> = Vec::new();
    for (position, (member, flat, number)) in written.into_iter().enumerate() {
        let number = match number {
            None if explicit => {
                return Err(declaration.error(format!(
                    "some members have a {codec} number and {} has none",
                    flat.member.name
                )));
            }
            None => position as u64,
            Some(given) => given.as_u64().filter(|n| *n <= max).ok_or_else(|| {
                declaration.member_error(
                    flat.index,
                    format!("{codec:?} is a number from 0 to {max}, or false, not {given}"),
                )
            })?,
        };
        if number > max {
            return Err(declaration.error(format!("{codec} numbers go up to {max}")));
        }
        if out.iter().any(|(other, _)| *other == number) {
            return Err(declaration
                .member_error(flat.index, format!("the {codec} number {number} is taken")));
        }
        out.push((number, member));
    }
    Ok(out)
}

fn slots(numbered: &[(u64, usize)]) -> Vec<Option<usize>> {
    let len = numbered
        .iter()
        .map(|(number, _)| *number as usize + 1)
        .max()
        .unwrap_or_default();
    let mut slots = vec![None; len];
    for (number, member) in numbered {
        slots[*number as usize] = Some(*member);
    }
    slots
}

/// Numbers with the declared types that they mean.
fn tags<N: std::str::FromStr + Ord>(
    declaration: &Declaration<'_>,
    codec: &str,
    layout: &Json,
    scope: &Scope<'_>,
) -> Result<Vec<(N, Type)>> {
    let mut out = Vec::new();
    for (tag, name) in layout.as_object().into_iter().flatten() {
        let place = |message: String| declaration.error(format!("{codec} {tag:?}: {message}"));
        let number = tag
            .parse::<N>()
            .map_err(|_| place("a tag is a number".into()))?;
        let name = name
            .as_str()
            .ok_or_else(|| place(format!("expected the name of a type, found {name}")))?;
        let ty = parse::parse_type(name)
            .and_then(|syntax| scope.resolve(&syntax))
            .map_err(|e| place(e.to_string()))?;
        if !matches!(&ty, Type::Declared(_)) {
            return Err(place(format!("the contract does not declare {ty}")));
        }
        out.push((number, ty));
    }
    out.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(out)
}

//! The exchange form of a contract, `*.witrpc.json`, as it is written.
//!
//! Owns the serde side of `docs/contract-format.md`; what it means is decided in `build`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;

/// A contract as written: the document, or what a builder has collected.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub(super) schema: Option<String>,
    pub(super) contract: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) assembly: Option<String>,
    #[serde(default, skip_serializing_if = "Layouts::is_empty")]
    pub(super) defaults: Layouts,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) methods: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) types: Vec<TypeDecl>,
}

/// What each binary codec does with a type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layouts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) memorypack: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) messagepack: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) protobuf: Option<Json>,
}

impl Layouts {
    fn is_empty(&self) -> bool {
        *self == Layouts::default()
    }
}

/// A data type of a contract, to be declared with a [`ContractBuilder`](super::ContractBuilder).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeDecl {
    #[serde(rename = "enum", default, skip_serializing_if = "Option::is_none")]
    pub(super) enumeration: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<String>,
    #[serde(rename = "struct", default, skip_serializing_if = "Option::is_none")]
    pub(super) structure: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) interface: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) delegate: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) assembly: Option<String>,
    /// Of an enum: the underlying type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) of: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) flags: bool,
    /// Of an enum: `"names"` when JSON holds names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) json: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) values: Option<EnumValues>,
    #[serde(rename = "abstract", default, skip_serializing_if = "is_false")]
    pub(super) is_abstract: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) memorypack: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) messagepack: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) protobuf: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) members: Option<Vec<MemberDecl>>,
    /// Of a delegate: the parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) params: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Names and values of an enum, in the order of the document.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct EnumValues(pub(super) Vec<(String, i128)>);

impl Serialize for EnumValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for EnumValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values;
        impl<'de> Visitor<'de> for Values {
            type Value = EnumValues;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of names and numbers")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EnumValues, A::Error> {
                let mut values = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    values.push((name, map.next_value::<i128>()?));
                }
                Ok(EnumValues(values))
            }
        }
        deserializer.deserialize_map(Values)
    }
}

/// A member of a class, struct or interface: a C# line such as `string? Name`, and what the
/// codecs do with it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemberDecl(pub(super) MemberFields);

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemberFields {
    pub(super) member: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) json: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) memorypack: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) messagepack: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) protobuf: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) format: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) packed: bool,
}

impl Serialize for MemberDecl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plain = MemberFields {
            member: self.0.member.clone(),
            ..MemberFields::default()
        };
        if self.0 == plain {
            serializer.serialize_str(&self.0.member)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for MemberDecl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Member;
        impl<'de> Visitor<'de> for Member {
            type Value = MemberDecl;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a line such as \"string Name\", or an object with a \"member\" line")
            }
            fn visit_str<E: de::Error>(self, line: &str) -> Result<MemberDecl, E> {
                Ok(MemberDecl::new(line))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MemberDecl, A::Error> {
                MemberFields::deserialize(MapAccessDeserializer::new(map)).map(MemberDecl)
            }
        }
        deserializer.deserialize_any(Member)
    }
}

impl MemberDecl {
    /// A member by its C# line: `string? Name`, `public int X { get; set; }`, or with a semicolon
    /// for a field, `int X;`.
    pub fn new(line: &str) -> Self {
        MemberDecl(MemberFields {
            member: line.into(),
            ..MemberFields::default()
        })
    }

    /// `JsonPropertyName`.
    pub fn json_name(mut self, name: &str) -> Self {
        self.0.json = Some(name.into());
        self
    }

    /// `JsonInclude` (true, for a field) or `JsonIgnore` (false).
    pub fn json(mut self, included: bool) -> Self {
        self.0.json = Some(included.into());
        self
    }

    /// `MemoryPackOrder`.
    pub fn memorypack_order(mut self, order: u16) -> Self {
        self.0.memorypack = Some(order.into());
        self
    }

    /// `MemoryPackIgnore`.
    pub fn memorypack_ignore(mut self) -> Self {
        self.0.memorypack = Some(false.into());
        self
    }

    /// `Key` with a number.
    pub fn messagepack_key(mut self, key: u16) -> Self {
        self.0.messagepack = Some(key.into());
        self
    }

    /// `Key` with a name.
    pub fn messagepack_name(mut self, key: &str) -> Self {
        self.0.messagepack = Some(key.into());
        self
    }

    /// `IgnoreMember`.
    pub fn messagepack_ignore(mut self) -> Self {
        self.0.messagepack = Some(false.into());
        self
    }

    /// `ProtoMember` with its number.
    pub fn protobuf_field(mut self, number: u32) -> Self {
        self.0.protobuf = Some(number.into());
        self
    }

    /// `ProtoIgnore`.
    pub fn protobuf_ignore(mut self) -> Self {
        self.0.protobuf = Some(false.into());
        self
    }

    /// `DataFormat.ZigZag`.
    pub fn protobuf_zigzag(mut self) -> Self {
        self.0.format = Some("zigzag".into());
        self
    }

    /// `DataFormat.FixedSize`.
    pub fn protobuf_fixed(mut self) -> Self {
        self.0.format = Some("fixed".into());
        self
    }

    /// `IsPacked`.
    pub fn protobuf_packed(mut self) -> Self {
        self.0.packed = true;
        self
    }
}

impl From<&str> for MemberDecl {
    fn from(line: &str) -> Self {
        MemberDecl::new(line)
    }
}

impl TypeDecl {
    /// An enum of `int`, by its full name.
    pub fn enumeration(name: &str) -> Self {
        TypeDecl {
            enumeration: Some(name.into()),
            values: Some(EnumValues::default()),
            ..TypeDecl::default()
        }
    }

    /// A class or record class, by its full name: `Demo.Person`, `Demo.Outer+Inner`,
    /// `Demo.Box<T>`.
    pub fn class(name: &str) -> Self {
        TypeDecl {
            class: Some(name.into()),
            ..TypeDecl::default()
        }
    }

    /// A struct or record struct, by its full name.
    pub fn structure(name: &str) -> Self {
        TypeDecl {
            structure: Some(name.into()),
            ..TypeDecl::default()
        }
    }

    /// An interface, by its full name.
    pub fn interface(name: &str) -> Self {
        TypeDecl {
            interface: Some(name.into()),
            ..TypeDecl::default()
        }
    }

    /// A delegate for events, by its full name, with its parameters: `int percent, string note`.
    pub fn delegate(name: &str, params: &str) -> Self {
        TypeDecl {
            delegate: Some(name.into()),
            params: Some(params.into()),
            ..TypeDecl::default()
        }
    }

    /// The simple name of the assembly, where it is not the contract's.
    pub fn assembly(mut self, name: &str) -> Self {
        self.assembly = Some(name.into());
        self
    }

    /// Of an enum: its underlying type, such as `byte`.
    pub fn underlying(mut self, ty: &str) -> Self {
        self.of = Some(ty.into());
        self
    }

    /// Of an enum: `[Flags]`.
    pub fn flags(mut self) -> Self {
        self.flags = true;
        self
    }

    /// Of an enum: `JsonStringEnumConverter`.
    pub fn json_names(mut self) -> Self {
        self.json = Some("names".into());
        self
    }

    /// Of an enum: a name and its value.
    pub fn value(mut self, name: &str, value: i128) -> Self {
        self.values
            .get_or_insert_default()
            .0
            .push((name.into(), value));
        self
    }

    /// The base class, which must be declared too.
    pub fn base(mut self, ty: &str) -> Self {
        self.base = Some(ty.into());
        self
    }

    /// An abstract class.
    pub fn is_abstract(mut self) -> Self {
        self.is_abstract = true;
        self
    }

    /// Adds a member; the order counts.
    pub fn member(mut self, member: impl Into<MemberDecl>) -> Self {
        self.members.get_or_insert_default().push(member.into());
        self
    }

    /// `MemoryPackable`.
    pub fn memorypack(mut self) -> Self {
        self.memorypack = Some("object".into());
        self
    }

    /// `MemoryPackable(GenerateType.VersionTolerant)`.
    pub fn memorypack_version_tolerant(mut self) -> Self {
        self.memorypack = Some("version-tolerant".into());
        self
    }

    /// `MemoryPackUnion`: tags with type names.
    pub fn memorypack_union(mut self, tags: &[(u16, &str)]) -> Self {
        self.memorypack = Some(tag_map(tags));
        self
    }

    /// `MessagePackObject` with number keys.
    pub fn messagepack(mut self) -> Self {
        self.messagepack = Some("keys".into());
        self
    }

    /// `MessagePackObject(keyAsPropertyName: true)`.
    pub fn messagepack_names(mut self) -> Self {
        self.messagepack = Some("names".into());
        self
    }

    /// `Union`: keys with type names.
    pub fn messagepack_union(mut self, keys: &[(i32, &str)]) -> Self {
        self.messagepack = Some(tag_map(keys));
        self
    }

    /// `ProtoContract`.
    pub fn protobuf(mut self) -> Self {
        self.protobuf = Some("fields".into());
        self
    }

    /// `ProtoContract` with `ProtoInclude`: field numbers with type names.
    pub fn protobuf_includes(mut self, includes: &[(u32, &str)]) -> Self {
        self.protobuf = Some(tag_map(includes));
        self
    }
}

fn tag_map<N: fmt::Display>(tags: &[(N, &str)]) -> Json {
    let map: BTreeMap<String, Json> = tags
        .iter()
        .map(|(tag, name)| (tag.to_string(), Json::from(*name)))
        .collect();
    Json::Object(map.into_iter().collect())
}

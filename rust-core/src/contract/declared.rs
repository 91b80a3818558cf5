//! The data types that a contract declares: enums, classes, structs, interfaces and delegates.
//!
//! Owns what the codecs need to know of them (members, numbers, layouts) after everything has been
//! checked; `document` holds the same things as written.

use std::collections::HashMap;
use std::sync::Arc;

use super::scalar::Scalar;
use super::types::{DeclaredRef, Type, split_arity};

/// The declared types of a contract, and its assembly.
#[derive(Debug, Default)]
pub struct Types {
    pub(super) definitions: Vec<TypeDef>,
    by_name: HashMap<Arc<str>, u32>,
    by_simple_name: HashMap<Arc<str>, Vec<u32>>,
    assembly: Option<Arc<str>>,
}

/// A declared type.
#[derive(Debug)]
pub struct TypeDef {
    pub(super) name: Arc<str>,
    pub(super) generics: Vec<String>,
    pub(super) assembly: Option<Arc<str>>,
    pub(super) value_type: bool,
    pub(super) kind: TypeKind,
}

/// What kind of type it is.
#[derive(Debug)]
#[non_exhaustive]
pub enum TypeKind {
    /// An enum.
    Enum(EnumDef),
    /// A class, struct or interface.
    Record(RecordDef),
    /// A delegate, for events.
    Delegate(Vec<DelegateParam>),
}

/// A parameter of a declared delegate.
#[derive(Debug, Clone)]
pub struct DelegateParam {
    pub(super) name: Option<Arc<str>>,
    pub(super) ty: Type,
}

/// An enum: named integers.
#[derive(Debug)]
pub struct EnumDef {
    pub(super) underlying: Scalar,
    pub(super) flags: bool,
    pub(super) json_names: bool,
    pub(super) members: Vec<(Arc<str>, i128)>,
}

impl EnumDef {
    /// The integer type that it travels as.
    pub fn underlying(&self) -> Scalar {
        self.underlying
    }

    /// Whether several names may be combined (`[Flags]`).
    pub fn is_flags(&self) -> bool {
        self.flags
    }

    /// Whether JSON holds names instead of numbers (`JsonStringEnumConverter`).
    pub fn has_json_names(&self) -> bool {
        self.json_names
    }

    /// Names and values, as declared.
    pub fn members(&self) -> &[(Arc<str>, i128)] {
        &self.members
    }
}

/// A class, struct or interface.
#[derive(Debug)]
pub struct RecordDef {
    pub(super) form: Form,
    pub(super) is_abstract: bool,
    pub(super) base: Option<Type>,
    /// All members, inherited ones first, else as declared.
    pub(super) members: Vec<Member>,
    /// How many of them are inherited.
    pub(super) inherited: usize,
    /// Indices of the members that JSON holds, in the order in which .NET writes them.
    pub(super) json: Vec<usize>,
    pub(super) memorypack: MemoryPackLayout,
    pub(super) messagepack: MessagePackLayout,
    pub(super) protobuf: Option<ProtobufLayout>,
}

/// The kind of a [`RecordDef`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A class or record class.
    Class,
    /// A struct or record struct.
    Struct,
    /// An interface, of which only the implementations have values.
    Interface,
}

/// A property or a public field.
#[derive(Debug, Clone)]
pub struct Member {
    pub(super) name: Arc<str>,
    pub(super) ty: Type,
    pub(super) kind: MemberKind,
    pub(super) json_name: Option<Arc<str>>,
}

/// Whether a member is a property or a field; .NET's JSON leaves fields out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberKind {
    /// A property.
    Property,
    /// A field.
    Field,
}

/// How MemoryPack writes a type. Numbers are indices into [`RecordDef::members`].
#[derive(Debug)]
#[non_exhaustive]
pub enum MemoryPackLayout {
    /// Not at all: the C# type is not `[MemoryPackable]`.
    None,
    /// A member count and the members in this order.
    Object(Vec<usize>),
    /// A list of lengths and the members; a gap in the order has no member.
    VersionTolerant(Vec<Option<usize>>),
    /// A tag that tells the concrete type.
    Union(Vec<(u16, Type)>),
}

/// How MessagePack writes a type. Numbers are indices into [`RecordDef::members`].
#[derive(Debug)]
#[non_exhaustive]
pub enum MessagePackLayout {
    /// Not at all: the C# type is no `[MessagePackObject]`.
    None,
    /// An array; a gap in the keys has no member.
    Array(Vec<Option<usize>>),
    /// A map by name.
    Map(Vec<(Arc<str>, usize)>),
    /// An array of a key that tells the concrete type, and the value.
    Union(Vec<(i32, Type)>),
}

/// How protobuf-net writes a type.
#[derive(Debug)]
pub struct ProtobufLayout {
    pub(super) fields: Vec<ProtobufField>,
    pub(super) includes: Vec<(u32, Type)>,
}

impl ProtobufLayout {
    /// The fields of the type itself (not of its base), by number.
    pub fn fields(&self) -> &[ProtobufField] {
        &self.fields
    }

    /// The derived types that the type knows, by field number (`ProtoInclude`).
    pub fn includes(&self) -> &[(u32, Type)] {
        &self.includes
    }
}

/// A field of a protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtobufField {
    pub(super) number: u32,
    pub(super) member: usize,
    pub(super) format: ProtobufFormat,
    pub(super) packed: bool,
}

impl ProtobufField {
    /// The field number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Index into [`RecordDef::members`].
    pub fn member(&self) -> usize {
        self.member
    }

    /// How integers are written.
    pub fn format(&self) -> ProtobufFormat {
        self.format
    }

    /// Whether a list of numbers is written packed.
    pub fn is_packed(&self) -> bool {
        self.packed
    }
}

/// How protobuf-net writes the integers of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProtobufFormat {
    /// A varint.
    #[default]
    Default,
    /// A zigzag varint.
    ZigZag,
    /// Four or eight bytes.
    Fixed,
}

impl TypeDef {
    /// The .NET name: `Demo.Outer+Inner`, ``Demo.Box`1``.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn name_arc(&self) -> Arc<str> {
        self.name.clone()
    }

    /// The names of the type parameters.
    pub fn generics(&self) -> &[String] {
        &self.generics
    }

    /// Whether it is an enum or a struct.
    pub fn is_value_type(&self) -> bool {
        self.value_type
    }

    /// What kind of type it is.
    pub fn kind(&self) -> &TypeKind {
        &self.kind
    }
}

impl RecordDef {
    /// Class, struct or interface.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Whether no value is exactly of this type: an interface or an abstract class.
    pub fn is_abstract(&self) -> bool {
        self.is_abstract
    }

    /// The base class, when declared.
    pub fn base(&self) -> Option<&Type> {
        self.base.as_ref()
    }

    /// All members, inherited ones first, else as declared.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How many of the members are inherited.
    pub fn inherited(&self) -> usize {
        self.inherited
    }

    /// Indices of the members that JSON holds, in the order in which .NET writes them: a type's
    /// own before those of its base.
    pub fn json_members(&self) -> &[usize] {
        &self.json
    }

    /// How MemoryPack writes it.
    pub fn memorypack(&self) -> &MemoryPackLayout {
        &self.memorypack
    }

    /// How MessagePack writes it.
    pub fn messagepack(&self) -> &MessagePackLayout {
        &self.messagepack
    }

    /// How protobuf-net writes it; `None` if it does not.
    pub fn protobuf(&self) -> Option<&ProtobufLayout> {
        self.protobuf.as_ref()
    }
}

impl Member {
    /// The name, as declared.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name, shared: for values that carry it.
    pub fn name_arc(&self) -> &Arc<str> {
        &self.name
    }

    /// The declared type; type parameters stand for those of the declaring type.
    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// Property or field.
    pub fn kind(&self) -> MemberKind {
        self.kind
    }

    /// The name in JSON; `None` when .NET leaves the member out.
    pub fn json_name(&self) -> Option<&str> {
        self.json_name.as_deref()
    }
}

impl Types {
    pub(super) fn new(assembly: Option<&str>) -> Self {
        Self {
            assembly: assembly.map(Arc::from),
            ..Self::default()
        }
    }

    /// Looks a declared type up by its .NET name (``Demo.Box`1``).
    pub fn get(&self, name: &str) -> Option<&TypeDef> {
        self.find_definition(name).map(|(_, definition)| definition)
    }

    /// All declared types, as declared.
    pub fn iter(&self) -> impl Iterator<Item = &TypeDef> {
        self.definitions.iter()
    }

    /// The declaration that a type refers to.
    pub fn definition(&self, ty: &DeclaredRef) -> Option<&TypeDef> {
        self.definitions
            .get(ty.index as usize)
            .filter(|definition| *definition.name == *ty.name)
    }

    /// The declared type of this name, if it has no type parameters: by its .NET name, or by the
    /// end of it if only one matches.
    pub fn use_of(&self, name: &str) -> Option<Type> {
        let simple = name.rsplit(['.', '+']).next().unwrap_or(name);
        let mut found = None;
        for (index, definition) in self.by_simple_name(simple) {
            let full = *definition.name == *name;
            let end = definition
                .name
                .strip_suffix(name)
                .is_some_and(|head| head.ends_with(['.', '+']));
            if !definition.generics.is_empty() || !(full || end) {
                continue;
            }
            if found.is_some() && !full {
                return None;
            }
            found = Some(Type::Declared(Arc::new(DeclaredRef {
                index,
                name: definition.name.clone(),
                args: Vec::new(),
                value_type: definition.value_type,
            })));
            if full {
                break;
            }
        }
        found
    }

    pub(super) fn find_definition(&self, name: &str) -> Option<(u32, &TypeDef)> {
        let index = *self.by_name.get(name)?;
        Some((index, &self.definitions[index as usize]))
    }

    /// Types whose last name part is `simple`, without arity.
    pub(super) fn by_simple_name(&self, simple: &str) -> impl Iterator<Item = (u32, &TypeDef)> {
        self.by_simple_name
            .get(simple)
            .into_iter()
            .flatten()
            .map(|index| (*index, &self.definitions[*index as usize]))
    }

    /// Adds a definition; gives its name back when it is taken.
    pub(super) fn add(&mut self, definition: TypeDef) -> Result<(), Arc<str>> {
        let name = definition.name.clone();
        let index = self.definitions.len() as u32;
        if self.by_name.insert(name.clone(), index).is_some() {
            return Err(name);
        }
        let last = name.rsplit(['.', '+']).next().unwrap_or(&name);
        let (simple, _) = split_arity(last);
        self.by_simple_name
            .entry(simple.into())
            .or_default()
            .push(index);
        self.definitions.push(definition);
        Ok(())
    }

    /// The assembly of a declared or a foreign type. The framework's own foreign types are in many
    /// assemblies, so the contract's is no good guess for them.
    pub(super) fn assembly_of(&self, name: &str) -> Option<&str> {
        if let Some((_, definition)) = self.find_definition(name) {
            return definition.assembly.as_deref().or(self.assembly.as_deref());
        }
        let foreign = ["System.", "Microsoft."]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        self.assembly.as_deref().filter(|_| !foreign)
    }
}

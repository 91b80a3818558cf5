//! From declarations as written to declared types as meant: names, members, numbers, layouts.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use super::declared::{
    DelegateParam, EnumDef, Form, Member, MemberKind, MemoryPackLayout, MessagePackLayout,
    RecordDef, TypeDef, TypeKind, Types,
};
use super::document::{Layouts, MemberDecl, MemberFields, TypeDecl};
use super::layouts;
use super::method::resolve_param;
use super::parse;
use super::resolve::{Scope, definition_name};
use super::scalar::Scalar;
use super::syntax::{GenericSyntax, Line, ParseError, TypeNode};
use super::types::{DeclaredRef, Type};

/// Longest chain of base classes.
const MAX_BASES: usize = 64;
/// Most fields of a struct, those of structs inside it counted.
const MAX_STRUCT_FIELDS: usize = 4096;

/// Why a contract is not accepted: the place and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractError {
    place: String,
    message: String,
}

impl ContractError {
    pub(super) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
        }
    }

    /// Where: `types[1] "Demo.Person" members[0]`, or a line and column of the document.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for ContractError {}

type Result<T> = std::result::Result<T, ContractError>;

/// A declaration with its place, for messages.
pub(super) struct Declaration<'a> {
    pub(super) decl: &'a TypeDecl,
    pub(super) name: String,
    place: String,
}

impl Declaration<'_> {
    pub(super) fn error(&self, message: impl Into<String>) -> ContractError {
        ContractError::new(self.place.clone(), message)
    }

    fn at(&self, part: &str, error: &ParseError) -> ContractError {
        ContractError::new(format!("{} {part}", self.place), error.to_string())
    }

    pub(super) fn member_error(&self, index: usize, message: impl fmt::Display) -> ContractError {
        ContractError::new(
            format!("{} members[{index}]", self.place),
            message.to_string(),
        )
    }
}

/// The members of one type, without those of its base.
struct Own<'a> {
    declaration: Declaration<'a>,
    base: Option<Arc<DeclaredRef>>,
    members: Vec<Member>,
    fields: &'a [MemberDecl],
}

/// A member of the flattened list and how it was written.
pub(super) struct Flat<'a> {
    pub(super) member: Member,
    pub(super) decl: &'a MemberFields,
    /// Index in the declaration that it stands in, and whether that is the type's own.
    pub(super) index: usize,
    pub(super) own: bool,
}

/// Builds the declared types of a contract.
pub(super) fn types(
    decls: &[TypeDecl],
    defaults: &Layouts,
    assembly: Option<&str>,
) -> Result<Types> {
    let mut types = Types::new(assembly);
    let mut declarations = Vec::new();
    for (i, decl) in decls.iter().enumerate() {
        let (declaration, definition) = head(i, decl)?;
        types
            .add(definition)
            .map_err(|name| declaration.error(format!("{name} is declared twice")))?;
        declarations.push(declaration);
    }
    let mut kinds: Vec<Option<TypeKind>> = Vec::new();
    let mut records: Vec<Option<Own<'_>>> = Vec::new();
    for declaration in declarations {
        let generics = generics_of(&types, &declaration.name);
        let scope = Scope {
            types: &types,
            generics: &generics,
            lenient: false,
        };
        let decl = declaration.decl;
        if decl.enumeration.is_some() {
            kinds.push(Some(TypeKind::Enum(enumeration(&declaration)?)));
            records.push(None);
        } else if decl.delegate.is_some() {
            kinds.push(Some(TypeKind::Delegate(delegate(&declaration, &scope)?)));
            records.push(None);
        } else {
            kinds.push(None);
            records.push(Some(own_members(declaration, &scope)?));
        }
    }
    for index in 0..records.len() {
        if let Some(own) = &records[index] {
            kinds[index] = Some(TypeKind::Record(record(
                own, &records, index, &types, defaults,
            )?));
        }
    }
    for (definition, kind) in types.definitions.iter_mut().zip(kinds) {
        if let Some(kind) = kind {
            definition.kind = kind;
        }
    }
    for (index, own) in records.iter().enumerate() {
        if let Some(own) = own {
            check_base(own, &types)?;
            struct_fields(index, &types, &mut vec![None; decls.len()])
                .map_err(|message| own.declaration.error(message))?;
            check_growth(index, &types).map_err(|message| own.declaration.error(message))?;
        }
    }
    Ok(types)
}

fn generics_of(types: &Types, name: &str) -> Vec<GenericSyntax> {
    types
        .get(name)
        .map(TypeDef::generics)
        .unwrap_or_default()
        .iter()
        .map(|name| GenericSyntax {
            name: name.clone(),
            value_type: false,
        })
        .collect()
}

/// Kind and name of a declaration.
fn head(index: usize, decl: &TypeDecl) -> Result<(Declaration<'_>, TypeDef)> {
    let kinds = [
        ("enum", &decl.enumeration),
        ("class", &decl.class),
        ("struct", &decl.structure),
        ("interface", &decl.interface),
        ("delegate", &decl.delegate),
    ];
    let mut given = kinds
        .iter()
        .filter_map(|(kind, name)| name.as_ref().map(|name| (*kind, name)));
    let (Some((kind, name)), None) = (given.next(), given.next()) else {
        return Err(ContractError::new(
            format!("types[{index}]"),
            "a type has exactly one of \"enum\", \"class\", \"struct\", \"interface\" and \
             \"delegate\", with its name",
        ));
    };
    let mut declaration = Declaration {
        decl,
        name: String::new(),
        place: format!("types[{index}] {name:?}"),
    };
    for (field, given, allowed) in [
        ("of", decl.of.is_some(), kind == "enum"),
        ("flags", decl.flags, kind == "enum"),
        ("json", decl.json.is_some(), kind == "enum"),
        ("values", decl.values.is_some(), kind == "enum"),
        ("params", decl.params.is_some(), kind == "delegate"),
        ("abstract", decl.is_abstract, kind == "class"),
        ("base", decl.base.is_some(), kind == "class"),
        (
            "members",
            decl.members.is_some(),
            !matches!(kind, "enum" | "delegate"),
        ),
        (
            "memorypack",
            decl.memorypack.is_some(),
            !matches!(kind, "enum" | "delegate"),
        ),
        (
            "messagepack",
            decl.messagepack.is_some(),
            !matches!(kind, "enum" | "delegate"),
        ),
        (
            "protobuf",
            decl.protobuf.is_some(),
            !matches!(kind, "enum" | "delegate"),
        ),
    ] {
        if given && !allowed {
            return Err(declaration.error(format!("{field:?} is not for {kind} types")));
        }
    }
    let syntax = parse::parse_type(name).map_err(|e| declaration.error(e.to_string()))?;
    let TypeNode::Name { segments, .. } = &syntax.node else {
        return Err(declaration.error(format!("{name:?} is not the name of a type")));
    };
    let mut generics = Vec::new();
    for arg in segments.iter().flat_map(|s| &s.args) {
        let word = arg
            .as_word()
            .filter(|word| !generics.iter().any(|g| g == word))
            .ok_or_else(|| {
                declaration.error(format!(
                    "column {}: expected the name of a type parameter",
                    arg.column
                ))
            })?;
        generics.push(word.to_owned());
    }
    if !generics.is_empty() && kind == "enum" {
        return Err(declaration.error("an enum has no type parameters"));
    }
    declaration.name = definition_name(segments);
    let definition = TypeDef {
        name: declaration.name.as_str().into(),
        generics,
        assembly: decl.assembly.as_deref().map(Arc::from),
        value_type: matches!(kind, "enum" | "struct"),
        // Replaced once all names are known.
        kind: TypeKind::Delegate(Vec::new()),
    };
    Ok((declaration, definition))
}

fn enumeration(declaration: &Declaration<'_>) -> Result<EnumDef> {
    let decl = declaration.decl;
    let underlying = match &decl.of {
        None => Scalar::Int32,
        Some(name) => Scalar::by_short_name(name)
            .filter(|s| s.is_integer() && !matches!(s, Scalar::Int128 | Scalar::UInt128))
            .ok_or_else(|| {
                declaration.error(format!(
                    "an enum is \"of\" an integer type such as \"byte\", not of {name:?}"
                ))
            })?,
    };
    let json_names = match decl.json.as_deref() {
        None => false,
        Some("names") => true,
        Some(other) => {
            return Err(declaration.error(format!(
                "\"json\" of an enum is \"names\" or left out, not {other:?}"
            )));
        }
    };
    let mut members: Vec<(Arc<str>, i128)> = Vec::new();
    for (name, value) in decl.values.iter().flat_map(|values| &values.0) {
        if members.iter().any(|(other, _)| **other == **name) {
            return Err(declaration.error(format!("the value {name} is there twice")));
        }
        let in_range = underlying
            .integer_range()
            .is_some_and(|(min, max)| (min..=max).contains(value));
        if !in_range {
            return Err(declaration.error(format!(
                "{name} is {value}, which is no {}",
                underlying.short_name()
            )));
        }
        members.push((name.as_str().into(), *value));
    }
    Ok(EnumDef {
        underlying,
        flags: decl.flags,
        json_names,
        members,
    })
}

fn delegate(declaration: &Declaration<'_>, scope: &Scope<'_>) -> Result<Vec<DelegateParam>> {
    let text = declaration.decl.params.as_deref().unwrap_or_default();
    let lenient = Scope {
        lenient: true,
        ..*scope
    };
    parse::parse_params(text)
        .map_err(|e| declaration.at("params", &e))?
        .iter()
        .map(|syntax| {
            let param =
                resolve_param(&lenient, syntax).map_err(|e| declaration.at("params", &e))?;
            Ok(DelegateParam {
                name: param.name().map(Arc::from),
                ty: param.ty().clone(),
            })
        })
        .collect()
}

fn own_members<'a>(declaration: Declaration<'a>, scope: &Scope<'_>) -> Result<Own<'a>> {
    let decl = declaration.decl;
    let base = match &decl.base {
        None => None,
        Some(text) => {
            let ty = parse::parse_type(text)
                .and_then(|syntax| scope.resolve(&syntax))
                .map_err(|e| declaration.at("base", &e))?;
            match ty {
                Type::Declared(declared) if !declared.value_type => Some(declared),
                other => {
                    return Err(declaration.error(format!(
                        "the base {other} is not a class that the contract declares"
                    )));
                }
            }
        }
    };
    let fields = decl.members.as_deref().unwrap_or_default();
    let mut members: Vec<Member> = Vec::new();
    for (i, MemberDecl(field)) in fields.iter().enumerate() {
        let line = parse::parse_line(&field.member).map_err(|e| declaration.member_error(i, e))?;
        let (ty, name, kind) = match line {
            Line::Property { ty, name, .. } => (ty, name, MemberKind::Property),
            Line::Plain {
                ty,
                name,
                semicolon,
            } => {
                let kind = if semicolon {
                    MemberKind::Field
                } else {
                    MemberKind::Property
                };
                (ty, name, kind)
            }
            Line::Word { .. } | Line::Method(_) | Line::Event { .. } => {
                return Err(declaration.member_error(
                    i,
                    format!(
                        "{:?} is not a member: write its type and its name, such as \"int Age\"",
                        field.member
                    ),
                ));
            }
        };
        let ty = scope
            .resolve(&ty)
            .map_err(|e| declaration.member_error(i, e))?;
        let json_name = match &field.json {
            None => (kind == MemberKind::Property).then(|| name.as_str().into()),
            Some(Json::Bool(true)) => Some(name.as_str().into()),
            Some(Json::Bool(false)) => None,
            Some(Json::String(text)) => Some(text.as_str().into()),
            Some(other) => {
                return Err(declaration
                    .member_error(i, format!("\"json\" is a name, true or false, not {other}")));
            }
        };
        members.push(Member {
            name: name.as_str().into(),
            ty,
            kind,
            json_name,
        });
    }
    Ok(Own {
        declaration,
        base,
        members,
        fields,
    })
}

/// Puts the members of a type and of its bases together, the outermost base first.
fn flatten<'a>(
    own: &Own<'a>,
    records: &[Option<Own<'a>>],
    index: usize,
) -> Result<(Vec<Flat<'a>>, Vec<usize>)> {
    let mut levels = vec![(index, None::<Vec<Type>>)];
    let mut base = own.base.clone();
    while let Some(declared) = base {
        if levels.len() > MAX_BASES {
            return Err(own.declaration.error(format!(
                "its bases go round in a circle, or there are more than {MAX_BASES}"
            )));
        }
        let args = match levels.last() {
            Some((_, Some(args))) => declared.args.iter().map(|t| t.substitute(args)).collect(),
            _ => declared.args.clone(),
        };
        let next = declared.index as usize;
        base = records
            .get(next)
            .and_then(Option::as_ref)
            .and_then(|record| record.base.clone());
        levels.push((next, Some(args)));
    }
    let mut flat: Vec<Flat<'a>> = Vec::new();
    let mut json_levels = Vec::new();
    for (level, args) in levels.iter().rev() {
        let Some(record) = records.get(*level).and_then(Option::as_ref) else {
            continue;
        };
        let start = flat.len();
        for (i, (member, MemberDecl(decl))) in record.members.iter().zip(record.fields).enumerate()
        {
            let mut member = member.clone();
            if let Some(args) = args {
                member.ty = member.ty.substitute(args);
            }
            if flat.iter().any(|other| other.member.name == member.name) {
                return Err(own
                    .declaration
                    .error(format!("the member {} is there twice", member.name)));
            }
            flat.push(Flat {
                member,
                decl,
                index: i,
                own: *level == index,
            });
        }
        json_levels.push(start..flat.len());
    }
    // .NET writes a type's own members before those of its base.
    let json: Vec<usize> = json_levels
        .into_iter()
        .rev()
        .flatten()
        .filter(|i| flat[*i].member.json_name.is_some())
        .collect();
    let mut names = HashSet::new();
    for i in &json {
        if let Some(name) = &flat[*i].member.json_name
            && !names.insert(name.clone())
        {
            return Err(own
                .declaration
                .error(format!("two members are called {name:?} in JSON")));
        }
    }
    Ok((flat, json))
}

fn record<'a>(
    own: &Own<'a>,
    records: &[Option<Own<'a>>],
    index: usize,
    types: &Types,
    defaults: &Layouts,
) -> Result<RecordDef> {
    let declaration = &own.declaration;
    let decl = declaration.decl;
    let form = if decl.structure.is_some() {
        Form::Struct
    } else if decl.interface.is_some() {
        Form::Interface
    } else {
        Form::Class
    };
    let is_abstract = decl.is_abstract || form == Form::Interface;
    let (flat, json) = flatten(own, records, index)?;
    let generics = generics_of(types, &declaration.name);
    let scope = Scope {
        types,
        generics: &generics,
        lenient: false,
    };
    // The contract's defaults are for types that have values of their own.
    let or_default = |given: &Option<Json>, default: &Option<Json>| {
        given
            .clone()
            .or_else(|| default.clone().filter(|_| !is_abstract))
    };
    Ok(RecordDef {
        form,
        is_abstract,
        base: own.base.clone().map(Type::Declared),
        inherited: flat.iter().filter(|member| !member.own).count(),
        json,
        memorypack: match or_default(&decl.memorypack, &defaults.memorypack) {
            None => MemoryPackLayout::None,
            Some(layout) => layouts::memorypack(declaration, &layout, &flat, &scope)?,
        },
        messagepack: match or_default(&decl.messagepack, &defaults.messagepack) {
            None => MessagePackLayout::None,
            Some(layout) => layouts::messagepack(declaration, &layout, &flat, &scope)?,
        },
        protobuf: match or_default(&decl.protobuf, &defaults.protobuf) {
            None => None,
            Some(layout) => layouts::protobuf(declaration, &layout, &flat, &scope)?,
        },
        members: flat.into_iter().map(|flat| flat.member).collect(),
    })
}

fn check_base(own: &Own<'_>, types: &Types) -> Result<()> {
    let Some(base) = &own.base else { return Ok(()) };
    match types.definition(base).map(TypeDef::kind) {
        Some(TypeKind::Record(record)) if record.form == Form::Class => Ok(()),
        _ => Err(own
            .declaration
            .error(format!("the base {} is not a class", base.name()))),
    }
}

/// Refuses a generic type that leads to itself with ever longer type arguments, such as a `Node<T>`
/// with a `Node<List<T>>`: following it would not end.
fn check_growth(index: usize, types: &Types) -> std::result::Result<(), String> {
    let Some(definition) = types.definitions.get(index) else {
        return Ok(());
    };
    for ty in member_types(&definition.kind) {
        for declared in declared_in(ty) {
            let grows = declared
                .args
                .iter()
                .any(|arg| arg.is_open() && !matches!(arg, Type::Parameter(_)));
            if grows && reaches(declared.index as usize, index, types) {
                return Err(format!(
                    "{} leads to itself through {ty} with ever longer type arguments",
                    definition.name
                ));
            }
        }
    }
    Ok(())
}

fn member_types(kind: &TypeKind) -> impl Iterator<Item = &Type> {
    let record = match kind {
        TypeKind::Record(record) => Some(record),
        _ => None,
    };
    record.into_iter().flat_map(|record| {
        let members = record.members.iter().map(|member| &member.ty);
        members.chain(record.base.as_ref())
    })
}

/// All uses of declared types inside a type, itself included.
fn declared_in(ty: &Type) -> Vec<&DeclaredRef> {
    let mut found = Vec::new();
    let mut open = vec![ty];
    while let Some(ty) = open.pop() {
        if let Type::Declared(declared) = ty {
            found.push(&**declared);
        }
        open.extend(ty.arguments());
    }
    found
}

/// Whether the members of one definition lead to another.
fn reaches(from: usize, to: usize, types: &Types) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![from];
    while let Some(index) = open.pop() {
        if index == to {
            return true;
        }
        let Some(definition) = types.definitions.get(index).filter(|_| seen.insert(index)) else {
            continue;
        };
        for ty in member_types(&definition.kind) {
            open.extend(
                declared_in(ty)
                    .iter()
                    .map(|declared| declared.index as usize),
            );
        }
    }
    false
}

/// Counts the fields of a struct, through structs inside it; a struct can not contain itself.
fn struct_fields(
    index: usize,
    types: &Types,
    seen: &mut Vec<Option<usize>>,
) -> std::result::Result<usize, String> {
    const BUSY: usize = usize::MAX;
    let TypeKind::Record(record) = &types.definitions[index].kind else {
        return Ok(1);
    };
    if record.form != Form::Struct {
        return Ok(1);
    }
    match seen[index] {
        Some(BUSY) => {
            return Err(format!(
                "the struct {} contains itself",
                types.definitions[index].name
            ));
        }
        Some(count) => return Ok(count),
        None => seen[index] = Some(BUSY),
    }
    let mut count = 1_usize;
    for member in &record.members {
        count = count.saturating_add(value_fields(&member.ty, types, seen)?);
    }
    if count > MAX_STRUCT_FIELDS {
        return Err(format!(
            "the struct {} has more than {MAX_STRUCT_FIELDS} fields",
            types.definitions[index].name
        ));
    }
    seen[index] = Some(count);
    Ok(count)
}

fn value_fields(
    ty: &Type,
    types: &Types,
    seen: &mut Vec<Option<usize>>,
) -> std::result::Result<usize, String> {
    let args = match ty {
        Type::Nullable(inner) => return value_fields(inner, types, seen),
        Type::Framework(framework, args) if framework.is_value_type() => args,
        Type::Declared(declared) if declared.value_type => {
            let mut count = struct_fields(declared.index as usize, types, seen)?;
            for arg in &declared.args {
                count = count.saturating_add(value_fields(arg, types, seen)?);
            }
            return Ok(count);
        }
        _ => return Ok(1),
    };
    args.iter().try_fold(1_usize, |count, arg| {
        Ok(count.saturating_add(value_fields(arg, types, seen)?))
    })
}

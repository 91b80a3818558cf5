//! From a type as written to a type as meant: names, nullability and tuples.

use std::sync::Arc;

use super::declared::{TypeDef, Types};
use super::framework::{Framework, Shape, VALUE_TUPLE};
use super::scalar::Scalar;
use super::syntax::{GenericSyntax, ParseError, Segment, TypeNode, TypeSyntax};
use super::types::{DeclaredRef, Named, Type, split_arity};

/// What names mean at one place of a contract.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) types: &'a Types,
    /// Type parameters in force.
    pub(super) generics: &'a [GenericSyntax],
    /// Whether `X?` of an unknown `X` is kept as unresolved: no id depends on it here.
    pub(super) lenient: bool,
}

impl<'a> Scope<'a> {
    pub(super) fn of(types: &'a Types) -> Self {
        Self {
            types,
            generics: &[],
            lenient: false,
        }
    }

    /// Resolves a type that must have a value.
    pub(super) fn resolve(&self, syntax: &TypeSyntax) -> Result<Type, ParseError> {
        match &syntax.node {
            TypeNode::Tuple(items) => Ok(value_tuple(
                items
                    .iter()
                    .map(|item| self.resolve(item))
                    .collect::<Result<_, _>>()?,
            )),
            TypeNode::Array(item, rank) => Ok(Type::Array(Arc::new(self.resolve(item)?), *rank)),
            TypeNode::Nullable(inner) => self.nullable(syntax, inner),
            TypeNode::Name { global, segments } => self.named(syntax, *global, segments),
        }
    }

    /// Resolves a return type: `void`, and tasks for what they hold.
    pub(super) fn resolve_return(&self, syntax: &TypeSyntax) -> Result<Type, ParseError> {
        if matches!(syntax.as_word(), Some("void")) {
            return Ok(Type::Void);
        }
        let task = match &syntax.node {
            // `Task<int>?` is a nullable reference.
            TypeNode::Nullable(inner) => self.resolve(inner).ok(),
            _ => None,
        };
        let ty = match task {
            Some(ty) if is_task(&ty) => ty,
            _ => self.resolve(syntax)?,
        };
        Ok(match ty {
            Type::Framework(framework, args) if framework.shape() == Shape::Task => {
                args.first().cloned().unwrap_or(Type::Void)
            }
            other => other,
        })
    }

    fn nullable(&self, whole: &TypeSyntax, inner: &TypeSyntax) -> Result<Type, ParseError> {
        let ty = self.resolve(inner)?;
        let generic = match &ty {
            Type::Nullable(_) => {
                return Err(ParseError::new(
                    whole.column,
                    format!("{} is nullable twice", whole.text),
                ));
            }
            // `T?` is `T` itself, unless T is known to be a value type.
            Type::Parameter(position) => Some(
                self.generics
                    .get(usize::from(*position))
                    .is_some_and(|g| g.value_type),
            ),
            _ => None,
        };
        match generic.or(ty.is_value_type()) {
            Some(true) => Ok(Type::Nullable(Arc::new(ty))),
            Some(false) => Ok(ty),
            None if self.lenient => Ok(Type::Unresolved(whole.text.as_str().into())),
            None => Err(ParseError::new(
                whole.column,
                format!(
                    "nothing is known of {name}, so {name}? can mean two types: write \
                     Nullable<{name}> if it is a struct or an enum, {name} if it is a class",
                    name = inner.text
                ),
            )),
        }
    }

    fn named(
        &self,
        syntax: &TypeSyntax,
        global: bool,
        segments: &[Segment],
    ) -> Result<Type, ParseError> {
        if let Some(word) = syntax.as_word() {
            if let Some(position) = self.generics.iter().position(|g| g.name == word) {
                return Ok(Type::Parameter(position as u16));
            }
            match word {
                "void" => {
                    return Err(ParseError::new(syntax.column, "void is a return type only"));
                }
                "var" => return Err(ParseError::new(syntax.column, "var is no type")),
                _ => {}
            }
        }
        let args = segments
            .iter()
            .flat_map(|segment| &segment.args)
            .map(|arg| self.resolve(arg))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some((index, definition)) = self.declared(syntax, global, segments)? {
            return Ok(Type::Declared(Arc::new(DeclaredRef {
                index,
                name: definition.name_arc(),
                args,
                value_type: definition.is_value_type(),
            })));
        }
        if let Some(ty) = framework_type(syntax, global, segments, &args)? {
            return Ok(ty);
        }
        if segments.len() == 1 && !global {
            return Err(unknown(syntax, segments));
        }
        Ok(Type::Named(Arc::new(Named {
            name: definition_name(segments).into(),
            args,
        })))
    }

    /// The declared type that a full name or the end of one means.
    fn declared(
        &self,
        syntax: &TypeSyntax,
        global: bool,
        segments: &[Segment],
    ) -> Result<Option<(u32, &'a TypeDef)>, ParseError> {
        let Some(last) = segments.last() else {
            return Ok(None);
        };
        let mut found: Option<(u32, &TypeDef)> = None;
        for (index, definition) in self.types.by_simple_name(&last.name) {
            match ends_with(definition.name(), segments) {
                Match::Full => return Ok(Some((index, definition))),
                Match::End if !global => {
                    if let Some((_, other)) = found {
                        return Err(ParseError::new(
                            syntax.column,
                            format!(
                                "{} can mean {} or {}: write it in full",
                                syntax.text,
                                other.name(),
                                definition.name()
                            ),
                        ));
                    }
                    found = Some((index, definition));
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

fn is_task(ty: &Type) -> bool {
    matches!(ty, Type::Framework(framework, _) if framework.shape() == Shape::Task)
}

enum Match {
    Full,
    End,
    No,
}

/// Whether the .NET name `name` ends in `segments`; C# writes a `.` where .NET writes a `+`.
fn ends_with(name: &str, segments: &[Segment]) -> Match {
    let mut rest = name;
    for (i, segment) in segments.iter().enumerate().rev() {
        let start = rest.rfind(['.', '+']).map_or(0, |at| at + 1);
        let (text, arity) = split_arity(&rest[start..]);
        if text != segment.name || arity != segment.args.len() {
            return Match::No;
        }
        if start == 0 {
            return if i == 0 { Match::Full } else { Match::No };
        }
        let separator = &rest[start - 1..start];
        if i > 0 && segment.separator == '+' && separator != "+" {
            return Match::No;
        }
        rest = &rest[..start - 1];
    }
    Match::End
}

/// ``Demo.Outer`1+Inner`` from its parts.
pub(super) fn definition_name(segments: &[Segment]) -> String {
    let mut name = String::new();
    for (i, segment) in segments.iter().enumerate() {
        if i > 0 {
            name.push(segment.separator);
        }
        name.push_str(&segment.name);
        if !segment.args.is_empty() {
            name.push_str(&format!("`{}", segment.args.len()));
        }
    }
    name
}

fn framework_type(
    syntax: &TypeSyntax,
    global: bool,
    segments: &[Segment],
    args: &[Type],
) -> Result<Option<Type>, ParseError> {
    let Some((last, namespace)) = segments.split_last() else {
        return Ok(None);
    };
    if namespace.iter().any(|s| !s.args.is_empty()) || segments.iter().any(|s| s.separator == '+') {
        return Ok(None);
    }
    let arity = args.len();
    let short = namespace.is_empty() && !global;
    let full = || {
        segments
            .iter()
            .map(|s| s.name.as_str())
            .collect::<Vec<_>>()
            .join(".")
    };
    if last.name == "Nullable" && (short || full() == "System.Nullable") {
        let [inner] = args else {
            return Err(ParseError::new(
                syntax.column,
                "Nullable has one type argument",
            ));
        };
        return match inner {
            Type::Nullable(_) => Err(ParseError::new(
                syntax.column,
                format!("{} is nullable twice", syntax.text),
            )),
            _ if inner.is_value_type() == Some(false) => Err(ParseError::new(
                syntax.column,
                format!("{inner} is no value type: write {inner} without Nullable"),
            )),
            _ => Ok(Some(Type::Nullable(Arc::new(inner.clone())))),
        };
    }
    if arity == 0 {
        let scalar = if short {
            Scalar::by_short_name(&last.name)
        } else {
            Scalar::by_full_name(&full())
        };
        if let Some(scalar) = scalar {
            return Ok(Some(Type::Scalar(scalar)));
        }
    }
    let framework = if short {
        Framework::by_short_name(&last.name, arity)
    } else {
        Framework::by_full_name(&full(), arity)
    };
    Ok(framework.map(|f| Type::Framework(f, args.into())))
}

fn unknown(syntax: &TypeSyntax, segments: &[Segment]) -> ParseError {
    let name = segments.first().map_or("", |s| s.name.as_str());
    let hint = match (0..=17).find(|arity| Framework::by_short_name(name, *arity).is_some()) {
        Some(0) if Framework::by_short_name(name, 1).is_none() => {
            format!("{name} has no type arguments")
        }
        Some(_) => format!("{name} has another number of type arguments"),
        None => format!(
            "{} is neither a known framework type nor declared by the contract: write it with its \
             namespace, such as My.Namespace.{}",
            syntax.text, syntax.text
        ),
    };
    ParseError::new(syntax.column, hint)
}

/// `(A, B)`; .NET nests what is beyond the seventh item.
fn value_tuple(mut items: Vec<Type>) -> Type {
    let rest = (items.len() > 7).then(|| value_tuple(items.split_off(7)));
    items.extend(rest);
    Type::Framework(&VALUE_TUPLE, items.into())
}

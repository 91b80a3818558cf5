//! Type descriptions: what a parameter, a result or a member is declared as.
//!
//! Owns the shape of types and their C# text. Names on the wire are in `names`, declared types'
//! contents in `declared`.

use std::fmt;
use std::sync::Arc;

use super::framework::Framework;
use super::scalar::Scalar;

/// Deepest nesting of a type, `List<List<…>>` and arrays counted.
pub(super) const MAX_TYPE_DEPTH: usize = 32;

/// A type as a contract knows it. Cheap to clone.
///
/// [`Type::Declared`] refers to the contract that it came from; using it with another contract's
/// declarations gives errors or wrong answers, never a panic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// No value at all: `void`, or the result of a `Task`.
    Void,
    /// A return type that was left out: any JSON.
    Untyped,
    /// A scalar.
    Scalar(Scalar),
    /// `X?` of a value type.
    Nullable(Arc<Type>),
    /// An array of the given rank: 1 for `X[]`, 2 for `X[,]`.
    Array(Arc<Type>, u8),
    /// A framework type with its type arguments.
    Framework(&'static Framework, Arc<[Type]>),
    /// A type that the contract declares.
    Declared(Arc<DeclaredRef>),
    /// A type known by name only.
    Named(Arc<Named>),
    /// `X?` where nothing is known of `X`: allowed where no id and no binary codec needs it.
    Unresolved(Arc<str>),
    /// A type parameter, by position.
    Parameter(u16),
    /// A `ref`, `in` or `out` parameter.
    ByRef(Arc<Type>),
}

/// A use of a declared type.
#[derive(Debug, Clone)]
pub struct DeclaredRef {
    pub(super) index: u32,
    pub(super) name: Arc<str>,
    pub(super) args: Vec<Type>,
    pub(super) value_type: bool,
}

impl DeclaredRef {
    /// The .NET name of the definition: `Demo.Outer+Inner`, ``Demo.Box`1``.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type arguments, those of enclosing types first.
    pub fn args(&self) -> &[Type] {
        &self.args
    }

    /// Whether it is an enum or a struct.
    pub fn is_value_type(&self) -> bool {
        self.value_type
    }
}

// Within one contract the name says it all; a name read from the wire may come without an index.
impl PartialEq for DeclaredRef {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.args == other.args
    }
}

impl Eq for DeclaredRef {}

impl std::hash::Hash for DeclaredRef {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.args.hash(state);
    }
}

/// A type of which only the name is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Named {
    pub(super) name: Arc<str>,
    pub(super) args: Vec<Type>,
}

impl Named {
    /// The .NET name of the definition: `Demo.Outer+Inner`, ``Demo.Box`1``.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type arguments, those of enclosing types first.
    pub fn args(&self) -> &[Type] {
        &self.args
    }
}

impl Type {
    /// `object`.
    pub const OBJECT: Type = Type::Scalar(Scalar::Object);

    /// Whether `X?` means `Nullable<X>`; `None` when nothing is known of the type.
    pub fn is_value_type(&self) -> Option<bool> {
        match self {
            Type::Scalar(scalar) => Some(scalar.is_value_type()),
            Type::Nullable(_) => Some(true),
            Type::Array(..) => Some(false),
            Type::Framework(framework, _) => Some(framework.is_value_type()),
            Type::Declared(declared) => Some(declared.value_type),
            Type::Void
            | Type::Untyped
            | Type::Named(_)
            | Type::Unresolved(_)
            | Type::Parameter(_)
            | Type::ByRef(_) => None,
        }
    }

    /// The type without a `ref`.
    pub fn without_ref(&self) -> &Type {
        match self {
            Type::ByRef(inner) => inner,
            other => other,
        }
    }

    /// The type arguments, also of arrays and nullables.
    pub(super) fn arguments(&self) -> &[Type] {
        match self {
            Type::Nullable(inner) | Type::Array(inner, _) | Type::ByRef(inner) => {
                std::slice::from_ref(inner)
            }
            Type::Framework(_, args) => args,
            Type::Declared(declared) => &declared.args,
            Type::Named(named) => &named.args,
            _ => &[],
        }
    }

    /// Whether a type parameter occurs in it.
    pub fn is_open(&self) -> bool {
        matches!(self, Type::Parameter(_)) || self.arguments().iter().any(Type::is_open)
    }

    /// Levels of nesting: 1 for `int`, 2 for `int[]`.
    pub(super) fn depth(&self) -> usize {
        1 + self
            .arguments()
            .iter()
            .map(Type::depth)
            .max()
            .unwrap_or_default()
    }

    /// The same type with every type parameter replaced; a parameter without an argument stays.
    pub fn substitute(&self, args: &[Type]) -> Type {
        match self {
            Type::Parameter(position) => args.get(usize::from(*position)).unwrap_or(self).clone(),
            other if !other.is_open() => other.clone(),
            Type::Nullable(inner) => Type::Nullable(Arc::new(inner.substitute(args))),
            Type::Array(item, rank) => Type::Array(Arc::new(item.substitute(args)), *rank),
            Type::ByRef(inner) => Type::ByRef(Arc::new(inner.substitute(args))),
            Type::Framework(framework, inner) => Type::Framework(
                framework,
                inner.iter().map(|t| t.substitute(args)).collect(),
            ),
            Type::Declared(declared) => Type::Declared(Arc::new(DeclaredRef {
                index: declared.index,
                name: declared.name.clone(),
                args: declared.args.iter().map(|t| t.substitute(args)).collect(),
                value_type: declared.value_type,
            })),
            Type::Named(named) => Type::Named(Arc::new(Named {
                name: named.name.clone(),
                args: named.args.iter().map(|t| t.substitute(args)).collect(),
            })),
            Type::Void | Type::Untyped | Type::Scalar(_) | Type::Unresolved(_) => self.clone(),
        }
    }
}

/// The C# text: keywords and short names where C# has them, full names otherwise.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Void => f.write_str("void"),
            Type::Untyped => f.write_str("a result of unknown type"),
            Type::Scalar(scalar) => f.write_str(scalar.short_name()),
            // `X?` only says it where X is known.
            Type::Nullable(inner) if inner.is_value_type() == Some(true) => write!(f, "{inner}?"),
            Type::Nullable(inner) => write!(f, "Nullable<{inner}>"),
            Type::Array(..) => {
                // C# writes the outer ranks first: `int[][,]` is an array of `int[,]`.
                let mut item = self;
                let mut ranks = Vec::new();
                while let Type::Array(inner, rank) = item {
                    ranks.push(*rank);
                    item = inner;
                }
                write!(f, "{item}")?;
                ranks
                    .iter()
                    .try_for_each(|rank| write!(f, "[{}]", ",".repeat(usize::from(*rank) - 1)))
            }
            Type::Framework(framework, args) if args.is_empty() => {
                // A few bare names mean another type when they have type arguments.
                match framework.namespace() {
                    "System.Collections" => write!(f, "System.Collections.{}", framework.name()),
                    _ => f.write_str(framework.name()),
                }
            }
            Type::Framework(framework, args) => {
                f.write_str(framework.name())?;
                write_args(f, args)
            }
            Type::Declared(declared) => write_definition(f, &declared.name, &declared.args),
            Type::Named(named) => write_definition(f, &named.name, &named.args),
            Type::Unresolved(text) => f.write_str(text),
            Type::Parameter(position) => write!(f, "!{position}"),
            Type::ByRef(inner) => write!(f, "ref {inner}"),
        }
    }
}

fn write_args(f: &mut fmt::Formatter<'_>, args: &[Type]) -> fmt::Result {
    for (i, arg) in args.iter().enumerate() {
        f.write_str(if i == 0 { "<" } else { ", " })?;
        write!(f, "{arg}")?;
    }
    f.write_str(">")
}

/// ``Demo.Outer`1+Inner`1`` with two arguments is `Demo.Outer<A>+Inner<B>`.
fn write_definition(f: &mut fmt::Formatter<'_>, name: &str, mut args: &[Type]) -> fmt::Result {
    for part in name.split_inclusive(['.', '+']) {
        let segment = part.trim_end_matches(['.', '+']);
        let (text, arity) = split_arity(segment);
        if super::syntax::is_keyword(text) {
            f.write_str("@")?;
        }
        f.write_str(text)?;
        let (own, rest) = args.split_at(arity.min(args.len()));
        if !own.is_empty() {
            write_args(f, own)?;
        }
        args = rest;
        f.write_str(&part[segment.len()..])?;
    }
    Ok(())
}

/// ``Box`1`` is `Box` and 1.
pub(super) fn split_arity(segment: &str) -> (&str, usize) {
    match segment.split_once('`') {
        Some((text, arity)) => (text, arity.parse().unwrap_or(0)),
        None => (segment, 0),
    }
}

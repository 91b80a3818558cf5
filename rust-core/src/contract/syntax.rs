//! Lines and types as written: the syntax tree, its errors, and the words that C# reserves.

use std::fmt;

/// Why a line or a type is not accepted: what was expected and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    column: usize,
    message: String,
}

impl ParseError {
    pub(super) fn new(column: usize, message: impl Into<String>) -> Self {
        Self {
            column,
            message: message.into(),
        }
    }

    /// The column, counted in characters from 1.
    pub fn column(&self) -> usize {
        self.column
    }

    /// What is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

/// A type as written.
#[derive(Debug, Clone)]
pub(super) struct TypeSyntax {
    pub(super) column: usize,
    pub(super) node: TypeNode,
    /// The source text, for messages.
    pub(super) text: String,
    pub(super) depth: usize,
}

#[derive(Debug, Clone)]
pub(super) enum TypeNode {
    Name {
        /// `global::` was written: the name is full as it stands.
        global: bool,
        segments: Vec<Segment>,
    },
    Tuple(Vec<TypeSyntax>),
    Nullable(Box<TypeSyntax>),
    Array(Box<TypeSyntax>, u8),
}

/// One part of a dotted name.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    /// `.` or `+` before it; `.` for the first.
    pub(super) separator: char,
    pub(super) name: String,
    pub(super) args: Vec<TypeSyntax>,
}

impl TypeSyntax {
    /// The name when it is a single plain word.
    pub(super) fn as_word(&self) -> Option<&str> {
        match &self.node {
            TypeNode::Name {
                global: false,
                segments,
            } => match segments.as_slice() {
                [only] if only.args.is_empty() => Some(&only.name),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A whole line.
#[derive(Debug)]
pub(super) enum Line {
    /// Just a name, perhaps with type arguments: `Add`, `Echo<int>`.
    Word {
        name: String,
        args: Vec<TypeSyntax>,
    },
    Method(MethodSyntax),
    Event {
        ty: TypeSyntax,
        name: String,
    },
    /// `int X { get; set; }`, or `int X` without accessors, which leaves the kind open.
    Property {
        ty: TypeSyntax,
        name: String,
        get: bool,
        set: bool,
    },
    /// `int X;` or `int X`: a field, an event or a member by context.
    Plain {
        ty: TypeSyntax,
        name: String,
        /// A semicolon was written, which in C# makes it a field.
        semicolon: bool,
    },
}

#[derive(Debug)]
pub(super) struct MethodSyntax {
    pub(super) returns: Option<TypeSyntax>,
    pub(super) name: String,
    /// What stands between `<` and `>`: names of type parameters, or the type arguments of a closed
    /// line. A word can be either; `resolve` knows which.
    pub(super) brackets: Vec<TypeSyntax>,
    pub(super) clauses: Vec<WhereSyntax>,
    pub(super) params: Vec<ParamSyntax>,
}

/// `where T : struct`, and `where T = int`, which C# does not have: it gives the type argument.
#[derive(Debug)]
pub(super) struct WhereSyntax {
    pub(super) column: usize,
    pub(super) name: String,
    /// `struct` or `unmanaged` is among the constraints.
    pub(super) value_type: bool,
    pub(super) argument: Option<TypeSyntax>,
}

#[derive(Debug, Clone)]
pub(super) struct GenericSyntax {
    pub(super) name: String,
    /// Constrained to value types, so that `T?` is `Nullable<T>`.
    pub(super) value_type: bool,
}

#[derive(Debug)]
pub(super) struct ParamSyntax {
    pub(super) ty: TypeSyntax,
    pub(super) name: Option<String>,
    pub(super) by_ref: bool,
}

/// Words that may stand before a member.
pub(super) const MODIFIERS: [&str; 16] = [
    "public",
    "private",
    "protected",
    "internal",
    "static",
    "abstract",
    "virtual",
    "override",
    "sealed",
    "extern",
    "new",
    "unsafe",
    "readonly",
    "volatile",
    "const",
    "ref",
];

/// The same, but these are ordinary names elsewhere.
pub(super) const CONTEXTUAL_MODIFIERS: [&str; 4] = ["async", "partial", "required", "file"];

pub(super) const PARAM_MODIFIERS: [&str; 7] =
    ["this", "ref", "out", "in", "params", "scoped", "readonly"];

/// Keywords that are types.
pub(super) const TYPE_KEYWORDS: [&str; 16] = [
    "bool", "byte", "char", "decimal", "double", "float", "int", "long", "object", "sbyte",
    "short", "string", "uint", "ulong", "ushort", "void",
];

/// Keywords that C# reserves and that are neither types nor modifiers.
const OTHER_KEYWORDS: [&str; 42] = [
    "as",
    "base",
    "break",
    "case",
    "catch",
    "checked",
    "class",
    "continue",
    "default",
    "delegate",
    "do",
    "else",
    "enum",
    "event",
    "explicit",
    "false",
    "finally",
    "fixed",
    "for",
    "foreach",
    "goto",
    "if",
    "implicit",
    "interface",
    "is",
    "lock",
    "namespace",
    "null",
    "operator",
    "return",
    "sizeof",
    "stackalloc",
    "struct",
    "switch",
    "throw",
    "true",
    "try",
    "typeof",
    "unchecked",
    "using",
    "while",
    "out",
];

/// Whether C# reserves the word, so that as a name it needs an `@`.
pub(super) fn is_keyword(word: &str) -> bool {
    TYPE_KEYWORDS.contains(&word)
        || OTHER_KEYWORDS.contains(&word)
        || MODIFIERS.contains(&word)
        || matches!(word, "this" | "in" | "params")
}

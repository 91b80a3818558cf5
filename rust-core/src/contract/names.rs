//! Names of types: the stable name that ids are made of, and the names that travel on the wire.
//!
//! Owns both directions of the wire form: writing a type's name and reading one back.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use super::declared::Types;
use super::framework::{CORE, Framework};
use super::scalar::Scalar;
use super::types::{DeclaredRef, MAX_TYPE_DEPTH, Named, Type};

/// A type has no name of the asked kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError(String);

impl NameError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NameError {}

/// A type's name on the wire, in its two parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TypeName {
    /// The full name; generic arguments inside are written in short form with their assemblies:
    /// ``System.Collections.Generic.List`1[[System.Int32, System.Private.CoreLib]]``.
    pub name: String,
    /// The simple name of the assembly.
    pub assembly: String,
}

impl TypeName {
    /// The name as a `System.Type` travels: `name, assembly`.
    pub fn qualified(&self) -> String {
        format!("{}, {}", self.name, self.assembly)
    }
}

impl Type {
    /// The name that ids are made of, such as
    /// `System.Collections.Generic.List<System.Int32>`: no assembly, no version, no spaces, and
    /// no array rank.
    ///
    /// # Errors
    /// For an `X?` of unknown `X`, and for a `ref` of a generic type, whose .NET name depends on
    /// the runtime's version.
    pub fn stable_name(&self) -> Result<String, NameError> {
        let mut out = String::new();
        self.write_stable_name(&mut out)?;
        Ok(out)
    }

    pub(super) fn write_stable_name(&self, out: &mut String) -> Result<(), NameError> {
        match self {
            Type::Void => out.push_str("System.Void"),
            Type::Untyped => return Err(NameError::new("the return type was left out")),
            Type::Scalar(scalar) => out.push_str(scalar.full_name()),
            Type::Nullable(inner) => {
                out.push_str("System.Nullable<");
                inner.write_stable_name(out)?;
                out.push('>');
            }
            Type::Array(item, _) => {
                item.write_stable_name(out)?;
                out.push_str("[]");
            }
            Type::Framework(framework, args) => {
                out.push_str(framework.namespace());
                out.push('.');
                out.push_str(framework.name());
                write_stable_args(out, args)?;
            }
            Type::Declared(declared) => {
                write_stable_definition(out, &declared.name, &declared.args)?;
            }
            Type::Named(named) => write_stable_definition(out, &named.name, &named.args)?,
            Type::Unresolved(text) => {
                return Err(NameError::new(format!(
                    "nothing is known of {text}: declare the type in the contract"
                )));
            }
            Type::Parameter(position) => {
                let _ = write!(out, "!{position}");
            }
            Type::ByRef(inner) => {
                // .NET writes the full name of a by-ref generic with the assembly versions of the
                // running framework, so its id is not stable at all.
                if matches!(**inner, Type::Nullable(_)) || !inner.generic_args().is_empty() {
                    return Err(NameError::new(format!(
                        "a ref, in or out parameter of the generic type {inner} has no stable name"
                    )));
                }
                inner.write_stable_name(out)?;
                out.push('&');
            }
        }
        Ok(())
    }

    fn generic_args(&self) -> &[Type] {
        match self {
            Type::Framework(_, args) => args,
            Type::Declared(declared) => &declared.args,
            Type::Named(named) => &named.args,
            _ => &[],
        }
    }

    /// The name as it travels on the wire. `types` are the declarations of the type's contract.
    ///
    /// # Errors
    /// When the assembly of a type is not known, for a type parameter and for an `X?` of unknown
    /// `X`.
    pub fn wire_name(&self, types: &Types) -> Result<TypeName, NameError> {
        let mut name = String::new();
        let assembly = self.write_wire_name(types, &mut name)?.to_owned();
        Ok(TypeName { name, assembly })
    }

    /// Appends the full name and gives the assembly.
    fn write_wire_name<'a>(
        &'a self,
        types: &'a Types,
        out: &mut String,
    ) -> Result<&'a str, NameError> {
        Ok(match self {
            Type::Void => {
                out.push_str("System.Void");
                CORE
            }
            Type::Scalar(scalar) => {
                out.push_str(scalar.full_name());
                scalar.assembly()
            }
            Type::Nullable(inner) => {
                out.push_str("System.Nullable`1");
                write_wire_args(out, std::slice::from_ref(inner), types)?;
                CORE
            }
            Type::Array(item, rank) => {
                let assembly = item.write_wire_name(types, out)?;
                let _ = write!(out, "[{}]", ",".repeat(usize::from(*rank) - 1));
                assembly
            }
            Type::ByRef(inner) => {
                let assembly = inner.write_wire_name(types, out)?;
                out.push('&');
                assembly
            }
            Type::Framework(framework, args) => {
                let _ = write!(out, "{}.{}", framework.namespace(), framework.name());
                if !args.is_empty() {
                    let _ = write!(out, "`{}", args.len());
                    write_wire_args(out, args, types)?;
                }
                framework.assembly()
            }
            Type::Declared(declared) => {
                out.push_str(&declared.name);
                write_wire_args(out, &declared.args, types)?;
                types.assembly_of(&declared.name).ok_or_else(|| {
                    NameError::new(format!(
                        "the assembly of {} is not known: give the contract's assembly",
                        declared.name
                    ))
                })?
            }
            Type::Named(named) => {
                out.push_str(&named.name);
                write_wire_args(out, &named.args, types)?;
                types.assembly_of(&named.name).ok_or_else(|| {
                    NameError::new(format!(
                        "the assembly of {} is not known: declare the type in the contract, with \
                         its assembly if that is not the contract's",
                        named.name
                    ))
                })?
            }
            Type::Untyped | Type::Unresolved(_) | Type::Parameter(_) => {
                return Err(NameError::new(format!("{self} has no name on the wire")));
            }
        })
    }
}

fn write_stable_args(out: &mut String, args: &[Type]) -> Result<(), NameError> {
    for (i, arg) in args.iter().enumerate() {
        out.push(if i == 0 { '<' } else { ',' });
        arg.write_stable_name(out)?;
    }
    if !args.is_empty() {
        out.push('>');
    }
    Ok(())
}

/// A constructed generic is cut at its first backtick, so a type nested in one shares its name:
/// that is how .NET peers compute it.
fn write_stable_definition(out: &mut String, name: &str, args: &[Type]) -> Result<(), NameError> {
    if args.is_empty() {
        out.push_str(name);
        return Ok(());
    }
    out.push_str(name.split('`').next().unwrap_or(name));
    write_stable_args(out, args)
}

fn write_wire_args(out: &mut String, args: &[Type], types: &Types) -> Result<(), NameError> {
    for (i, arg) in args.iter().enumerate() {
        out.push_str(if i == 0 { "[[" } else { ",[" });
        let assembly = arg.write_wire_name(types, out)?;
        out.push_str(", ");
        out.push_str(assembly);
        out.push(']');
    }
    if !args.is_empty() {
        out.push(']');
    }
    Ok(())
}

/// Reads a type's name as it travels, qualified or not, with or without versions. Assemblies are
/// not compared: a name is resolved among the contract's types and the framework's, and stays a
/// [`Type::Named`] otherwise.
///
/// # Errors
/// When the text is not such a name.
pub(super) fn read_wire_name(text: &str, types: &Types) -> Result<Type, NameError> {
    let mut reader = WireReader { text, at: 0, types };
    let ty = reader.read(0)?;
    reader.skip_blanks();
    match reader.peek() {
        // The assembly and its attributes.
        None | Some(b',') => Ok(ty),
        Some(_) => Err(reader.error()),
    }
}

struct WireReader<'a> {
    text: &'a str,
    at: usize,
    types: &'a Types,
}

impl<'a> WireReader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn error(&self) -> NameError {
        NameError::new(format!(
            "{:?} is not a type name (byte {})",
            self.text, self.at
        ))
    }

    fn skip_blanks(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    fn take_until(&mut self, stops: &[u8]) -> &'a str {
        let start = self.at;
        while let Some(byte) = self.peek() {
            if stops.contains(&byte) {
                break;
            }
            self.at += 1;
        }
        // The stops are ASCII, so both ends are character boundaries.
        &self.text[start..self.at]
    }

    fn expect(&mut self, byte: u8) -> Result<(), NameError> {
        if self.peek() != Some(byte) {
            return Err(self.error());
        }
        self.at += 1;
        Ok(())
    }

    fn read(&mut self, depth: usize) -> Result<Type, NameError> {
        if depth >= MAX_TYPE_DEPTH {
            return Err(NameError::new("a type name is nested too deeply"));
        }
        self.skip_blanks();
        let name = self.take_until(b"[],&* ");
        if name.is_empty() {
            return Err(self.error());
        }
        let mut args = Vec::new();
        if self.text[self.at..].starts_with('[')
            && !matches!(
                self.text.as_bytes().get(self.at + 1),
                Some(b']' | b',' | b'*') | None
            )
        {
            self.at += 1;
            loop {
                self.skip_blanks();
                args.push(if self.peek() == Some(b'[') {
                    self.at += 1;
                    let arg = self.read(depth + 1)?;
                    self.take_until(b"]");
                    self.expect(b']')?;
                    arg
                } else {
                    self.read(depth + 1)?
                });
                self.skip_blanks();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    _ => break,
                }
            }
            self.expect(b']')?;
        }
        let mut ty = self.types.by_wire_definition(name, args);
        loop {
            match self.peek() {
                Some(b'[') => {
                    self.at += 1;
                    let rank = self.take_until(b"]").len() + 1;
                    self.expect(b']')?;
                    let rank = u8::try_from(rank)
                        .ok()
                        .filter(|r| *r <= 32)
                        .ok_or_else(|| self.error())?;
                    ty = Type::Array(Arc::new(ty), rank);
                }
                Some(b'&') => {
                    self.at += 1;
                    ty = Type::ByRef(Arc::new(ty));
                }
                Some(b'*') => return Err(self.error()),
                _ => break,
            }
            if ty.depth() > MAX_TYPE_DEPTH {
                return Err(NameError::new("a type name is nested too deeply"));
            }
        }
        Ok(ty)
    }
}

impl Types {
    /// The type with this definition name (backtick form) and these arguments.
    fn by_wire_definition(&self, name: &str, args: Vec<Type>) -> Type {
        if let Some((index, definition)) = self.find_definition(name)
            && definition.generics.len() == args.len()
        {
            return Type::Declared(Arc::new(DeclaredRef {
                index,
                name: definition.name_arc(),
                args,
                value_type: definition.is_value_type(),
            }));
        }
        if args.is_empty() {
            if name == "System.Void" {
                return Type::Void;
            }
            if let Some(scalar) = Scalar::by_full_name(name) {
                return Type::Scalar(scalar);
            }
        }
        let (plain, arity) = super::types::split_arity(name);
        if arity == args.len() {
            if plain == "System.Nullable"
                && let [inner] = args.as_slice()
            {
                return Type::Nullable(Arc::new(inner.clone()));
            }
            if let Some(framework) = Framework::by_full_name(plain, arity) {
                return Type::Framework(framework, args.into());
            }
        }
        Type::Named(Arc::new(Named {
            name: name.into(),
            args,
        }))
    }
}

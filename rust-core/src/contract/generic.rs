//! Type parameters and type arguments of methods: which of the two a line has between its brackets,
//! what a `where T = int` says, and which types can be arguments at all.

use super::declared::Types;
use super::names::NameError;
use super::parse::parse_type;
use super::resolve::Scope;
use super::syntax::{GenericSyntax, MethodSyntax, ParseError, TypeSyntax, is_keyword};
use super::types::{MAX_TYPE_DEPTH, Type};

/// The type parameters of a line; for a closed one, such as `Echo<int>(int)`, their type arguments
/// too.
///
/// A plain word that C# or the contract knows as a type is an argument, any other one a parameter.
pub(super) fn parameters(
    types: &Types,
    syntax: &MethodSyntax,
) -> Result<(Vec<GenericSyntax>, Vec<Type>), ParseError> {
    let mut parameters: Vec<GenericSyntax> = Vec::new();
    let mut arguments = Vec::new();
    // What is wrong with the first word that is no type, if the others are.
    let mut unknown = None;
    for item in &syntax.brackets {
        let named = |clause: &&_| Some(clause_name(clause)) == item.as_word();
        let clauses: Vec<_> = syntax.clauses.iter().filter(named).collect();
        let is_parameter = |word: &str| !is_keyword(word) && !clauses.is_empty();
        if item.as_word().is_some_and(is_parameter) {
            parameters.push(parameter(item, &clauses));
            continue;
        }
        match Scope::of(types).resolve(item) {
            Ok(ty) => arguments.push(ty),
            Err(error) if item.as_word().is_none_or(is_keyword) => return Err(error),
            Err(error) => {
                parameters.push(parameter(item, &clauses));
                unknown = unknown.or(Some(error));
            }
        }
    }
    for (i, parameter) in parameters.iter().enumerate() {
        if parameters[..i].iter().any(|p| p.name == parameter.name) {
            return Err(ParseError::new(
                1,
                format!("there are two type parameters {}", parameter.name),
            ));
        }
    }
    match (parameters.is_empty(), arguments.is_empty()) {
        (_, true) => Ok((parameters, arguments)),
        (true, false) => {
            for (item, argument) in syntax.brackets.iter().zip(&arguments) {
                check_argument(argument)
                    .map_err(|e| ParseError::new(item.column, e.to_string()))?;
            }
            let placeholder = |i| GenericSyntax {
                name: format!("T{i}"),
                value_type: false,
            };
            Ok(((1..=arguments.len()).map(placeholder).collect(), arguments))
        }
        (false, false) => Err(unknown.unwrap_or_else(|| {
            ParseError::new(
                syntax.brackets[0].column,
                "type parameters and type arguments are mixed: give all arguments or none",
            )
        })),
    }
}

/// Whether a word is known as a type.
pub(super) fn is_type(types: &Types, word: &str) -> bool {
    parse_type(word).is_ok_and(|syntax| Scope::of(types).resolve(&syntax).is_ok())
}

fn clause_name(clause: &super::syntax::WhereSyntax) -> &str {
    &clause.name
}

fn parameter(item: &TypeSyntax, clauses: &[&super::syntax::WhereSyntax]) -> GenericSyntax {
    GenericSyntax {
        name: item.as_word().unwrap_or_default().to_owned(),
        value_type: clauses.iter().any(|clause| clause.value_type),
    }
}

/// The type arguments that the `where T = int` of a line give: none, or one for each parameter.
pub(super) fn arguments(types: &Types, syntax: &MethodSyntax) -> Result<Vec<Type>, ParseError> {
    let given: Vec<_> = syntax
        .clauses
        .iter()
        .filter_map(|clause| Some((clause, clause.argument.as_ref()?)))
        .collect();
    if given.is_empty() {
        return Ok(Vec::new());
    }
    for (i, (clause, _)) in given.iter().enumerate() {
        let name = &clause.name;
        if !syntax
            .brackets
            .iter()
            .any(|item| item.as_word() == Some(name))
        {
            return Err(ParseError::new(
                clause.column,
                format!("{} has no type parameter {name}", syntax.name),
            ));
        }
        if given[..i].iter().any(|(other, _)| other.name == *name) {
            return Err(ParseError::new(
                clause.column,
                format!("{name} is given twice"),
            ));
        }
    }
    syntax
        .brackets
        .iter()
        .map(|item| {
            let name = item.as_word().unwrap_or_default();
            match given.iter().find(|(clause, _)| clause.name == name) {
                Some((_, argument)) => Scope::of(types).resolve(argument),
                None => Err(ParseError::new(
                    item.column,
                    format!("{name} is not given: add \"where {name} = ...\""),
                )),
            }
        })
        .collect()
}

/// Refuses what can't be a type argument, in C# as on the wire.
pub(super) fn check_argument(ty: &Type) -> Result<(), NameError> {
    match ty {
        Type::Void | Type::Untyped | Type::Unresolved(_) | Type::Parameter(_) | Type::ByRef(_) => {
            Err(NameError::new(format!("{ty} is no type argument")))
        }
        _ if ty.depth() > MAX_TYPE_DEPTH => {
            Err(NameError::new("a type argument is nested too deeply"))
        }
        _ => ty.arguments().iter().try_for_each(check_argument),
    }
}

/// Refuses what became of a type with its type arguments, if no peer would take it.
pub(super) fn check_closed(ty: &Type) -> Result<(), NameError> {
    if ty.depth() > MAX_TYPE_DEPTH {
        return Err(NameError::new(format!(
            "with these type arguments a type is nested more than {MAX_TYPE_DEPTH} levels deep"
        )));
    }
    check_nullables(ty)
}

/// Refuses `Nullable<X>` where `X` turned out to be no value type.
fn check_nullables(ty: &Type) -> Result<(), NameError> {
    if let Type::Nullable(inner) = ty
        && (inner.is_value_type() == Some(false) || matches!(**inner, Type::Nullable(_)))
    {
        return Err(NameError::new(format!("{ty}: {inner} is no value type")));
    }
    ty.arguments().iter().try_for_each(check_nullables)
}

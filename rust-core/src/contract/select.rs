//! Which of several methods a request without a known id means: by name, parameter types and type
//! arguments (`protocol.md` 15.3, and better than there where one can be).

use super::method::{Method, Param};
use super::types::Type;

/// Whether two names of methods are the same on the wire: case is ignored, and nothing else.
pub(crate) fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
        || (!(a.is_ascii() && b.is_ascii()) && a.chars().map(fold).eq(b.chars().map(fold)))
}

/// The capital of a letter, if that is one character; and not an ASCII one of another letter, as an `I`
/// for a dotless i.
fn fold(letter: char) -> char {
    let mut capitals = letter.to_uppercase();
    match (capitals.next(), capitals.next()) {
        (Some(capital), None) if letter.is_ascii() || !capital.is_ascii() => capital,
        _ => letter,
    }
}

/// Whether a method can be meant at all, before any type is looked at.
pub(crate) fn may_be(method: &Method, name: &str, params: usize, generics: usize) -> bool {
    method.params().len() == params
        && (!method.is_generic() || method.generic_arity() == generics)
        && same_name(method.name(), name)
}

/// The method that is meant, with its type arguments, and its place among `methods`.
///
/// Parameter types must be exactly these. Among several, one whose name has the same case comes
/// first, then one with as many type parameters as there are arguments, then the first; type
/// arguments for a method without parameters for them are ignored.
pub(crate) fn select<'a>(
    methods: impl IntoIterator<Item = &'a Method>,
    name: &str,
    params: &[Type],
    generics: &[Type],
) -> Option<(usize, Method)> {
    let candidates = methods
        .into_iter()
        .enumerate()
        .filter(|(_, method)| may_be(method, name, params.len(), generics.len()));
    let fitting = candidates.filter_map(|(i, method)| {
        let closed = match method.is_open() {
            true => method.instantiate(generics).ok()?,
            false => method.clone(),
        };
        let same = closed.params().iter().map(Param::ty).eq(params);
        same.then_some((i, closed))
    });
    // The first of the least.
    fitting.min_by_key(|(_, method)| {
        (
            method.name() != name,
            method.generic_arity() != generics.len(),
        )
    })
}

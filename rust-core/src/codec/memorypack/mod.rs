//! MemoryPack, by declared type, as version 1.21 of the .NET library writes it.
//!
//! Owns two notions that the library has: a type's *formatter*, which writes headers and variable
//! parts, and the *raw* form of types without references, which are copied as they lie in the
//! memory of .NET. Which one applies depends on the place: arrays, lists, nullables and members of
//! classes are raw where they can be.

mod decode;
mod encode;
mod raw;

pub(super) use decode::decode;
pub(super) use encode::encode;

use super::error::CodecError;
use crate::contract::{Framework, Shape};

/// Deepest nesting of a value.
const MAX_DEPTH: usize = super::schema::MAX_BINARY_DEPTH;

fn too_deep() -> CodecError {
    CodecError::new(format!("nested more than {MAX_DEPTH} levels deep"))
}

/// Whether the library copies the items of this collection as one block where it can; the others
/// go through the formatter of the item.
fn copies_items(framework: &Framework) -> bool {
    matches!(
        framework.name(),
        "List"
            | "Stack"
            | "IEnumerable"
            | "IReadOnlyCollection"
            | "IReadOnlyList"
            | "ICollection"
            | "IList"
            | "ImmutableArray"
    )
}

/// Whether the items travel in the reverse of the order in which .NET enumerates them.
fn reverses_items(framework: &Framework) -> bool {
    framework.shape() == Shape::Stack
}

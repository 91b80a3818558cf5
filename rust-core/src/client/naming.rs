//! How a call says which method it means: by id, or by name with the names of types.
//!
//! Owns which of the two is sent. What a server makes of it is in `server::lookup`.

use std::sync::Arc;

use crate::contract::{Method, NameError, TypeName};
use crate::wire::{ParameterType, TypeNames};

/// How a call says which method it means.
///
/// Generic methods, and others without an id, always travel by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MethodLookup {
    /// By id alone: the smallest request, and the quickest for the server.
    #[default]
    Id,
    /// By id, with name and types beside it, as a .NET client sends. A server that does not know the
    /// id looks for the name: for one that serves the contract under another name, such as a derived
    /// interface.
    IdOrName,
    /// By name and types alone.
    Name,
}

/// How the types of a call that travels by name are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TypeNameForm {
    /// Name and assembly apart. A .NET server that does not know a type says that it has no such
    /// method.
    #[default]
    Weak,
    /// The form of `System.Type`, which a .NET client sends by default. A .NET server that does not
    /// know a type can't read the request, and says only that it is empty.
    Strong,
}

/// What a client is set to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Naming {
    pub(super) lookup: MethodLookup,
    pub(super) form: TypeNameForm,
}

impl Naming {
    /// The names that a call of this method carries, if it does.
    pub(super) fn names(self, method: &Method) -> Result<Option<Arc<TypeNames>>, NameError> {
        if self.lookup == MethodLookup::Id && method.method_id() != 0 {
            return Ok(None);
        }
        let (params, generics) = (method.param_type_names()?, method.generic_arg_names()?);
        Ok(Some(Arc::new(match self.form {
            TypeNameForm::Weak => TypeNames {
                parameters_by_name: params.into_iter().map(apart).collect(),
                generics_by_name: generics.into_iter().map(apart).collect(),
                ..TypeNames::default()
            },
            TypeNameForm::Strong => TypeNames {
                parameters: params.iter().map(TypeName::qualified).collect(),
                generics: generics.iter().map(TypeName::qualified).collect(),
                ..TypeNames::default()
            },
        })))
    }

    /// The id that a call of this method carries.
    pub(super) fn id(self, method: &Method) -> i64 {
        match self.lookup {
            MethodLookup::Name => 0,
            MethodLookup::Id | MethodLookup::IdOrName => method.method_id(),
        }
    }
}

fn apart(name: TypeName) -> ParameterType {
    ParameterType {
        name: Some(name.name),
        assembly: Some(name.assembly),
    }
}

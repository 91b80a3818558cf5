//! How calls say which method they mean, and what a handler is told of type arguments.

use std::ffi::{CString, c_char};

use witrpc_core::client::{MethodLookup, TypeNameForm};

use crate::client_options::{change, witrpc_client_options};
use crate::guard::Failure;
use crate::request::{look, witrpc_request};
use crate::status::witrpc_status;
use crate::text::c_string;

/// How a call says which method it means. Generic methods, and others without an id, always travel
/// by name.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum witrpc_method_lookup {
    /// By id alone: the smallest request, and the quickest for the server. The default.
    WITRPC_LOOKUP_ID = 0,
    /// By id, with name and types beside it, as a .NET client sends. A server that does not know the
    /// id looks for the name: for one that serves the contract under another name, such as a derived
    /// interface.
    WITRPC_LOOKUP_ID_OR_NAME = 1,
    /// By name and types alone.
    WITRPC_LOOKUP_NAME = 2,
}

/// How the types of a call that travels by name are named.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum witrpc_type_names {
    /// Name and assembly apart. A .NET server that does not know a type says that it has no such
    /// method. The default.
    WITRPC_TYPE_NAMES_WEAK = 0,
    /// The form of System.Type, which a .NET client sends by default. A .NET server that does not
    /// know a type can't read the request, and says only that it is empty.
    WITRPC_TYPE_NAMES_STRONG = 1,
}

/// What a client is set to.
#[derive(Clone, Copy, Default)]
pub(crate) struct Naming {
    pub(crate) lookup: MethodLookup,
    pub(crate) form: TypeNameForm,
}

pub(crate) fn lookup_of(lookup: i32) -> Result<MethodLookup, Failure> {
    Ok(match lookup {
        0 => MethodLookup::Id,
        1 => MethodLookup::IdOrName,
        2 => MethodLookup::Name,
        _ => return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into()),
    })
}

/// How calls say which method they mean (witrpc_method_lookup). Default WITRPC_LOOKUP_ID. One call can
/// be made otherwise with witrpc_call_options_method_lookup.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_method_lookup(
    options: *mut witrpc_client_options,
    lookup: i32,
) -> i32 {
    change(options, |o| {
        o.naming.lookup = lookup_of(lookup)?;
        Ok(())
    })
}

/// How types are named in calls that travel by name, generic methods among them
/// (witrpc_type_names). Default WITRPC_TYPE_NAMES_WEAK.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_type_names(
    options: *mut witrpc_client_options,
    form: i32,
) -> i32 {
    change(options, |o| {
        o.naming.form = match form {
            0 => TypeNameForm::Weak,
            1 => TypeNameForm::Strong,
            _ => return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into()),
        };
        Ok(())
    })
}

/// The type arguments of a request, as C# writes them.
pub(crate) fn type_arguments(method: &witrpc_core::contract::Method) -> Vec<CString> {
    let all = method.generic_args().iter();
    all.map(|ty| c_string(&ty.to_string())).collect()
}

/// The `index`-th type argument of a generic method that is called, from 0, as C# writes it: "int",
/// "List<Demo.Person>". NUL-terminated, valid until the request is ended; NULL after the last one, for
/// a method that is not generic and for a bad handle.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_request_type_argument(
    request: *const witrpc_request,
    index: usize,
) -> *const c_char {
    look(request, std::ptr::null(), |r| {
        let argument = r.type_arguments.get(index);
        argument.map_or(std::ptr::null(), |text| text.as_ptr())
    })
}

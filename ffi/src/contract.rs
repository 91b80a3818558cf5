//! Contracts: what is known of a service's methods, events and types.

use std::ffi::c_char;

use witrpc_core::Error;
use witrpc_core::contract::Contract;

use crate::error::witrpc_error;
use crate::guard::{self, Failure};
use crate::handle::{self, Object};
use crate::text;

/// A contract: the methods, events and data types of a service. Immutable and shared: it may be
/// freed as soon as it has been handed to a client or an implementation.
pub struct witrpc_contract {
    _private: [u8; 0],
}

pub(crate) struct ContractObject(pub(crate) Contract);

impl Object for ContractObject {
    type Opaque = witrpc_contract;
    const KIND: usize = 3;
}

/// Reads a contract from its exchange form, the text of a *.witrpc.json file (described in
/// docs/contract-format.md). `size` in bytes.
///
/// On success `*out` is a new contract, to be freed with witrpc_contract_free. Fails with
/// WITRPC_INVALID_ARGUMENT and the place of what is wrong. Does not block; any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_contract_from_json_n(
    json: *const c_char,
    size: usize,
    out: *mut *mut witrpc_contract,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ContractObject>(std::ptr::null(), error, || {
            from_json(text::sized(json, size, "json")?, out)
        }) as i32
    }
}

/// The same with a NUL-terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_contract_from_json(
    json: *const c_char,
    out: *mut *mut witrpc_contract,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ContractObject>(std::ptr::null(), error, || {
            from_json(text::terminated(json, "json")?, out)
        }) as i32
    }
}

/// The same from a file (its path NUL-terminated), which is read before this function returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_contract_from_file(
    path: *const c_char,
    out: *mut *mut witrpc_contract,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ContractObject>(std::ptr::null(), error, || {
            let out = guard::out(out)?;
            let path = text::terminated(path, "path")?;
            let json = std::fs::read_to_string(path).map_err(|e| {
                Error::invalid_argument(format!("contract: can't read {path}: {e}"))
            })?;
            from_json(&json, out)
        }) as i32
    }
}

unsafe fn from_json(json: &str, out: *mut *mut witrpc_contract) -> Result<(), Failure> {
    // SAFETY: the caller vouches for `out`.
    unsafe {
        let out = guard::out(out)?;
        let contract = Contract::from_json(json)
            .map_err(|e| Error::invalid_argument(format!("contract: {e}")))?;
        guard::give(out, ContractObject(contract))
    }
}

/// Frees a contract. NULL and a freed one are allowed. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_contract_free(contract: *mut witrpc_contract) {
    guard::value((), || {
        drop(handle::remove::<ContractObject>(contract));
        None
    });
}

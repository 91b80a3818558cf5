//! Clients described by name in a file.

use std::ffi::c_char;
use std::path::Path;

use parking_lot::Mutex;
use witrpc_core::config::ClientConfig;

use crate::client_options::{ClientOptionsObject, Options, change, witrpc_client_options};
use crate::error::witrpc_error;
use crate::guard;
use crate::text;

/// Starts options from what a `witrpc.toml` says about the client `name` (docs/named-clients.md). `path`
/// may be NULL: then the file is the one that the environment variable WITRPC_CONFIG names, else
/// witrpc.toml in the working directory. Both NUL-terminated. What is set afterwards comes on top.
///
/// On success `*out` is a new handle, to be freed with witrpc_client_options_free. Fails with
/// WITRPC_INVALID_ARGUMENT, and the place of what is wrong. Reads the file before it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_named(
    path: *const c_char,
    name: *const c_char,
    out: *mut *mut witrpc_client_options,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ClientOptionsObject>(std::ptr::null(), error, || {
            let out = guard::out(out)?;
            let name = text::terminated(name, "name")?;
            let path = match path.is_null() {
                true => None,
                false => Some(Path::new(text::terminated(path, "path")?)),
            };
            let options = Options::from_config(ClientConfig::load(path, name)?);
            guard::give(out, ClientOptionsObject(Mutex::new(options)))
        }) as i32
    }
}

/// What clients are called in health reports, NUL-terminated. Default: nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_name(
    options: *mut witrpc_client_options,
    name: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands a valid pointer.
        o.name = unsafe { text::terminated(name, "name") }?.to_owned();
        Ok(())
    })
}

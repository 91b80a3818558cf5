//! Text and bytes from the caller, checked at the edge.

use std::ffi::{CStr, CString, c_char};

use uuid::Uuid;
use witrpc_core::Error;

use crate::guard::Failure;
use crate::status::witrpc_status;

/// Borrows bytes.
///
/// # Safety
/// `data` must be NULL or point to `size` bytes that live and do not change for `'a`.
pub(crate) unsafe fn bytes<'a>(data: *const u8, size: usize) -> Result<&'a [u8], Failure> {
    if size == 0 {
        return Ok(&[]);
    }
    if data.is_null() || isize::try_from(size).is_err() {
        return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into());
    }
    // SAFETY: not null, the size is possible, and the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(data, size) })
}

/// Borrows text given by pointer and size. `what` names it in the error.
///
/// # Safety
/// As for [`bytes`].
pub(crate) unsafe fn sized<'a>(
    data: *const c_char,
    size: usize,
    what: &str,
) -> Result<&'a str, Failure> {
    // SAFETY: the caller vouches for it.
    utf8(unsafe { bytes(data.cast(), size) }?, what)
}

/// Borrows a C string. NULL is an error.
///
/// # Safety
/// `text` must be NULL or point to a NUL-terminated string that lives and does not change for
/// `'a`.
pub(crate) unsafe fn terminated<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Error::invalid_argument(format!("{what} is NULL")).into());
    }
    // SAFETY: not null, and the caller vouches for the rest.
    utf8(unsafe { CStr::from_ptr(text) }.to_bytes(), what)
}

fn utf8<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, Failure> {
    std::str::from_utf8(bytes).map_err(|e| {
        Error::invalid_argument(format!("{what} is not UTF-8 at byte {}", e.valid_up_to())).into()
    })
}

/// Writes the 16 bytes of an id, in the order in which a UUID is printed.
///
/// # Safety
/// `out` must be NULL or have room for 16 bytes.
pub(crate) unsafe fn give_id(id: Uuid, out: *mut u8) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Error::invalid_argument("id is NULL").into());
    }
    let bytes = id.into_bytes();
    // SAFETY: not null, and the caller vouches for the room.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out, bytes.len()) };
    Ok(())
}

/// Text for the caller. What C can't hold, a NUL within it, is shown as U+FFFD.
pub(crate) fn c_string(text: &str) -> CString {
    let text = text.replace('\0', "\u{FFFD}");
    CString::new(text).unwrap_or_default()
}

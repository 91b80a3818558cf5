//! The border: no panic gets out, results become statuses, errors become handles.

use std::panic::{AssertUnwindSafe, catch_unwind};

use witrpc_core::{Error, ErrorCode};

use crate::error::{ErrorObject, witrpc_error};
use crate::handle::{self, Object};
use crate::status::witrpc_status;

/// Why a function fails.
pub(crate) enum Failure {
    /// Only a status: a handle or pointer was wrong.
    Status(witrpc_status),
    /// With an error object.
    Error(Error),
}

impl From<witrpc_status> for Failure {
    fn from(status: witrpc_status) -> Self {
        Self::Status(status)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Failure {
    pub(crate) fn status(&self) -> witrpc_status {
        match self {
            Self::Status(status) => *status,
            Self::Error(error) => error.code().into(),
        }
    }

    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Error(error) => error,
            Self::Status(witrpc_status::WITRPC_INVALID_HANDLE) => {
                Error::invalid_argument("the handle is NULL, was freed, or is of another kind")
            }
            Self::Status(witrpc_status::WITRPC_WOULD_DEADLOCK) => Error::invalid_argument(
                "waiting here would be waiting for the callback or handler that this was called from",
            ),
            Self::Status(witrpc_status::WITRPC_INTERNAL) => Error::new(
                ErrorCode::Internal,
                "the object was damaged by an earlier defect",
            ),
            Self::Status(_) => Error::invalid_argument("an argument is NULL that must not be"),
        }
    }
}

/// Runs the body of a function and reports its end by status, and by an error object if the caller
/// gave a place for one. `subject` is the handle that a panic would leave damaged.
///
/// # Safety
/// `error` must be NULL or point to memory that may be written.
pub(crate) unsafe fn run<T: Object>(
    subject: *const T::Opaque,
    error: *mut *mut witrpc_error,
    body: impl FnOnce() -> Result<(), Failure>,
) -> witrpc_status {
    if !error.is_null() {
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { error.write(std::ptr::null_mut()) };
    }
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return witrpc_status::WITRPC_OK,
        Ok(Err(failure)) => failure,
        Err(panic) => {
            handle::poison::<T>(subject);
            Failure::Error(defect(&*panic))
        }
    };
    let status = failure.status();
    if !error.is_null() {
        let object = handle::insert(ErrorObject::new(failure.into_error()));
        // SAFETY: as above.
        unsafe { error.write(object) };
    }
    status
}

/// Like [`run`] for functions that give a value and need no error object.
pub(crate) fn value<R>(fallback: R, body: impl FnOnce() -> Option<R>) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value.unwrap_or(fallback),
        Err(panic) => {
            tracing::error!("{}", defect(&*panic));
            fallback
        }
    }
}

fn defect(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text");
    Error::new(
        ErrorCode::Internal,
        format!("a defect in libwitrpc: {text}"),
    )
}

/// Checks a place for a result and empties it.
///
/// # Safety
/// `out` must be NULL or point to memory that may be written.
pub(crate) unsafe fn out<P>(out: *mut *mut P) -> Result<*mut *mut P, Failure> {
    if out.is_null() {
        return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into());
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { out.write(std::ptr::null_mut()) };
    Ok(out)
}

/// Hands a new handle out.
///
/// # Safety
/// `out` must be one that [`out()`] returned.
pub(crate) unsafe fn give<T: Object>(out: *mut *mut T::Opaque, object: T) -> Result<(), Failure> {
    let handle = handle::insert(object);
    if handle.is_null() {
        return Err(Error::new(ErrorCode::Overloaded, "too many handles").into());
    }
    // SAFETY: the caller has it from `out`.
    unsafe { out.write(handle) };
    Ok(())
}

/// Fills a struct of the caller's, as much of it as the caller knows. Its first field is its size.
///
/// # Safety
/// `out` must be NULL or point to a struct whose first field says how many bytes of it are there.
pub(crate) unsafe fn fill<S: Copy>(out: *mut S, filled: S) -> Result<(), Failure> {
    const FIRST: usize = size_of::<usize>();
    if out.is_null() {
        return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into());
    }
    // SAFETY: not null; the size comes first.
    let size = unsafe { out.cast::<usize>().read_unaligned() };
    if size < FIRST {
        return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into());
    }
    let known = size.min(size_of::<S>());
    // SAFETY: `known` bytes are there on both sides; the size field is left as it is.
    unsafe {
        std::ptr::copy_nonoverlapping(
            (&raw const filled).cast::<u8>().add(FIRST),
            out.cast::<u8>().add(FIRST),
            known - FIRST,
        );
    }
    Ok(())
}

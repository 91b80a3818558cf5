//! Errors as Python exceptions. The classes are the package's, in `witrpc.errors`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use witrpc::Error;

static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static FORKED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The exception object of an error.
pub(crate) fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let make = MAKE.get_or_try_init(py, || {
        PyResult::Ok(py.import("witrpc.errors")?.getattr("_make")?.unbind())
    })?;
    make.bind(py).call1((
        error.code().name(),
        error.message(),
        error.details(),
        error.outcome().name(),
        error.attempts(),
        error.replayed(),
        error.is_retryable(),
        error.retry_after_ms(),
    ))
}

/// The error, to be raised.
pub(crate) fn raise(error: Error) -> PyErr {
    Python::attach(|py| match exception(py, &error) {
        Ok(exception) => PyErr::from_value(exception),
        Err(failed) => failed,
    })
}

/// An answer that can't be read.
pub(crate) fn unreadable(message: &str, details: &str) -> PyErr {
    Python::attach(|py| {
        let made = MAKE
            .get_or_try_init(py, || {
                PyResult::Ok(py.import("witrpc.errors")?.getattr("_make")?.unbind())
            })
            .and_then(|make| {
                let fields = ("protocol", message, details, "answered", 0, false, false);
                make.bind(py).call1(fields)
            });
        made.map_or_else(|failed| failed, PyErr::from_value)
    })
}

/// A wrong argument.
pub(crate) fn invalid(message: impl Into<String>) -> PyErr {
    raise(Error::invalid_argument(message))
}

/// What is said in a process that did not make the object.
pub(crate) fn forked() -> PyErr {
    Python::attach(|py| {
        let make = FORKED.get_or_try_init(py, || {
            PyResult::Ok(py.import("witrpc.errors")?.getattr("_forked")?.unbind())
        });
        match make.and_then(|make| make.bind(py).call0()) {
            Ok(exception) => PyErr::from_value(exception),
            Err(failed) => failed,
        }
    })
}

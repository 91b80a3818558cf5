//! Bytes that Python reads where they lie: an encoded result, and arguments that are encoded already.

use std::ffi::{c_int, c_void};

use bytes::Bytes;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::convert;

/// Bytes of the library, readable through the buffer protocol: `memoryview(buffer)`.
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct Buffer(pub(crate) Bytes);

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0)
    }

    /// # Safety
    /// Called by the interpreter alone, with a view to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("the bytes are read-only"));
        }
        let (data, size) = {
            let bytes = &slf.get().0;
            (bytes.as_ptr().cast::<c_void>().cast_mut(), bytes.len())
        };
        let size = isize::try_from(size).map_err(|_| PyBufferError::new_err("too large"))?;
        // SAFETY: the view is the interpreter's; the bytes never move or change while this object
        // lives, and the view holds a reference to it.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), data, size, 1, flags) };
        if filled == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}

/// The bytes of a Python object: without a copy of `bytes` and of what this module gave out, else
/// copied, since anybody may change them.
pub(crate) fn bytes_of(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(own) = object.cast::<Buffer>() {
        return Ok(own.get().0.clone());
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Bytes::from_owner(PyBackedBytes::from(bytes.clone())));
    }
    convert::copied_bytes(object).map(Bytes::from)
}

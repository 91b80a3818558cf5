//! Results: text and bytes that the caller owns.

use std::ffi::c_char;
use std::ptr::{null, null_mut};

use bytes::Bytes;

use crate::guard;
use crate::handle::{self, Object};

/// Bytes that the library made: a result as JSON text, or an encoded one. Owned by whoever got it;
/// free it with witrpc_buffer_free. Buffers that a callback is given are borrowed until it returns;
/// witrpc_buffer_retain keeps one for longer, without a copy.
pub struct witrpc_buffer {
    _private: [u8; 0],
}

pub(crate) enum BufferObject {
    /// Text with a NUL behind it.
    Text(Box<[u8]>),
    Bytes(Bytes),
}

impl Object for BufferObject {
    type Opaque = witrpc_buffer;
    const KIND: usize = 2;
}

impl BufferObject {
    pub(crate) fn text(text: String) -> Self {
        let mut bytes = text.into_bytes();
        bytes.push(0);
        Self::Text(bytes.into_boxed_slice())
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => &text[..text.len() - 1],
            Self::Bytes(bytes) => bytes,
        }
    }
}

fn look<R>(buffer: *const witrpc_buffer, fallback: R, f: impl FnOnce(&BufferObject) -> R) -> R {
    guard::value(fallback, || {
        Some(f(&*handle::get::<BufferObject>(buffer).ok()?))
    })
}

/// The bytes, valid until the buffer is freed; NULL for a bad handle. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_buffer_data(buffer: *const witrpc_buffer) -> *const u8 {
    look(buffer, null(), |b| b.bytes().as_ptr())
}

/// How many bytes there are; 0 for a bad handle. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_buffer_size(buffer: *const witrpc_buffer) -> usize {
    look(buffer, 0, |b| b.bytes().len())
}

/// The text, UTF-8 and NUL-terminated, valid until the buffer is freed; NULL for a bad handle and
/// for a buffer of encoded bytes. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_buffer_text(buffer: *const witrpc_buffer) -> *const c_char {
    look(buffer, null(), |b| match b {
        BufferObject::Text(text) => text.as_ptr().cast(),
        BufferObject::Bytes(_) => null(),
    })
}

/// One more handle of the same bytes, to be freed on its own; NULL for a bad handle. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_buffer_retain(buffer: *const witrpc_buffer) -> *mut witrpc_buffer {
    guard::value(null_mut(), || {
        Some(handle::insert_shared(
            handle::get::<BufferObject>(buffer).ok()?,
        ))
    })
}

/// Frees a buffer. NULL and a freed one are allowed. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_buffer_free(buffer: *mut witrpc_buffer) {
    guard::value((), || {
        drop(handle::remove::<BufferObject>(buffer));
        None
    });
}

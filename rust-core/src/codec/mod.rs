//! Codecs: how arguments, results and event arguments become bytes and come back.
//!
//! Owns values, the JSON text in which they are shown, and the parameter codecs of WitRPC, all by
//! declared type. It knows nothing of requests, sockets or time.

mod blob;
mod call;
mod decimal;
mod error;
mod json;
mod memorypack;
mod messagepack;
mod number;
mod protobuf;
mod schema;
mod time;
mod time_text;
mod value;

pub(crate) use json::base64;

pub use blob::Codec;
pub use decimal::{Decimal, DecimalError};
pub use error::{CodecError, Result};
pub use json::{Dialect, RawJson};
pub use number::Half;
pub use time::{DateOnly, DateTime, DateTimeKind, DateTimeOffset, TimeOnly, TimeSpan};
pub use value::{Object, Value};

//! The bytes of WitRPC: stream framing, the envelope and its payload models.
//!
//! Owns every layout that a peer can see below the argument codecs, and the MemoryPack
//! primitives they are made of. Knows nothing of sockets, sessions or time.

mod call;
mod envelope;
pub mod extension;
pub mod frame;
mod handshake;
pub mod memorypack;
mod request;
mod response;
pub mod status;
mod tolerant;

pub use call::{Arguments, ArgumentsWriter, Call, TypeNames};
pub use envelope::{Envelope, Kind};
pub use handshake::{
    AuthorizationRequest, AuthorizationResponse, ENCRYPTION_REFUSED, InitializationRequest,
    InitializationResponse,
};
pub use memorypack::DecodeError;
pub use request::{ParameterType, Request};
pub use response::Response;

/// The protocol version that both ends must speak.
pub const PROTOCOL_VERSION: i32 = 3;

/// Largest frame body either end accepts unless told otherwise, in bytes (256 MiB, WitRPC's own
/// default).
pub const DEFAULT_MAX_FRAME: usize = 256 * 1024 * 1024;

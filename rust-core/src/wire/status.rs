//! The status numbers of a response, as WitRPC names them.

/// The call succeeded.
pub const OK: i32 = 200;
/// The request could not be understood, or no such method exists.
pub const BAD_REQUEST: i32 = 400;
/// No answer in time. WitRPC's servers never send it.
pub const TIMEOUT: i32 = 408;
/// The method failed.
pub const INTERNAL_SERVER_ERROR: i32 = 500;
/// The connection failed, or (from a libwitrpc server) the server refuses work for load.
pub const TRANSPORT_ERROR: i32 = 503;
/// The token of the request was refused.
pub const UNAUTHORIZED: i32 = 561;

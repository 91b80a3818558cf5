//! Status numbers, names, and the version of the library and of its ABI.

use std::ffi::{CStr, c_char};

use witrpc_core::ErrorCode;

/// The ABI this header describes: the major version in the upper 16 bits, the minor in the lower.
/// A library of the same major version and an equal or higher minor one can be used with it.
pub const WITRPC_ABI_VERSION: u32 = 0x0000_0001;

/// A time limit that never ends. The only way to let a call wait for ever.
pub const WITRPC_NO_TIMEOUT: u64 = 0xFFFF_FFFF_FFFF_FFFF;

/// How a function ended. Numbers never change; new ones may be added.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum witrpc_status {
    /// It succeeded.
    WITRPC_OK = 0,
    /// An argument is wrong: NULL where something is needed, text that is not UTF-8, a bad
    /// endpoint, method line, JSON text or option. Nothing was sent.
    WITRPC_INVALID_ARGUMENT = 1,
    /// The server understood no such request: unknown method, undecodable argument (WitRPC's
    /// status 400).
    WITRPC_BAD_REQUEST = 2,
    /// The token was refused, at the handshake or for this call (561).
    WITRPC_UNAUTHORIZED = 3,
    /// No answer, no connection, or no change of state in time (408).
    WITRPC_TIMEOUT = 4,
    /// The connection could not be made, was lost, or is not there (503).
    WITRPC_TRANSPORT = 5,
    /// The method failed on the server (500).
    WITRPC_REMOTE = 6,
    /// Whether the call was executed can't be told, and repeating it could execute it twice.
    WITRPC_OUTCOME_UNKNOWN = 7,
    /// The call was cancelled.
    WITRPC_CANCELLED = 8,
    /// A queue or limit is full, here or at the server (503).
    WITRPC_OVERLOADED = 9,
    /// The client or server is closed, or was disconnected by its user.
    WITRPC_CLOSED = 10,
    /// The peer broke the protocol, or speaks another version of it.
    WITRPC_PROTOCOL = 11,
    /// The peers do not agree on encryption.
    WITRPC_ENCRYPTION = 12,
    /// A certificate was not accepted.
    WITRPC_CERTIFICATE = 13,
    /// A defect in this library. The error's message says what is known.
    WITRPC_INTERNAL = 14,
    /// The handle is NULL, was freed, or is of another kind.
    WITRPC_INVALID_HANDLE = 15,
    /// Waiting here would be waiting for oneself: the function was called from the very callback
    /// thread, or handler, that must first return.
    WITRPC_WOULD_DEADLOCK = 16,
}

impl From<ErrorCode> for witrpc_status {
    fn from(code: ErrorCode) -> Self {
        match code {
            ErrorCode::InvalidArgument => Self::WITRPC_INVALID_ARGUMENT,
            ErrorCode::BadRequest => Self::WITRPC_BAD_REQUEST,
            ErrorCode::Unauthorized => Self::WITRPC_UNAUTHORIZED,
            ErrorCode::Timeout => Self::WITRPC_TIMEOUT,
            ErrorCode::Transport => Self::WITRPC_TRANSPORT,
            ErrorCode::Remote => Self::WITRPC_REMOTE,
            ErrorCode::OutcomeUnknown => Self::WITRPC_OUTCOME_UNKNOWN,
            ErrorCode::Cancelled => Self::WITRPC_CANCELLED,
            ErrorCode::Overloaded => Self::WITRPC_OVERLOADED,
            ErrorCode::Closed => Self::WITRPC_CLOSED,
            ErrorCode::Protocol => Self::WITRPC_PROTOCOL,
            ErrorCode::Encryption => Self::WITRPC_ENCRYPTION,
            ErrorCode::Certificate => Self::WITRPC_CERTIFICATE,
            _ => Self::WITRPC_INTERNAL,
        }
    }
}

/// The version of the library, as "0.1.0". Static; any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// The ABI of the library that is loaded; compare it with WITRPC_CHECK_ABI(). Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_abi_version() -> u32 {
    WITRPC_ABI_VERSION
}

/// The name of a status, as "timeout"; "unknown" for a number that is none. Static; any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_status_name(status: i32) -> *const c_char {
    let name = match status {
        0 => c"ok",
        1 => c"invalid_argument",
        2 => c"bad_request",
        3 => c"unauthorized",
        4 => c"timeout",
        5 => c"transport",
        6 => c"remote",
        7 => c"outcome_unknown",
        8 => c"cancelled",
        9 => c"overloaded",
        10 => c"closed",
        11 => c"protocol",
        12 => c"encryption",
        13 => c"certificate",
        14 => c"internal",
        15 => c"invalid_handle",
        16 => c"would_deadlock",
        _ => c"unknown",
    };
    name.as_ptr()
}

//! The options of a server that keep others out: encryption, the access token, and who checks it.

use std::ffi::{CString, c_char, c_void};
use std::future::Future;
use std::ptr::null;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use witrpc_core::server::{Credentials, ServerBuilder, Verdict};
use witrpc_core::transport::PeerAddr;

use crate::callback::{UserData, witrpc_destroy};
use crate::guard::{self, Failure};
use crate::handle::{self, Object};
use crate::presence::Presence;
use crate::server_options::{as_handler, change, witrpc_server_options};
use crate::status::witrpc_status;
use crate::text::{self, c_string};

/// Says whether a token is good, for each connection and each call. `token` and `peer` (address and
/// port) are NUL-terminated. If it is, it may name its bearer: at most `principal_size` bytes with a
/// NUL into `principal`, which is empty before; calls of one principal are told from those of
/// another. Must not block: it runs on an I/O thread.
pub type witrpc_validator = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        token: *const c_char,
        peer: *const c_char,
        principal: *mut c_char,
        principal_size: usize,
    ) -> bool,
>;

/// Says in time whether a token is good, for each connection and each call. Runs on a thread for
/// blocking work, several at once. It owns the check and must end it, now or later, on any thread,
/// with witrpc_check_accept or witrpc_check_refuse.
pub type witrpc_async_validator =
    Option<unsafe extern "C" fn(user_data: *mut c_void, check: *mut witrpc_check)>;

/// A token to be checked. An asynchronous validator owns it; freeing it without an answer refuses
/// the token.
pub struct witrpc_check {
    _private: [u8; 0],
}

struct CheckObject {
    token: CString,
    peer: CString,
    answer: Mutex<Option<oneshot::Sender<Verdict>>>,
}

impl Object for CheckObject {
    type Opaque = witrpc_check;
    const KIND: usize = 21;
}

impl CheckObject {
    fn end(&self, verdict: Verdict) {
        if let Some(sender) = self.answer.lock().take() {
            // Nobody waits any more if the connection has gone.
            let _ = sender.send(verdict);
        }
    }
}

impl Drop for CheckObject {
    fn drop(&mut self) {
        self.end(Verdict::Refused);
    }
}

/// Who is let in: what was set last.
#[derive(Clone)]
pub(crate) enum Access {
    Token(String),
    File(String),
    Validator(Arc<Validator>),
    AsyncValidator(Arc<AsyncValidator>),
}

pub(crate) struct Validator {
    function:
        unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, *mut c_char, usize) -> bool,
    user_data: UserData,
}

pub(crate) struct AsyncValidator {
    function: unsafe extern "C" fn(*mut c_void, *mut witrpc_check),
    user_data: UserData,
}

impl Access {
    pub(crate) fn install(self, builder: ServerBuilder, presence: &Arc<Presence>) -> ServerBuilder {
        let presence = presence.clone();
        match self {
            Self::Token(token) => builder.token(token),
            Self::File(path) => builder.token_file(path),
            Self::Validator(validator) => builder.validator(move |Credentials { token, peer }| {
                let verdict = presence.run(|| validator.check(token, peer));
                verdict.unwrap_or(Verdict::Refused)
            }),
            Self::AsyncValidator(validator) => {
                builder.validator_async(move |credentials| validator.check(credentials, &presence))
            }
        }
    }
}

impl Validator {
    fn check(&self, token: &str, peer: PeerAddr) -> Verdict {
        if token.contains('\0') {
            return Verdict::Refused;
        }
        let (token, peer) = (c_string(token), c_string(&peer.to_string()));
        let mut principal = [0_u8; 256];
        // SAFETY: the caller gave the function together with the user data; all pointers outlive
        // the call, and the size is that of the array.
        let accepted = unsafe {
            (self.function)(
                self.user_data.pointer(),
                token.as_ptr(),
                peer.as_ptr(),
                principal.as_mut_ptr().cast(),
                principal.len(),
            )
        };
        let end = principal
            .iter()
            .position(|b| *b == 0)
            .unwrap_or(principal.len());
        match std::str::from_utf8(&principal[..end]) {
            Ok(name) if accepted => Verdict::Accepted(name.into()),
            _ => Verdict::Refused,
        }
    }
}

impl AsyncValidator {
    /// Hands a check to the C function, on a thread where it may block.
    fn check(
        self: &Arc<Self>,
        Credentials { token, peer }: Credentials<'_>,
        presence: &Arc<Presence>,
    ) -> impl Future<Output = Verdict> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        // A token that C can't hold is not shown as another one.
        if !token.contains('\0') {
            let check = handle::insert(CheckObject {
                token: c_string(token),
                peer: c_string(&peer.to_string()),
                answer: Mutex::new(Some(sender)),
            });
            let check = check.expose_provenance();
            let (this, presence) = (self.clone(), presence.clone());
            tokio::task::spawn_blocking(move || {
                let check = std::ptr::with_exposed_provenance_mut(check);
                // SAFETY: the caller gave the function together with the user data.
                let call = || unsafe { (this.function)(this.user_data.pointer(), check) };
                if presence.run(|| as_handler(call)).is_none() {
                    drop(handle::remove::<CheckObject>(check));
                }
            });
        }
        async move { receiver.await.unwrap_or(Verdict::Refused) }
    }
}

/// WitRPC's own encryption: an RSA key exchange, then AES-256-GCM. Clients must be set alike: one
/// that does not encrypt, or with a key that is malformed, weak, or of fewer than 2,048 or more than
/// 4,096 bits, is told so and refused. It keeps out who listens, not who can change what passes.
/// Default off.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_encryption(
    options: *mut witrpc_server_options,
    on: bool,
) -> i32 {
    change(options, |o| {
        o.encryption = on;
        Ok(())
    })
}

/// Accepts only this token, NUL-terminated. Default the empty one, which is what a client without a
/// token sends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_token(
    options: *mut witrpc_server_options,
    token: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands a valid pointer.
        o.access = Access::Token(unsafe { text::terminated(token, "token") }?.to_owned());
        Ok(())
    })
}

/// Accepts only the token in a file (its path NUL-terminated). The file is looked at for every check
/// and read again only if it has changed; so a new token counts at once, also on connections that
/// stand. A byte order mark, and blanks and line ends around the token, are no part of it.
///
/// While the file is missing, empty, not UTF-8 or longer than 64 KiB, nobody is let in; when the
/// server starts, that is an error. Replace it by renaming another one over it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_token_file(
    options: *mut witrpc_server_options,
    path: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands a valid pointer.
        o.access = Access::File(unsafe { text::terminated(path, "path") }?.to_owned());
        Ok(())
    })
}

/// Asks whether a token is good, at the handshake and for every call. `destroy` (may be NULL) is
/// called with `user_data` exactly once, after the last call, also when this function fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_validator(
    options: *mut witrpc_server_options,
    validator: witrpc_validator,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    change(options, |o| {
        let function = validator.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
        o.access = Access::Validator(Arc::new(Validator {
            function,
            user_data: user_data.registered(),
        }));
        Ok(())
    })
}

/// Asks whether a token is good, at the handshake and for every call, and waits for the answer. Calls
/// of one connection are checked one after the other and begin in the order in which they came; other
/// connections are not held up. Without an answer within the handshake timeout
/// (witrpc_server_options_handshake_timeout_ms) the connection is closed at the handshake, and a call
/// is refused with status 503. `destroy` as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_validator_async(
    options: *mut witrpc_server_options,
    validator: witrpc_async_validator,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    change(options, |o| {
        let function = validator.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
        o.access = Access::AsyncValidator(Arc::new(AsyncValidator {
            function,
            user_data: user_data.registered(),
        }));
        Ok(())
    })
}

/// The token, NUL-terminated, valid until the check is ended; empty where the client has none, NULL
/// for a bad handle.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_check_token(check: *const witrpc_check) -> *const c_char {
    look(check, |c| c.token.as_ptr())
}

/// Address and port of the client, or "local" at a pipe; NUL-terminated, valid until the check is
/// ended; NULL for a bad handle.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_check_peer(check: *const witrpc_check) -> *const c_char {
    look(check, |c| c.peer.as_ptr())
}

fn look(
    check: *const witrpc_check,
    f: impl FnOnce(&CheckObject) -> *const c_char,
) -> *const c_char {
    guard::value(null(), || {
        Some(f(&*handle::get::<CheckObject>(check).ok()?))
    })
}

/// Accepts the token, and ends the check: the handle is freed. `principal` (NUL-terminated; NULL is
/// the empty one) names its bearer: calls of one principal are told from those of another. Never use
/// the token itself, because tokens change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_check_accept(
    check: *mut witrpc_check,
    principal: *const c_char,
) -> i32 {
    end(check, || {
        let principal = match principal.is_null() {
            true => "",
            // SAFETY: the header demands a valid pointer.
            false => unsafe { text::terminated(principal, "principal") }?,
        };
        Ok(Verdict::Accepted(principal.into()))
    })
}

/// Refuses the token, and ends the check: the handle is freed.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_check_refuse(check: *mut witrpc_check) -> i32 {
    end(check, || Ok(Verdict::Refused))
}

fn end(check: *mut witrpc_check, verdict: impl FnOnce() -> Result<Verdict, Failure>) -> i32 {
    // SAFETY: there is no error object.
    let status = unsafe {
        guard::run::<CheckObject>(check, std::ptr::null_mut(), || {
            handle::get::<CheckObject>(check)?;
            let verdict = verdict()?;
            if let Some(check) = handle::remove::<CheckObject>(check) {
                check.end(verdict);
            }
            Ok(())
        })
    };
    status as i32
}

/// Frees a check; without an answer the token is refused. NULL and an ended one are allowed.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_check_free(check: *mut witrpc_check) {
    guard::value((), || {
        drop(handle::remove::<CheckObject>(check));
        None
    });
}

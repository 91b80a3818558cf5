//! The options of a client that keep others out: encryption and the access token.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use witrpc_core::client::ClientBuilder;

use crate::callback::{UserData, witrpc_destroy};
use crate::client_options::{change, witrpc_client_options};
use crate::guard::{self, Failure};
use crate::handle::{self, Object};
use crate::status::witrpc_status;
use crate::text;

/// Asks for the access token. Runs on a thread for blocking work, before every attempt to connect
/// and once more when the server refused a token.
///
/// Give the token with witrpc_token_answer, or say with witrpc_token_fail why there is none, and
/// return. Without an answer this attempt fails, and the next one asks again.
pub type witrpc_token_provider =
    Option<unsafe extern "C" fn(user_data: *mut c_void, answer: *mut witrpc_token)>;

/// Where a token provider puts its answer: valid until it is answered or failed, and for a provider
/// that is not asynchronous at most until that returns.
pub struct witrpc_token {
    _private: [u8; 0],
}

type Answer = Result<String, String>;

struct TokenObject(Mutex<Option<oneshot::Sender<Answer>>>);

impl Object for TokenObject {
    type Opaque = witrpc_token;
    const KIND: usize = 7;
}

/// Where the access token comes from: what was set last.
#[derive(Clone)]
pub(crate) enum Token {
    Fixed(String),
    File(String),
    Provider(Arc<Provider>),
}

pub(crate) struct Provider {
    function: unsafe extern "C" fn(*mut c_void, *mut witrpc_token),
    user_data: UserData,
    /// It may answer after it has returned.
    is_async: bool,
}

impl Token {
    pub(crate) fn install(self, builder: ClientBuilder) -> ClientBuilder {
        match self {
            Self::Fixed(token) => builder.token(token),
            Self::File(path) => builder.token_file(path),
            Self::Provider(provider) => builder.token_provider(move || provider.clone().ask()),
        }
    }
}

impl Provider {
    async fn ask(self: Arc<Self>) -> Answer {
        let (sender, receiver) = oneshot::channel();
        let answer = handle::insert(TokenObject(Mutex::new(Some(sender)))).expose_provenance();
        tokio::task::spawn_blocking(move || {
            let answer = std::ptr::with_exposed_provenance_mut(answer);
            // SAFETY: the caller gave the function together with the user data.
            unsafe { (self.function)(self.user_data.pointer(), answer) };
            if !self.is_async {
                drop(handle::remove::<TokenObject>(answer));
            }
        });
        let answer = receiver.await;
        answer.unwrap_or_else(|_| Err("the token provider has no token".to_owned()))
    }
}

/// WitRPC's own encryption: an RSA key exchange, then AES-256-GCM. The server must be set alike:
/// there is no way back to clear text, and one that does not encrypt is refused with
/// WITRPC_ENCRYPTION. It keeps out who listens, not who can change what passes. Default off.
///
/// The key pair of a client is made at its first attempt to connect, on a thread of the library's
/// own, and kept; that takes some 100 ms.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_encryption(
    options: *mut witrpc_client_options,
    on: bool,
) -> i32 {
    change(options, |o| {
        o.encryption = on;
        Ok(())
    })
}

/// The access token, NUL-terminated. Default: none. If the server refuses it, the client fails at
/// once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_token(
    options: *mut witrpc_client_options,
    token: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands a valid pointer.
        o.token = Token::Fixed(unsafe { text::terminated(token, "token") }?.to_owned());
        Ok(())
    })
}

/// Takes the access token from a file (its path NUL-terminated), which is read anew before every
/// attempt to connect, and once more when the server refused it. A byte order mark, and blanks and
/// line ends around the token, are no part of it. A file that is missing, empty, not UTF-8 or longer
/// than 64 KiB fails the attempt.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_token_file(
    options: *mut witrpc_client_options,
    path: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands a valid pointer.
        o.token = Token::File(unsafe { text::terminated(path, "path") }?.to_owned());
        Ok(())
    })
}

/// Asks for the access token before every attempt to connect, and once more when the server
/// refused it, at the handshake or for a call.
///
/// `user_data` is handed to the provider, and to `destroy` (may be NULL) exactly once, after the
/// last call, also when this function fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_token_provider(
    options: *mut witrpc_client_options,
    provider: witrpc_token_provider,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
) -> i32 {
    set_provider(options, provider, user_data, destroy, false)
}

/// The same with a provider that may answer later, on any thread: it owns the handle that it is
/// given, and must end it with witrpc_token_answer, witrpc_token_fail or witrpc_token_free. The
/// attempt to connect waits for it as long as connecting may take
/// (witrpc_client_options_connect_timeout_ms); an answer after that does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_token_provider_async(
    options: *mut witrpc_client_options,
    provider: witrpc_token_provider,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
) -> i32 {
    set_provider(options, provider, user_data, destroy, true)
}

fn set_provider(
    options: *mut witrpc_client_options,
    provider: witrpc_token_provider,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    is_async: bool,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    change(options, |o| {
        let function = provider.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
        let user_data = user_data.registered();
        o.token = Token::Provider(Arc::new(Provider {
            function,
            user_data,
            is_async,
        }));
        Ok(())
    })
}

fn end(answer: *mut witrpc_token, text: impl FnOnce() -> Result<Answer, Failure>) -> i32 {
    // SAFETY: there is no error object.
    let status = unsafe {
        guard::run::<TokenObject>(answer, std::ptr::null_mut(), || {
            handle::get::<TokenObject>(answer)?;
            let text = text()?;
            let object = handle::remove::<TokenObject>(answer);
            if let Some(sender) = object.and_then(|object| object.0.lock().take()) {
                // Nobody waits any more if the attempt was given up.
                let _ = sender.send(text);
            }
            Ok(())
        })
    };
    status as i32
}

/// Gives a token provider's answer: `size` bytes of UTF-8, copied. Ends the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_token_answer(
    answer: *mut witrpc_token,
    token: *const c_char,
    size: usize,
) -> i32 {
    end(answer, || {
        // SAFETY: the header demands a valid pointer.
        Ok(Ok(unsafe { text::sized(token, size, "token") }?.to_owned()))
    })
}

/// Says why a token provider has no token (NUL-terminated): this attempt fails with it. Ends the
/// handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_token_fail(
    answer: *mut witrpc_token,
    reason: *const c_char,
) -> i32 {
    end(answer, || {
        // SAFETY: the header demands a valid pointer.
        Ok(Err(
            unsafe { text::terminated(reason, "reason") }?.to_owned()
        ))
    })
}

/// Ends the handle of an asynchronous token provider without a token: this attempt fails. NULL and
/// an ended one are allowed.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_token_free(answer: *mut witrpc_token) {
    guard::value((), || {
        drop(handle::remove::<TokenObject>(answer));
        None
    });
}

//! Calls that are kept where they outlive the process: which methods, where, and what a handler's own database knows of them.

use std::ffi::{c_char, c_void};

use witrpc_core::Error;
use witrpc_core::server::{Fault, Resolution, ServiceBuilder};

use crate::callback::{UserData, witrpc_destroy};
use crate::error::witrpc_error;
use crate::guard;
use crate::handle;
use crate::request::{Arguments, NO_ANSWER, Reply, end, look, witrpc_request};
use crate::server_options::{
    Handler, ImplementationObject, STOPPING, Stage, change, witrpc_handler, witrpc_implementation,
    witrpc_server_options,
};
use crate::status::witrpc_status;
use crate::text::{self, c_string};

const NOT_EXECUTED: &str = "The call was not executed";

/// A method whose calls are kept.
#[derive(Clone)]
pub(crate) struct Durable {
    method: String,
    resolver: Option<Handler>,
}

impl Durable {
    pub(crate) fn install(self, service: ServiceBuilder, stage: &Stage) -> ServiceBuilder {
        let Some(resolver) = self.resolver else {
            return service.durable(&self.method);
        };
        let stage = stage.clone();
        service.resolver(&self.method, move |context| {
            let answer = resolver.call(context, Arguments::Json(c_string("[]")), &stage);
            async move {
                match answer.await {
                    Ok(Reply::Json(result)) => Resolution::Executed(result),
                    Ok(Reply::Encoded(_)) => Resolution::Unknown,
                    Err(fault) if fault == Fault::overloaded(NOT_EXECUTED) => {
                        Resolution::NotExecuted
                    }
                    // It was not asked, or did not say.
                    Err(fault)
                        if fault == Fault::new(NO_ANSWER)
                            || fault == Fault::overloaded(STOPPING) =>
                    {
                        Resolution::Unknown
                    }
                    Err(fault) => Resolution::Failed(fault),
                }
            }
        })
    }
}

/// Keeps the calls of durable methods in a journal in this directory (a path, NUL-terminated, UTF-8), which survives the death of the process at any
/// moment: no call runs twice, and each is answered the same. The directory is made if need be, and is for one server alone: a second one does not
/// start. Its files hold answers in clear, and are for this user only. Bounded as witrpc_server_options_dedup says.
///
/// Errors show when the server is started: WITRPC_INVALID_ARGUMENT with a message that names the file if one is damaged or missing, if the
/// directory is in use, or if no method is durable. Default: no journal, and then no method may be durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_journal(
    options: *mut witrpc_server_options,
    directory: *const c_char,
) -> i32 {
    // SAFETY: the header demands a valid pointer.
    change(options, |o| unsafe {
        o.journal = Some(text::terminated(directory, "directory")?.into());
        Ok(())
    })
}

/// As witrpc_server_options_journal with `size` bytes of path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_journal_n(
    options: *mut witrpc_server_options,
    directory: *const c_char,
    size: usize,
) -> i32 {
    // SAFETY: the header demands that many bytes.
    change(options, |o| unsafe {
        o.journal = Some(text::sized(directory, size, "directory")?.into());
        Ok(())
    })
}

/// Makes a method durable: its calls are kept in the server's store, the intent before its handler begins, the answer before it is sent. That costs two
/// waits for the disk, and is for what must not happen twice even if the server is killed. `method` is a line, or a name alone for all
/// overloads, NUL-terminated; its handler must have been given. A method that is not there shows when a server is started.
///
/// Handlers of durable methods begin when their intents are stored, so perhaps in another order than their calls came in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_implementation_durable(
    implementation: *mut witrpc_implementation,
    method: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe { add(implementation, method, error, || Ok(None)) }
}

/// Makes a method durable, and has `resolver` asked about a call of it that was begun before the server was killed and whose answer was not stored. A handler
/// that commits the id of its call (witrpc_request_invocation_id) and its result together with its work can find there what became of it.
///
/// The resolver gets a request without arguments, on a thread for blocking work, and ends it: with witrpc_request_reply if the call was executed (its result as
/// JSON), with witrpc_request_fail if it was and failed, with witrpc_request_not_executed if it was not and can't be any more (then it runs), with
/// witrpc_request_free if that can't be told (then the caller is told that the outcome is unknown).
///
/// `destroy` (may be NULL) is called with `user_data` exactly once, after the last call of the resolver, also when this function fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_implementation_resolver(
    implementation: *mut witrpc_implementation,
    method: *const c_char,
    resolver: witrpc_handler,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    error: *mut *mut witrpc_error,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    // SAFETY: the header demands valid pointers.
    unsafe {
        add(implementation, method, error, || {
            let function = resolver.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
            Ok(Some(Handler::resolver(function, user_data.registered())))
        })
    }
}

unsafe fn add(
    implementation: *mut witrpc_implementation,
    method: *const c_char,
    error: *mut *mut witrpc_error,
    resolver: impl FnOnce() -> Result<Option<Handler>, guard::Failure>,
) -> i32 {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        guard::run::<ImplementationObject>(implementation, error, || {
            let object = handle::get::<ImplementationObject>(implementation)?;
            let method = text::terminated(method, "method")?.to_owned();
            if method.trim().is_empty() {
                return Err(Error::invalid_argument("the method has no name").into());
            }
            let resolver = resolver()?;
            object.0.lock().durable.push(Durable { method, resolver });
            Ok(())
        }) as i32
    }
}

/// False only if nothing of the call can have been executed before: it is the first attempt of a libwitrpc client. Of a client that does not number its calls
/// (a .NET client, an id of the caller's own) that can't be told. True for a bad handle.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_request_may_be_repetition(request: *const witrpc_request) -> bool {
    look(request, true, |r| r.context().may_be_repetition())
}

/// Says that nothing of the call was done, and ends the request: the handle is freed. From a handler it refuses the call for now: the caller sees status
/// 503, and a repetition runs. From a resolver it has the call run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_not_executed(
    request: *mut witrpc_request,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe { end(request, error, |_| Ok(Err(Fault::overloaded(NOT_EXECUTED)))) }
}

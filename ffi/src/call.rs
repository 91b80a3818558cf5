//! Calls: blocking ones, and ones whose end is told to a callback.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use uuid::Uuid;
use witrpc_core::Result as CoreResult;
use witrpc_core::client::{CallBuilder, CancelHandle, MethodLookup};
use witrpc_core::resilience::engine::Answer;
use witrpc_core::wire::Arguments;

use crate::buffer::{BufferObject, witrpc_buffer};
use crate::callback::{UserData, witrpc_destroy};
use crate::client::{ServiceObject, block_on, witrpc_service};
use crate::client_options::limit;
use crate::error::{ErrorObject, witrpc_error};
use crate::guard::{self, Failure};
use crate::handle::{self, Object};
use crate::naming::lookup_of;
use crate::status::witrpc_status;
use crate::text;

/// What is special about a call. May be used for many calls, and freed as soon as they have been
/// made. Any thread.
pub struct witrpc_call_options {
    _private: [u8; 0],
}

/// A call under way, to be cancelled. Freeing it does not cancel the call.
pub struct witrpc_call {
    _private: [u8; 0],
}

/// Encoded bytes of the caller's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct witrpc_bytes {
    /// The bytes; NULL is allowed if there are none.
    pub data: *const u8,
    /// How many.
    pub size: usize,
}

/// The end of a call: `status` (witrpc_status); for WITRPC_OK the result, else an error. Both are
/// borrowed until the callback returns; witrpc_buffer_retain keeps a result.
pub type witrpc_completion = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        status: i32,
        result: *const witrpc_buffer,
        error: *const witrpc_error,
    ),
>;

#[derive(Clone, Default)]
struct Options {
    timeout: Option<Option<Duration>>,
    repeat: Repeat,
    invocation_id: Option<Uuid>,
    lookup: Option<MethodLookup>,
    trace_context: Option<Arc<[u8]>>,
}

#[derive(Clone, Copy, Default)]
enum Repeat {
    #[default]
    AsDeclared,
    Idempotent,
    Deduplicated,
}

pub(crate) struct CallOptionsObject(Mutex<Options>);

impl CallOptionsObject {
    pub(crate) fn set_trace_context(&self, context: Option<Arc<[u8]>>) {
        self.0.lock().trace_context = context;
    }
}

impl Object for CallOptionsObject {
    type Opaque = witrpc_call_options;
    const KIND: usize = 8;
}

struct CallObject(CancelHandle);

impl Object for CallObject {
    type Opaque = witrpc_call;
    const KIND: usize = 9;
}

/// Starts options of calls: none is set. On success `*out` is a new handle, to be freed with
/// witrpc_call_options_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_call_options_new(out: *mut *mut witrpc_call_options) -> i32 {
    // SAFETY: the header demands a valid pointer; there is no error object.
    unsafe {
        guard::run::<CallOptionsObject>(std::ptr::null(), std::ptr::null_mut(), || {
            guard::give(guard::out(out)?, CallOptionsObject(Mutex::default()))
        }) as i32
    }
}

/// Frees options. NULL and freed ones are allowed.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_call_options_free(options: *mut witrpc_call_options) {
    guard::value((), || {
        drop(handle::remove::<CallOptionsObject>(options));
        None
    });
}

fn change(options: *mut witrpc_call_options, f: impl FnOnce(&mut Options)) -> i32 {
    try_change(options, |o| {
        f(o);
        Ok(())
    })
}

fn try_change(
    options: *mut witrpc_call_options,
    f: impl FnOnce(&mut Options) -> Result<(), Failure>,
) -> i32 {
    // SAFETY: there is no error object.
    let status = unsafe {
        guard::run::<CallOptionsObject>(options, std::ptr::null_mut(), || {
            f(&mut handle::get::<CallOptionsObject>(options)?.0.lock())
        })
    };
    status as i32
}

/// Limit of the whole call, in ms: waiting for the link, all attempts, all delays;
/// WITRPC_NO_TIMEOUT = none. Default: what all attempts and delays can take.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_call_options_timeout_ms(
    options: *mut witrpc_call_options,
    ms: u64,
) -> i32 {
    change(options, |o| o.timeout = Some(limit(ms)))
}

/// The call may run twice: the retry policy may repeat it anywhere.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_call_options_idempotent(options: *mut witrpc_call_options) -> i32 {
    change(options, |o| o.repeat = Repeat::Idempotent)
}

/// The call must not run twice: the retry policy may repeat it where the server recognises it.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_call_options_deduplicated(options: *mut witrpc_call_options) -> i32 {
    change(options, |o| o.repeat = Repeat::Deduplicated)
}

/// The call's own id: 16 bytes in the order in which a UUID is printed, not all zero. By it the
/// server recognises the call, also when it comes from another process later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_call_options_invocation_id(
    options: *mut witrpc_call_options,
    id: *const u8,
) -> i32 {
    // SAFETY: the header demands 16 bytes.
    match unsafe { text::bytes(id, 16) }.map(Uuid::from_slice) {
        Ok(Ok(id)) => change(options, |o| o.invocation_id = Some(id)),
        _ => witrpc_status::WITRPC_INVALID_ARGUMENT as i32,
    }
}

/// How the call says which method it means (witrpc_method_lookup). Default as the client is set.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_call_options_method_lookup(
    options: *mut witrpc_call_options,
    lookup: i32,
) -> i32 {
    try_change(options, |o| {
        o.lookup = Some(lookup_of(lookup)?);
        Ok(())
    })
}

fn apply<'a>(
    mut call: CallBuilder<'a, ()>,
    options: *const witrpc_call_options,
) -> Result<CallBuilder<'a, ()>, Failure> {
    if options.is_null() {
        return Ok(call);
    }
    let options = handle::get::<CallOptionsObject>(options)?.0.lock().clone();
    call = match options.timeout {
        None => call,
        Some(None) => call.no_timeout(),
        Some(Some(limit)) => call.timeout(limit),
    };
    call = match options.repeat {
        Repeat::AsDeclared => call,
        Repeat::Idempotent => call.idempotent(),
        Repeat::Deduplicated => call.deduplicated(),
    };
    if let Some(id) = options.invocation_id {
        call = call.invocation_id(id);
    }
    if let Some(lookup) = options.lookup {
        call = call.lookup(lookup);
    }
    if let Some(context) = options.trace_context {
        call = call.trace_context(context);
    }
    Ok(call)
}

/// Borrows the caller's encoded arguments.
///
/// # Safety
/// `arguments` must be NULL or point to `count` structs with valid pointers, all of which live for
/// `'a`.
pub(crate) unsafe fn blobs<'a>(
    arguments: *const witrpc_bytes,
    count: usize,
) -> Result<Vec<&'a [u8]>, Failure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if arguments.is_null() || count > 0xFFFF {
        return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into());
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { std::slice::from_raw_parts(arguments, count) }
        .iter()
        // SAFETY: as above.
        .map(|b| unsafe { text::bytes(b.data, b.size) })
        .collect()
}

/// Copies the caller's encoded arguments.
///
/// # Safety
/// As for [`blobs`].
unsafe fn encoded(arguments: *const witrpc_bytes, count: usize) -> Result<Arguments, Failure> {
    // SAFETY: the caller vouches for it.
    Ok(Arguments::from_blobs(&unsafe { blobs(arguments, count) }?))
}

unsafe fn run(
    service: *const witrpc_service,
    error: *mut *mut witrpc_error,
    f: impl FnOnce(&ServiceObject) -> Result<(), Failure>,
) -> i32 {
    // SAFETY: the caller vouches for `error`.
    unsafe {
        guard::run::<ServiceObject>(service, error, || {
            f(&*handle::get::<ServiceObject>(service)?)
        }) as i32
    }
}

unsafe fn call_json(
    object: &ServiceObject,
    method: &str,
    arguments: &str,
    options: *const witrpc_call_options,
    result: *mut *mut witrpc_buffer,
) -> Result<(), Failure> {
    let call = apply(object.service.call_json(method, arguments), options)?;
    let json = block_on(&object.runtime, object.service.client(), call.json())?;
    if result.is_null() {
        return Ok(());
    }
    // SAFETY: the caller vouches for `result`.
    unsafe { guard::give(result, BufferObject::text(json)) }
}

unsafe fn empty(result: *mut *mut witrpc_buffer) {
    if !result.is_null() {
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { result.write(std::ptr::null_mut()) };
    }
}

/// Calls a method and waits for its end.
///
/// `method` is a line pasted from the C# interface, as "int Add(int a, int b)" (or, where the
/// contract lists it, its name), with types for the type parameters of a generic method, as
/// "int Echo<int>(int value)" or "T Echo<T>(T value) where T = int"; `arguments` is a JSON array, as "[2, 3]"; sizes in bytes. `options`
/// may be NULL. On success `*result` is the result as JSON text ("null" for void), to be freed with
/// witrpc_buffer_free; `result` may be NULL if it does not matter.
///
/// Blocks until the call's end, for at most the limits of the options. Any thread; from a callback,
/// later callbacks wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_service_call_n(
    service: *const witrpc_service,
    method: *const c_char,
    method_size: usize,
    arguments: *const c_char,
    arguments_size: usize,
    options: *const witrpc_call_options,
    result: *mut *mut witrpc_buffer,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        empty(result);
        run(service, error, |object| {
            let method = text::sized(method, method_size, "method")?;
            let arguments = text::sized(arguments, arguments_size, "arguments")?;
            call_json(object, method, arguments, options, result)
        })
    }
}

/// The same with NUL-terminated texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_service_call(
    service: *const witrpc_service,
    method: *const c_char,
    arguments: *const c_char,
    options: *const witrpc_call_options,
    result: *mut *mut witrpc_buffer,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        empty(result);
        run(service, error, |object| {
            let method = text::terminated(method, "method")?;
            let arguments = text::terminated(arguments, "arguments")?;
            call_json(object, method, arguments, options, result)
        })
    }
}

/// Calls a method with arguments that are encoded already by the client's codec; an empty blob is
/// null. `*result` holds the encoded result (empty for void and null). Otherwise as
/// witrpc_service_call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_service_call_encoded(
    service: *const witrpc_service,
    method: *const c_char,
    method_size: usize,
    arguments: *const witrpc_bytes,
    arguments_count: usize,
    options: *const witrpc_call_options,
    result: *mut *mut witrpc_buffer,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        empty(result);
        run(service, error, |object| {
            let method = text::sized(method, method_size, "method")?;
            let arguments = encoded(arguments, arguments_count)?;
            let call = apply(object.service.call_encoded(method, arguments), options)?;
            let answer = block_on(&object.runtime, object.service.client(), call.encoded())?;
            if result.is_null() {
                return Ok(());
            }
            guard::give(result, BufferObject::Bytes(answer.data.unwrap_or_default()))
        })
    }
}

/// A completion and its user data.
struct Completion {
    function: unsafe extern "C" fn(*mut c_void, i32, *const witrpc_buffer, *const witrpc_error),
    user_data: UserData,
}

impl Completion {
    fn tell(self, result: CoreResult<BufferObject>) {
        match result {
            Ok(buffer) => {
                let lent = handle::insert(buffer);
                // SAFETY: the caller gave the function together with the user data.
                unsafe {
                    let error = std::ptr::null();
                    (self.function)(self.user_data.pointer(), 0, lent, error);
                }
                drop(handle::remove::<BufferObject>(lent));
            }
            Err(error) => {
                let status = witrpc_status::from(error.code()) as i32;
                let lent = handle::insert(ErrorObject::new(error));
                // SAFETY: as above.
                unsafe {
                    let result = std::ptr::null();
                    (self.function)(self.user_data.pointer(), status, result, lent);
                }
                drop(handle::remove::<ErrorObject>(lent));
            }
        }
    }
}

unsafe fn start_json(
    object: &ServiceObject,
    method: &str,
    arguments: &str,
    options: *const witrpc_call_options,
    completion: (witrpc_completion, UserData),
    out: *mut *mut witrpc_call,
) -> Result<(), Failure> {
    let (function, user_data) = completion;
    let function = function.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
    let call = apply(object.service.call_json(method, arguments), options)?;
    // SAFETY: the caller vouches for `out`.
    unsafe {
        start(object, out, |registered| {
            let completion = Completion {
                function,
                user_data: registered(user_data),
            };
            call.spawn_json(move |json| completion.tell(json.map(BufferObject::text)))
        })
    }
}

/// Starts a call and hands its handle out, if it is wanted.
unsafe fn start(
    object: &ServiceObject,
    out: *mut *mut witrpc_call,
    begin: impl FnOnce(&dyn Fn(UserData) -> UserData) -> CoreResult<CancelHandle>,
) -> Result<(), Failure> {
    let dispatcher = object.service.client().dispatcher();
    let cancel = begin(&|user_data| user_data.registered_on(dispatcher))?;
    object.runtime.kick();
    if !out.is_null() {
        // SAFETY: not null, and the caller vouches for the rest. The call is under way, whatever
        // becomes of the handle.
        unsafe { out.write(handle::insert(CallObject(cancel))) };
    }
    Ok(())
}

/// Calls a method without waiting. `completion` is called exactly once, on the client's callback
/// thread, never inside this function; then `destroy` (may be NULL) with the user data. If this
/// function fails, `completion` is not called, and `destroy` is.
///
/// `*call` (may be NULL) is a handle to cancel the call by, to be freed with witrpc_call_free.
/// Otherwise as witrpc_service_call. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_service_start_n(
    service: *const witrpc_service,
    method: *const c_char,
    method_size: usize,
    arguments: *const c_char,
    arguments_size: usize,
    options: *const witrpc_call_options,
    completion: witrpc_completion,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    call: *mut *mut witrpc_call,
    error: *mut *mut witrpc_error,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    // SAFETY: the header demands valid pointers.
    unsafe {
        run(service, error, |object| {
            let method = text::sized(method, method_size, "method")?;
            let arguments = text::sized(arguments, arguments_size, "arguments")?;
            start_json(
                object,
                method,
                arguments,
                options,
                (completion, user_data),
                call,
            )
        })
    }
}

/// The same with NUL-terminated texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_service_start(
    service: *const witrpc_service,
    method: *const c_char,
    arguments: *const c_char,
    options: *const witrpc_call_options,
    completion: witrpc_completion,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    call: *mut *mut witrpc_call,
    error: *mut *mut witrpc_error,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    // SAFETY: the header demands valid pointers.
    unsafe {
        run(service, error, |object| {
            let method = text::terminated(method, "method")?;
            let arguments = text::terminated(arguments, "arguments")?;
            start_json(
                object,
                method,
                arguments,
                options,
                (completion, user_data),
                call,
            )
        })
    }
}

/// As witrpc_service_start with encoded arguments and an encoded result; see
/// witrpc_service_call_encoded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_service_start_encoded(
    service: *const witrpc_service,
    method: *const c_char,
    method_size: usize,
    arguments: *const witrpc_bytes,
    arguments_count: usize,
    options: *const witrpc_call_options,
    completion: witrpc_completion,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    call: *mut *mut witrpc_call,
    error: *mut *mut witrpc_error,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    // SAFETY: the header demands valid pointers.
    unsafe {
        run(service, error, |object| {
            let method = text::sized(method, method_size, "method")?;
            let arguments = encoded(arguments, arguments_count)?;
            let completion = (completion, user_data);
            start_encoded(object, method, arguments, options, completion, call, false)
        })
    }
}

/// As witrpc_service_start_encoded with `completion` called where the answer comes in: on an I/O
/// thread, or on a thread that is inside another function of this client, also before this function
/// returns. It must not block, nor call functions that do. For language bindings, which have their own
/// way to user code and are spared a change of threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_service_start_encoded_direct(
    service: *const witrpc_service,
    method: *const c_char,
    method_size: usize,
    arguments: *const witrpc_bytes,
    arguments_count: usize,
    options: *const witrpc_call_options,
    completion: witrpc_completion,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    call: *mut *mut witrpc_call,
    error: *mut *mut witrpc_error,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    // SAFETY: the header demands valid pointers.
    unsafe {
        run(service, error, |object| {
            let method = text::sized(method, method_size, "method")?;
            let arguments = encoded(arguments, arguments_count)?;
            let completion = (completion, user_data);
            start_encoded(object, method, arguments, options, completion, call, true)
        })
    }
}

unsafe fn start_encoded(
    object: &ServiceObject,
    method: &str,
    arguments: Arguments,
    options: *const witrpc_call_options,
    completion: (witrpc_completion, UserData),
    out: *mut *mut witrpc_call,
    direct: bool,
) -> Result<(), Failure> {
    let (function, user_data) = completion;
    let function = function.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
    let builder = apply(object.service.call_encoded(method, arguments), options)?;
    // SAFETY: the caller vouches for `out`.
    unsafe {
        start(object, out, |registered| {
            let completion = Completion {
                function,
                user_data: registered(user_data),
            };
            let done = move |answer: CoreResult<Answer>| {
                let data = answer.map(|a| a.data.unwrap_or_default());
                completion.tell(data.map(BufferObject::Bytes));
            };
            match direct {
                true => builder.spawn_encoded_direct(done),
                false => builder.spawn_encoded(done),
            }
        })
    }
}

/// Ends a call with WITRPC_CANCELLED, unless it has ended. What is on its way may still be executed;
/// a libwitrpc server is told that nobody waits for it any more (see witrpc_request_is_cancelled).
/// Never blocks; any thread, any callback.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_call_cancel(call: *const witrpc_call) -> i32 {
    // SAFETY: there is no error object.
    let status = unsafe {
        guard::run::<CallObject>(call, std::ptr::null_mut(), || {
            handle::get::<CallObject>(call)?.0.cancel();
            Ok(())
        })
    };
    status as i32
}

/// Frees the handle of a call; the call goes on. NULL and a freed one are allowed.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_call_free(call: *mut witrpc_call) {
    guard::value((), || {
        drop(handle::remove::<CallObject>(call));
        None
    });
}

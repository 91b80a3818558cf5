//! A round trip to the server, for health checks.

use std::ffi::c_void;
use std::time::Duration;

use crate::callback::{UserData, witrpc_destroy};
use crate::client::{ClientObject, report, witrpc_client, witrpc_done};
use crate::error::witrpc_error;
use crate::guard;
use crate::handle;
use crate::status::witrpc_status;

/// Makes a round trip to the server without waiting for it: a call of a method that no server has,
/// which executes nothing and is remembered nowhere. `done` is called exactly once, on the callback
/// thread, never inside this function: with WITRPC_OK once the server has answered, else with why it
/// has not within `timeout_ms`, or with WITRPC_UNAUTHORIZED if it refused the token. Then `destroy`
/// (may be NULL) is called with the user data. If this function fails, `done` is not called, and
/// `destroy` is.
///
/// A .NET server answers calls one after the other, so that this one waits behind those that run;
/// while there are any (witrpc_client_stats), WITRPC_TIMEOUT says little.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_probe_start(
    client: *const witrpc_client,
    timeout_ms: u64,
    done: witrpc_done,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    error: *mut *mut witrpc_error,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ClientObject>(client, error, || {
            let object = handle::get::<ClientObject>(client)?;
            let done = done.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
            let user_data = user_data.registered_on(object.client.dispatcher());
            let client = object.client.clone();
            object.runtime.handle().spawn(async move {
                let result = client.probe(Duration::from_millis(timeout_ms)).await;
                client
                    .dispatcher()
                    .post(move || report(done, &user_data, result));
            });
            object.runtime.kick();
            Ok(())
        }) as i32
    }
}

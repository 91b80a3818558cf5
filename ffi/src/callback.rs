//! What belongs to a callback: the caller's pointer, and its end.

use std::ffi::c_void;

use witrpc_core::dispatcher::Dispatcher;

use crate::library;

/// Called once, after the last call of the callback that the user data was given for.
pub type witrpc_destroy = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// A caller's pointer, which the library only hands back. Its destroy runs exactly once, when the
/// last callback that could use it has returned; never on an I/O thread.
pub(crate) struct UserData {
    pointer: *mut c_void,
    destroy: witrpc_destroy,
    /// Given back at once: registering has not come to its end yet.
    is_registered: bool,
    /// Which loop of the caller's runs its end; `None` = a thread of the library's own.
    on_loop: Option<Dispatcher>,
}

// SAFETY: the header demands that user data may be used from the library's threads; the pointer
// itself is never looked behind.
unsafe impl Send for UserData {}
// SAFETY: as above; the calls of one callback never run at the same time, but where the header says
// that they may.
unsafe impl Sync for UserData {}

impl UserData {
    pub(crate) fn new(pointer: *mut c_void, destroy: witrpc_destroy) -> Self {
        Self {
            pointer,
            destroy,
            is_registered: false,
            on_loop: None,
        }
    }

    /// From now on its end comes from the library's side.
    pub(crate) fn registered(mut self) -> Self {
        self.is_registered = true;
        self
    }

    /// The same for callbacks that this dispatcher runs: if it is that of a loop, it runs the end
    /// too.
    pub(crate) fn registered_on(mut self, dispatcher: &Dispatcher) -> Self {
        self.on_loop = dispatcher.is_on_loop().then(|| dispatcher.clone());
        self.registered()
    }

    pub(crate) fn pointer(&self) -> *mut c_void {
        self.pointer
    }
}

/// Carries a pointer to the thread that destroys it.
struct Last(*mut c_void, unsafe extern "C" fn(*mut c_void));

// SAFETY: as for `UserData`.
unsafe impl Send for Last {}

impl Last {
    fn run(self) {
        // SAFETY: the caller gave both together, and this is the only time.
        unsafe { (self.1)(self.0) }
    }
}

impl Drop for UserData {
    fn drop(&mut self) {
        let Some(destroy) = self.destroy else { return };
        let last = Last(self.pointer, destroy);
        if let Some(dispatcher) = self.on_loop.take() {
            dispatcher.post(move || last.run());
        } else if self.is_registered {
            library::post(move || last.run());
        } else {
            last.run();
        }
    }
}

//! What becomes of the library in the child of a fork: the parent's objects are left alone there, their
//! handles are refused, and new ones work.
//!
//! A fork copies one thread, and locks as they are. So the locks of this crate are held over the fork, and
//! the child forgets what the parent's threads were to care for: it must neither use nor end it.

use std::sync::Once;

use crate::{handle, library};

/// Sees to it that forks are noticed. Once is enough; it costs nothing until a process forks.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: three functions that live as long as the process, which is never unloaded.
        #[cfg(unix)]
        let failed = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        #[cfg(unix)]
        if failed != 0 {
            tracing::warn!("forks are not noticed: a child must not use the library");
        }
    });
}

#[cfg(unix)]
unsafe extern "C" fn prepare() {
    library::lock_for_fork();
    handle::lock_for_fork();
}

#[cfg(unix)]
unsafe extern "C" fn parent() {
    // SAFETY: `prepare` has locked both, on this thread.
    unsafe {
        handle::unlock_after_fork(false);
        library::unlock_after_fork(false);
    }
}

#[cfg(unix)]
unsafe extern "C" fn child() {
    // SAFETY: `prepare` has locked both, on the thread that this one is a copy of.
    unsafe {
        handle::unlock_after_fork(true);
        library::unlock_after_fork(true);
    }
    witrpc_core::log::forked();
}

//! Waiting under a watchdog: for a future, for a condition, for a whole test.

use std::future::Future;
use std::io::Write;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What waits longer than this has failed. Generous: the machine may be busy with other things.
pub const WATCHDOG: Duration = Duration::from_secs(30);

/// Runs a test on a runtime of its own with two threads, and fails it if it does not end in time.
pub fn run<F: Future<Output = ()> + Send + 'static>(test: F) {
    run_for(Duration::from_secs(120), test);
}

/// Like [`run`] with a limit of its own.
pub fn run_for<F: Future<Output = ()> + Send + 'static>(limit: Duration, test: F) {
    run_thread(limit, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(test);
        runtime.shutdown_background();
    });
}

/// Runs a test on a thread and fails it if it does not end in time. The thread is left behind then.
pub fn run_thread(limit: Duration, test: impl FnOnce() + Send + 'static) {
    let (ended, waiting) = mpsc::channel::<()>();
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let thread = std::thread::Builder::new()
        .name(name)
        .spawn(move || {
            let _ended = ended;
            test();
        })
        .unwrap();
    match waiting.recv_timeout(limit) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the test hangs: no end after {limit:?}"),
        _ => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Waits for a future and panics, naming it, if that takes too long.
pub async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(WATCHDOG, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: not within {WATCHDOG:?}"),
    }
}

/// Waits until a condition holds and panics, naming it, if that takes too long.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(
            begun.elapsed() < WATCHDOG,
            "{what}: not within {WATCHDOG:?}"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Says that a test, or a part of it, is not run here. With `WITRPC_REQUIRE_ALL=1` that is a failure.
///
/// Written past the capture of test output, so that nobody overlooks it.
pub fn skip(what: &str, why: &str) {
    let line = format!("skipped: {what}: {why}\n");
    let all = std::env::var("WITRPC_REQUIRE_ALL").is_ok_and(|v| !v.is_empty() && v != "0");
    assert!(!all, "{line}WITRPC_REQUIRE_ALL is set");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

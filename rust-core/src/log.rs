//! What the library has to say, for programs that have no `tracing` of their own: C, C++.
//!
//! Owns the function that is told, and a bounded queue before it. The library logs from its inputs and
//! outputs and under its locks, so a record is only queued there; the function runs on a thread of its
//! own, in order.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record as SpanRecord};
use tracing::{Event, Metadata, Subscriber};

use crate::dispatcher::Dispatcher;
use crate::error::{Error, ErrorCode, Result};

/// Records that wait for the function; beyond it they are dropped and counted.
const MAX_WAITING: usize = 1024;

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing.
    Off = 0,
    /// What should not happen.
    Error = 1,
    /// What a user may want to mend.
    Warn = 2,
    /// Connections come and go.
    Info = 3,
    /// Retries, single connections.
    Debug = 4,
    /// Everything.
    Trace = 5,
}

/// One thing that the library has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// How much it matters.
    pub level: Level,
    /// Which part of the library says it, as `"witrpc::client::driver"`.
    pub target: &'static str,
    /// The text, with its values.
    pub message: String,
}

type Function = Arc<dyn Fn(Record) + Send + Sync>;

struct Logger {
    level: AtomicU8,
    function: Mutex<Option<Function>>,
    waiting: AtomicUsize,
    dropped: AtomicU64,
    dispatcher: Mutex<Dispatcher>,
}

static LOGGER: std::sync::LazyLock<Logger> = std::sync::LazyLock::new(|| Logger {
    level: AtomicU8::new(Level::Off as u8),
    function: Mutex::new(None),
    waiting: AtomicUsize::new(0),
    dropped: AtomicU64::new(0),
    dispatcher: Mutex::default(),
});

/// Tells `function` what is said at `level` and above; it replaces the function before. It runs on a
/// thread of its own, in order; a record that comes while 1,024 wait for it is dropped and
/// [counted](dropped).
///
/// # Errors
/// The process has a `tracing` subscriber of its own: then it gets everything already.
pub fn to_function(level: Level, function: impl Fn(Record) + Send + Sync + 'static) -> Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock();
    if !*installed {
        tracing::subscriber::set_global_default(ToFunction).map_err(|e| {
            Error::new(ErrorCode::InvalidArgument, "logging is in other hands")
                .with_details(Some(e.to_string()))
        })?;
        *installed = true;
    }
    let before = LOGGER.function.lock().replace(Arc::new(function));
    set_level(level);
    // Not under the lock: its end is the user's code.
    drop(before);
    Ok(())
}

/// Tells nobody any more. Records that wait are still told.
pub fn off() {
    set_level(Level::Off);
    let before = LOGGER.function.lock().take();
    drop(before);
}

/// Records that were dropped because the function was too slow.
pub fn dropped() -> u64 {
    LOGGER.dropped.load(Ordering::Relaxed)
}

/// What runs the function.
pub fn dispatcher() -> Dispatcher {
    LOGGER.dispatcher.lock().clone()
}

/// Runs the function on another thread from now on: after a fork, which copies none.
pub fn forked() {
    std::mem::forget(std::mem::take(&mut *LOGGER.dispatcher.lock()));
    LOGGER.waiting.store(0, Ordering::Relaxed);
}

fn set_level(level: Level) {
    LOGGER.level.store(level as u8, Ordering::Relaxed);
    // What was decided once for each place that logs is decided anew.
    tracing::callsite::rebuild_interest_cache();
}

fn level_of(level: tracing::Level) -> Level {
    match level {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        tracing::Level::DEBUG => Level::Debug,
        tracing::Level::TRACE => Level::Trace,
    }
}

struct ToFunction;

impl Subscriber for ToFunction {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        level_of(*metadata.level()) as u8 <= LOGGER.level.load(Ordering::Relaxed)
    }

    fn register_callsite(
        &self,
        metadata: &'static Metadata<'static>,
    ) -> tracing::subscriber::Interest {
        match self.enabled(metadata) {
            true => tracing::subscriber::Interest::always(),
            false => tracing::subscriber::Interest::never(),
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &SpanRecord<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let logger = &*LOGGER;
        let Some(function) = logger.function.lock().clone() else {
            return;
        };
        if logger.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            logger.waiting.fetch_sub(1, Ordering::Relaxed);
            logger.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        let record = Record {
            level: level_of(*event.metadata().level()),
            target: event.metadata().target(),
            message: text.finish(),
        };
        dispatcher().post(move || {
            LOGGER.waiting.fetch_sub(1, Ordering::Relaxed);
            function(record);
        });
    }
}

/// The text of a record, as `reconnecting attempt=1 delay=1s`.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn finish(mut self) -> String {
        self.message.push_str(&self.fields);
        self.message
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value}"),
            name => write!(self.fields, " {name}={value}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn records_come_in_order_at_their_level_and_end() {
        let (sender, receiver) = mpsc::channel();
        to_function(Level::Info, move |record| {
            if record.target == module_path!() {
                sender.send(record).unwrap();
            }
        })
        .unwrap();
        tracing::info!(attempt = 1, name = "x", "first");
        tracing::debug!("too much");
        tracing::error!("second");
        let seen: Vec<_> = receiver.iter().take(2).collect();
        assert_eq!(seen[0].level, Level::Info);
        assert_eq!(seen[0].message, "first attempt=1 name=x");
        assert_eq!(
            (seen[1].level, seen[1].message.as_str()),
            (Level::Error, "second")
        );
        let (sender, receiver2) = mpsc::channel();
        to_function(Level::Debug, move |record| {
            if record.target == module_path!() {
                sender.send(record.message).unwrap();
            }
        })
        .unwrap();
        tracing::debug!("now told");
        assert_eq!(receiver2.recv().unwrap(), "now told");
        assert!(receiver.recv().is_err(), "the first function is gone");
        off();
        tracing::error!("to nobody");
        assert!(receiver2.recv().is_err(), "and so is the second");
    }
}

//! What the library has to say, on stderr.

use tracing::level_filters::LevelFilter;

/// Starts logging: nothing, or with `-v` more and more. A second start in one process changes
/// nothing.
pub(crate) fn start(verbose: u8) {
    let level = match verbose {
        0 => return,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}

//! The native half of the Python package `witrpc`: what the package's own code can't do in Python.
//!
//! Owns the edge between Python and the crate `witrpc`: conversions, waiting without the GIL, and
//! wake-ups of event loops. What users see (names, defaults, typing) is decided in the package. The
//! module is private, and its text form is `_witrpc.pyi`.
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bridge;
mod buffer;
mod call;
mod client;
mod contract;
mod convert;
mod durable;
mod errors;
mod event;
mod options;
mod process;
mod publish;
mod server;
mod server_options;

use pyo3::prelude::*;

/// Runs the command `witrpc` and returns its exit code. `arguments` begins with the program's name.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<String>) -> i32 {
    py.detach(|| witrpc_cli::run(arguments.into_iter().map(Into::into)))
}

// Nothing here relies on the GIL: classes are frozen, and what changes is behind locks.
#[pymodule(gil_used = false)]
fn _witrpc(module: &Bound<'_, PyModule>) -> PyResult<()> {
    process::refuse_other_interpreters(module.py())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    module.add_function(wrap_pyfunction!(process::shut_down, module)?)?;

    module.add_class::<bridge::Bridge>()?;
    module.add_class::<bridge::Reply>()?;
    module.add_class::<buffer::Buffer>()?;
    module.add_class::<call::Method>()?;
    module.add_class::<call::StartedCall>()?;
    module.add_class::<client::Client>()?;
    module.add_class::<client::Service>()?;
    module.add_class::<contract::Contract>()?;
    module.add_class::<event::EventSource>()?;
    module.add_class::<event::Subscription>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<publish::Publisher>()?;
    module.add_class::<server::CallContext>()?;
    Ok(())
}

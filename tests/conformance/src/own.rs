//! Our own server with the demo service, in this process.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::task::AbortHandle;
use witrpc::server::{Publisher, Server, ServerBuilder, ServiceBuilder};
use witrpc_cli::demo::{self, Faults};

/// A server on a port of its own; it ends when it is dropped.
pub struct Own {
    /// Dropped before its runtime.
    server: Option<Server>,
    runtime: Runtime,
    pub port: u16,
}

impl Own {
    /// The demo service alone, with default options.
    pub fn start() -> Self {
        Self::with(|builder| builder)
    }

    /// The demo service, with options.
    pub fn with(options: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        Self::at("tcp://127.0.0.1:0", options)
    }

    /// The demo service at an endpoint of any kind, with options.
    pub fn at(endpoint: &str, options: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let demo = demo::service(None, Arc::new(Faults::default()));
        Self::started(options(Server::builder().listen(endpoint).service(demo)))
    }

    /// Another service alone.
    pub fn alone(service: ServiceBuilder) -> Self {
        Self::started(
            Server::builder()
                .listen("tcp://127.0.0.1:0")
                .service(service),
        )
    }

    fn started(builder: ServerBuilder) -> Self {
        let runtime = runtime();
        let server = runtime.block_on(builder.start()).expect("it starts");
        let port = server.endpoints()[0].port();
        Self {
            server: Some(server),
            runtime,
            port,
        }
    }

    /// A second contract beside the first.
    pub fn composite(builder: ServerBuilder) -> ServerBuilder {
        builder.service(demo::second_service(None, Arc::new(Faults::default())))
    }

    pub fn endpoint(&self) -> String {
        let server = self.server.as_ref();
        server.map_or_else(String::new, |server| server.endpoints()[0].to_string())
    }

    /// Handlers ever begun.
    pub fn executed(&self) -> u64 {
        self.server
            .as_ref()
            .map_or(0, |server| server.stats().executed)
    }

    /// Waits until so many handlers run.
    pub fn running(&self, count: usize) {
        let begun = std::time::Instant::now();
        while self.server.as_ref().map(|server| server.stats().running) != Some(count) {
            assert!(begun.elapsed() < crate::WATCHDOG, "not {count} running");
            std::thread::yield_now();
        }
    }

    /// Stops it in order, on a thread of its own; says whether everything finished.
    pub fn stop(mut self) -> std::thread::JoinHandle<bool> {
        std::thread::spawn(move || {
            let server = self.server.take();
            server.is_some_and(|server| self.runtime.block_on(server.stop(crate::WATCHDOG)))
        })
    }

    /// Raises events.
    pub fn publisher(&self) -> Publisher {
        self.server.as_ref().expect("it runs").publisher()
    }

    /// Has something run beside the server.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.runtime.spawn(work).abort_handle()
    }

    /// Drives something on the server's runtime.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _inside = self.runtime.enter();
        self.server = None;
    }
}

/// A runtime for a test.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

//! A service inside the test's own process, for tests that have to reach into its handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use uuid::Uuid;
use witrpc::server::store::CallStore;
use witrpc::server::{Fault, Server, ServerBuilder, ServiceBuilder};

use crate::trace::Trace;

/// The contract's name.
pub const ECHO: &str = "Demo.IEcho";

/// What the handlers have to do with the test. Clones are the same.
#[derive(Clone)]
pub struct Demo {
    executed: Arc<Mutex<String>>,
    count: Arc<AtomicUsize>,
    /// Calls of `Hold` wait until they get one of these.
    pub gate: Arc<Semaphore>,
}

impl Default for Demo {
    fn default() -> Self {
        Self {
            executed: Arc::default(),
            count: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
        }
    }
}

impl Demo {
    /// A server on a port of its own, with options to be changed.
    pub fn server(&self) -> ServerBuilder {
        self.serving(self.service())
    }

    /// One whose calls are kept in a store.
    pub fn durable_server(&self, store: impl CallStore) -> ServerBuilder {
        self.serving(self.service().all_durable()).store(store)
    }

    fn serving(&self, service: ServiceBuilder) -> ServerBuilder {
        let executed = self.executed.clone();
        Server::builder()
            .listen("tcp://127.0.0.1:0")
            .service(service)
            .on_execute(move |execution| {
                use std::fmt::Write;
                let (method, id) = (execution.method, execution.invocation_id);
                writeln!(executed.lock(), "exec {method} {id}").unwrap();
            })
    }

    /// Starts it with the default options; also returns its endpoint.
    pub async fn serve(&self) -> (Server, String) {
        let server = self.server().start().await.unwrap();
        let endpoint = endpoint(&server);
        (server, endpoint)
    }

    /// What was executed so far.
    pub fn trace(&self) -> Trace {
        Trace::parse(&self.executed.lock())
    }

    /// How often a call was executed.
    pub fn executions(&self, id: Uuid) -> usize {
        self.trace().of(id)
    }

    /// The service.
    pub fn service(&self) -> ServiceBuilder {
        let (count, gate) = (self.count.clone(), self.gate.clone());
        ServiceBuilder::open(ECHO)
            .handle(
                "int Add(int a, int b)",
                |_, (a, b): (i32, i32)| async move { Ok(a.wrapping_add(b)) },
            )
            .handle(
                "string Echo(string text)",
                |_, (text,): (Option<String>,)| async move { Ok(text) },
            )
            .handle("int CountUp(int by)", move |_, (by,): (usize,)| {
                let count = count.clone();
                async move { Ok(count.fetch_add(by, Ordering::SeqCst) + by) }
            })
            .handle("int Hold(int result)", move |_, (result,): (i32,)| {
                let gate = gate.clone();
                async move {
                    gate.acquire().await?.forget();
                    Ok(result)
                }
            })
            .handle(
                "int Slow(int ms, int result)",
                |_, (ms, result): (u64, i32)| async move {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    Ok(result)
                },
            )
            .handle(
                "string Fail(string message)",
                |_, (message,): (String,)| async move { Err::<(), _>(Fault::new(message)) },
            )
            .handle("void Cut()", |call, ()| async move {
                call.drop_connection();
                Ok(())
            })
            .handle(
                "void RaiseMany(int count)",
                |call, (count,): (i32,)| async move {
                    for n in 0..count {
                        call.publisher()
                            .raise(ECHO, "event Action<int> Progress", (n,))?;
                    }
                    Ok(())
                },
            )
    }
}

/// Where a server listens, as a client names it.
pub fn endpoint(server: &Server) -> String {
    server.endpoints()[0].to_string()
}

//! The server: handlers that run in Python, and events.
//!
//! A request is handed to the event loop of the server; what answers it there, the loop itself or one
//! of the package's threads, is the package's business. The answer comes back through a [`CallReply`].

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tokio::sync::oneshot;
use witrpc::codec::Value;
use witrpc::contract::Method;
use witrpc::server::{Fault, ServiceBuilder};

use crate::bridge::{Bridge, Queue};
use crate::contract::Contract;
use crate::convert::{self, from_value};
use crate::durable;
use crate::options::Options;
use crate::process::{self, Closing, Own, closed};
use crate::publish::Publisher;
use crate::{errors, server_options};

struct Inner(Mutex<Option<witrpc::server::Server>>);

impl Closing for Inner {
    fn close(&self, _: Duration) {
        let server = self.0.lock().take();
        drop(server);
    }
}

/// A running server.
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct Server(Own<Arc<Inner>>);

/// Line, what answers it, whether its calls are kept, and what tells of those without an answer.
type Handler = (String, Py<PyAny>, bool, Option<Py<PyAny>>);

/// Id, address, principal, events that wait, events that were dropped.
type Seen<'py> = (Bound<'py, PyAny>, String, String, usize, u64);

fn service(contract: &Contract, handlers: Vec<Handler>, queue: &Arc<Queue>) -> ServiceBuilder {
    let mut service = ServiceBuilder::new(contract.0.clone());
    for (line, handler, is_durable, resolver) in handlers {
        let (jobs, handler) = (queue.clone(), Arc::new(handler));
        service = service.handle_values(&line, move |context, values| {
            begin(&jobs, handler.clone(), context, values)
        });
        if is_durable {
            service = durable::durable(service, &line, resolver, queue);
        }
    }
    service
}

/// Hands a request to Python and waits for the answer.
fn begin(
    queue: &Arc<Queue>,
    handler: Arc<Py<PyAny>>,
    context: witrpc::server::CallContext,
    values: Vec<Value>,
) -> impl Future<Output = Result<Value, Fault>> + Send + use<> {
    let (sender, answer) = oneshot::channel();
    let method = context.method().clone();
    let cancellation = context.cancellation().clone();
    let abandoned: Arc<Mutex<Option<Py<PyAny>>>> = Arc::default();
    let reply = CallReply {
        sender: Mutex::new(Some(sender)),
        method: method.clone(),
        abandoned: abandoned.clone(),
    };
    queue.post_job(move |py| {
        let params = method.params().iter();
        let objects = values.iter().zip(params);
        let objects =
            objects.map(|(value, param)| from_value(py, value, param.ty(), method.types()));
        let args = PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)?;
        let context = CallContext(context);
        handler
            .call1(py, (context, args, Py::new(py, reply)?))
            .map(drop)
    });
    let guard = Abandon {
        queue: queue.clone(),
        abandoned: Some(abandoned),
    };
    async move {
        let mut guard = guard;
        let outcome = tokio::select! {
            outcome = answer => outcome,
            () = cancellation.cancelled() => return Err(Fault::cancelled()),
        };
        guard.abandoned = None;
        outcome.unwrap_or_else(|_| Err(Fault::new("The handler has ended without an answer")))
    }
}

/// Tells Python that nobody waits for an answer any more.
struct Abandon {
    queue: Arc<Queue>,
    /// `None` once there is an answer.
    abandoned: Option<Arc<Mutex<Option<Py<PyAny>>>>>,
}

impl Drop for Abandon {
    fn drop(&mut self) {
        if let Some(abandoned) = self.abandoned.take() {
            self.queue.post_job(move |py| {
                let callback = abandoned.lock().take();
                callback.map_or(Ok(()), |callback| callback.call0(py).map(drop))
            });
        }
    }
}

/// Takes the answer of a handler.
#[pyclass(frozen, module = "witrpc._witrpc")]
struct CallReply {
    sender: Mutex<Option<oneshot::Sender<Result<Value, Fault>>>>,
    method: Method,
    abandoned: Arc<Mutex<Option<Py<PyAny>>>>,
}

impl CallReply {
    fn send(&self, outcome: Result<Value, Fault>) {
        self.abandoned.lock().take();
        if let Some(sender) = self.sender.lock().take() {
            let _ = sender.send(outcome);
        }
    }
}

#[pymethods]
impl CallReply {
    /// The result. An error if it is not what the method returns.
    fn set(&self, result: &Bound<'_, PyAny>) -> PyResult<()> {
        let method = &self.method;
        let value = convert::result(result, method.name(), method.returns(), method.types())?;
        self.send(Ok(value));
        Ok(())
    }

    /// Instead of a result: status, message, details.
    #[pyo3(signature = (status, message, details=None))]
    fn fail(&self, status: i32, message: String, details: Option<String>) {
        self.send(Err(Fault::with_status(status, message, details)));
    }

    /// `callback` is called, once, if nobody waits for the answer any more.
    fn when_abandoned(&self, callback: Py<PyAny>) {
        *self.abandoned.lock() = Some(callback);
    }
}

/// A call as its handler sees it.
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct CallContext(pub(crate) witrpc::server::CallContext);

#[pymethods]
impl CallContext {
    #[getter]
    fn contract(&self) -> String {
        self.0.method().contract_name().to_owned()
    }

    #[getter]
    fn method(&self) -> String {
        self.0.method().name().to_owned()
    }

    #[getter]
    fn invocation_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::uuid(py, &self.0.invocation_id())
    }

    #[getter]
    fn principal(&self) -> &str {
        self.0.principal()
    }

    #[getter]
    fn peer(&self) -> String {
        self.0.peer().to_string()
    }

    #[getter]
    fn connection<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::uuid(py, &self.0.connection())
    }

    /// How much of the caller's time is left, in seconds; `None` if it did not say.
    #[getter]
    fn remaining(&self) -> Option<f64> {
        self.0.remaining().map(|left| left.as_secs_f64())
    }

    /// Whether all who waited for the answer have taken the call back.
    #[getter]
    fn is_cancelled(&self) -> bool {
        self.0.cancellation().is_cancelled()
    }

    fn drop_connection(&self) {
        self.0.drop_connection();
    }

    /// What the caller sent along for tracing; `None` if it did not.
    #[getter]
    fn trace_context(&self) -> Option<&[u8]> {
        self.0.trace_context()
    }

    /// The types that a generic method is called with, in C#.
    #[getter]
    fn type_arguments(&self) -> Vec<String> {
        let types = self.0.type_arguments().iter();
        types.map(ToString::to_string).collect()
    }

    fn publisher(&self) -> Publisher {
        Publisher::new(self.0.publisher().clone())
    }
}

#[pymethods]
impl Server {
    /// Starts a server: a future of it. `services` are contracts with their handlers, each of which is
    /// called in the loop's thread with the call, its arguments and what takes its answer.
    #[staticmethod]
    fn start<'py>(
        py: Python<'py>,
        bridge: &Bound<'py, Bridge>,
        options: Bound<'py, PyDict>,
        services: Vec<(Bound<'py, Contract>, Vec<Handler>)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let queue = bridge.get().queue()?;
        let mut builder = server_options::server(&Options(options), queue)?;
        for (contract, handlers) in services {
            builder = builder.service(service(contract.get(), handlers, queue));
        }
        let runtime = process::loop_runtime(py)?;
        bridge
            .get()
            .spawn(py, &runtime, builder.start(), |py, server| {
                let inner = Arc::new(Inner(Mutex::new(Some(server))));
                let closing: Arc<dyn Closing> = inner.clone();
                process::close_at_end(py, Arc::downgrade(&closing));
                Ok(Py::new(py, Self(Own::new(inner)))?.into_any())
            })
    }

    /// Where it listens; nowhere once it has stopped.
    #[getter]
    fn endpoints(&self) -> PyResult<Vec<String>> {
        self.look(|server| server.endpoints().iter().map(ToString::to_string).collect())
    }

    /// Addresses of the clients.
    #[getter]
    fn clients(&self) -> PyResult<Vec<String>> {
        self.look(|server| server.clients().iter().map(ToString::to_string).collect())
    }

    /// Id, address, principal, and events that wait or were dropped, of each connection.
    fn connections<'py>(&self, py: Python<'py>) -> PyResult<Vec<Seen<'py>>> {
        let connections = self.look(witrpc::server::Server::connections)?;
        let seen = connections.into_iter().map(|connection| {
            let id = convert::uuid(py, &connection.id)?;
            let (peer, principal) = (
                connection.peer.to_string(),
                connection.principal.to_string(),
            );
            let events = (connection.events_waiting, connection.events_dropped);
            Ok((id, peer, principal, events.0, events.1))
        });
        seen.collect()
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self
            .look(|server| Some(server.stats()))?
            .unwrap_or_default();
        let dict = PyDict::new(py);
        dict.set_item("connections", stats.connections)?;
        dict.set_item("running", stats.running)?;
        dict.set_item("executed", stats.executed)?;
        dict.set_item("events_dropped", stats.events_dropped)?;
        dict.set_item("slow_clients_closed", stats.slow_clients_closed)?;
        dict.set_item("remembered", stats.dedup.done)?;
        dict.set_item("replayed", stats.dedup.replayed)?;
        dict.set_item("attached", stats.dedup.attached)?;
        dict.set_item("unknown", stats.dedup.unknown)?;
        dict.set_item("refused", stats.dedup.refused)?;
        Ok(dict)
    }

    fn publisher(&self) -> PyResult<Publisher> {
        let publisher = self.look(|server| Some(server.publisher()))?;
        let publisher = publisher.ok_or_else(|| errors::raise(closed("server")))?;
        Ok(Publisher::new(publisher))
    }

    /// Stops in order: a future of whether everything finished in time.
    fn stop<'py>(
        &self,
        py: Python<'py>,
        bridge: &Bound<'py, Bridge>,
        limit: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let server = self.0.get()?.0.lock().take();
        let work = async move {
            match server {
                Some(server) => Ok(server.stop(Duration::from_secs_f64(limit)).await),
                None => Ok(true),
            }
        };
        bridge
            .get()
            .spawn(py, &process::loop_runtime(py)?, work, |py, finished| {
                Ok(finished.into_pyobject(py)?.to_owned().into_any().unbind())
            })
    }

    /// Stops at once.
    fn close(&self) -> PyResult<()> {
        self.0.get()?.close(Duration::ZERO);
        Ok(())
    }
}

impl Server {
    fn look<T: Default>(&self, look: impl FnOnce(&witrpc::server::Server) -> T) -> PyResult<T> {
        let server = self.0.get()?.0.lock();
        Ok(server.as_ref().map(look).unwrap_or_default())
    }
}

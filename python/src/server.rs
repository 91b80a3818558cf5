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
use crate::options::Options;
use crate::process::{self, Closing, Own, closed};
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

type Handler = (String, Py<PyAny>);

fn service(contract: &Contract, handlers: Vec<Handler>, queue: &Arc<Queue>) -> ServiceBuilder {
    let mut service = ServiceBuilder::new(contract.0.clone());
    for (line, handler) in handlers {
        let (queue, handler) = (queue.clone(), Arc::new(handler));
        service = service.handle_values(&line, move |context, values| {
            begin(&queue, handler.clone(), context, values)
        });
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
        let outcome = answer.await;
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
pub(crate) struct CallContext(witrpc::server::CallContext);

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

    fn drop_connection(&self) {
        self.0.drop_connection();
    }
}

/// Raises events; may be used from any thread.
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct Publisher(Own<witrpc::server::Publisher>);

#[pymethods]
impl Publisher {
    /// Raises an event of the contract by its name or line.
    fn raise_event(
        &self,
        contract: &Bound<'_, Contract>,
        event: &str,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let publisher = self.0.get()?;
        let contract = &contract.get().0;
        let found = contract
            .event(event)
            .map_err(|e| errors::invalid(format!("event \"{event}\": {e}")))?;
        let values = convert::arguments(args, found.name(), found.args(), found.types())?;
        publisher
            .raise_values(contract.name(), event, &values)
            .map(drop)
            .map_err(errors::raise)
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

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self
            .look(|server| Some(server.stats()))?
            .unwrap_or_default();
        let dict = PyDict::new(py);
        dict.set_item("connections", stats.connections)?;
        dict.set_item("running", stats.running)?;
        dict.set_item("executed", stats.executed)?;
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
        Ok(Publisher(Own::new(publisher)))
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

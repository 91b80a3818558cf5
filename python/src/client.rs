//! Clients and their services.
//!
//! A client belongs either to an event loop (then it has a bridge, and nothing of it ever blocks) or
//! to threads that wait. Which methods the package calls depends on that.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use witrpc::client::{ClientBuilder, RetryPolicy};
use witrpc::codec::Codec;
use witrpc::resilience::engine::State;
use witrpc::runtime::Runtime;

use crate::bridge::{self, Bridge, Item, Queue};
use crate::call::{self, Method};
use crate::contract::Contract;
use crate::event::{EventSource, Subscription};
use crate::options::{self, Options};
use crate::process::{self, Closing, Own};
use crate::{errors, options::seconds};

type Stats = (u64, usize, usize, u64, Option<f64>, Option<f64>);

/// How long closing waits for the callback thread, which only hands callbacks on to a loop.
const LAST_NOTICES: Duration = Duration::from_secs(1);

pub(crate) struct Inner {
    pub(crate) client: witrpc::client::Client,
    pub(crate) codec: Codec,
    endpoints: Vec<String>,
    /// Of a client whose callers wait.
    blocking: Option<Runtime>,
}

impl Inner {
    /// Waits without the GIL. For blocking clients.
    pub(crate) fn wait<F>(&self, py: Python<'_>, future: F) -> PyResult<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        let Some(runtime) = &self.blocking else {
            return Err(errors::invalid("a client of an event loop can't block"));
        };
        let dispatcher = self.client.dispatcher();
        dispatcher.while_waiting(|| process::wait(py, runtime, future))
    }

    /// What was started without a waiting thread is to go on at once.
    fn kick(&self) {
        if let Some(runtime) = &self.blocking {
            runtime.kick();
        }
    }
}

impl Closing for Inner {
    fn close(&self, limit: Duration) {
        self.client.close();
        self.client.dispatcher().wait_idle(limit);
    }
}

/// See the [module](self).
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct Client(Own<Arc<Inner>>);

/// Where callbacks run.
#[derive(Clone)]
enum Place {
    /// In the loop's thread.
    Loop(Arc<Queue>),
    /// On the client's callback thread.
    Thread,
}

impl Place {
    /// Has `callback` called with these arguments.
    fn call<A>(&self, callback: &Arc<Py<PyAny>>, arguments: A)
    where
        A: FnOnce(Python<'_>) -> PyResult<Py<PyTuple>> + Send + 'static,
    {
        let callback = callback.clone();
        let run = move |py: Python<'_>| callback.call1(py, arguments(py)?).map(drop);
        match self {
            Self::Loop(queue) => queue.post(Item::Notice(Box::new(run))),
            Self::Thread => {
                process::attach(|py| {
                    if let Err(error) = run(py) {
                        error.write_unraisable(py, None);
                    }
                });
            }
        }
    }
}

fn tuple<'py>(
    py: Python<'py>,
    arguments: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Py<PyTuple>> {
    Ok(arguments.into_pyobject(py)?.unbind())
}

fn callbacks(
    mut builder: ClientBuilder,
    options: &Options<'_>,
    place: &Place,
) -> PyResult<ClientBuilder> {
    let callback = |name: &str| -> PyResult<Option<(Place, Arc<Py<PyAny>>)>> {
        Ok(options
            .callback(name)?
            .map(|f| (place.clone(), Arc::new(f))))
    };
    if let Some((place, f)) = callback("on_reconnecting")? {
        builder = builder.on_reconnecting(move |attempt, delay| {
            place.call(&f, move |py| tuple(py, (attempt, delay.as_secs_f64())));
        });
    }
    if let Some((place, f)) = callback("on_reconnected")? {
        builder = builder.on_reconnected(move || {
            place.call(&f, |py| Ok(PyTuple::empty(py).unbind()));
        });
    }
    if let Some((place, f)) = callback("on_reconnection_failed")? {
        builder = builder.on_reconnection_failed(move |error| {
            place.call(&f, move |py| tuple(py, (errors::exception(py, &error)?,)));
        });
    }
    if let Some((place, f)) = callback("on_state_changed")? {
        builder = builder.on_state_changed(move |state| {
            place.call(&f, move |py| tuple(py, (state as i32,)));
        });
    }
    if let Some((place, f)) = callback("on_retry")? {
        builder = builder.on_retry(move |notice| {
            place.call(&f, move |py| {
                let error = errors::exception(py, &notice.error)?;
                let delay = notice.delay.as_secs_f64();
                tuple(py, (&*notice.method, error, notice.attempt, delay))
            });
        });
    }
    Ok(builder)
}

fn retry(options: &Options<'_>) -> PyResult<Option<RetryPolicy>> {
    let Some(policy) = options::retry_policy(options)? else {
        return Ok(None);
    };
    Ok(Some(match options.callback("retry_if")? {
        None => policy,
        Some(f) => policy.retry_if(move |error| {
            let ask = process::attach(|py| {
                let answer = errors::exception(py, error).and_then(|e| f.call1(py, (e,)));
                answer
                    .and_then(|answer| answer.is_truthy(py))
                    .unwrap_or_else(|error| {
                        error.write_unraisable(py, None);
                        false
                    })
            });
            ask.unwrap_or(false)
        }),
    }))
}

fn token(builder: ClientBuilder, options: &Options<'_>, place: &Place) -> PyResult<ClientBuilder> {
    let Some(provider) = options.callback("token_provider")? else {
        return Ok(builder);
    };
    let provider = Arc::new(provider);
    let text = |py: Python<'_>, answer: &Py<PyAny>| -> std::result::Result<String, String> {
        answer
            .extract(py)
            .map_err(|_| "it gave something else than a str".to_owned())
    };
    Ok(match place.clone() {
        Place::Loop(queue) => builder.token_provider(move || {
            let (queue, provider) = (queue.clone(), provider.clone());
            async move {
                let answer = bridge::ask(&queue, provider, |_| Ok(())).await?;
                process::attach(|py| text(py, &answer))
                    .unwrap_or_else(|| Err("the interpreter has ended".to_owned()))
            }
        }),
        Place::Thread => builder.blocking_token_provider(move || {
            process::attach(|py| match provider.call0(py) {
                Ok(answer) => text(py, &answer),
                Err(error) => Err(error.to_string()),
            })
            .unwrap_or_else(|| Err("the interpreter has ended".to_owned()))
        }),
    })
}

/// The state of this number.
fn state(number: i32) -> PyResult<State> {
    let all = [
        State::Connected,
        State::Disconnected,
        State::Reconnecting,
        State::Failed,
    ];
    let found = all.into_iter().find(|state| *state as i32 == number);
    found.ok_or_else(|| errors::invalid(format!("{number} is no state")))
}

#[pymethods]
impl Client {
    /// A client that is not connected: of an event loop if there is a bridge to it.
    #[new]
    #[pyo3(signature = (options, bridge=None))]
    fn new(
        py: Python<'_>,
        options: Bound<'_, PyDict>,
        bridge: Option<&Bound<'_, Bridge>>,
    ) -> PyResult<Self> {
        let options = Options(options);
        let place = match bridge {
            Some(bridge) => Place::Loop(bridge.get().queue()?.clone()),
            None => Place::Thread,
        };
        let prepared = options::client(&options)?;
        let mut builder = callbacks(prepared.builder, &options, &place)?;
        builder = token(builder, &options, &place)?;
        if let Some(policy) = retry(&options)? {
            builder = builder.retry(policy);
        }
        let blocking = match &place {
            Place::Loop(_) => None,
            Place::Thread => Some(process::blocking_runtime(py)?),
        };
        let handle = match &blocking {
            Some(runtime) => runtime.handle().clone(),
            None => process::loop_runtime(py)?,
        };
        let client = builder.runtime(handle).build().map_err(errors::raise)?;
        let inner = Arc::new(Inner {
            client,
            codec: prepared.codec,
            endpoints: prepared.endpoints,
            blocking,
        });
        let closing: Arc<dyn Closing> = inner.clone();
        process::close_at_end(py, Arc::downgrade(&closing));
        Ok(Self(Own::new(inner)))
    }

    /// Connects, or drops the link first if `anew`, and waits.
    fn connect(&self, py: Python<'_>, anew: bool) -> PyResult<()> {
        let inner = self.0.get()?;
        let connected = inner.wait(py, connect(&inner.client, anew))?;
        connected.map_err(errors::raise)
    }

    /// The same for an event loop: a future of nothing.
    fn start_connect<'py>(
        &self,
        py: Python<'py>,
        bridge: &Bound<'py, Bridge>,
        anew: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let client = self.0.get()?.client.clone();
        let work = async move { connect(&client, anew).await };
        bridge.get().spawn(
            py,
            &process::loop_runtime(py)?,
            work,
            |py, ()| Ok(py.None()),
        )
    }

    /// Waits until the client is in this state; false if that took too long.
    #[pyo3(signature = (number, timeout=None))]
    fn wait_for(
        &self,
        py: Python<'_>,
        number: i32,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let inner = self.0.get()?;
        let limit = timeout.map(|limit| seconds(limit, "timeout")).transpose()?;
        let wait = inner.client.wait_for(state(number)?);
        let reached = inner.wait(py, async {
            match limit {
                Some(limit) => tokio::time::timeout(limit, wait).await.ok(),
                None => Some(wait.await),
            }
        })?;
        reached
            .transpose()
            .map(|reached| reached.is_some())
            .map_err(errors::raise)
    }

    /// The same for an event loop, without a limit: that is the loop's business.
    fn start_wait_for<'py>(
        &self,
        py: Python<'py>,
        bridge: &Bound<'py, Bridge>,
        number: i32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (client, state) = (self.0.get()?.client.clone(), state(number)?);
        let work = async move { client.wait_for(state).await };
        bridge.get().spawn(
            py,
            &process::loop_runtime(py)?,
            work,
            |py, ()| Ok(py.None()),
        )
    }

    /// Makes a round trip that executes nothing, and waits for it.
    fn probe(&self, py: Python<'_>, timeout: &Bound<'_, PyAny>) -> PyResult<()> {
        let inner = self.0.get()?;
        let limit = seconds(timeout, "timeout")?;
        let answered = inner.wait(py, inner.client.probe(limit))?;
        answered.map_err(errors::raise)
    }

    /// The same for an event loop: a future of nothing.
    fn start_probe<'py>(
        &self,
        py: Python<'py>,
        bridge: &Bound<'py, Bridge>,
        timeout: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let client = self.0.get()?.client.clone();
        let limit = seconds(timeout, "timeout")?;
        let work = async move { client.probe(limit).await };
        bridge.get().spawn(
            py,
            &process::loop_runtime(py)?,
            work,
            |py, ()| Ok(py.None()),
        )
    }

    fn reconnect_now(&self) -> PyResult<()> {
        let inner = self.0.get()?;
        inner.client.reconnect_now();
        inner.kick();
        Ok(())
    }

    fn stop_reconnection(&self) -> PyResult<()> {
        self.0.get()?.client.stop_reconnection();
        Ok(())
    }

    fn disconnect(&self) -> PyResult<()> {
        self.0.get()?.client.disconnect();
        Ok(())
    }

    /// Disconnects for good. Callbacks that are queued still run.
    fn close(&self) -> PyResult<()> {
        let inner = self.0.get()?;
        inner.client.close();
        inner.kick();
        Ok(())
    }

    /// For an event loop, after [`close`](Self::close): a future that is done when all callbacks have
    /// been handed to the loop.
    fn start_closed<'py>(
        &self,
        py: Python<'py>,
        bridge: &Bound<'py, Bridge>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let client = self.0.get()?.client.clone();
        let runtime = process::loop_runtime(py)?;
        let handed = runtime.spawn_blocking(move || client.dispatcher().wait_idle(LAST_NOTICES));
        let work = async move {
            let _ = handed.await;
            Ok(())
        };
        bridge
            .get()
            .spawn(py, &runtime, work, |py, ()| Ok(py.None()))
    }

    /// Waits until the callbacks have returned; false if that took longer, and in a callback.
    fn wait_idle(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let client = &self.0.get()?.client;
        Ok(py.detach(|| {
            client
                .dispatcher()
                .wait_idle(Duration::from_secs_f64(timeout))
        }))
    }

    /// Where it connects to.
    #[getter]
    fn endpoints(&self) -> PyResult<Vec<String>> {
        Ok(self.0.get()?.endpoints.clone())
    }

    #[getter]
    fn state(&self) -> PyResult<i32> {
        Ok(self.0.get()?.client.state() as i32)
    }

    /// Reconnections that succeeded, calls in flight, calls that wait, retries.
    /// The round-trip time and the silence of the server, in seconds, are `None` without a link.
    fn stats(&self) -> PyResult<Stats> {
        let client = &self.0.get()?.client;
        let stats = client.stats();
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        Ok((
            stats.reconnects,
            stats.in_flight,
            stats.queued,
            stats.retries,
            seconds(stats.round_trip),
            seconds(client.silence()),
        ))
    }

    /// Whether the server is libwitrpc and how long it remembers calls, in seconds; `None` without a
    /// link.
    fn peer(&self) -> PyResult<Option<(bool, Option<f64>)>> {
        let peer = self.0.get()?.client.peer();
        Ok(peer.map(|peer| {
            let hold = peer.reach.map(|reach| reach.hold_ms as f64 / 1000.0);
            (peer.deduplicates(), hold)
        }))
    }

    /// Why the last link or attempt to connect failed, as an exception.
    fn last_failure<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let failure = self.0.get()?.client.last_failure();
        failure
            .map(|error| errors::exception(py, &error))
            .transpose()
    }

    fn service(&self, contract: &Bound<'_, Contract>) -> PyResult<Service> {
        let inner = self.0.get()?.clone();
        let service = inner.client.service_of(contract.get().0.clone());
        Ok(Service(Own::new((inner, service))))
    }
}

async fn connect(client: &witrpc::client::Client, anew: bool) -> witrpc::Result<()> {
    match anew {
        true => client.reconnect().await,
        false => client.connect().await,
    }
}

/// A handle on one contract of a server.
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct Service(Own<(Arc<Inner>, witrpc::client::Service)>);

#[pymethods]
impl Service {
    /// A method by its line, or its name where the contract lists it.
    fn method(&self, line: &str) -> PyResult<Method> {
        let (client, service) = self.0.get()?;
        let prepared = service.prepare(line).map_err(errors::raise)?;
        Ok(Method::new(call::Inner {
            client: client.clone(),
            service: service.clone(),
            prepared,
        }))
    }

    /// Events from now on, to be taken. `queue` bounds those that wait.
    #[pyo3(signature = (line, queue=None))]
    fn events(&self, line: &str, queue: Option<&Bound<'_, PyAny>>) -> PyResult<EventSource> {
        let (client, service) = self.0.get()?;
        EventSource::new(client.clone(), service, line, queue)
    }

    /// Has `handler` called with the arguments of each event, on the callback thread.
    #[pyo3(signature = (line, handler, queue=None))]
    fn subscribe(
        &self,
        line: &str,
        handler: Py<PyAny>,
        queue: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Subscription> {
        let (_, service) = self.0.get()?;
        Subscription::new(service, line, handler, queue)
    }
}

//! Events: as a source from which a loop or a thread takes, or as calls of a handler.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tokio::sync::Notify;
use witrpc::client::{EventArgs, EventStream, Service, SubscribeBuilder, SubscriptionStats};
use witrpc::contract::{Event, Param, Types};

use crate::bridge::Bridge;
use crate::client;
use crate::convert::from_value;
use crate::errors;
use crate::options::{self, seconds};
use crate::process::{self, Own};

/// Events that are fetched at a time: what a loop is woken for once.
const BATCH: usize = 256;

/// Events that were taken, that were dropped, and that wait.
type Counts = (u64, u64, usize);

/// Events of one kind, in order.
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct EventSource(Own<(Arc<client::Inner>, Arc<Source>)>);

struct Source {
    event: Event,
    /// `None` once it is closed.
    stream: tokio::sync::Mutex<Option<EventStream>>,
    /// Fetched and not taken yet.
    ready: Mutex<VecDeque<EventArgs>>,
    /// No more will come.
    ended: AtomicBool,
    /// Nobody wants any more.
    stopped: AtomicBool,
    closed: Notify,
    /// As it was seen last, of what the stream knows itself.
    stats: Mutex<SubscriptionStats>,
}

/// The event of a line, as the service knows it.
fn resolve(service: &Service, line: &str) -> PyResult<Event> {
    let found = service.contract().event(line);
    found.map_err(|e| errors::invalid(format!("event \"{line}\": {e}")))
}

/// A subscription about to be made, with the bounds of its queue if they are not the client's.
fn subscribe(
    service: &Service,
    line: &str,
    queue: Option<&Bound<'_, PyAny>>,
) -> PyResult<SubscribeBuilder> {
    let mut builder = service.subscribe([line]).map_err(errors::raise)?;
    if let Some(queue) = queue {
        let queue = options::event_queue(queue)?;
        builder = builder.queue(queue).map_err(errors::raise)?;
    }
    Ok(builder)
}

fn arguments<'py>(
    py: Python<'py>,
    args: &EventArgs,
    params: &[Param],
    types: &Types,
) -> PyResult<Bound<'py, PyTuple>> {
    let values = args.values().map_err(errors::raise)?;
    let objects = values
        .iter()
        .zip(params)
        .map(|(value, param)| from_value(py, value, param.ty(), types));
    PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)
}

impl Source {
    /// Waits for events and fetches those that are there.
    async fn fill(&self) {
        let closed = self.closed.notified();
        if self.ended.load(Ordering::SeqCst) || !self.ready.lock().is_empty() {
            return;
        }
        let filling = async {
            let mut stream = self.stream.lock().await;
            let Some(stream) = stream.as_mut() else {
                return;
            };
            // Who waited for the stream may find that another has fetched for both.
            if self.ready.lock().is_empty() {
                match stream.next().await {
                    Some(first) => self.ready.lock().push_back(first),
                    None => self.ended.store(true, Ordering::SeqCst),
                }
            }
            self.fetch(stream);
        };
        tokio::select! {
            () = filling => {}
            () = closed => {}
        }
    }

    fn fetch(&self, stream: &mut EventStream) {
        let mut context = Context::from_waker(Waker::noop());
        let mut ready = self.ready.lock();
        while ready.len() < BATCH {
            let mut next = Box::pin(stream.next());
            match next.as_mut().poll(&mut context) {
                Poll::Ready(Some(args)) => ready.push_back(args),
                _ => break,
            }
        }
        *self.stats.lock() = stream.stats();
    }

    fn close(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.ended.store(true, Ordering::SeqCst);
        self.ready.lock().clear();
        self.closed.notify_waiters();
        // Else who fills lets go of it, and the last of us drops it.
        if let Ok(mut stream) = self.stream.try_lock() {
            *stream = None;
        }
    }
}

impl EventSource {
    pub(crate) fn new(
        client: Arc<client::Inner>,
        service: &Service,
        line: &str,
        queue: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let event = resolve(service, line)?;
        let stream = subscribe(service, line, queue)?.stream();
        let source = Source {
            event,
            stream: tokio::sync::Mutex::new(Some(stream)),
            ready: Mutex::default(),
            ended: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            closed: Notify::new(),
            stats: Mutex::default(),
        };
        Ok(Self(Own::new((client, Arc::new(source)))))
    }
}

#[pymethods]
impl EventSource {
    /// The arguments of the next event that is there; `None` if none is, `False` if none will be.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (_, source) = self.0.get()?;
        if source.stopped.load(Ordering::SeqCst) {
            // Also of what came while it was being closed.
            return Ok(false.into_pyobject(py)?.to_owned().into_any());
        }
        let args = source.ready.lock().pop_front();
        let args = match args {
            Some(args) => Some(args),
            None => {
                if let Ok(mut stream) = source.stream.try_lock()
                    && let Some(stream) = stream.as_mut()
                    && !source.ended.load(Ordering::SeqCst)
                {
                    source.fetch(stream);
                }
                source.ready.lock().pop_front()
            }
        };
        match args {
            Some(args) => {
                let event = &source.event;
                Ok(arguments(py, &args, event.args(), event.types())?.into_any())
            }
            None if source.ended.load(Ordering::SeqCst) => {
                Ok(false.into_pyobject(py)?.to_owned().into_any())
            }
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// A future that is done when there is something to take, or nothing will be.
    fn start_wait<'py>(
        &self,
        py: Python<'py>,
        bridge: &Bound<'py, Bridge>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let source = self.0.get()?.1.clone();
        let work = async move {
            source.fill().await;
            Ok(())
        };
        bridge.get().spawn(
            py,
            &process::loop_runtime(py)?,
            work,
            |py, ()| Ok(py.None()),
        )
    }

    /// Waits until there is something to take, or nothing will be; false if that took too long.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let (client, source) = self.0.get()?;
        let limit = timeout.map(|limit| seconds(limit, "timeout")).transpose()?;
        client.wait(py, async {
            match limit {
                Some(limit) => tokio::time::timeout(limit, source.fill()).await.is_ok(),
                None => {
                    source.fill().await;
                    true
                }
            }
        })
    }

    /// Ends it: what was not taken is gone.
    fn close(&self) -> PyResult<()> {
        self.0.get()?.1.close();
        Ok(())
    }

    /// Events that were taken, that were dropped, and that wait.
    fn stats(&self) -> PyResult<Counts> {
        let (_, source) = self.0.get()?;
        if let Ok(stream) = source.stream.try_lock()
            && let Some(stream) = stream.as_ref()
        {
            *source.stats.lock() = stream.stats();
        }
        let (stats, ready) = (*source.stats.lock(), source.ready.lock().len());
        // What is fetched and not taken yet still waits.
        let taken = stats.delivered.saturating_sub(ready as u64);
        Ok((taken, stats.dropped, stats.waiting + ready))
    }
}

impl Drop for EventSource {
    fn drop(&mut self) {
        if let Some((_, source)) = self.0.peek() {
            source.close();
        }
    }
}

/// A handler that is called with each event, until it is closed.
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct Subscription(Own<Mutex<Option<witrpc::client::Subscription>>>);

impl Subscription {
    pub(crate) fn new(
        service: &Service,
        line: &str,
        handler: Py<PyAny>,
        queue: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let event = resolve(service, line)?;
        let run = move |py: Python<'_>, args: &EventArgs| {
            let args = arguments(py, args, event.args(), event.types())?;
            handler.call1(py, args).map(drop)
        };
        let subscription = subscribe(service, line, queue)?.handler(move |args| {
            process::attach(|py| {
                if let Err(error) = run(py, &args) {
                    error.write_unraisable(py, None);
                }
            });
        });
        Ok(Self(Own::new(Mutex::new(Some(subscription)))))
    }
}

#[pymethods]
impl Subscription {
    /// Ends it. A handler that is running still ends.
    fn close(&self) -> PyResult<()> {
        let taken = self.0.get()?.lock().take();
        drop(taken);
        Ok(())
    }

    /// Events that were handed to the handler, that were dropped, and that wait. Of one that was
    /// closed: none.
    fn stats(&self) -> PyResult<Counts> {
        let subscription = self.0.get()?.lock();
        let stats = subscription
            .as_ref()
            .map(witrpc::client::Subscription::stats);
        let stats = stats.unwrap_or_default();
        Ok((stats.delivered, stats.dropped, stats.waiting))
    }
}

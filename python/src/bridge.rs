//! The bridge to an event loop: what threads of ours have for it, and the one wake-up for all of it.
//!
//! Owns the queue and the wake-up. Whoever finishes something on another thread puts it into the
//! queue and, if the loop is not awake already, writes one byte to a socket that the loop watches: no
//! thread of ours ever waits for the GIL, and a hundred answers cost one wake-up. In the loop's own
//! thread [`Bridge::drain`] empties the queue. A loop that was closed is simply never drained again.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use tokio::sync::oneshot;

use crate::call::AsyncCall;
use crate::errors;
use crate::process::Own;

/// Most notifications that wait for a loop; one that takes none for so long has stopped. Ends of
/// calls are not counted: there are no more of them than calls.
const MAX_WAITING: usize = 65_536;

/// Something to do in the loop's thread.
pub(crate) enum Item {
    /// A call has an answer.
    Call(Arc<AsyncCall>),
    /// Anything else that must happen.
    Job(Job),
    /// Anything else that may be dropped if the loop takes nothing any more.
    Notice(Job),
}

pub(crate) type Job = Box<dyn FnOnce(Python<'_>) -> PyResult<()> + Send>;

#[cfg(unix)]
type Pipe = std::os::unix::net::UnixStream;
#[cfg(not(unix))]
type Pipe = std::net::TcpStream;

/// The half of a bridge that other threads use.
pub(crate) struct Queue {
    items: Mutex<VecDeque<Item>>,
    /// A byte is under way.
    signalled: AtomicBool,
    wake: Pipe,
}

impl Queue {
    /// Puts something in. Never blocks, never needs the GIL.
    pub(crate) fn post(&self, item: Item) {
        {
            let mut items = self.items.lock();
            if matches!(item, Item::Notice(_)) && items.len() >= MAX_WAITING {
                drop(items);
                return drop(item);
            }
            items.push_back(item);
        }
        if !self.signalled.swap(true, Ordering::SeqCst) {
            // It can only fail if the loop's end is gone; then nobody waits any more.
            let _ = (&self.wake).write(&[1]);
        }
    }

    /// Runs `job` in the loop's thread.
    pub(crate) fn post_job(&self, job: impl FnOnce(Python<'_>) -> PyResult<()> + Send + 'static) {
        self.post(Item::Job(Box::new(job)));
    }
}

/// See the [module](self). One for each event loop.
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct Bridge(Own<Inner>);

struct Inner {
    queue: Arc<Queue>,
    woken: Pipe,
    /// A thread takes the bytes, and not the loop.
    watched: AtomicBool,
    create_future: Py<PyAny>,
    on_error: Py<PyAny>,
}

#[pymethods]
impl Bridge {
    /// `on_error` is called with an exception that nobody else can be told of.
    #[new]
    fn new(create_future: Py<PyAny>, on_error: Py<PyAny>) -> PyResult<Self> {
        let (woken, wake) = pipe()?;
        Ok(Self(Own::new(Inner {
            queue: Arc::new(Queue {
                items: Mutex::default(),
                signalled: AtomicBool::new(false),
                wake,
            }),
            woken,
            watched: AtomicBool::new(false),
            create_future,
            on_error,
        })))
    }

    /// The descriptor that the loop is to watch for reading.
    fn fileno(&self) -> PyResult<i64> {
        let woken = &self.0.get()?.woken;
        #[cfg(unix)]
        return Ok(std::os::fd::AsRawFd::as_raw_fd(woken).into());
        #[cfg(not(unix))]
        return Ok(std::os::windows::io::AsRawSocket::as_raw_socket(woken) as i64);
    }

    /// Does what waits. In the loop's thread.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.0.get()?;
        if !inner.watched.load(Ordering::SeqCst) {
            let _ = (&inner.woken).read(&mut [0; 64]);
        }
        // Before the queue is taken: what is put in from now on brings its own byte.
        inner.queue.signalled.store(false, Ordering::SeqCst);
        let items = std::mem::take(&mut *inner.queue.items.lock());
        for item in items {
            let done = match item {
                Item::Call(call) => call.finish(py),
                Item::Job(job) | Item::Notice(job) => job(py),
            };
            if let Err(error) = done {
                let _ = inner.on_error.call1(py, (error.into_value(py),));
            }
        }
        Ok(())
    }

    /// Waits for a byte, without the GIL: for loops that can't watch descriptors.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.0.get()?;
        inner.watched.store(true, Ordering::SeqCst);
        py.detach(|| {
            inner.woken.set_nonblocking(false)?;
            (&inner.woken).read(&mut [0; 1]).map(drop)
        })?;
        Ok(())
    }
}

impl Bridge {
    pub(crate) fn queue(&self) -> PyResult<&Arc<Queue>> {
        Ok(&self.0.get()?.queue)
    }

    pub(crate) fn create_future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.get()?.create_future.bind(py).call0()
    }

    /// Starts `work` behind the loop and gives the future of its result.
    pub(crate) fn spawn<'py, T: Send + 'static>(
        &self,
        py: Python<'py>,
        runtime: &tokio::runtime::Handle,
        work: impl Future<Output = witrpc::Result<T>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        let future = self.create_future(py)?;
        let (queue, handle) = (self.queue()?.clone(), future.clone().unbind());
        runtime.spawn(async move {
            let outcome = work.await;
            queue.post_job(move |py| {
                let outcome = outcome.map_err(errors::raise);
                settle(py, &handle, outcome.and_then(|value| convert(py, value)))
            });
        });
        Ok(future)
    }
}

/// Ends a future of the loop, unless it was cancelled.
pub(crate) fn settle(
    py: Python<'_>,
    future: &Py<PyAny>,
    outcome: PyResult<Py<PyAny>>,
) -> PyResult<()> {
    let future = future.bind(py);
    let done = future.call_method0(intern!(py, "done"))?;
    if done.is_truthy()? {
        return Ok(());
    }
    match outcome {
        Ok(value) => future.call_method1(intern!(py, "set_result"), (value,))?,
        Err(error) => future.call_method1(intern!(py, "set_exception"), (error.into_value(py),))?,
    };
    Ok(())
}

/// Takes the answer of Python code that a thread of ours waits for. Dropped without an answer, it
/// says so.
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct Reply(Mutex<Option<oneshot::Sender<ReplyValue>>>);

/// What Python answered: a value, or the text of an exception.
pub(crate) type ReplyValue = std::result::Result<Py<PyAny>, String>;

impl Reply {
    pub(crate) fn new() -> (Self, oneshot::Receiver<ReplyValue>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Mutex::new(Some(sender))), receiver)
    }
}

#[pymethods]
impl Reply {
    /// The answer.
    fn set(&self, value: Py<PyAny>) {
        if let Some(sender) = self.0.lock().take() {
            let _ = sender.send(Ok(value));
        }
    }

    /// Instead of an answer: why there is none.
    fn fail(&self, reason: String) {
        if let Some(sender) = self.0.lock().take() {
            let _ = sender.send(Err(reason));
        }
    }
}

/// Puts a question to Python code in the loop's thread and waits for the answer.
pub(crate) async fn ask<A>(
    queue: &Queue,
    ask: Arc<Py<PyAny>>,
    arguments: impl FnOnce(Python<'_>) -> PyResult<A> + Send + 'static,
) -> std::result::Result<Py<PyAny>, String>
where
    A: for<'py> IntoPyObject<'py>,
{
    let (reply, answer) = Reply::new();
    queue.post_job(move |py| {
        let arguments = arguments(py)?;
        ask.call1(py, (arguments, Py::new(py, reply)?)).map(drop)
    });
    answer
        .await
        .unwrap_or_else(|_| Err("the event loop has stopped".to_owned()))
}

#[cfg(unix)]
fn pipe() -> std::io::Result<(Pipe, Pipe)> {
    let (woken, wake) = Pipe::pair()?;
    woken.set_nonblocking(true)?;
    wake.set_nonblocking(true)?;
    Ok((woken, wake))
}

#[cfg(not(unix))]
fn pipe() -> std::io::Result<(Pipe, Pipe)> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let wake = Pipe::connect(listener.local_addr()?)?;
    let (woken, from) = listener.accept()?;
    if from != wake.local_addr()? {
        return Err(std::io::ErrorKind::ConnectionAborted.into());
    }
    woken.set_nonblocking(true)?;
    wake.set_nonblocking(true)?;
    wake.set_nodelay(true)?;
    Ok((woken, wake))
}

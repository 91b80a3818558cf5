//! Calls: a method made ready once, and its calls, waited for by a thread or by an event loop.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use uuid::Uuid;
use witrpc::client::{CallBuilder, PendingCall, PreparedMethod, Service};
use witrpc::codec::Codec;
use witrpc::resilience::engine::Answer;
use witrpc::wire::Arguments;

use crate::bridge::{Bridge, Item, Queue, settle};
use crate::buffer::{Buffer, bytes_of};
use crate::convert::{self, from_value};
use crate::options::seconds;
use crate::process::Own;
use crate::publish::id_of;
use crate::{client, errors};

/// A method that is ready to be called.
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct Method(Own<Arc<Inner>>);

pub(crate) struct Inner {
    pub(crate) client: Arc<client::Inner>,
    pub(crate) service: Service,
    pub(crate) prepared: PreparedMethod,
}

/// What is special about one call.
#[derive(Default)]
struct Special {
    timeout: Option<Timeout>,
    repeat: Option<Repeat>,
    invocation_id: Option<Uuid>,
    /// For the tracing of the server, if that understands it.
    trace_context: Option<Vec<u8>>,
}

enum Timeout {
    After(Duration),
    Never,
}

enum Repeat {
    Idempotent,
    Deduplicated,
}

impl Special {
    fn read(
        timeout: Option<&Bound<'_, PyAny>>,
        repeat: Option<&str>,
        invocation_id: Option<&Bound<'_, PyAny>>,
        trace_context: Option<Vec<u8>>,
    ) -> PyResult<Self> {
        Ok(Self {
            timeout: timeout.map(read_timeout).transpose()?,
            repeat: repeat.map(|repeat| match repeat {
                "idempotent" => Repeat::Idempotent,
                _ => Repeat::Deduplicated,
            }),
            invocation_id: invocation_id.map(id_of).transpose()?,
            trace_context,
        })
    }

    fn apply<'a>(self, mut call: CallBuilder<'a, ()>) -> CallBuilder<'a, ()> {
        call = match self.timeout {
            None => call,
            Some(Timeout::After(limit)) => call.timeout(limit),
            Some(Timeout::Never) => call.no_timeout(),
        };
        call = match self.repeat {
            None => call,
            Some(Repeat::Idempotent) => call.idempotent(),
            Some(Repeat::Deduplicated) => call.deduplicated(),
        };
        call = match self.invocation_id {
            None => call,
            Some(id) => call.invocation_id(id),
        };
        match self.trace_context {
            None => call,
            Some(context) => call.trace_context(context),
        }
    }
}

fn read_timeout(value: &Bound<'_, PyAny>) -> PyResult<Timeout> {
    if let Ok(number) = value.extract::<f64>()
        && number == f64::INFINITY
    {
        return Ok(Timeout::Never);
    }
    seconds(value, "timeout").map(Timeout::After)
}

impl Method {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Own::new(Arc::new(inner)))
    }
}

impl Inner {
    fn codec(&self) -> Codec {
        self.client.codec
    }

    fn encode(&self, args: &Bound<'_, PyTuple>) -> PyResult<Arguments> {
        let method = self.prepared.method();
        let values = convert::arguments(args, method.name(), method.params(), method.types())?;
        let blobs = method.encode_args(self.codec(), &values);
        let blobs = blobs.map_err(|e| errors::invalid(e.to_string()))?;
        Ok(Arguments::from_blobs(&blobs))
    }

    fn decode(&self, py: Python<'_>, answer: &Answer) -> PyResult<Py<PyAny>> {
        let method = self.prepared.method();
        let data = answer.data.as_deref().unwrap_or_default();
        let value = method.decode_result(self.codec(), data).map_err(|e| {
            let message = format!("the result of {} can't be read", method.name());
            errors::unreadable(&message, &e.to_string())
        })?;
        from_value(py, &value, method.returns(), method.types()).map(Bound::unbind)
    }

    fn finish(
        &self,
        py: Python<'_>,
        answer: witrpc::Result<Answer>,
        encoded: bool,
    ) -> PyResult<Py<PyAny>> {
        let answer = answer.map_err(errors::raise)?;
        if encoded {
            let bytes = answer.data.unwrap_or_default();
            return Ok(Py::new(py, Buffer(bytes))?.into_any());
        }
        self.decode(py, &answer)
    }

    fn blocking(
        &self,
        py: Python<'_>,
        arguments: Arguments,
        special: Special,
        encoded: bool,
    ) -> PyResult<Py<PyAny>> {
        let answer = self.client.wait(py, async {
            let call = self.service.call_prepared(&self.prepared, arguments);
            special.apply(call).start()?.await
        })?;
        self.finish(py, answer, encoded)
    }
}

fn blobs(args: &Bound<'_, PyTuple>) -> PyResult<Arguments> {
    let blobs = args.iter().map(|object| match object.is_none() {
        true => Ok(bytes::Bytes::new()),
        false => bytes_of(&object),
    });
    Ok(Arguments::from_blobs(&blobs.collect::<PyResult<Vec<_>>>()?))
}

#[pymethods]
impl Method {
    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.0.get()?.prepared.method().name().to_owned())
    }

    #[getter]
    fn line(&self) -> PyResult<String> {
        Ok(self.0.get()?.prepared.method().to_string())
    }

    /// Names of the parameters, where they are known.
    #[getter]
    fn parameters(&self) -> PyResult<Vec<Option<String>>> {
        let params = self.0.get()?.prepared.method().params();
        Ok(params.iter().map(|p| p.name().map(str::to_owned)).collect())
    }

    /// Whether these arguments fit: for choosing among overloads.
    fn accepts(&self, args: &Bound<'_, PyTuple>) -> PyResult<bool> {
        Ok(self.0.get()?.encode(args).is_ok())
    }

    /// Calls and waits for the result without the GIL.
    #[expect(clippy::too_many_arguments, reason = "they are the package's keywords")]
    #[pyo3(signature = (args, timeout=None, repeat=None, invocation_id=None, encoded=false, trace_context=None))]
    fn call(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        timeout: Option<&Bound<'_, PyAny>>,
        repeat: Option<&str>,
        invocation_id: Option<&Bound<'_, PyAny>>,
        encoded: bool,
        trace_context: Option<Vec<u8>>,
    ) -> PyResult<Py<PyAny>> {
        let inner = self.0.get()?;
        let special = Special::read(timeout, repeat, invocation_id, trace_context)?;
        let arguments = if encoded {
            blobs(args)?
        } else {
            inner.encode(args)?
        };
        inner.blocking(py, arguments, special, encoded)
    }

    /// Makes the call now, on this thread, and gives the future of its result.
    #[pyo3(signature = (bridge, args, timeout=None, repeat=None, invocation_id=None, encoded=false, trace_context=None))]
    #[expect(clippy::too_many_arguments, reason = "they are the package's keywords")]
    fn start(
        &self,
        py: Python<'_>,
        bridge: &Bound<'_, Bridge>,
        args: &Bound<'_, PyTuple>,
        timeout: Option<&Bound<'_, PyAny>>,
        repeat: Option<&str>,
        invocation_id: Option<&Bound<'_, PyAny>>,
        encoded: bool,
        trace_context: Option<Vec<u8>>,
    ) -> PyResult<StartedCall> {
        let inner = self.0.get()?;
        let special = Special::read(timeout, repeat, invocation_id, trace_context)?;
        let arguments = if encoded {
            blobs(args)?
        } else {
            inner.encode(args)?
        };
        let call = inner.service.call_prepared(&inner.prepared, arguments);
        let future = bridge.get().create_future(py)?.unbind();
        let pending = special.apply(call).start().map_err(errors::raise)?;
        let call = Arc::new(AsyncCall {
            queue: bridge.get().queue()?.clone(),
            pending: Mutex::new(Some(pending)),
            future,
            method: inner.clone(),
            encoded,
        });
        let waker = Waker::from(call.clone());
        call.finish_with(py, &waker)?;
        Ok(StartedCall(Own::new(call)))
    }
}

/// A call whose result an event loop waits for. It wakes the loop itself: no task, no thread.
pub(crate) struct AsyncCall {
    queue: Arc<Queue>,
    /// `None` once it has ended or was cancelled.
    pending: Mutex<Option<PendingCall>>,
    future: Py<PyAny>,
    method: Arc<Inner>,
    encoded: bool,
}

impl Wake for AsyncCall {
    fn wake(self: Arc<Self>) {
        self.queue.clone().post(Item::Call(self));
    }
}

impl AsyncCall {
    /// In the loop's thread, after it was woken.
    pub(crate) fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.finish_with(py, Waker::noop())
    }

    fn finish_with(&self, py: Python<'_>, waker: &Waker) -> PyResult<()> {
        let answer = {
            let mut pending = self.pending.lock();
            let Some(call) = pending.as_mut() else {
                return Ok(());
            };
            match std::pin::Pin::new(call).poll(&mut Context::from_waker(waker)) {
                Poll::Pending => return Ok(()),
                Poll::Ready(answer) => {
                    *pending = None;
                    answer
                }
            }
        };
        let outcome = self.method.finish(py, answer, self.encoded);
        settle(py, &self.future, outcome)
    }
}

/// A call that was made. Dropped without its result, it is cancelled.
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct StartedCall(Own<Arc<AsyncCall>>);

#[pymethods]
impl StartedCall {
    #[getter]
    fn future(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.0.get()?.future.clone_ref(py))
    }

    /// Ends the call as cancelled, unless it has ended.
    fn cancel(&self) -> PyResult<()> {
        let call = self.0.get()?;
        drop(call.pending.lock().take());
        Ok(())
    }
}

impl Drop for StartedCall {
    fn drop(&mut self) {
        if let Some(call) = self.0.peek() {
            drop(call.pending.lock().take());
        }
    }
}

//! Calls and events of one contract.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::naming::{MethodLookup, Naming};
use super::{
    Client, Completion, EventArgs, EventStream, PendingCall, SubscribeBuilder, Subscription,
};
use crate::arguments::IntoArguments;
use crate::codec::Codec;
use crate::contract::{Contract, Method};
use crate::error::{Error, Result};
use crate::resilience::engine::{Answer, CallSpec, Timeout};
use crate::resilience::retry::Repeat;
use crate::wire::extension::MAX_TRACE_CONTEXT;
use crate::wire::{Arguments, TypeNames};

/// Lines remembered per service; a program has as many as it has calls in its text.
const MAX_PREPARED: usize = 4096;

/// A method that is ready to be called: what its line means, and how it may be repeated.
#[derive(Clone)]
pub struct PreparedMethod {
    method: Method,
    name: Arc<str>,
    /// The names that a call carries, unless it is made otherwise than the client's others.
    types: Option<Arc<TypeNames>>,
    repeat: Repeat,
}

impl PreparedMethod {
    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }
}

/// A handle on one contract of a server. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    client: Client,
    contract: Contract,
    prepared: Arc<RwLock<HashMap<Box<str>, PreparedMethod>>>,
}

impl Service {
    pub(super) fn new(client: Client, contract: Contract) -> Self {
        Self {
            client,
            contract,
            prepared: Arc::default(),
        }
    }

    /// The client behind it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The contract.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Calls a method, named by its line (or, where the contract lists it, its name), with its
    /// arguments as a tuple. Await the result:
    ///
    /// ```no_run
    /// # async fn f(echo: witrpc::client::Service) -> witrpc::Result<()> {
    /// let sum: i32 = echo.call("int Add(int, int)", (2, 3)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Of a generic method the line gives the type arguments, as `int Echo<int>(int value)` or
    /// `T Echo<T>(T value) where T = int`.
    pub fn call<R>(&self, method: &str, arguments: impl IntoArguments) -> CallBuilder<'_, R> {
        let spec = arguments.into_json().and_then(|json| {
            let prepared = self.prepare(method)?;
            let arguments = self.encode(&prepared, &json)?;
            Ok((prepared, arguments))
        });
        CallBuilder::new(self, spec)
    }

    /// Calls a method with its arguments as a JSON array.
    pub fn call_json<R>(&self, method: &str, arguments: &str) -> CallBuilder<'_, R> {
        let spec = self.prepare(method).and_then(|prepared| {
            let arguments = self.encode(&prepared, arguments)?;
            Ok((prepared, arguments))
        });
        CallBuilder::new(self, spec)
    }

    /// Calls a method with arguments that are encoded already.
    pub fn call_encoded<R>(&self, method: &str, arguments: Arguments) -> CallBuilder<'_, R> {
        CallBuilder::new(
            self,
            self.prepare(method).map(|prepared| (prepared, arguments)),
        )
    }

    /// Calls a method that was [prepared](Self::prepare), with arguments that are encoded already:
    /// for bindings, which keep the one and make the other themselves.
    pub fn call_prepared<R>(
        &self,
        method: &PreparedMethod,
        arguments: Arguments,
    ) -> CallBuilder<'_, R> {
        CallBuilder::new(self, Ok((method.clone(), arguments)))
    }

    /// Reads a method line. It is remembered, so that each line is read once.
    pub fn prepare(&self, line: &str) -> Result<PreparedMethod> {
        if let Some(prepared) = self.prepared.read().get(line) {
            return Ok(prepared.clone());
        }
        let method = self
            .contract
            .method(line)
            .map_err(|e| wrong_line(line, &e))?;
        method.check_closed().map_err(|e| wrong_line(line, &e))?;
        let prepared = PreparedMethod {
            name: method.name().into(),
            types: self
                .client
                .0
                .naming
                .names(&method)
                .map_err(|e| wrong_line(line, &e))?,
            repeat: self.client.0.policy.repeat(&self.contract, &method)?,
            method,
        };
        let mut known = self.prepared.write();
        if known.len() < MAX_PREPARED {
            known.insert(line.into(), prepared.clone());
        }
        Ok(prepared)
    }

    fn encode(&self, prepared: &PreparedMethod, json: &str) -> Result<Arguments> {
        let blobs = prepared.method.encode_args_json(self.client.0.codec, json);
        let blobs = blobs.map_err(|e| Error::invalid_argument(e.to_string()))?;
        Ok(Arguments::from_blobs(&blobs))
    }

    /// Calls `handler` for each event, in order, on the client's callback thread. Named by its line
    /// (or, where the contract lists it, its name). Ends when the subscription is dropped.
    ///
    /// # Errors
    /// When the line is wrong, or not one of the contract's.
    pub fn on_event(
        &self,
        event: &str,
        handler: impl Fn(EventArgs) + Send + Sync + 'static,
    ) -> Result<Subscription> {
        Ok(self.subscribe([event])?.handler(handler))
    }

    /// The events as a stream, in order.
    ///
    /// # Errors
    /// As [`on_event`](Self::on_event).
    pub fn events(&self, event: &str) -> Result<EventStream> {
        Ok(self.subscribe([event])?.stream())
    }

    /// Begins a subscription with options, or to several events of the contract: they share one
    /// queue, and come in the order in which they were raised.
    ///
    /// # Errors
    /// As [`on_event`](Self::on_event); and without any event.
    pub fn subscribe<'e>(
        &self,
        events: impl IntoIterator<Item = &'e str>,
    ) -> Result<SubscribeBuilder> {
        let events = events.into_iter().map(|line| {
            self.contract
                .event(line)
                .map_err(|e| Error::invalid_argument(format!("event \"{line}\": {e}")))
        });
        SubscribeBuilder::new(&self.client, events.collect::<Result<_>>()?)
    }
}

/// A call about to be made: set what is special about it, then await it.
#[must_use = "a call is made when it is awaited"]
pub struct CallBuilder<'a, R> {
    service: &'a Service,
    call: Result<(PreparedMethod, Arguments)>,
    timeout: Timeout,
    repeat: Option<Repeat>,
    invocation_id: Option<Uuid>,
    lookup: Option<MethodLookup>,
    trace_context: Option<Arc<[u8]>>,
    result: PhantomData<fn() -> R>,
}

impl<'a, R> CallBuilder<'a, R> {
    fn new(service: &'a Service, call: Result<(PreparedMethod, Arguments)>) -> Self {
        Self {
            service,
            call,
            timeout: Timeout::Default,
            repeat: None,
            invocation_id: None,
            lookup: None,
            trace_context: None,
            result: PhantomData,
        }
    }

    /// Limits the whole call: waiting for the link, all attempts, all delays. Default: what all
    /// attempts and delays can take.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Timeout::After(limit);
        self
    }

    /// Sets no limit: the call may hang for ever, but for the limit of its attempts.
    pub fn no_timeout(mut self) -> Self {
        self.timeout = Timeout::Never;
        self
    }

    /// This call may run twice: the retry policy may repeat it anywhere.
    pub fn idempotent(mut self) -> Self {
        self.repeat = Some(Repeat::Idempotent);
        self
    }

    /// This call must not run twice: the retry policy may repeat it where the server recognises it.
    pub fn deduplicated(mut self) -> Self {
        self.repeat = Some(Repeat::Deduplicated);
        self
    }

    /// The call's own id, by which the server recognises it, also when it comes from another
    /// process later. Must not be nil.
    pub fn invocation_id(mut self, id: Uuid) -> Self {
        self.invocation_id = Some(id);
        self
    }

    /// How this call says which method it means. Default as the client is set.
    pub fn lookup(mut self, lookup: MethodLookup) -> Self {
        self.lookup = Some(lookup);
        self
    }

    /// What the tracing of the server's handler is to know, as W3C's `traceparent`; opaque to this
    /// library. Reaches libwitrpc servers only. At most 1,024 bytes: more is an error.
    pub fn trace_context(mut self, context: impl AsRef<[u8]>) -> Self {
        let context = context.as_ref();
        if context.len() > MAX_TRACE_CONTEXT {
            self.call = Err(Error::invalid_argument(format!(
                "a trace context of {} bytes: it may have {MAX_TRACE_CONTEXT}",
                context.len()
            )));
        }
        self.trace_context = Some(context.into());
        self
    }

    /// Makes the call for its encoded result.
    pub async fn encoded(self) -> Result<Answer> {
        let service = self.service;
        let (_, spec) = self.spec()?;
        service.client.start(spec).await
    }

    /// Makes the call at once, on this thread; await its encoded result where and when you like.
    ///
    /// # Errors
    /// When the call can't be made for a reason that is known before anything is sent.
    pub fn start(self) -> Result<PendingCall> {
        let service = self.service;
        let (_, spec) = self.spec()?;
        Ok(service.client.start(spec))
    }

    /// Makes the call for its result as JSON text.
    pub async fn json(self) -> Result<String> {
        let service = self.service;
        let (method, spec) = self.spec()?;
        let answer = service.client.start(spec).await?;
        decode_json(service.client.0.codec, &method, &answer)
    }

    /// Makes the call and has `done` called with its result as JSON text, on the client's callback
    /// thread: exactly once, never inside this function. Returns what cancels the call.
    ///
    /// # Errors
    /// When the call can't be made for a reason that is known before anything is sent; then `done`
    /// is not called.
    pub fn spawn_json(
        self,
        done: impl FnOnce(Result<String>) + Send + 'static,
    ) -> Result<CancelHandle> {
        let codec = self.service.client.0.codec;
        let driver = self.service.client.0.driver.clone();
        let (method, spec) = self.spec()?;
        let done = move |answer: Result<Answer>| {
            done(answer.and_then(|answer| decode_json(codec, &method, &answer)));
        };
        let key = driver.call(spec, Completion::Callback(Box::new(done)));
        Ok(CancelHandle { driver, key })
    }

    /// Like [`spawn_json`](Self::spawn_json) for the encoded result.
    ///
    /// # Errors
    /// As there.
    pub fn spawn_encoded(
        self,
        done: impl FnOnce(Result<Answer>) + Send + 'static,
    ) -> Result<CancelHandle> {
        let driver = self.service.client.0.driver.clone();
        let (_, spec) = self.spec()?;
        let key = driver.call(spec, Completion::Callback(Box::new(done)));
        Ok(CancelHandle { driver, key })
    }

    /// Like [`spawn_encoded`](Self::spawn_encoded), with `done` called where the answer comes in: on a
    /// thread of the runtime, or on one that is inside another method of this client, also before
    /// this method returns. It must not block, nor call what blocks. For bindings that have their own
    /// way to user code, and are spared a change of threads.
    ///
    /// # Errors
    /// As there.
    pub fn spawn_encoded_direct(
        self,
        done: impl FnOnce(Result<Answer>) + Send + 'static,
    ) -> Result<CancelHandle> {
        let driver = self.service.client.0.driver.clone();
        let (_, spec) = self.spec()?;
        let key = driver.call(spec, Completion::Direct(Box::new(done)));
        Ok(CancelHandle { driver, key })
    }

    fn spec(self) -> Result<(Method, CallSpec)> {
        let (mut prepared, arguments) = self.call?;
        let mut naming = self.service.client.0.naming;
        if let Some(lookup) = self.lookup {
            naming = Naming { lookup, ..naming };
            prepared.types = naming
                .names(&prepared.method)
                .map_err(|e| wrong_line(&prepared.method.to_string(), &e))?;
        }
        let spec = CallSpec {
            contract_id: prepared.method.contract_id(),
            method_id: naming.id(&prepared.method),
            method_name: prepared.name,
            arguments,
            types: prepared.types,
            repeat: self.repeat.unwrap_or(prepared.repeat),
            invocation_id: self.invocation_id,
            timeout: self.timeout,
            trace_context: self.trace_context,
        };
        Ok((prepared.method, spec))
    }
}

impl<'a, R: DeserializeOwned> IntoFuture for CallBuilder<'a, R> {
    type Output = Result<R>;
    type IntoFuture = TypedCall<R>;

    fn into_future(self) -> TypedCall<R> {
        let service = self.service;
        let codec = service.client.0.codec;
        let state = match self.spec() {
            Ok((method, spec)) => Ok((service.client.start(spec), method)),
            Err(error) => Err(Some(error)),
        };
        TypedCall {
            state,
            codec,
            result: PhantomData,
        }
    }
}

/// A call under way. Dropping it cancels the call.
pub struct TypedCall<R> {
    state: std::result::Result<(PendingCall, Method), Option<Error>>,
    codec: Codec,
    result: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Future for TypedCall<R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R>> {
        let codec = self.codec;
        match &mut self.state {
            Ok((pending, method)) => Pin::new(pending).poll(cx).map(|answer| {
                let json = decode_json(codec, method, &answer?)?;
                serde_json::from_str(&json).map_err(|e| {
                    undecodable(
                        method,
                        &format!("{json} does not fit the type asked for: {e}"),
                    )
                })
            }),
            Err(error) => Poll::Ready(Err(error
                .take()
                .unwrap_or_else(|| Error::invalid_argument("polled after its end")))),
        }
    }
}

fn wrong_line(line: &str, what: &dyn std::fmt::Display) -> Error {
    Error::invalid_argument(format!("method \"{line}\": {what}"))
}

/// Decodes a result to JSON text.
fn decode_json(codec: Codec, method: &Method, answer: &Answer) -> Result<String> {
    let data = answer.data.as_deref().unwrap_or_default();
    method
        .decode_result_json(codec, data)
        .map_err(|e| undecodable(method, &e.to_string()))
}

fn undecodable(method: &Method, details: &str) -> Error {
    Error::new(
        crate::ErrorCode::Protocol,
        format!("the result of {} can't be read", method.name()),
    )
    .with_details(Some(details.to_owned()))
    .with_outcome(crate::Outcome::Answered)
}

/// Cancels a call that was made with a callback.
pub struct CancelHandle {
    driver: Arc<super::Driver>,
    key: Option<crate::resilience::engine::CallKey>,
}

impl CancelHandle {
    /// Ends the call as [`Cancelled`](crate::ErrorCode::Cancelled), unless it has ended.
    pub fn cancel(&self) {
        if let Some(key) = self.key {
            self.driver.cancel(key);
        }
    }
}

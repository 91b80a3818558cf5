//! The services of a server: contracts with a handler for each method. Finding the one that a request
//! means is in `lookup`.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::durable::{Resolution, Resolver};
use super::handler::{CallContext, Fault, Handler};
use crate::arguments::FromArguments;
use crate::codec::Value;
use crate::contract::{Contract, Method};
use crate::error::{Error, Result};

/// A method and what carries it out.
pub(super) struct Registered {
    pub(super) method: Method,
    pub(super) handler: Handler,
    /// Its calls are kept in the store.
    pub(super) durable: bool,
    pub(super) resolver: Option<Resolver>,
}

/// One service: a contract and its handlers.
///
/// A handler is named by a method line, or by a name alone where the contract lists one method of
/// that name. One of a generic method, as `T Echo<T>(T value)`, is called for all type arguments, which
/// [`CallContext::type_arguments`] tells; it gets its values by the types that they make. Handlers of one connection begin in the order in which calls arrive and then run side
/// by side.
#[must_use]
pub struct ServiceBuilder {
    /// Or the first thing that was wrong.
    pub(super) contract: Result<Contract>,
    pub(super) registered: Vec<Registered>,
}

impl ServiceBuilder {
    /// A service of this contract, without handlers yet.
    pub fn new(contract: Contract) -> Self {
        Self {
            contract: Ok(contract),
            registered: Vec::new(),
        }
    }

    /// A service of which only the name of the contract is known: methods are declared by the lines
    /// of their handlers.
    pub fn open(contract: &str) -> Self {
        let contract = Contract::open(contract)
            .map_err(|e| Error::invalid_argument(format!("contract \"{contract}\": {e}")));
        Self {
            contract,
            registered: Vec::new(),
        }
    }

    /// Handles a method with Rust values: arguments as a tuple, the result as anything that serde
    /// can write in the JSON form of its .NET type.
    ///
    /// ```
    /// # use witrpc::server::ServiceBuilder;
    /// ServiceBuilder::open("Demo.IEcho")
    ///     .handle("int Add(int a, int b)", |_, (a, b): (i32, i32)| async move { Ok(a + b) });
    /// ```
    pub fn handle<A, R, F, T>(self, method: &str, f: F) -> Self
    where
        A: FromArguments + Send + 'static,
        R: Serialize,
        F: Fn(CallContext, A) -> T + Send + Sync + 'static,
        T: Future<Output = std::result::Result<R, Fault>> + Send + 'static,
    {
        let f = Arc::new(f);
        self.handle_json(method, move |context, json| {
            let f = f.clone();
            async move {
                let arguments = A::from_json(&json)
                    .map_err(|e| Fault::bad_request(format!("arguments: {e}")))?;
                let result = f(context, arguments).await?;
                serde_json::to_string(&result).map_err(Fault::from)
            }
        })
    }

    /// Handles a method with JSON text: arguments as an array, the result as a value (`null` for
    /// void).
    pub fn handle_json<F, T>(self, method: &str, f: F) -> Self
    where
        F: Fn(CallContext, String) -> T + Send + Sync + 'static,
        T: Future<Output = std::result::Result<String, Fault>> + Send + 'static,
    {
        self.register(
            method,
            Handler::Json(Arc::new(move |context, json| Box::pin(f(context, json)))),
        )
    }

    /// Handles a method with typed values of the codec.
    pub fn handle_values<F, T>(self, method: &str, f: F) -> Self
    where
        F: Fn(CallContext, Vec<Value>) -> T + Send + Sync + 'static,
        T: Future<Output = std::result::Result<Value, Fault>> + Send + 'static,
    {
        let handler = Handler::Values(Arc::new(move |context, values| {
            Box::pin(f(context, values))
        }));
        self.register(method, handler)
    }

    /// Handles a method with the encoded blobs as they came; the result must be encoded by the
    /// codec of the server. An empty blob, and `None`, are null.
    pub fn handle_blobs<F, T>(self, method: &str, f: F) -> Self
    where
        F: Fn(CallContext, Vec<Bytes>) -> T + Send + Sync + 'static,
        T: Future<Output = std::result::Result<Option<Bytes>, Fault>> + Send + 'static,
    {
        let handler = Handler::Blobs(Arc::new(move |context, blobs| Box::pin(f(context, blobs))));
        self.register(method, handler)
    }

    /// Has calls of this method kept in the [store](super::ServerBuilder::store) of the server: the intent before it runs, the answer before it is
    /// sent. That costs the time of two writes, and is for what must not happen twice even if the server is killed; reading needs none of it.
    ///
    /// Named by a line, or by a name alone for all overloads; its handler must be there already. Handlers of durable methods begin when their
    /// intents are stored, so those of one connection may begin in another order than their calls came in.
    pub fn durable(self, method: &str) -> Self {
        self.mark(method, |registered| registered.durable = true)
    }

    /// Has the calls of all methods kept that have handlers by now.
    pub fn all_durable(mut self) -> Self {
        self.registered.iter_mut().for_each(|r| r.durable = true);
        self
    }

    /// Makes a method [durable](Self::durable), and asks this about a call of it that was begun in an earlier life of the server and whose answer is not
    /// in the store. A handler that writes the id of its call and its result to its own database, in the transaction in which it does its
    /// work, can be found there: so the crash between its commit and the answer makes no outcome unknown. It is called with the context of the
    /// repetition, once for each.
    ///
    /// With a store that several servers share, the call may still run on another one whose lease has ended: then
    /// [`NotExecuted`](Resolution::NotExecuted) may only be said after the transaction was barred, for instance by inserting the id.
    ///
    /// Where the database can't be asked, say [`Resolution::Unknown`].
    pub fn resolver<F, T>(self, method: &str, f: F) -> Self
    where
        F: Fn(CallContext) -> T + Send + Sync + 'static,
        T: Future<Output = Resolution> + Send + 'static,
    {
        let resolver: Resolver = Arc::new(move |context| {
            let resolving = f(context);
            Box::pin(async move { Ok(resolving.await) })
        });
        self.mark(method, |registered| {
            registered.durable = true;
            registered.resolver = Some(resolver.clone());
        })
    }

    /// What is wrong with a name alone that no handler has.
    fn not_found(&self, line: &str) -> Option<String> {
        let is_name = line.trim().chars().all(|c| c.is_alphanumeric() || c == '_');
        let names: BTreeSet<_> = self.registered.iter().map(|r| r.method.name()).collect();
        let names: Vec<_> = names.into_iter().collect();
        is_name.then(|| format!("no handler has that name; there are: {}", names.join(", ")))
    }

    /// Changes what is registered under a line, or a name alone.
    fn mark(mut self, line: &str, change: impl Fn(&mut Registered)) -> Self {
        let Ok(contract) = &self.contract else {
            return self;
        };
        let named = |method: &Method| method.name() == line.trim();
        let found = match self.registered.iter().any(|r| named(&r.method)) {
            true => {
                let all = self.registered.iter_mut();
                all.filter(|r| named(&r.method)).for_each(&change);
                Ok(())
            }
            false => contract
                .method(line)
                .map_err(|e| self.not_found(line).unwrap_or_else(|| e.to_string()))
                .and_then(|method| {
                    let mut all = self.registered.iter_mut();
                    all.find(|r| r.method.covers(&method))
                        .map(change)
                        .ok_or_else(|| "it has no handler yet".to_owned())
                }),
        };
        if let Err(what) = found {
            let error = Error::invalid_argument(format!("method \"{line}\": {what}"));
            self.contract = Err(error);
        }
        self
    }

    fn register(mut self, line: &str, handler: Handler) -> Self {
        if let Ok(contract) = &self.contract {
            match self.resolve(contract, line) {
                Ok(method) => self.registered.push(Registered {
                    method,
                    handler,
                    durable: false,
                    resolver: None,
                }),
                Err(what) => {
                    let error = Error::invalid_argument(format!("method \"{line}\": {what}"));
                    self.contract = Err(error);
                }
            }
        }
        self
    }

    fn resolve(&self, contract: &Contract, line: &str) -> std::result::Result<Method, String> {
        let method = contract.method(line).map_err(|e| e.to_string())?;
        if method.is_generic() && !method.is_open() {
            return Err(format!(
                "{method} has type arguments, but a handler is for all of them: write type \
                 parameters, as in T Echo<T>(T value)"
            ));
        }
        for Registered { method: other, .. } in &self.registered {
            if other.covers(&method) {
                return Err("it has a handler already".into());
            }
            if method.method_id() != 0 && method.method_id() == other.method_id() {
                return Err(format!(
                    "it has the same id as {other}, so that clients can't tell them apart: give one \
                     of them another name"
                ));
            }
        }
        Ok(method)
    }
}

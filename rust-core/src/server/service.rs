//! The services of a server: contracts with a handler for each method, and finding the one that a
//! request means.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use serde::Serialize;

use super::handler::{CallContext, Fault, Handler};
use crate::arguments::FromArguments;
use crate::codec::Value;
use crate::contract::{Contract, Method, Type};
use crate::error::{Error, Result};
use crate::wire::{ParameterType, Request};

/// A method and what carries it out.
pub(super) struct Registered {
    pub(super) method: Method,
    pub(super) handler: Handler,
}

/// One service: a contract and its handlers.
///
/// A handler is named by a method line, or by a name alone where the contract lists one method of
/// that name. Handlers of one connection begin in the order in which calls arrive and then run side
/// by side.
#[must_use]
pub struct ServiceBuilder {
    /// Or the first thing that was wrong.
    contract: Result<Contract>,
    registered: Vec<Registered>,
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

    fn register(mut self, line: &str, handler: Handler) -> Self {
        if let Ok(contract) = &self.contract {
            match self.resolve(contract, line) {
                Ok(method) => self.registered.push(Registered { method, handler }),
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
        if method.is_generic() {
            return Err("generic methods can't be served yet".into());
        }
        if self
            .registered
            .iter()
            .any(|r| r.method.method_id() == method.method_id())
        {
            return Err("it has a handler already".into());
        }
        Ok(method)
    }
}

/// All services of a server.
#[derive(Default)]
pub(super) struct Services {
    by_id: HashMap<i64, Arc<Registered>>,
    contracts: Vec<Contract>,
}

impl Services {
    pub(super) fn new(builders: Vec<ServiceBuilder>) -> Result<Self> {
        let mut services = Self::default();
        for builder in builders {
            let contract = builder.contract?;
            let name = contract.name();
            if services.contracts.iter().any(|c| c.name() == name) {
                return Err(Error::invalid_argument(format!(
                    "two services of contract \"{name}\""
                )));
            }
            for registered in builder.registered {
                let id = registered.method.method_id();
                services.by_id.insert(id, Arc::new(registered));
            }
            // The accessors of events: .NET answers them with nothing, and so do we; who gets events
            // is not decided by them.
            for method in contract
                .event_accessors()
                .iter()
                .filter(|m| m.method_id() != 0)
            {
                let handler: Handler =
                    Handler::Blobs(Arc::new(|_, _| Box::pin(std::future::ready(Ok(None)))));
                let registered = Registered {
                    method: method.clone(),
                    handler,
                };
                services
                    .by_id
                    .entry(method.method_id())
                    .or_insert_with(|| Arc::new(registered));
            }
            services.contracts.push(contract);
        }
        Ok(services)
    }

    pub(super) fn contracts(&self) -> &[Contract] {
        &self.contracts
    }

    /// The method that a request means: by its id if that is known and the number of arguments
    /// fits, else by name and types.
    pub(super) fn find(&self, request: &Request) -> std::result::Result<Arc<Registered>, Fault> {
        let count = request.parameters.as_ref().map_or(0, Vec::len);
        if let Some(found) = self.by_id.get(&request.method_id)
            && request.method_id != 0
            && found.method.params().len() == count
        {
            return Ok(found.clone());
        }
        let name = request.method_name.as_deref().unwrap_or_default();
        self.find_by_name(name, request).ok_or_else(|| {
            let place = match self.contracts.len() {
                1 => "service",
                _ => "any registered service",
            };
            Fault::bad_request(format!("Method not found on {place}, method name: {name}"))
        })
    }

    fn find_by_name(&self, name: &str, request: &Request) -> Option<Arc<Registered>> {
        self.contracts.iter().find_map(|contract| {
            let params = types(
                contract,
                request.parameter_types_by_name.as_deref(),
                request.parameter_types.as_deref(),
            )?;
            let method = contract.by_signature(name, &params, &[])?;
            self.by_id.get(&method.method_id()).cloned()
        })
    }
}

/// The types that a request names; `None` if one of them is null or unreadable.
fn types(
    contract: &Contract,
    by_name: Option<&[Option<ParameterType>]>,
    qualified: Option<&[Option<String>]>,
) -> Option<Vec<Type>> {
    match by_name {
        Some(names) if !names.is_empty() => names
            .iter()
            .map(|name| {
                let name = name.as_ref()?.name.as_deref()?;
                contract.type_from_wire(name).ok()
            })
            .collect(),
        _ => qualified
            .unwrap_or_default()
            .iter()
            .map(|name| contract.type_from_wire(name.as_deref()?).ok())
            .collect(),
    }
}

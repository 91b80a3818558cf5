//! All services of a server, and which of their methods a request means: by its id, else by name and
//! types (`protocol.md` 15.3, without its holes: any parameter type of a generic method is found, the
//! contract that a request names is the only one searched, and type names that nobody knows do no harm
//! where an id is there).

use std::sync::Arc;

use hashbrown::HashMap;

use super::durable::Resolver;
use super::handler::{Fault, Handler};
use super::service::{Registered, ServiceBuilder};
use crate::contract::{Contract, Method, Type, may_be, select};
use crate::error::{Error, Result};
use crate::wire::{ParameterType, Request};

/// See the [module](self).
#[derive(Default)]
pub(super) struct Services {
    by_id: HashMap<i64, Arc<Registered>>,
    contracts: Vec<Contract>,
    /// The methods of each contract, in the order of their handlers.
    methods: Vec<Vec<Arc<Registered>>>,
}

/// What a request means.
pub(super) struct Found {
    /// With its type arguments, if it has any.
    pub(super) method: Method,
    pub(super) handler: Handler,
    /// Its calls are kept in the store.
    pub(super) durable: bool,
    pub(super) resolver: Option<Resolver>,
}

impl Found {
    fn new(method: Method, registered: &Registered) -> Self {
        Self {
            method,
            handler: registered.handler.clone(),
            durable: registered.durable,
            resolver: registered.resolver.clone(),
        }
    }
}

impl Services {
    pub(super) fn new(builders: Vec<ServiceBuilder>) -> Result<Self> {
        let mut services = Self::default();
        for builder in builders {
            let contract = builder.contract?;
            let same = |other: &&Contract| other.id() == contract.id();
            if let Some(other) = services.contracts.iter().find(same) {
                return Err(Error::invalid_argument(format!(
                    "two services of contract \"{}\"{}",
                    contract.name(),
                    match other.name() == contract.name() {
                        true => String::new(),
                        false => format!(": \"{}\" has the same id", other.name()),
                    }
                )));
            }
            let mut methods: Vec<_> = builder.registered.into_iter().map(Arc::new).collect();
            let handlers = methods.len();
            // The accessors of events: .NET answers them with nothing, and so do we; who gets events
            // is not decided by them.
            for accessor in contract.event_accessors() {
                if methods[..handlers]
                    .iter()
                    .any(|r| r.method.covers(accessor))
                {
                    continue;
                }
                methods.push(Arc::new(Registered {
                    method: accessor.clone(),
                    handler: Handler::Blobs(Arc::new(|_, _| {
                        Box::pin(std::future::ready(Ok(None)))
                    })),
                    durable: false,
                    resolver: None,
                }));
            }
            for registered in &methods {
                services.add_id(registered)?;
            }
            services.methods.push(methods);
            services.contracts.push(contract);
        }
        Ok(services)
    }

    /// An id means one method, or the server does not start.
    fn add_id(&mut self, registered: &Arc<Registered>) -> Result<()> {
        let method = &registered.method;
        if method.method_id() == 0 {
            return Ok(());
        }
        match self.by_id.insert(method.method_id(), registered.clone()) {
            None => Ok(()),
            Some(other) => Err(Error::invalid_argument(format!(
                "{} of \"{}\" and {method} of \"{}\" have the same id, so that clients can't tell \
                 them apart",
                other.method,
                other.method.contract_name(),
                method.contract_name(),
            ))),
        }
    }

    /// A method that is durable, if there is one.
    pub(super) fn durable(&self) -> Option<&Method> {
        let mut all = self.methods.iter().flatten();
        all.find(|r| r.durable).map(|r| &r.method)
    }

    pub(super) fn contracts(&self) -> &[Contract] {
        &self.contracts
    }

    /// The method that a request means: by its id if that is known and the number of arguments
    /// fits, else by name and types.
    pub(super) fn find(&self, request: &Request) -> std::result::Result<Found, Fault> {
        let count = request.parameters.as_ref().map_or(0, Vec::len);
        if let Some(found) = self.by_id.get(&request.method_id)
            && request.method_id != 0
            && found.method.params().len() == count
        {
            return Ok(Found::new(found.method.clone(), found));
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

    fn find_by_name(&self, name: &str, request: &Request) -> Option<Found> {
        let params = Names::of(&request.parameter_types_by_name, &request.parameter_types);
        let generics = Names::of(
            &request.generic_arguments_by_name,
            &request.generic_arguments,
        );
        // A contract that is not served may be a base of one that is.
        let named = self
            .contracts
            .iter()
            .any(|contract| contract.id() == request.contract_id);
        let mut searched = self
            .contracts
            .iter()
            .zip(&self.methods)
            .filter(|(contract, _)| !named || contract.id() == request.contract_id);
        searched.find_map(|(contract, methods)| {
            // Names of types are read only where they can matter: there may be many.
            methods
                .iter()
                .find(|r| may_be(&r.method, name, params.len(), generics.len()))?;
            let (params, generics) = (params.read(contract)?, generics.read(contract)?);
            let all = methods.iter().map(|r| &r.method);
            let (index, method) = select(all, name, &params, &generics)?;
            Some(Found::new(method, &methods[index]))
        })
    }
}

/// Types as a request names them: the weak form counts, if both are there.
enum Names<'a> {
    Weak(&'a [Option<ParameterType>]),
    Strong(&'a [Option<String>]),
}

impl<'a> Names<'a> {
    fn of(
        weak: &'a Option<Vec<Option<ParameterType>>>,
        strong: &'a Option<Vec<Option<String>>>,
    ) -> Self {
        match weak.as_deref() {
            Some(weak) if !weak.is_empty() => Self::Weak(weak),
            _ => Self::Strong(strong.as_deref().unwrap_or_default()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Weak(names) => names.len(),
            Self::Strong(names) => names.len(),
        }
    }

    /// What they mean in a contract; `None` if one of them is null or unreadable.
    fn read(&self, contract: &Contract) -> Option<Vec<Type>> {
        let read = |name: &str| contract.type_from_wire(name).ok();
        match self {
            Self::Weak(names) => names
                .iter()
                .map(|name| read(name.as_ref()?.name.as_deref()?))
                .collect(),
            Self::Strong(names) => names.iter().map(|name| read(name.as_deref()?)).collect(),
        }
    }
}

//! Raising events: to whom, and in which bytes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::connection::{Connection, Registry};
use super::groups::{ConnectionContext, Groups};
use crate::arguments::IntoArguments;
use crate::codec::{Codec, Value};
use crate::contract::{Contract, Event, TypeName};
use crate::error::{Error, ErrorCode, Result};
use crate::wire::{Arguments, Call, ParameterType, TypeNames};

/// How the types of an event's arguments are named on the wire, for .NET clients, which decode by
/// these names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EventTypeNames {
    /// Name and assembly apart: a name that the client can't resolve costs it that argument only.
    #[default]
    Weak,
    /// Assembly-qualified: a name that the client can't resolve costs it the event.
    Strong,
}

pub(super) struct Inner {
    pub(super) connections: Arc<Registry>,
    pub(super) contracts: Vec<Contract>,
    pub(super) codec: Codec,
    pub(super) type_names: EventTypeNames,
    pub(super) on_connected: Option<Hook>,
    pub(super) on_disconnected: Option<Hook>,
}

pub(super) type Hook = Arc<dyn Fn(ConnectionContext) + Send + Sync>;

/// Who is meant.
#[derive(Debug, Clone)]
pub(super) enum Target {
    All,
    AllBut(Arc<[Uuid]>),
    Connections(Arc<[Uuid]>),
    Principal(Arc<str>),
    Groups {
        names: Arc<[Box<str>]>,
        but: Arc<[Uuid]>,
    },
}

/// Raises the events of a server's contracts: to every authorised client, or to those that the
/// publisher was [narrowed](Self::to_group) to.
///
/// An event raised inside a handler, before it returns, reaches each client before the answer
/// of that call does. Raising never waits: what a client has not read yet waits for it within the
/// bounds of its [queue](super::ServerBuilder::event_queue). What is returned is the number of
/// clients that were meant and are connected.
#[derive(Clone)]
pub struct Publisher {
    inner: Arc<Inner>,
    target: Target,
}

impl Publisher {
    pub(super) fn new(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
            target: Target::All,
        }
    }

    fn narrowed(&self, target: Target) -> Self {
        Self {
            inner: self.inner.clone(),
            target,
        }
    }

    /// A publisher to all authorised clients, as that of the server is.
    pub fn to_all(&self) -> Self {
        self.narrowed(Target::All)
    }

    /// A publisher to all authorised clients but these.
    pub fn to_all_except(&self, connections: &[Uuid]) -> Self {
        self.narrowed(Target::AllBut(connections.into()))
    }

    /// A publisher to one connection. Once that has ended, its events reach nobody.
    pub fn to_connection(&self, connection: Uuid) -> Self {
        self.to_connections(&[connection])
    }

    /// A publisher to several connections.
    pub fn to_connections(&self, connections: &[Uuid]) -> Self {
        self.narrowed(Target::Connections(connections.into()))
    }

    /// A publisher to those who are in a [group](Groups) at the moment of raising.
    pub fn to_group(&self, group: &str) -> Self {
        self.to_groups(&[group])
    }

    /// A publisher to those who are in at least one of these groups; each gets an event once.
    pub fn to_groups(&self, groups: &[&str]) -> Self {
        self.to_groups_except(groups, &[])
    }

    /// A publisher to those who are in at least one of these groups, but for some connections.
    pub fn to_groups_except(&self, groups: &[&str], connections: &[Uuid]) -> Self {
        self.narrowed(Target::Groups {
            names: groups.iter().map(|name| Box::from(*name)).collect(),
            but: connections.into(),
        })
    }

    /// A publisher to all connections of one principal, as the token validator named it at the
    /// handshake: also those that come later, and after a reconnection.
    pub fn to_principal(&self, principal: &str) -> Self {
        self.narrowed(Target::Principal(principal.into()))
    }

    /// The groups of the server's connections.
    pub fn groups(&self) -> Groups {
        Groups(self.inner.connections.clone())
    }

    pub(super) fn connected(&self, connection: &Connection) {
        self.tell(self.inner.on_connected.as_ref(), connection);
    }

    pub(super) fn disconnected(&self, connection: &Connection) {
        self.tell(self.inner.on_disconnected.as_ref(), connection);
    }

    fn tell(&self, hook: Option<&Hook>, connection: &Connection) {
        let Some(hook) = hook else { return };
        let context = ConnectionContext {
            id: connection.id(),
            peer: connection.peer(),
            principal: connection.principal(),
            publisher: self.clone(),
        };
        if catch_unwind(AssertUnwindSafe(|| hook(context))).is_err() {
            tracing::error!("a callback of the server panicked");
        }
    }

    /// Raises an event of the contract, named by its name or its line, with its arguments as a
    /// tuple.
    pub fn raise(
        &self,
        contract: &str,
        event: &str,
        arguments: impl IntoArguments,
    ) -> Result<usize> {
        self.raise_json(contract, event, &arguments.into_json()?)
    }

    /// Raises an event with its arguments as a JSON array.
    pub fn raise_json(&self, contract: &str, event: &str, arguments: &str) -> Result<usize> {
        let event = self.find(contract, event)?;
        let blobs = event
            .encode_args_json(self.inner.codec, arguments)
            .map_err(|e| Error::invalid_argument(format!("event {}: {e}", event.name())))?;
        self.send(&event, &blobs)
    }

    /// Raises an event with typed values of the codec.
    pub fn raise_values(&self, contract: &str, event: &str, arguments: &[Value]) -> Result<usize> {
        let event = self.find(contract, event)?;
        let blobs = event
            .encode_args(self.inner.codec, arguments)
            .map_err(|e| Error::invalid_argument(format!("event {}: {e}", event.name())))?;
        self.send(&event, &blobs)
    }

    /// Raises an event with arguments that are encoded already; an empty blob is null.
    pub fn raise_blobs(&self, contract: &str, event: &str, arguments: &[Bytes]) -> Result<usize> {
        let event = self.find(contract, event)?;
        if arguments.len() != event.args().len() {
            return Err(Error::invalid_argument(format!(
                "event {} has {} arguments and got {}",
                event.name(),
                event.args().len(),
                arguments.len()
            )));
        }
        self.send(&event, arguments)
    }

    fn find(&self, contract: &str, event: &str) -> Result<Event> {
        let known = self
            .inner
            .contracts
            .iter()
            .find(|c| c.name() == contract)
            .ok_or_else(|| {
                Error::invalid_argument(format!("the server has no contract \"{contract}\""))
            })?;
        known
            .event(event)
            .map_err(|e| Error::invalid_argument(format!("event \"{event}\": {e}")))
    }

    fn send(&self, event: &Event, blobs: &[Bytes]) -> Result<usize> {
        let names = event.arg_type_names().map_err(|e| {
            Error::new(
                ErrorCode::InvalidArgument,
                format!("event {}: {e}", event.name()),
            )
        })?;
        let payload = encode(event, blobs, names, self.inner.type_names).into();
        Ok(self.inner.connections.raise(&self.target, &payload))
    }
}

/// The payload, the same for all clients.
fn encode(event: &Event, blobs: &[Bytes], names: Vec<TypeName>, form: EventTypeNames) -> Vec<u8> {
    let names = names.into_iter().zip(blobs).map(|(name, blob)| {
        // As .NET: a null has no type of its own.
        if blob.is_empty() {
            return TypeName {
                name: "System.Object".into(),
                assembly: "System.Private.CoreLib".into(),
            };
        }
        name
    });
    let mut types = TypeNames::default();
    match form {
        EventTypeNames::Strong => types.parameters = names.map(|n| n.qualified()).collect(),
        EventTypeNames::Weak => {
            types.parameters_by_name = names
                .map(|n| ParameterType {
                    name: Some(n.name),
                    assembly: Some(n.assembly),
                })
                .collect();
        }
    }
    let mut payload = Vec::new();
    Call {
        token: "",
        method_name: event.name(),
        arguments: &Arguments::from_blobs(blobs),
        types: Some(&types),
        invocation_id: Uuid::from_bytes(rand::random()),
        contract_id: event.contract_id(),
        method_id: 0,
        extension: None,
    }
    .encode(&mut payload);
    payload
}

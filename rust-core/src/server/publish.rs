//! Raising events.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::connection::Registry;
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
}

/// Raises the events of a server's contracts. Every authorised client gets every event.
///
/// An event raised inside a handler, before it returns, reaches each client before the answer
/// of that call does. Raising never waits: what a client has not read yet waits for it within the
/// server's limits.
#[derive(Clone)]
pub struct Publisher(pub(super) Arc<Inner>);

impl Publisher {
    /// Raises an event of the contract, named by its name or its line, with its arguments as a
    /// tuple.
    pub fn raise(&self, contract: &str, event: &str, arguments: impl IntoArguments) -> Result<()> {
        self.raise_json(contract, event, &arguments.into_json()?)
    }

    /// Raises an event with its arguments as a JSON array.
    pub fn raise_json(&self, contract: &str, event: &str, arguments: &str) -> Result<()> {
        let event = self.find(contract, event)?;
        let blobs = event
            .encode_args_json(self.0.codec, arguments)
            .map_err(|e| Error::invalid_argument(format!("event {}: {e}", event.name())))?;
        self.send(&event, &blobs)
    }

    /// Raises an event with typed values of the codec.
    pub fn raise_values(&self, contract: &str, event: &str, arguments: &[Value]) -> Result<()> {
        let event = self.find(contract, event)?;
        let blobs = event
            .encode_args(self.0.codec, arguments)
            .map_err(|e| Error::invalid_argument(format!("event {}: {e}", event.name())))?;
        self.send(&event, &blobs)
    }

    /// Raises an event with arguments that are encoded already; an empty blob is null.
    pub fn raise_blobs(&self, contract: &str, event: &str, arguments: &[Bytes]) -> Result<()> {
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
            .0
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

    fn send(&self, event: &Event, blobs: &[Bytes]) -> Result<()> {
        let names = event.arg_type_names().map_err(|e| {
            Error::new(
                ErrorCode::InvalidArgument,
                format!("event {}: {e}", event.name()),
            )
        })?;
        let payload = encode(event, blobs, names, self.0.type_names);
        for connection in self.0.connections.authorized() {
            connection.event(&payload);
        }
        Ok(())
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

//! Events of a server: to whom they go, and the groups of its connections.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use uuid::Uuid;
use witrpc::server::{ConnectionContext, ServerBuilder};

use crate::bridge::Queue;
use crate::contract::Contract;
use crate::convert;
use crate::errors;
use crate::options::Options;
use crate::process::Own;

use std::sync::Arc;

/// An id from a `uuid.UUID`.
pub(crate) fn id_of(object: &Bound<'_, PyAny>) -> PyResult<Uuid> {
    Ok(Uuid::from_u128(object.getattr("int")?.extract()?))
}

fn ids(objects: &[Bound<'_, PyAny>]) -> PyResult<Vec<Uuid>> {
    objects.iter().map(id_of).collect()
}

/// Raises events; may be used from any thread.
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct Publisher(Own<witrpc::server::Publisher>);

impl Publisher {
    pub(crate) fn new(publisher: witrpc::server::Publisher) -> Self {
        Self(Own::new(publisher))
    }
}

#[pymethods]
impl Publisher {
    /// A publisher to some of the clients: these connections, or members of these groups, or one
    /// principal, or all; `but` some connections, of groups and of all.
    fn to(
        &self,
        connections: Option<Vec<Bound<'_, PyAny>>>,
        groups: Option<Vec<String>>,
        principal: Option<&str>,
        but: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (all, but) = (self.0.get()?, ids(&but)?);
        let narrowed = match (connections, groups, principal) {
            (Some(connections), None, None) if but.is_empty() => {
                all.to_connections(&ids(&connections)?)
            }
            (None, Some(groups), None) => {
                let names: Vec<&str> = groups.iter().map(String::as_str).collect();
                all.to_groups_except(&names, &but)
            }
            (None, None, Some(principal)) if but.is_empty() => all.to_principal(principal),
            (None, None, None) if but.is_empty() => all.to_all(),
            (None, None, None) => all.to_all_except(&but),
            _ => {
                return Err(errors::invalid(
                    "events go to connections, to groups, to a principal, or to all: name one of \
                     these; but= leaves connections out of groups and of all",
                ));
            }
        };
        Ok(Self::new(narrowed))
    }

    /// Raises an event of the contract by its name or line; gives how many clients are meant.
    fn raise_event(
        &self,
        contract: &Bound<'_, Contract>,
        event: &str,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<usize> {
        let publisher = self.0.get()?;
        let contract = &contract.get().0;
        let found = contract
            .event(event)
            .map_err(|e| errors::invalid(format!("event \"{event}\": {e}")))?;
        let values = convert::arguments(args, found.name(), found.args(), found.types())?;
        publisher
            .raise_values(contract.name(), event, &values)
            .map_err(errors::raise)
    }

    /// Puts a connection into a group; false if it has ended.
    fn join(&self, connection: &Bound<'_, PyAny>, group: &str) -> PyResult<bool> {
        let groups = self.0.get()?.groups();
        groups.add(id_of(connection)?, group).map_err(errors::raise)
    }

    /// Takes a connection out of a group; false if it was not in it.
    fn leave(&self, connection: &Bound<'_, PyAny>, group: &str) -> PyResult<bool> {
        Ok(self.0.get()?.groups().remove(id_of(connection)?, group))
    }

    /// The groups that a connection is in.
    fn groups_of(&self, connection: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
        let groups = self.0.get()?.groups().of(id_of(connection)?);
        Ok(groups.iter().map(ToString::to_string).collect())
    }

    /// The connections in a group.
    fn members<'py>(&self, py: Python<'py>, group: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let members = self.0.get()?.groups().members(group);
        members.iter().map(|id| convert::uuid(py, id)).collect()
    }
}

/// Has `on_connected` and `on_disconnected` called in the loop's thread: with the publisher, and id,
/// address, principal and groups of the connection.
pub(crate) fn watch_connections(
    mut builder: ServerBuilder,
    options: &Options<'_>,
    queue: &Arc<Queue>,
) -> PyResult<ServerBuilder> {
    let hook = |name: &str| -> PyResult<_> {
        let queue = queue.clone();
        Ok(options.callback(name)?.map(|callback| {
            let callback = Arc::new(callback);
            move |connection: ConnectionContext| {
                // The groups are looked at now: of one that has ended they are soon forgotten.
                let (callback, groups) = (callback.clone(), connection.groups());
                queue.post_job(move |py| {
                    let id = convert::uuid(py, &connection.connection())?;
                    let publisher = Py::new(py, Publisher::new(connection.publisher().clone()))?;
                    let groups: Vec<&str> = groups.iter().map(|name| &**name).collect();
                    let peer = connection.peer().to_string();
                    let seen = (publisher, id, peer, connection.principal(), groups);
                    callback.call1(py, seen).map(drop)
                });
            }
        }))
    };
    if let Some(hook) = hook("on_connected")? {
        builder = builder.on_connected(hook);
    }
    if let Some(hook) = hook("on_disconnected")? {
        builder = builder.on_disconnected(hook);
    }
    Ok(builder)
}

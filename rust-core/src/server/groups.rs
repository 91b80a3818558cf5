//! Named groups of connections, and connections as users see them.
//!
//! Owns who is in which group. Groups come into being with their first member and are gone with the
//! last one; a connection that ends is in none.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::connection::Registry;
use super::publish::Publisher;
use crate::error::{Error, ErrorCode, Result};
use crate::transport::PeerAddr;

/// Groups that one connection may be in: a bound for services that take names from their clients.
pub(super) const MAX_GROUPS: usize = 1024;

/// Who is in which group.
#[derive(Debug, Default)]
pub(super) struct GroupTable {
    by_name: HashMap<Arc<str>, HashSet<Uuid>>,
    by_connection: HashMap<Uuid, HashSet<Arc<str>>>,
}

impl GroupTable {
    /// Puts a connection into a group. False if it is in too many.
    pub(super) fn add(&mut self, connection: Uuid, name: &str) -> bool {
        let groups = self.by_connection.entry(connection).or_default();
        if groups.contains(name) {
            return true;
        }
        if groups.len() >= MAX_GROUPS {
            return false;
        }
        let name = match self.by_name.get_key_value(name) {
            Some((name, _)) => name.clone(),
            None => Arc::from(name),
        };
        groups.insert(name.clone());
        self.by_name.entry(name).or_default().insert(connection);
        true
    }

    pub(super) fn remove(&mut self, connection: Uuid, name: &str) -> bool {
        let Some(groups) = self.by_connection.get_mut(&connection) else {
            return false;
        };
        let was_in = groups.remove(name);
        if groups.is_empty() {
            self.by_connection.remove(&connection);
        }
        if was_in {
            self.leave(connection, name);
        }
        was_in
    }

    /// A connection has ended.
    pub(super) fn forget(&mut self, connection: Uuid) {
        for name in self.by_connection.remove(&connection).unwrap_or_default() {
            self.leave(connection, &name);
        }
    }

    fn leave(&mut self, connection: Uuid, name: &str) {
        if let Some(members) = self.by_name.get_mut(name) {
            members.remove(&connection);
            if members.is_empty() {
                self.by_name.remove(name);
            }
        }
    }

    pub(super) fn members(&self, name: &str) -> impl Iterator<Item = Uuid> {
        self.by_name.get(name).into_iter().flatten().copied()
    }

    pub(super) fn names(&self, connection: Uuid) -> Vec<Arc<str>> {
        let mut names: Vec<_> = self
            .by_connection
            .get(&connection)
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        names.sort();
        names
    }
}

/// The named groups of a server's connections; from [`Server::groups`](super::Server::groups). May
/// be kept and used from anywhere.
///
/// A group is of connections, not of users: a client that reconnects is in none, and has to ask for
/// them again (in its `on_reconnected`); or it is put into them by
/// [`on_connected`](super::ServerBuilder::on_connected). Whoever is to be found by name without that
/// is [addressed by its principal](super::Publisher::to_principal).
#[derive(Clone)]
pub struct Groups(pub(super) Arc<Registry>);

impl Groups {
    /// Puts a connection into a group. False if there is no such connection (any more); it is right
    /// to add one that is in it already.
    ///
    /// # Errors
    /// [`Overloaded`](ErrorCode::Overloaded) when the connection is in 1,024 groups.
    pub fn add(&self, connection: Uuid, group: &str) -> Result<bool> {
        match self.0.join(connection, group) {
            None => Ok(false),
            Some(true) => Ok(true),
            Some(false) => Err(Error::new(
                ErrorCode::Overloaded,
                format!("the connection is in {MAX_GROUPS} groups already"),
            )),
        }
    }

    /// Takes a connection out of a group. False if it was not in it.
    pub fn remove(&self, connection: Uuid, group: &str) -> bool {
        self.0.groups.lock().remove(connection, group)
    }

    /// The connections in a group, in no order.
    pub fn members(&self, group: &str) -> Vec<Uuid> {
        self.0.groups.lock().members(group).collect()
    }

    /// The groups that a connection is in, by name.
    pub fn of(&self, connection: Uuid) -> Vec<Arc<str>> {
        self.0.groups.lock().names(connection)
    }
}

/// A connection that is authorised.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// Its id, by which it can be sent events.
    pub id: Uuid,
    /// Address of the client.
    pub peer: PeerAddr,
    /// Who the client is, as the token validator said at the handshake.
    pub principal: Arc<str>,
    /// Events that wait for the client to read.
    pub events_waiting: usize,
    /// Events that were dropped because the client did not read as fast as they came.
    pub events_dropped: u64,
}

/// A connection that has just been authorised, or has ended, as the callbacks of
/// [`on_connected`](super::ServerBuilder::on_connected) and
/// [`on_disconnected`](super::ServerBuilder::on_disconnected) see it.
#[derive(Clone)]
pub struct ConnectionContext {
    pub(super) id: Uuid,
    pub(super) peer: PeerAddr,
    pub(super) principal: Arc<str>,
    pub(super) publisher: Publisher,
}

impl ConnectionContext {
    /// Id of the connection.
    pub fn connection(&self) -> Uuid {
        self.id
    }

    /// Address of the client.
    pub fn peer(&self) -> PeerAddr {
        self.peer
    }

    /// Who the client is, as the token validator said at the handshake.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// Puts the connection into a group.
    ///
    /// # Errors
    /// As [`Groups::add`].
    pub fn join(&self, group: &str) -> Result<()> {
        self.publisher.groups().add(self.id, group).map(drop)
    }

    /// The groups that the connection is in; of one that has ended, was in.
    pub fn groups(&self) -> Vec<Arc<str>> {
        self.publisher.groups().of(self.id)
    }

    /// Raises events.
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Raises events to this client only.
    pub fn caller(&self) -> Publisher {
        self.publisher.to_connection(self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_groups_without_members() {
        let mut table = GroupTable::default();
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert!(table.add(a, "x") && table.add(a, "x") && table.add(a, "y") && table.add(b, "x"));
        assert_eq!(table.members("x").count(), 2);
        assert_eq!(table.names(a), ["x".into(), Arc::from("y")]);
        assert!(table.remove(b, "x") && !table.remove(b, "x") && !table.remove(b, "none"));
        table.forget(a);
        table.forget(a);
        assert!(table.by_name.is_empty() && table.by_connection.is_empty());
    }

    #[test]
    fn a_connection_is_not_in_more_groups_than_it_may() {
        let mut table = GroupTable::default();
        let a = Uuid::from_u128(1);
        assert!((0..MAX_GROUPS).all(|n| table.add(a, &n.to_string())));
        assert!(!table.add(a, "one more"));
        assert!(table.add(a, "7"));
        assert_eq!(table.members("one more").count(), 0);
        assert!(table.remove(a, "7") && table.add(a, "one more"));
    }
}

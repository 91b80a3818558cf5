//! How each fault is done to a life.

use std::sync::Arc;

use witrpc::resilience::dedup::CallId;

use crate::checker::Cause;
use crate::fault::Fault;
use crate::network::{End, Peer, Way};
use crate::plan::MS;
use crate::world::{Event, World};

impl World {
    /// Lets a planned fault happen.
    pub fn inject(&mut self, n: usize) {
        let planned = self.plan.faults[n].1;
        let (client, fault) = (planned.client, planned.fault);
        let phase = self.phase_of(client);
        let happened = self.do_to(client, fault);
        self.trace(|| format!("FAULT {fault:?} to client {client}, {phase:?}: {happened}"));
        if happened {
            self.hits
                .count(fault.kind(self.server.journal.is_some()), phase);
        }
    }

    /// Does it. True if it hit; a cut after some bytes of a connection that stands is counted when it
    /// does.
    fn do_to(&mut self, client: usize, fault: Fault) -> bool {
        let connection = self.clients[client].connection();
        match fault {
            Fault::CutUp(after) => return self.cut_after(client, Way::Up, after),
            Fault::CutDown(after) => return self.cut_after(client, Way::Down, after),
            Fault::Cut => match connection {
                Some(connection) => self.breaks(connection),
                None => self.clients[client].next_connection.refused = true,
            },
            Fault::Close => match connection {
                Some(connection) => self.server_closes(connection, End::Closed),
                None => self.clients[client].next_connection.closed = true,
            },
            Fault::Delay(ms) => self.delay(client, ms * MS),
            Fault::Reorder(ms) => return self.reorder(client, ms * MS),
            Fault::Restart(ms) => {
                let was_up = self.server.is_up;
                self.restart(ms * MS, false);
                return was_up;
            }
            Fault::SilentRestart(ms) => {
                let was_up = self.server.is_up;
                self.restart(ms * MS, true);
                return was_up;
            }
            Fault::GoingAway(ms) => return self.leave(ms * MS),
            Fault::StoreFailure(writes) => {
                if let Some(journal) = &mut self.server.journal {
                    journal.fail(writes);
                }
            }
            Fault::Twin(way) => return self.send_twins(client, way),
            Fault::Pressure(calls) => return self.press(calls),
            Fault::ClientClock(ms) => {
                self.clients[client].ahead += ms * MS;
                self.look_at_clock(client);
            }
            Fault::ServerClock(ms) => {
                self.server.ahead += ms * MS;
                self.out_of_time = true;
            }
            Fault::SlowHandler(ms) => {
                // Nothing waits for longer than this, so that every life comes to an end.
                self.server.slow = (ms.min(60_000) * MS, 2);
            }
            Fault::Token => self.server.oldest_token += 1,
        }
        true
    }

    fn cut_after(&mut self, client: usize, way: Way, after: u64) -> bool {
        let connection = self.clients[client].connection();
        match connection {
            Some(connection) => self.connections[connection].stream(way).cut_after = Some(after),
            None => self.clients[client].next_connection.cut = Some((way, after)),
        }
        connection.is_none()
    }

    fn delay(&mut self, client: usize, by: u64) {
        self.out_of_time = true;
        let Some(connection) = self.clients[client].connection() else {
            self.clients[client].next_connection.delay = by;
            return;
        };
        for way in [Way::Up, Way::Down] {
            for at in self.connections[connection].delay(self.now, way, by) {
                self.queue.push(at, Event::Arrives(connection, way));
            }
        }
    }

    /// The client loses its connection, and what it sent arrives later than what it sends on the
    /// next one. Without a connection that is done to the one before.
    fn reorder(&mut self, client: usize, by: u64) -> bool {
        self.out_of_time = true;
        let mine = |peer| matches!(peer, Peer::Client(owner, _) if owner == client);
        let connection = self.clients[client].connection().or_else(|| {
            let connections = self.connections.iter();
            connections
                .enumerate()
                .rev()
                .find(|(_, it)| mine(it.peer) && it.server_has_it)
                .map(|(n, _)| n)
        });
        let Some(connection) = connection else {
            // Nothing is under way: what comes next is late.
            self.clients[client].next_connection.delay = by.min(2_000 * MS);
            return true;
        };
        for at in self.connections[connection].delay(self.now, Way::Up, by) {
            self.queue.push(at, Event::Arrives(connection, Way::Up));
        }
        self.connections[connection].lose(Way::Down);
        self.breaks(connection);
        true
    }

    /// Calls of others arrive, each of which wants a record.
    fn press(&mut self, calls: u64) -> bool {
        if !self.server.is_up {
            return false;
        }
        for _ in 0..calls {
            let call = CallId {
                principal: Arc::from("crowd"),
                invocation: self.dice.id(),
                numbered: None,
                repeated: false,
                elsewhere: false,
            };
            self.begin(
                None,
                call,
                format!("crowd.0.answer.{}", 2 * MS),
                Cause::Twin,
                false,
            );
        }
        true
    }
}

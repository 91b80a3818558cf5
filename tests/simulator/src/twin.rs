//! Senders of twins: a request that was seen is sent again by connections of their own.

use std::sync::Arc;

use uuid::Uuid;
use witrpc::session::{Call, ClientReceived, ClientSession, Slot};
use witrpc::wire::{Arguments, frame};

use crate::checker::call_of;
use crate::client::Seen;
use crate::fault::Twins;
use crate::network::{End, Peer, Piece, Way};
use crate::world::{Event, World};

/// One sender of one twin.
#[derive(Debug)]
pub struct Twin {
    session: ClientSession,
    connection: Option<usize>,
    /// How it is sent.
    pub way: Twins,
    seen: Seen,
    argument: Arc<str>,
}

impl World {
    /// Sends twins of the newest request of a client. False if there is none, or if they could not be
    /// told from it.
    pub fn send_twins(&mut self, client: usize, way: Twins) -> bool {
        let it = &self.clients[client];
        let Some(seen) = it.seen.clone() else {
            return false;
        };
        // Who numbers a call once does so always; a .NET client never does.
        let way = match (way, it.id) {
            (Twins::Plain, Some(_)) if seen.extension.call_number.is_some() => Twins::Repeated,
            (Twins::Repeated | Twins::OtherArguments, None) => Twins::Plain,
            (way, _) => way,
        };
        let client_id = it.id.unwrap_or_default();
        if !self.server.is_up {
            return false;
        }
        let principal = match way {
            Twins::OtherPrincipal => "eve",
            _ => &self.plan.clients[client].principal,
        };
        let token = format!("{principal}/{}", self.server.oldest_token);
        let argument: Arc<str> = match way {
            Twins::OtherArguments => format!("{}.other", seen.argument).into(),
            _ => seen.argument.as_str().into(),
        };
        if way == Twins::OtherArguments
            && let Some(call) = call_of(&argument)
        {
            self.checker.disturbed.insert(call);
        }
        for _ in 0..2 {
            let twin = self.twins.len();
            let id = match way {
                Twins::Repeated | Twins::OtherArguments => client_id,
                Twins::Plain | Twins::OtherPrincipal => Uuid::from_u128(twin as u128 + 1),
            };
            let session = ClientSession::new(self.dice.draw().to_le_bytes(), id, &token);
            self.twins.push(Twin {
                session,
                connection: None,
                way,
                seen: seen.clone(),
                argument: argument.clone(),
            });
            let after = self.dice.between(0, 4) * self.plan.network.fastest / 2;
            self.queue.push(self.now + after, Event::TwinOpened(twin));
        }
        true
    }

    /// A sender of twins connects.
    pub fn twin_opened(&mut self, twin: usize) {
        if self.server.is_up {
            let connection = self.accept(Peer::Twin(twin));
            self.twins[twin].connection = Some(connection);
            self.twin_writes(twin, connection);
        }
    }

    fn twin_writes(&mut self, twin: usize, connection: usize) {
        let output = self.twins[twin].session.take_output().freeze();
        self.send(connection, Way::Up, output);
    }

    /// Something arrives at a sender of twins.
    pub fn twin_gets(&mut self, twin: usize, connection: usize, piece: Piece) {
        let Piece::Bytes(bytes) = piece else {
            self.twins[twin].connection = None;
            return self.twin_closes(connection);
        };
        let input = &mut self.connections[connection].client_input;
        input.extend_from_slice(&bytes);
        while let Ok(Some(body)) =
            frame::split(&mut self.connections[connection].client_input, 1 << 24)
        {
            let it = &mut self.twins[twin];
            match it.session.receive(body) {
                Ok(ClientReceived::Authorized) => {
                    let numbers = it
                        .seen
                        .extension
                        .call_number
                        .zip(it.seen.extension.first_unfinished);
                    let numbers = numbers
                        .filter(|_| it.way != Twins::Plain && it.way != Twins::OtherPrincipal);
                    let arguments = Arguments::from_blobs(&[it.argument.as_bytes()]);
                    it.session.request(
                        Slot {
                            index: 0,
                            serial: 1,
                        },
                        &Call {
                            method_name: "Work",
                            arguments: &arguments,
                            types: None,
                            invocation_id: it.seen.invocation,
                            contract_id: 1,
                            method_id: 2,
                            number: numbers.map(|(number, _)| number),
                            first_unfinished: numbers.map_or(0, |(_, first)| first),
                            attempt: (it.way == Twins::Repeated).then_some(2),
                            elsewhere: false,
                            may_have_come: false,
                            remaining: None,
                            trace_context: None,
                        },
                    );
                }
                Ok(ClientReceived::Answer(..)) | Err(_) => return self.twin_closes(connection),
                Ok(_) => {}
            }
        }
        self.twin_writes(twin, connection);
    }

    fn twin_closes(&mut self, connection: usize) {
        self.connections[connection].client_has_it = false;
        if let Some(at) = self.connections[connection].end(self.now, Way::Up, End::Closed) {
            self.queue.push(at, Event::Arrives(connection, Way::Up));
        }
    }
}

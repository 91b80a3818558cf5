//! A .NET server, as far as it matters to its clients' calls: one after the other, and 64 answers
//! kept for each connection. And what a .NET peer sees of a message.

use std::sync::Arc;

use bytes::BytesMut;
use uuid::Uuid;
use witrpc::resilience::dedup::CallId;
use witrpc::wire::{Envelope, InitializationRequest, Kind, Request, Response, status};

use crate::checker::{Begins, Cause, stored};
use crate::client::{Stage, argument_of};
use crate::method::Run;
use crate::server::encode;
use crate::world::{Event, World};

/// Answers that a .NET server keeps for a connection.
const KEEPS: usize = 64;

impl World {
    /// A .NET server: one call after the other, and 64 answers kept for the connection.
    pub(crate) fn dotnet_call(
        &mut self,
        connection: usize,
        id: Uuid,
        principal: Option<Arc<str>>,
        request: &Request,
    ) {
        let argument = argument_of(request);
        self.stage(connection, &argument, Stage::Executing);
        let Some(end) = &mut self.ends[connection] else {
            return;
        };
        let kept = end
            .dotnet
            .iter()
            .find(|(id, _)| *id == request.invocation_id);
        if let Some(response) = kept.and_then(|(_, answer)| stored(answer)) {
            return self.answer(connection, id, &argument, &response);
        }
        let Some(principal) = principal else {
            let refusal = Response::error(status::UNAUTHORIZED, "Token is not valid", None);
            self.dotnet_keeps(connection, request.invocation_id, &refusal);
            return self.answer(connection, id, &argument, &refusal);
        };
        end.is_busy = true;
        let run = self.server.runs.len();
        let at = self.server_time();
        let execution = self.checker.begins(
            self.plan.server.dedup.hold,
            Begins {
                principal: principal.clone(),
                invocation: request.invocation_id,
                argument: argument.clone(),
                // Its memory is that of the connection.
                memory: 1_000_000 + connection as u64,
                cause: Cause::Client,
                numbered: false,
                repeated: false,
                at,
                out_of_time: false,
                dropped_tombstones: false,
            },
        );
        self.server.runs.push(Run {
            life: self.server.life,
            waiter: Some((connection, id)),
            ticket: None,
            begun: None,
            call: CallId {
                principal,
                invocation: request.invocation_id,
                numbered: None,
                repeated: false,
                elsewhere: false,
            },
            digest: 0,
            argument,
            cause: Cause::Client,
            execution,
            is_stored: true,
            parties: Vec::new(),
            is_begun: true,
            is_cancelled: false,
            has_ended: false,
        });
        self.run_method(run, Event::DotnetEnds);
    }

    pub(crate) fn dotnet_keeps(&mut self, connection: usize, id: Uuid, response: &Response) {
        if let Some(end) = &mut self.ends[connection] {
            end.dotnet.push_back((id, encode(response)));
            if end.dotnet.len() > KEEPS {
                end.dotnet.pop_front();
            }
        }
    }

    /// A method of a .NET server ends.
    pub fn dotnet_ends(&mut self, life: u64, run: usize) {
        if life != self.server.life || !self.server.is_up {
            return;
        }
        let response = match self.outcome(run) {
            // A .NET server refuses nothing for load.
            refusal if refusal.status == status::TRANSPORT_ERROR => self.outcome(run),
            response => response,
        };
        let at = self.server_time();
        let it = &self.server.runs[run];
        let invocation = it.call.invocation;
        self.checker.ends(it.execution, at, false);
        let Some((connection, id)) = it.waiter else {
            return;
        };
        self.dotnet_keeps(connection, invocation, &response);
        self.send_stored(run, connection, id, &encode(&response));
        if let Some(end) = &mut self.ends[connection] {
            end.is_busy = false;
            self.server_reads(connection);
        }
    }
}

/// What a .NET peer makes of a message: it skips the members it does not know, and sends none.
pub(crate) fn without_extension(body: BytesMut) -> BytesMut {
    let Ok(Some(mut envelope)) = Envelope::decode(&body.clone().freeze()) else {
        return body;
    };
    if envelope.kind != Kind::INITIALIZATION {
        return body;
    }
    if let Some(Ok(Some(mut request))) = envelope
        .data
        .as_ref()
        .map(|d| InitializationRequest::decode(d))
    {
        request.extension = None;
        let mut data = Vec::new();
        request.encode(&mut data);
        envelope.data = Some(data.into());
    }
    let mut out = BytesMut::new();
    envelope.encode(&mut out);
    out
}

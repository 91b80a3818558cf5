//! A cell where we are the server: the peer's client runs its script, which calls every method, repeats a
//! call, is refused and raises every event; and makes a call with values of ours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use witrpc::codec::Codec;
use witrpc::server::EventTypeNames;
use witrpc::transport::tls::{Identity, TlsServerOptions};
use witrpc_conformance::own::Own;
use witrpc_conformance::peer::Peer;
use witrpc_conformance::root;

use crate::cell::{Cell, Security, Transport};
use crate::values::{Draw, same};

/// Our servers, each listening on every transport; started when the first cell needs one.
#[derive(Default)]
pub(crate) struct Servers(Mutex<HashMap<(Codec, Security, bool), Arc<Own>>>);

impl Servers {
    fn of(&self, cell: Cell) -> Result<Arc<Own>, String> {
        let mut servers = self.0.lock().map_err(|_| "a server did not start")?;
        let key = (cell.codec, cell.security, cell.strong);
        if let Some(server) = servers.get(&key) {
            return Ok(server.clone());
        }
        let file = |name: &str| {
            std::fs::read(root().join("tests/certs").join(name)).map_err(|e| format!("{name}: {e}"))
        };
        let tls = TlsServerOptions {
            identity: Identity {
                certificates: file("server.pem")?,
                key: file("server-key.pem")?,
            },
            client_authorities: None,
        };
        let pipe = format!(
            "pipe://witrpc-matrix-own-{}-{}",
            std::process::id(),
            cell.seed
        );
        let names = match cell.strong {
            true => EventTypeNames::Strong,
            false => EventTypeNames::Weak,
        };
        let server = Own::with(|builder| {
            builder
                .listen("tls://localhost:0")
                .listen("ws://localhost:0/api/")
                .listen("wss://localhost:0/api/")
                .listen(&pipe)
                .tls(tls)
                .codec(cell.codec)
                .encryption(cell.security.encrypted)
                .token(cell.token())
                .event_type_names(names)
        });
        let server = Arc::new(server);
        servers.insert(key, server.clone());
        Ok(server)
    }
}

/// Gives the number of checks that passed, or what did not.
pub(crate) fn run(peer: &Peer, servers: &Servers, cell: Cell) -> Result<usize, String> {
    let server = servers.of(cell)?;
    let address = address(&server, cell.transport)?;
    let mut options = cell.peer_options();
    let ca = root()
        .join("tests/certs/ca.pem")
        .to_string_lossy()
        .into_owned();
    if cell.transport == Transport::Tls {
        options.extend(["--cafile", &ca]);
    }
    let (summary, failed) = peer.client_at(&address, &options);
    let passed = summary.strip_suffix(" passed, 0 failed");
    let passed: usize = match passed.and_then(|n| n.parse().ok()) {
        Some(passed) if passed >= 107 => passed,
        _ => return Err(format!("{summary}: {failed:#?}")),
    };
    // Another method for every cell.
    let mut draw = Draw::new(cell.seed);
    let calls = draw.echoes(cell.codec);
    let fitting: Vec<_> = calls
        .iter()
        .filter(|call| reads_back(cell.codec, call.line))
        .collect();
    let call = fitting[cell.seed as usize % fitting.len()];
    let arguments = format!("[{}]", call.argument);
    let result = peer.call_at(&address, &options, call.line, &arguments);
    if !same(&result, &call.expected) {
        return Err(format!("{}{arguments}: {result}", call.line));
    }
    Ok(passed + 1)
}

/// Whether a .NET client understands what a .NET server answers: of a nullable value with MemoryPack
/// it does not.
fn reads_back(codec: Codec, line: &str) -> bool {
    codec != Codec::MemoryPack || !line.starts_with("Maybe")
}

/// Where the peer finds our server, in its form.
fn address(server: &Own, transport: Transport) -> Result<String, String> {
    let scheme = format!("{}://", transport.name());
    let endpoints = server.endpoints();
    let endpoint = endpoints.iter().find(|e| e.starts_with(&scheme));
    let endpoint = endpoint.ok_or("no such endpoint")?;
    let rest = endpoint.trim_start_matches(&scheme);
    Ok(match transport {
        Transport::WebSocket | Transport::Wss => endpoint.clone(),
        other => format!("{}:{rest}", other.name()),
    })
}

//! A cell where we are the server: the peer's client runs its script, which calls every method, repeats a
//! call, is refused and raises every event; and makes a call with values of ours.

use witrpc::codec::Codec;
use witrpc::server::EventTypeNames;
use witrpc::transport::tls::{Identity, TlsServerOptions};
use witrpc_conformance::own::Own;
use witrpc_conformance::peer::Peer;
use witrpc_conformance::root;

use crate::cell::{Cell, Transport};
use crate::values::{Draw, same};

/// A server for this cell alone: its events are for its client.
fn start(cell: Cell) -> Result<Own, String> {
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
    let endpoint = match cell.transport {
        Transport::Tcp => "tcp://127.0.0.1:0".to_owned(),
        Transport::Tls => "tls://localhost:0".to_owned(),
        Transport::WebSocket => "ws://localhost:0/api/".to_owned(),
        Transport::Wss => "wss://localhost:0/api/".to_owned(),
        Transport::Pipe => {
            format!(
                "pipe://witrpc-matrix-own-{}-{}",
                std::process::id(),
                cell.seed
            )
        }
    };
    let names = match cell.strong {
        true => EventTypeNames::Strong,
        false => EventTypeNames::Weak,
    };
    Ok(Own::at(&endpoint, |builder| {
        builder
            .tls(tls)
            .codec(cell.codec)
            .encryption(cell.security.encrypted)
            .token(cell.token())
            .event_type_names(names)
    }))
}

/// Gives the number of checks that passed, or what did not.
pub(crate) fn run(peer: &Peer, cell: Cell) -> Result<usize, String> {
    let server = start(cell)?;
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
    let unexpected: Vec<_> = failed
        .iter()
        .filter(|line| !is_better(cell.codec, line))
        .collect();
    let passed = summary.split(" passed, ").next();
    let passed = passed
        .and_then(|n| n.parse::<usize>().ok())
        .unwrap_or_default()
        + failed.len();
    if !unexpected.is_empty() || passed < 107 {
        return Err(format!("{summary}: {unexpected:#?}"));
    }
    if !cell.has_call() {
        return Ok(passed);
    }
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

/// Where we say what is wrong and a .NET server goes on with null: protobuf has no form for an object.
fn is_better(codec: Codec, line: &str) -> bool {
    codec == Codec::Protobuf
        && line.contains("\"call\":\"Anything\"")
        && line.contains("protobuf can not hold an object")
}

/// Whether a .NET client understands what a .NET server answers: of a nullable value with MemoryPack
/// it does not.
fn reads_back(codec: Codec, line: &str) -> bool {
    codec != Codec::MemoryPack || !line.starts_with("Maybe")
}

/// Where the peer finds our server, in its form.
fn address(server: &Own, transport: Transport) -> Result<String, String> {
    let endpoint = server.endpoint();
    let rest = endpoint.split_once("://").ok_or("no endpoint")?.1;
    Ok(match transport {
        Transport::WebSocket | Transport::Wss => endpoint,
        other => format!("{}:{rest}", other.name()),
    })
}

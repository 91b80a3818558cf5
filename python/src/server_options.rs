//! The options of a server, as the package hands them over.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use witrpc::resilience::dedup::DedupOptions;
use witrpc::server::{EventTypeNames, Server, ServerBuilder, ServerLimits, Verdict};
use witrpc::transport::tls::TlsServerOptions;

use crate::bridge::{self, Item, Queue};
use crate::errors;
use crate::options::{self, Options, seconds};

fn size(object: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    let value = object.getattr(name)?;
    value
        .extract()
        .map_err(|e: PyErr| errors::invalid(format!("{name} is {value}: {e}")))
}

fn time(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Duration>> {
    let value = object.getattr(name)?;
    if value.is_none() {
        return Ok(None);
    }
    seconds(&value, name).map(Some)
}

fn limits(object: &Bound<'_, PyAny>) -> PyResult<ServerLimits> {
    let defaults = ServerLimits::default();
    Ok(ServerLimits {
        max_clients: size(object, "max_clients")?,
        max_frame: size(object, "max_frame")?,
        max_handshake_frame: size(object, "max_handshake_frame")?,
        max_in_flight_per_connection: size(object, "max_in_flight_per_connection")?,
        max_in_flight: size(object, "max_in_flight")?,
        retry_after: time(object, "retry_after")?.unwrap_or(defaults.retry_after),
        handshake_timeout: time(object, "handshake_timeout")?,
        max_unsent_bytes: size(object, "max_unsent_bytes")?,
        max_clients_per_address: size(object, "max_clients_per_address")?,
        max_strangers_per_address: size(object, "max_strangers_per_address")?,
        max_waiting_bytes: size(object, "max_waiting_bytes")?,
        max_handshake_bytes: size(object, "max_handshake_bytes")?,
        min_rate: u32::try_from(size(object, "min_rate")?).unwrap_or(u32::MAX),
        rate_window: time(object, "rate_window")?.unwrap_or(defaults.rate_window),
        ..defaults
    })
}

fn dedup(object: &Bound<'_, PyAny>) -> PyResult<DedupOptions> {
    let defaults = DedupOptions::default();
    Ok(DedupOptions {
        max_records: size(object, "max_records")?,
        max_bytes: size(object, "max_bytes")?,
        hold: time(object, "hold")?.unwrap_or(defaults.hold),
        max_answer: size(object, "max_answer")?,
        max_tombstones: size(object, "max_tombstones")?,
        max_clients: size(object, "max_clients")?,
    })
}

fn tls(object: &Bound<'_, PyAny>) -> PyResult<TlsServerOptions> {
    let identity = options::identity(object)?
        .ok_or_else(|| errors::invalid("tls: a server needs a certificate and its key"))?;
    Ok(TlsServerOptions {
        identity,
        client_authorities: object.getattr("authorities")?.extract()?,
    })
}

fn verdict(answer: &Bound<'_, PyAny>) -> PyResult<Verdict> {
    if let Ok(principal) = answer.extract::<String>() {
        return Ok(Verdict::Accepted(principal.into()));
    }
    Ok(match answer.is_truthy()? {
        true => Verdict::Accepted("".into()),
        false => Verdict::Refused,
    })
}

fn validator(builder: ServerBuilder, check: Py<PyAny>, queue: Arc<Queue>) -> ServerBuilder {
    let check = Arc::new(check);
    builder.validator_async(move |credentials| {
        let (check, queue) = (check.clone(), queue.clone());
        let (token, peer) = (credentials.token.to_owned(), credentials.peer.to_string());
        async move {
            let answer = bridge::ask(&queue, check, move |_| Ok((token, peer))).await;
            let verdict = answer.ok().and_then(|answer| {
                crate::process::attach(|py| verdict(answer.bind(py)).ok()).flatten()
            });
            verdict.unwrap_or(Verdict::Refused)
        }
    })
}

/// A builder with everything set but the services.
pub(crate) fn server(options: &Options<'_>, queue: &Arc<Queue>) -> PyResult<ServerBuilder> {
    let mut builder = Server::builder().codec(options::codec(options)?);
    for endpoint in options.get::<Vec<String>>("endpoints")?.unwrap_or_default() {
        builder = builder.listen(&endpoint);
    }
    if let Some(on) = options.get("encryption")? {
        builder = builder.encryption(on);
    }
    if let Some(token) = options.get::<String>("token")? {
        builder = builder.token(token);
    }
    if let Some(path) = options.get::<std::path::PathBuf>("token_file")? {
        builder = builder.token_file(path);
    }
    if let Some(check) = options.callback("validator")? {
        builder = validator(builder, check, queue.clone());
    }
    let mut bounds = match options.any("limits")? {
        Some(object) => limits(&object)?,
        None => ServerLimits::default(),
    };
    if let Some(object) = options.any("keep_alive")? {
        bounds.keep_alive = options::keep_alive(&object)?;
    }
    builder = builder.limits(bounds);
    if let Some(object) = options.any("event_queue")? {
        builder = builder.event_queue(options::event_queue(&object)?);
    }
    if let Some(object) = options.any("dedup")? {
        builder = builder.dedup(dedup(&object)?);
    }
    if let Some(object) = options.any("store")? {
        builder = crate::durable::store(builder, &object)?;
    }
    if let Some(object) = options.any("socket")? {
        builder = builder.socket(options::socket(&object)?);
    }
    if let Some(object) = options.any("websocket")? {
        builder = builder.websocket(options::websocket(&object)?);
    }
    if let Some(object) = options.any("tls")? {
        builder = builder.tls(tls(&object)?);
    }
    if let Some(mode) = options.get("pipe_mode")? {
        builder = builder.pipe_mode(mode);
    }
    if options.get("strong_event_types")? == Some(true) {
        builder = builder.event_type_names(EventTypeNames::Strong);
    }
    if let Some(callback) = options.callback("on_execute")? {
        let (callback, queue) = (Arc::new(callback), queue.clone());
        builder = builder.on_execute(move |execution| {
            let (contract, method) = (execution.contract.to_owned(), execution.method.to_owned());
            let (callback, id) = (callback.clone(), execution.invocation_id);
            queue.post(Item::Notice(Box::new(move |py| {
                let id = crate::convert::uuid(py, &id)?;
                callback.call1(py, (contract, method, id)).map(drop)
            })));
        });
    }
    crate::publish::watch_connections(builder, options, queue)
}

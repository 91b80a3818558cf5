//! Calls that outlive the process: which store keeps them, and what a resolver says of one whose
//! answer it does not know.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use witrpc::contract::Method;
use witrpc::server::store::{RedisOptions, RedisStore};
use witrpc::server::{Fault, Resolution, ServerBuilder, ServiceBuilder};
use witrpc::transport::tls::TlsClientOptions;

use crate::bridge::{self, Queue};
use crate::convert;
use crate::errors;
use crate::options::{duration, field, tls};
use crate::process;
use crate::server::CallContext;

/// Has the calls of a method kept. `resolver` is asked in the loop's thread.
pub(crate) fn durable(
    service: ServiceBuilder,
    line: &str,
    resolver: Option<Py<PyAny>>,
    queue: &Arc<Queue>,
) -> ServiceBuilder {
    let Some(resolver) = resolver else {
        return service.durable(line);
    };
    let (queue, resolver) = (queue.clone(), Arc::new(resolver));
    service.resolver(line, move |context| {
        let (queue, resolver) = (queue.clone(), resolver.clone());
        async move {
            let method = context.method().clone();
            let answer = bridge::ask(&queue, resolver, |_| Ok((CallContext(context),))).await;
            let resolved = answer.and_then(|answer| {
                let read = process::attach(|py| resolution(answer.bind(py), &method));
                match read {
                    Some(Ok(resolution)) => Ok(resolution),
                    Some(Err(error)) => Err(error.to_string()),
                    None => Err("the interpreter has ended".to_owned()),
                }
            });
            resolved.unwrap_or_else(|why| {
                tracing::error!(%method, why, "a resolver failed");
                Resolution::Unknown
            })
        }
    })
}

/// What the package makes of the answer of a resolver: what it says, and what belongs to that.
fn resolution(answer: &Bound<'_, PyAny>, method: &Method) -> PyResult<Resolution> {
    let answer = answer.cast::<PyTuple>()?;
    Ok(match answer.get_item(0)?.extract::<String>()?.as_str() {
        "executed" => {
            let result = answer.get_item(1)?;
            let (name, ty, types) = (method.name(), method.returns(), method.types());
            let value = convert::result(&result, name, ty, types)?;
            let json = method.result_to_json(&value);
            Resolution::Executed(json.map_err(|e| errors::invalid(e.to_string()))?)
        }
        "failed" => {
            let (_, status, message, details): (String, _, String, _) = answer.extract()?;
            Resolution::Failed(Fault::with_status(status, message, details))
        }
        "not_executed" => Resolution::NotExecuted,
        _ => Resolution::Unknown,
    })
}

/// The store of a server, from the package's option classes.
pub(crate) fn store(builder: ServerBuilder, store: &Bound<'_, PyAny>) -> PyResult<ServerBuilder> {
    const OF: &str = "store";
    if store.hasattr("directory")? {
        return Ok(builder.journal(field::<PathBuf>(store, OF, "directory")?));
    }
    let options = RedisOptions {
        url: field(store, OF, "url")?,
        tls: match store.getattr("tls")? {
            none if none.is_none() => TlsClientOptions::default(),
            object => tls(&object)?,
        },
        prefix: field(store, OF, "prefix")?,
        lease: duration(store, OF, "lease")?,
        hold: duration(store, OF, "hold")?,
        client_hold: duration(store, OF, "client_hold")?,
        timeout: duration(store, OF, "timeout")?,
        wait_replicas: field(store, OF, "wait_replicas")?,
        trust_restarts: field(store, OF, "trust_restarts")?,
    };
    Ok(builder.store(RedisStore::new(options).map_err(errors::raise)?))
}

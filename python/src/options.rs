//! The options of a client, as the package hands them over: a `dict` of names and plain values, the
//! package's option classes among them, read by attribute.
//!
//! Defaults are those of the builder: what is absent or `None` is not set.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyDeltaAccess, PyDict};
use witrpc::client::{ClientBuilder, MethodLookup, RetryPolicy, TypeNameForm};
use witrpc::codec::Codec;
use witrpc::config::ClientConfig;
use witrpc::resilience::backoff::{BackoffType, Jitter};
use witrpc::resilience::budget::BudgetOptions;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::session::KeepAliveOptions;
use witrpc::transport::tls::{Identity, TlsClientOptions};
use witrpc::transport::{SocketOptions, WebSocketOptions};
use witrpc::{EventQueueOptions, Overflow};

use crate::errors;

/// Longest time that is told from "for ever": some 136 years.
const MAX_SECONDS: f64 = u32::MAX as f64;

/// A `dict` of options.
pub(crate) struct Options<'py>(pub(crate) Bound<'py, PyDict>);

impl<'py> Options<'py> {
    /// The option; `None` where it is absent or `None`.
    pub(crate) fn any(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    pub(crate) fn get<T>(&self, name: &str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
    {
        let Some(value) = self.any(name)? else {
            return Ok(None);
        };
        value
            .extract()
            .map(Some)
            .map_err(|e| wrong(name, &value, e))
    }

    pub(crate) fn seconds(&self, name: &str) -> PyResult<Option<Duration>> {
        self.any(name)?
            .map(|value| seconds(&value, name))
            .transpose()
    }

    pub(crate) fn callback(&self, name: &str) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.any(name)?.map(Bound::unbind))
    }
}

fn wrong(name: &str, value: &Bound<'_, PyAny>, error: impl Into<PyErr>) -> PyErr {
    let shown = value
        .repr()
        .map_or_else(|_| "…".to_owned(), |text| text.to_string());
    errors::invalid(format!("{name} is {shown}: {}", error.into()))
}

/// Attribute `name` of an option class, called `owner.name` in errors.
pub(crate) fn field<'py, T>(object: &Bound<'py, PyAny>, owner: &str, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    let value = object.getattr(name)?;
    value
        .extract()
        .map_err(|e| wrong(&format!("{owner}.{name}"), &value, e))
}

pub(crate) fn duration(object: &Bound<'_, PyAny>, owner: &str, name: &str) -> PyResult<Duration> {
    seconds(&object.getattr(name)?, &format!("{owner}.{name}"))
}

fn maybe_duration(
    object: &Bound<'_, PyAny>,
    owner: &str,
    name: &str,
) -> PyResult<Option<Duration>> {
    let value = object.getattr(name)?;
    if value.is_none() {
        return Ok(None);
    }
    seconds(&value, &format!("{owner}.{name}")).map(Some)
}

/// A time in seconds, as a number or a `timedelta`.
pub(crate) fn seconds(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Duration> {
    let seconds = match value.cast::<PyDelta>() {
        Ok(delta) => {
            f64::from(delta.get_days()) * 86_400.0
                + f64::from(delta.get_seconds())
                + f64::from(delta.get_microseconds()) / 1e6
        }
        Err(_) => value.extract::<f64>().map_err(|e| wrong(name, value, e))?,
    };
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(errors::invalid(format!(
            "{name} is {seconds} s: it must be from 0 to {MAX_SECONDS} s"
        )));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn jitter(name: &str) -> PyResult<Jitter> {
    Ok(match name {
        "none" => Jitter::None,
        "equal" => Jitter::Equal,
        "full" => Jitter::Full,
        "decorrelated" => Jitter::Decorrelated,
        other => {
            return Err(errors::invalid(format!(
                "\"{other}\" is no jitter: write one of none, equal, full, decorrelated"
            )));
        }
    })
}

fn backoff(name: &str) -> PyResult<BackoffType> {
    Ok(match name {
        "fixed" => BackoffType::Fixed,
        "linear" => BackoffType::Linear,
        "exponential" => BackoffType::Exponential,
        other => {
            return Err(errors::invalid(format!(
                "\"{other}\" is no backoff: write one of fixed, linear, exponential"
            )));
        }
    })
}

pub(crate) fn codec(options: &Options<'_>) -> PyResult<Codec> {
    let name: Option<String> = options.get("codec")?;
    name.as_deref().map_or(Ok(Codec::Json), |name| {
        name.parse()
            .map_err(|e| errors::invalid(format!("codec: {e}")))
    })
}

fn lookup(name: &str) -> PyResult<MethodLookup> {
    Ok(match name {
        "id" => MethodLookup::Id,
        "id_or_name" => MethodLookup::IdOrName,
        "name" => MethodLookup::Name,
        other => {
            return Err(errors::invalid(format!(
                "method_lookup is \"{other}\": write one of id, id_or_name, name"
            )));
        }
    })
}

fn reconnect(object: &Bound<'_, PyAny>) -> PyResult<ReconnectOptions> {
    const OF: &str = "reconnect";
    Ok(ReconnectOptions {
        max_attempts: field(object, OF, "max_attempts")?,
        initial_delay: duration(object, OF, "initial_delay")?,
        max_delay: duration(object, OF, "max_delay")?,
        backoff_multiplier: field(object, OF, "backoff_multiplier")?,
        jitter: jitter(&field::<String>(object, OF, "jitter")?)?,
        random_first_delay: field(object, OF, "random_first_delay")?,
        reconnect_on_disconnect: field(object, OF, "reconnect_on_disconnect")?,
        retry_first_connect: field(object, OF, "retry_first_connect")?,
        stable_after: duration(object, OF, "stable_after")?,
    })
}

fn retry(object: &Bound<'_, PyAny>) -> PyResult<RetryPolicy> {
    const OF: &str = "retry";
    let budget = object.getattr("budget")?;
    let budget = match budget.is_none() {
        true => None,
        false => Some(BudgetOptions {
            reserve_per_second: field(&budget, "retry.budget", "reserve_per_second")?,
            percent: field(&budget, "retry.budget", "percent")?,
        }),
    };
    let policy = RetryPolicy::new()
        .max_retries(field(object, OF, "max_retries")?)
        .initial_delay(duration(object, OF, "initial_delay")?)
        .max_delay(duration(object, OF, "max_delay")?)
        .backoff(backoff(&field::<String>(object, OF, "backoff")?)?)
        .backoff_multiplier(field(object, OF, "backoff_multiplier")?)
        .jitter(jitter(&field::<String>(object, OF, "jitter")?)?)
        .retryable_statuses(field::<Vec<i32>>(object, OF, "statuses")?)
        .budget(budget)
        .mark_idempotent(field::<Vec<String>>(object, OF, "idempotent")?)
        .mark_deduplicated(field::<Vec<String>>(object, OF, "deduplicated")?);
    Ok(match field(object, OF, "all_methods")? {
        true => policy.retry_all_methods(),
        false => policy,
    })
}

pub(crate) fn socket(object: &Bound<'_, PyAny>) -> PyResult<SocketOptions> {
    const OF: &str = "socket";
    Ok(SocketOptions {
        keepalive_idle: maybe_duration(object, OF, "keepalive_idle")?,
        keepalive_interval: duration(object, OF, "keepalive_interval")?,
        keepalive_probes: field(object, OF, "keepalive_probes")?,
        user_timeout: maybe_duration(object, OF, "user_timeout")?,
    })
}

pub(crate) fn websocket(object: &Bound<'_, PyAny>) -> PyResult<WebSocketOptions> {
    const OF: &str = "websocket";
    Ok(WebSocketOptions {
        ping_interval: duration(object, OF, "ping_interval")?,
        ping_timeout: duration(object, OF, "ping_timeout")?,
        fragment: field(object, OF, "fragment")?,
    })
}

/// `False` for none.
pub(crate) fn keep_alive(object: &Bound<'_, PyAny>) -> PyResult<Option<KeepAliveOptions>> {
    const OF: &str = "keep_alive";
    if object.is_instance_of::<PyBool>() {
        return Ok(object.is_truthy()?.then(KeepAliveOptions::default));
    }
    Ok(Some(KeepAliveOptions {
        interval: duration(object, OF, "interval")?,
        timeout: duration(object, OF, "timeout")?,
    }))
}

pub(crate) fn event_queue(object: &Bound<'_, PyAny>) -> PyResult<EventQueueOptions> {
    const OF: &str = "event_queue";
    Ok(EventQueueOptions {
        max_events: field(object, OF, "max_events")?,
        max_bytes: field(object, OF, "max_bytes")?,
        overflow: match field::<String>(object, OF, "overflow")?.as_str() {
            "drop_oldest" => Overflow::DropOldest,
            "drop_newest" => Overflow::DropNewest,
            "disconnect" => Overflow::Disconnect,
            other => {
                return Err(errors::invalid(format!(
                    "\"{other}\" is no policy of a queue of events: write one of drop_oldest, \
                     drop_newest, disconnect"
                )));
            }
        },
    })
}

pub(crate) fn identity(object: &Bound<'_, PyAny>) -> PyResult<Option<Identity>> {
    let certificates: Option<Vec<u8>> = field(object, "tls", "certificate")?;
    let key: Option<Vec<u8>> = field(object, "tls", "key")?;
    Ok(match (certificates, key) {
        (Some(certificates), Some(key)) => Some(Identity { certificates, key }),
        _ => None,
    })
}

pub(crate) fn tls(object: &Bound<'_, PyAny>) -> PyResult<TlsClientOptions> {
    Ok(TlsClientOptions {
        authorities: field(object, "tls", "authorities")?,
        server_name: field(object, "tls", "server_name")?,
        pinned: field(object, "tls", "pinned")?,
        identity: identity(object)?,
        ..TlsClientOptions::default()
    })
}

/// What is known of a client before it is built.
pub(crate) struct Prepared {
    pub(crate) builder: ClientBuilder,
    pub(crate) codec: Codec,
    pub(crate) endpoints: Vec<String>,
}

/// From a description by name, or from a list of endpoints.
fn described(options: &Options<'_>) -> PyResult<Prepared> {
    if let Some((name, path)) = options.get::<(String, Option<std::path::PathBuf>)>("named")? {
        let config = ClientConfig::load(path.as_deref(), &name).map_err(errors::raise)?;
        return Ok(Prepared {
            builder: config.builder().map_err(errors::raise)?,
            codec: config.codec.unwrap_or(Codec::Json),
            endpoints: config.endpoints,
        });
    }
    let endpoints: Vec<String> = options.get("endpoints")?.unwrap_or_default();
    let Some((first, others)) = endpoints.split_first() else {
        return Err(errors::invalid("the client has no endpoint to connect to"));
    };
    let mut builder = witrpc::client::Client::builder(first);
    for endpoint in others {
        builder = builder.endpoint(endpoint);
    }
    Ok(Prepared {
        builder,
        codec: Codec::Json,
        endpoints,
    })
}

/// A builder with everything set that needs no running client. What is given goes before what a
/// description by name says.
pub(crate) fn client(options: &Options<'_>) -> PyResult<Prepared> {
    let Prepared {
        mut builder,
        codec: mut encoding,
        endpoints,
    } = described(options)?;
    if options.any("codec")?.is_some() {
        encoding = codec(options)?;
    }
    builder = builder.codec(encoding);
    if let Some(on) = options.get("encryption")? {
        builder = builder.encryption(on);
    }
    if let Some(token) = options.get::<String>("token")? {
        builder = builder.token(token);
    }
    if let Some(path) = options.get::<std::path::PathBuf>("token_file")? {
        builder = builder.token_file(path);
    }
    if let Some(limit) = options.seconds("connect_timeout")? {
        builder = builder.connect_timeout(limit);
    }
    if let Some(limit) = options.any("attempt_timeout")? {
        let never = limit.extract::<f64>().is_ok_and(f64::is_infinite);
        builder = builder.attempt_timeout(match never {
            true => None,
            false => Some(seconds(&limit, "attempt_timeout")?),
        });
    }
    if let Some(bytes) = options.get("max_frame")? {
        builder = builder.max_frame(bytes);
    }
    if let Some((calls, bytes)) = options.get::<(usize, usize)>("queue_limits")? {
        builder = builder.queue_limits(calls, bytes);
    }
    if let Some(calls) = options.get("max_in_flight")? {
        builder = builder.max_in_flight(calls);
    }
    if let Some(object) = options.any("reconnect")? {
        builder = builder.reconnect(reconnect(&object)?);
    }
    if let Some(object) = options.any("socket")? {
        builder = builder.socket(socket(&object)?);
    }
    if let Some(object) = options.any("websocket")? {
        builder = builder.websocket(websocket(&object)?);
    }
    if let Some(object) = options.any("keep_alive")? {
        builder = builder.keep_alive(keep_alive(&object)?);
    }
    if let Some(object) = options.any("event_queue")? {
        builder = builder.event_queue(event_queue(&object)?);
    }
    if let Some(object) = options.any("tls")? {
        builder = builder.tls(tls(&object)?);
    }
    if let Some(limit) = options.any("handler_patience")? {
        let never = limit.extract::<f64>().is_ok_and(f64::is_infinite);
        builder = builder.handler_patience(match never {
            true => None,
            false => Some(seconds(&limit, "handler_patience")?),
        });
    }
    if let Some(name) = options.get::<String>("method_lookup")? {
        builder = builder.method_lookup(lookup(&name)?);
    }
    if let Some(name) = options.get::<String>("type_names")? {
        builder = builder.type_names(match name.as_str() {
            "weak" => TypeNameForm::Weak,
            "strong" => TypeNameForm::Strong,
            other => {
                return Err(errors::invalid(format!(
                    "type_names is \"{other}\": write weak or strong"
                )));
            }
        });
    }
    Ok(Prepared {
        builder,
        codec: encoding,
        endpoints,
    })
}

/// The retry policy without its predicate.
pub(crate) fn retry_policy(options: &Options<'_>) -> PyResult<Option<RetryPolicy>> {
    options
        .any("retry")?
        .map(|object| retry(&object))
        .transpose()
}

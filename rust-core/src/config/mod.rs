//! Clients described by name in a `witrpc.toml`, so that programs, in whatever language, and the command
//! line open them alike.
//!
//! Owns the file's form and what each key means; docs/named-clients.md is its manual. An unknown key is
//! an error, never ignored.

#[doc(hidden)]
pub mod units;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use self::units::{Sha256, Time};
use crate::client::{Client, ClientBuilder, RetryPolicy};
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::resilience::backoff::{BackoffType, Jitter};
use crate::resilience::budget::BudgetOptions;
use crate::resilience::reconnect::ReconnectOptions;
use crate::transport::SocketOptions;
use crate::transport::tls::{Identity, TlsClientOptions};

/// The environment variable that names the file where no path is given.
pub const PATH_VARIABLE: &str = "WITRPC_CONFIG";

/// A file is read up to this size.
const MAX_FILE: u64 = 1024 * 1024;

/// What a file says about one client; `None` and empty is "nothing".
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Its name.
    pub name: String,
    /// Its servers; at least one.
    pub endpoints: Vec<String>,
    /// How arguments are encoded.
    pub codec: Option<Codec>,
    /// WitRPC's own encryption.
    pub encryption: bool,
    /// Where the access token comes from.
    pub token: TokenConfig,
    /// Limit of one attempt to connect.
    pub connect_timeout: Option<Duration>,
    /// Limit of one attempt of a call.
    pub attempt_timeout: Option<Duration>,
    /// Largest message accepted, in bytes.
    pub max_frame: Option<usize>,
    /// Requests without an answer at the same time.
    pub max_in_flight: Option<usize>,
    /// Automatic reconnection.
    pub reconnect: Option<ReconnectOptions>,
    /// The retry policy.
    pub retry: Option<RetryPolicy>,
    /// How a dead link is noticed.
    pub socket: SocketOptions,
    /// The options of TLS.
    pub tls: TlsConfig,
}

/// Where the access token comes from.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum TokenConfig {
    /// There is none.
    #[default]
    None,
    /// Here it is. From an environment variable it is taken when the file is read.
    Text(String),
    /// In a file, read before every attempt to connect.
    File(PathBuf),
}

/// The options of TLS, with the paths of PEM files.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct TlsConfig {
    /// Authorities to trust.
    pub authorities_file: Option<PathBuf>,
    /// Whether to trust the system's beside them.
    pub system_authorities: bool,
    /// The name that the server's certificate must be for.
    pub server_name: Option<String>,
    /// Certificates to accept by their SHA-256.
    pub pinned: Vec<[u8; 32]>,
    /// The client's own certificate, and the file with its key.
    pub identity_files: Option<(PathBuf, PathBuf)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    clients: std::collections::BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    endpoint: Option<String>,
    #[serde(default)]
    endpoints: Vec<String>,
    codec: Option<String>,
    #[serde(default)]
    encryption: bool,
    token: Option<String>,
    token_file: Option<PathBuf>,
    token_env: Option<String>,
    connect_timeout: Option<Time>,
    attempt_timeout: Option<Time>,
    max_frame: Option<usize>,
    max_in_flight: Option<usize>,
    reconnect: Option<Reconnect>,
    retry: Option<Retry>,
    #[serde(default)]
    socket: Socket,
    #[serde(default)]
    tls: Tls,
}

/// `reconnect = true`, `reconnect = "fleet"`, or a table.
#[derive(Deserialize)]
#[serde(untagged)]
enum Reconnect {
    Switch(bool),
    Preset(String),
    Table(Box<ReconnectTable>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReconnectTable {
    preset: Option<String>,
    max_attempts: Option<u32>,
    initial_delay: Option<Time>,
    max_delay: Option<Time>,
    backoff_multiplier: Option<f64>,
    jitter: Option<String>,
    random_first_delay: Option<bool>,
    reconnect_on_disconnect: Option<bool>,
    retry_first_connect: Option<bool>,
    stable_after: Option<Time>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Retry {
    max_retries: Option<u32>,
    initial_delay: Option<Time>,
    max_delay: Option<Time>,
    backoff: Option<String>,
    backoff_multiplier: Option<f64>,
    jitter: Option<String>,
    statuses: Option<Vec<i32>>,
    budget_per_second: Option<u32>,
    budget_percent: Option<u32>,
    no_budget: Option<bool>,
    #[serde(default)]
    idempotent: Vec<String>,
    #[serde(default)]
    deduplicated: Vec<String>,
    #[serde(default)]
    all_methods: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Socket {
    keepalive_idle: Option<Time>,
    keepalive_interval: Option<Time>,
    keepalive_probes: Option<u32>,
    user_timeout: Option<Time>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Tls {
    authorities_file: Option<PathBuf>,
    #[serde(default)]
    system_authorities: bool,
    server_name: Option<String>,
    #[serde(default)]
    pins: Vec<Sha256>,
    certificate_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
}

impl ClientConfig {
    /// Reads what a file says about a client. Without a path the file is the one that the environment
    /// variable [`PATH_VARIABLE`] names, else `witrpc.toml` in the working directory.
    ///
    /// # Errors
    /// The file can't be read, says nonsense (with the place), or knows no such client.
    pub fn load(path: Option<&Path>, name: &str) -> Result<Self> {
        let named = std::env::var_os(PATH_VARIABLE).filter(|path| !path.is_empty());
        let path = match (path, &named) {
            (Some(path), _) => path,
            (None, Some(named)) => Path::new(named),
            (None, None) => Path::new("witrpc.toml"),
        };
        let problem = |what: String| Error::invalid_argument(format!("{}: {what}", path.display()));
        let size = std::fs::metadata(path)
            .map_err(|e| problem(e.to_string()))?
            .len();
        if size > MAX_FILE {
            return Err(problem(format!("{size} bytes are too many")));
        }
        let text = std::fs::read_to_string(path).map_err(|e| problem(e.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, folder, name).map_err(|e| problem(e.message().to_owned()))
    }

    /// The same from the text of a file. Relative paths in it start at `folder`.
    pub fn parse(text: &str, folder: &Path, name: &str) -> Result<Self> {
        let file: File = toml::from_str(text)
            .map_err(|e| Error::invalid_argument(e.to_string().trim_end().to_owned()))?;
        let mut names = file.clients.keys().map(String::as_str).collect::<Vec<_>>();
        names.truncate(10);
        let names = names.join(", ");
        let mut clients = file.clients;
        let entry = clients.remove(name).ok_or_else(|| {
            Error::invalid_argument(match names.is_empty() {
                true => format!("there is no [clients.{name}], nor any other client"),
                false => format!("there is no [clients.{name}]; there are {names}"),
            })
        })?;
        entry
            .into_config(folder, name)
            .map_err(|what| Error::invalid_argument(format!("clients.{name}.{what}")))
    }

    /// The options of a client. The PEM files of TLS are read now.
    ///
    /// # Errors
    /// A PEM file can't be read.
    pub fn builder(&self) -> Result<ClientBuilder> {
        let mut endpoints = self.endpoints.iter();
        let first = endpoints.next().map_or("", String::as_str);
        let mut builder = Client::builder(first).name(&self.name);
        for endpoint in endpoints {
            builder = builder.endpoint(endpoint);
        }
        if let Some(codec) = self.codec {
            builder = builder.codec(codec);
        }
        builder = builder.encryption(self.encryption).socket(self.socket);
        builder = match &self.token {
            TokenConfig::None => builder,
            TokenConfig::Text(token) => builder.token(token),
            TokenConfig::File(path) => builder.token_file(path),
        };
        if let Some(limit) = self.connect_timeout {
            builder = builder.connect_timeout(limit);
        }
        if let Some(limit) = self.attempt_timeout {
            builder = builder.attempt_timeout(Some(limit));
        }
        if let Some(bytes) = self.max_frame {
            builder = builder.max_frame(bytes);
        }
        if let Some(calls) = self.max_in_flight {
            builder = builder.max_in_flight(calls);
        }
        if let Some(options) = self.reconnect {
            builder = builder.reconnect(options);
        }
        if let Some(policy) = &self.retry {
            builder = builder.retry(policy.clone());
        }
        if self.tls != TlsConfig::default() {
            builder = builder.tls(self.tls.load()?);
        }
        Ok(builder)
    }
}

impl TlsConfig {
    fn load(&self) -> Result<TlsClientOptions> {
        let read = |path: &PathBuf| {
            std::fs::read(path)
                .map_err(|e| Error::invalid_argument(format!("tls: {}: {e}", path.display())))
        };
        let identity = self.identity_files.as_ref().map(|(certificates, key)| {
            Ok(Identity {
                certificates: read(certificates)?,
                key: read(key)?,
            })
        });
        Ok(TlsClientOptions {
            authorities: self.authorities_file.as_ref().map(read).transpose()?,
            system_authorities: self.system_authorities,
            server_name: self.server_name.clone(),
            pinned: self.pinned.clone(),
            identity: identity.transpose()?,
        })
    }
}

type Checked<T> = std::result::Result<T, String>;

impl Entry {
    /// The error begins with the key that is wrong.
    fn into_config(self, folder: &Path, name: &str) -> Checked<ClientConfig> {
        let mut endpoints = self.endpoints;
        if let Some(endpoint) = self.endpoint {
            endpoints.insert(0, endpoint);
        }
        if endpoints.is_empty() {
            return Err("endpoint: there is none".to_owned());
        }
        for endpoint in &endpoints {
            let parsed: Result<crate::transport::Endpoint> = endpoint.parse();
            parsed
                .and_then(|e| e.check_for_client())
                .map_err(|e| format!("endpoint: {e}"))?;
        }
        let token = match (self.token, self.token_file, self.token_env) {
            (None, None, None) => TokenConfig::None,
            (Some(token), None, None) => TokenConfig::Text(token),
            (None, Some(file), None) => TokenConfig::File(folder.join(file)),
            (None, None, Some(variable)) => std::env::var(&variable)
                .map(TokenConfig::Text)
                .map_err(|e| format!("token_env: {variable}: {e}"))?,
            _ => return Err("token: give one of token, token_file, token_env".to_owned()),
        };
        let codec = self.codec.map(|codec| codec.parse::<Codec>());
        Ok(ClientConfig {
            name: name.to_owned(),
            endpoints,
            codec: codec.transpose().map_err(|e| format!("codec: {e}"))?,
            encryption: self.encryption,
            token,
            connect_timeout: self.connect_timeout.map(|t| t.0),
            attempt_timeout: self.attempt_timeout.map(|t| t.0),
            max_frame: self.max_frame,
            max_in_flight: self.max_in_flight,
            reconnect: self.reconnect.map_or(Ok(None), Reconnect::into_options)?,
            retry: self.retry.map(Retry::into_policy).transpose()?,
            socket: self.socket.into_options(),
            tls: self.tls.into_config(folder)?,
        })
    }
}

fn preset(name: &str) -> Checked<Option<ReconnectOptions>> {
    match name {
        "default" => Ok(Some(ReconnectOptions::default())),
        "fleet" => Ok(Some(ReconnectOptions::fleet())),
        "off" => Ok(None),
        _ => Err(format!(
            "reconnect: \"{name}\" is no preset: write default, fleet or off"
        )),
    }
}

fn set<T, U>(place: &mut T, value: Option<U>, convert: impl FnOnce(U) -> T) {
    if let Some(value) = value {
        *place = convert(value);
    }
}

impl Reconnect {
    fn into_options(self) -> Checked<Option<ReconnectOptions>> {
        let table = match self {
            Self::Switch(on) => return Ok(on.then(ReconnectOptions::default)),
            Self::Preset(name) => return preset(&name),
            Self::Table(table) => *table,
        };
        let base = preset(table.preset.as_deref().unwrap_or("default"))?;
        let Some(mut options) = base else {
            return Ok(None);
        };
        set(&mut options.max_attempts, table.max_attempts, |n| n);
        set(&mut options.initial_delay, table.initial_delay, |t| t.0);
        set(&mut options.max_delay, table.max_delay, |t| t.0);
        set(
            &mut options.backoff_multiplier,
            table.backoff_multiplier,
            |n| n,
        );
        if let Some(jitter) = table.jitter {
            options.jitter = jitter_of(&jitter).map_err(|what| format!("reconnect.{what}"))?;
        }
        set(
            &mut options.random_first_delay,
            table.random_first_delay,
            |b| b,
        );
        set(
            &mut options.reconnect_on_disconnect,
            table.reconnect_on_disconnect,
            |b| b,
        );
        set(
            &mut options.retry_first_connect,
            table.retry_first_connect,
            |b| b,
        );
        set(&mut options.stable_after, table.stable_after, |t| t.0);
        options.validate().map_err(|e| e.message().to_owned())?;
        Ok(Some(options))
    }
}

fn jitter_of(name: &str) -> Checked<Jitter> {
    Ok(match name {
        "none" => Jitter::None,
        "equal" => Jitter::Equal,
        "full" => Jitter::Full,
        "decorrelated" => Jitter::Decorrelated,
        _ => {
            return Err(format!(
                "jitter: \"{name}\": write none, equal, full or decorrelated"
            ));
        }
    })
}

impl Retry {
    fn into_policy(self) -> Checked<RetryPolicy> {
        let mut policy = RetryPolicy::new();
        if let Some(retries) = self.max_retries {
            policy = policy.max_retries(retries);
        }
        if let Some(delay) = self.initial_delay {
            policy = policy.initial_delay(delay.0);
        }
        if let Some(delay) = self.max_delay {
            policy = policy.max_delay(delay.0);
        }
        if let Some(backoff) = self.backoff {
            policy = policy.backoff(match &*backoff {
                "fixed" => BackoffType::Fixed,
                "linear" => BackoffType::Linear,
                "exponential" => BackoffType::Exponential,
                _ => {
                    return Err(format!(
                        "retry.backoff: \"{backoff}\": write fixed, linear or exponential"
                    ));
                }
            });
        }
        if let Some(multiplier) = self.backoff_multiplier {
            policy = policy.backoff_multiplier(multiplier);
        }
        if let Some(jitter) = self.jitter {
            policy = policy.jitter(jitter_of(&jitter).map_err(|what| format!("retry.{what}"))?);
        }
        if let Some(statuses) = self.statuses {
            policy = policy.retryable_statuses(statuses);
        }
        if self.no_budget == Some(true) {
            policy = policy.budget(None);
        } else {
            let mut budget = BudgetOptions::default();
            set(
                &mut budget.reserve_per_second,
                self.budget_per_second,
                |n| n,
            );
            set(&mut budget.percent, self.budget_percent, |n| n);
            policy = policy.budget(Some(budget));
        }
        policy = policy
            .mark_idempotent(self.idempotent)
            .mark_deduplicated(self.deduplicated);
        Ok(match self.all_methods {
            true => policy.retry_all_methods(),
            false => policy,
        })
    }
}

impl Socket {
    fn into_options(self) -> SocketOptions {
        let mut options = SocketOptions::default();
        set(&mut options.keepalive_idle, self.keepalive_idle, |t| {
            Some(t.0)
        });
        set(
            &mut options.keepalive_interval,
            self.keepalive_interval,
            |t| t.0,
        );
        set(&mut options.keepalive_probes, self.keepalive_probes, |n| n);
        set(&mut options.user_timeout, self.user_timeout, |t| Some(t.0));
        options
    }
}

impl Tls {
    fn into_config(self, folder: &Path) -> Checked<TlsConfig> {
        let certificate = self.certificate_file.map(|file| folder.join(file));
        let key = self.key_file.map(|file| folder.join(file));
        Ok(TlsConfig {
            authorities_file: self.authorities_file.map(|file| folder.join(file)),
            system_authorities: self.system_authorities,
            server_name: self.server_name,
            pinned: self.pins.into_iter().map(|pin| pin.0).collect(),
            identity_files: match (certificate, key) {
                (None, Some(_)) => return Err("tls.key_file: without certificate_file".to_owned()),
                (None, None) => None,
                // One file may hold both.
                (Some(certificate), key) => Some((certificate.clone(), key.unwrap_or(certificate))),
            },
        })
    }
}

#[cfg(test)]
mod tests;

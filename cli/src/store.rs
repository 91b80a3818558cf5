//! The store that several `witrpc serve` share.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use witrpc::server::ServerBuilder;
use witrpc::server::store::{RedisOptions, RedisStore};

use crate::failure::Failure;
use crate::tls::read;
use crate::units;

/// The store.
#[derive(Debug, Args)]
#[command(next_help_heading = "The shared store")]
pub(crate) struct StoreArgs {
    /// Keep calls in a Redis or Valkey that several servers share, so that a call of one is answered
    /// by another: redis://[[user]:password@]host[:port][/database]
    #[arg(
        long,
        value_name = "URL",
        env = "WITRPC_REDIS",
        hide_env_values = true,
        group = "kept"
    )]
    pub(crate) redis: Option<String>,

    /// PEM file with the authorities of a Redis at rediss:// [default: the system's]
    #[arg(long, value_name = "FILE", requires = "redis")]
    pub(crate) redis_ca: Option<PathBuf>,

    /// What the names of all keys in Redis begin with
    #[arg(long, value_name = "TEXT", default_value = "witrpc:")]
    pub(crate) redis_prefix: String,

    /// How long a call counts as running after the last sign of life of its server
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::limit)]
    pub(crate) redis_lease: Duration,

    /// How long a request to Redis may take, reconnecting included
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::limit)]
    pub(crate) redis_timeout: Duration,

    /// Replicas of Redis that must have a record before it counts
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) redis_replicas: u32,

    /// Redis loses nothing when it is started again or replaced by a replica
    #[arg(long)]
    pub(crate) redis_trust_restarts: bool,
}

impl StoreArgs {
    /// Gives a server its store. Answers are held there as long as in memory.
    pub(crate) fn add_to(
        &self,
        builder: ServerBuilder,
        hold: Duration,
    ) -> Result<ServerBuilder, Failure> {
        let Some(url) = &self.redis else {
            return Ok(builder);
        };
        let mut options = RedisOptions::new(url);
        if let Some(file) = &self.redis_ca {
            options.tls.authorities = Some(read("--redis-ca", file)?);
        }
        let store = RedisStore::new(RedisOptions {
            prefix: self.redis_prefix.clone(),
            lease: self.redis_lease,
            hold,
            client_hold: options.client_hold.max(hold),
            timeout: self.redis_timeout,
            wait_replicas: self.redis_replicas,
            trust_restarts: self.redis_trust_restarts,
            ..options
        })?;
        Ok(builder.store(store))
    }
}

//! Where `witrpc serve` keeps the calls of durable methods.

use std::time::Duration;

use clap::Args;
use witrpc::server::store::{RedisOptions, RedisStore};
use witrpc::server::{ServerBuilder, ServiceBuilder};

use crate::failure::Failure;
use crate::units;

/// The store, and whose calls it keeps.
#[derive(Debug, Args)]
#[command(next_help_heading = "Calls that outlive the process")]
pub(crate) struct StoreArgs {
    /// Keep the calls of this method (or * for all) in the store; may be given several times
    #[arg(long, value_name = "METHOD", requires = "redis")]
    pub(crate) durable: Vec<String>,

    /// The store is a Redis or Valkey that several servers share: redis://[[user]:password@]host[:port][/database]
    #[arg(
        long,
        value_name = "URL",
        env = "WITRPC_REDIS",
        hide_env_values = true,
        requires = "durable"
    )]
    pub(crate) redis: Option<String>,

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
    /// Marks the durable ones of a service's methods.
    pub(crate) fn mark(&self, service: ServiceBuilder) -> ServiceBuilder {
        let methods = self.durable.iter();
        methods
            .into_iter()
            .fold(service, |service, method| match method.as_str() {
                "*" => service.all_durable(),
                method => service.durable(method),
            })
    }

    /// Gives a server its store. Answers are held there as long as in memory.
    pub(crate) fn add_to(
        &self,
        builder: ServerBuilder,
        hold: Duration,
    ) -> Result<ServerBuilder, Failure> {
        let Some(url) = &self.redis else {
            return Ok(builder);
        };
        let options = RedisOptions::new(url);
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

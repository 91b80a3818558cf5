//! From the options of the command line to a client and a contract.

use witrpc::client::{Client, ClientBuilder};
use witrpc::codec::Codec;
use witrpc::config::ClientConfig;
use witrpc::contract::Contract;

use crate::args::ClientArgs;
use crate::failure::Failure;
use crate::units::Reconnect;

/// The options of a client, as far as they are common to all commands.
pub(crate) struct Opened {
    pub(crate) builder: ClientBuilder,
    pub(crate) codec: Codec,
    /// It was said whether to reconnect.
    pub(crate) says_reconnect: bool,
}

impl ClientArgs {
    /// From the description of a named client, if one is named, and from what the command line says
    /// on top.
    pub(crate) fn open(&self) -> Result<Opened, Failure> {
        let mut named = match self.endpoint.strip_prefix('@') {
            Some(name) => Some(ClientConfig::load(self.config.as_deref(), name)?),
            None => None,
        };
        if let (Some(config), Some(Reconnect(None))) = (&mut named, self.reconnect) {
            config.reconnect = None;
        }
        let (mut builder, first) = match &named {
            Some(config) => (config.builder()?, config.endpoints[0].as_str()),
            None => (Client::builder(&self.endpoint), self.endpoint.as_str()),
        };
        let described = named.as_ref().and_then(|config| config.codec);
        let codec = self.codec.or(described).unwrap_or(Codec::Json);
        builder = builder.codec(codec);
        if let Some(limit) = self.connect_timeout {
            builder = builder.connect_timeout(limit);
        }
        if self.encrypt {
            builder = builder.encryption(true);
        }
        if let Some(tls) = self.tls.options(first)? {
            builder = builder.tls(tls);
        }
        if let Some(token) = &self.token {
            builder = builder.token(token);
        }
        if let Some(file) = &self.token_file {
            // Opened now too, so that a wrong name is told as what it is.
            let opened = std::fs::metadata(file).and_then(|data| match data.is_file() {
                true => std::fs::File::open(file).map(drop),
                false => Err(std::io::Error::other("it is no regular file")),
            });
            if let Err(error) = opened {
                let what = format!("can't read the token from {}: {error}", file.display());
                return Err(Failure::argument(what));
            }
            builder = builder.token_file(file);
        }
        if let Some(options) = self.reconnect.and_then(|how| how.0) {
            builder = builder.reconnect(options);
        }
        let described = named.is_some_and(|config| config.reconnect.is_some());
        Ok(Opened {
            builder,
            codec,
            says_reconnect: self.reconnect.is_some() || described,
        })
    }

    /// The contract: by its name alone, or from its file.
    pub(crate) fn open_contract(&self) -> Result<Contract, Failure> {
        let named = |e: &dyn std::fmt::Display| {
            Failure::argument(format!("contract \"{}\": {e}", self.contract))
        };
        let by_name = Contract::open(&self.contract).map_err(|e| named(&e))?;
        let Some(file) = &self.contract_file else {
            return Ok(by_name);
        };
        let fail = |what: &dyn std::fmt::Display| {
            Failure::argument(format!("contract file {}: {what}", file.display()))
        };
        let text = std::fs::read_to_string(file).map_err(|e| fail(&e))?;
        let contract = Contract::from_json(&text).map_err(|e| fail(&e))?;
        if contract.id() != by_name.id() {
            let what = format!("it describes {}, not {}", contract.name(), self.contract);
            return Err(fail(&what));
        }
        Ok(contract)
    }
}

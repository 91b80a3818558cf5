//! From the options of the command line to a client and a contract.

use witrpc::client::{Client, ClientBuilder};
use witrpc::contract::Contract;

use crate::args::ClientArgs;
use crate::failure::Failure;

impl ClientArgs {
    /// The options of the client, as far as they are common to all commands. `reconnect` holds where
    /// nothing is said about it.
    pub(crate) fn builder(&self) -> Result<ClientBuilder, Failure> {
        let mut builder = Client::builder(&self.endpoint)
            .codec(self.codec)
            .connect_timeout(self.connect_timeout)
            .encryption(self.encrypt);
        if let Some(tls) = self.tls.options(&self.endpoint)? {
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
        Ok(builder)
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

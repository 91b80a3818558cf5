//! From the options of the command line to a client and a contract.

use std::path::Path;

use witrpc::client::{Client, ClientBuilder};
use witrpc::contract::Contract;

use crate::args::ClientArgs;
use crate::failure::Failure;

impl ClientArgs {
    /// The options of the client, as far as they are common to all commands. `reconnect` holds where
    /// nothing is said about it.
    pub(crate) fn builder(&self) -> Result<ClientBuilder, Failure> {
        let mut builder = Client::builder(&self.endpoint).connect_timeout(self.connect_timeout);
        if let Some(token) = &self.token {
            builder = builder.token(token);
        }
        if let Some(file) = &self.token_file {
            // Now too, so that a wrong name is told as what it is.
            read_token(file).map_err(Failure::argument)?;
            let file = file.clone();
            builder = builder.blocking_token_provider(move || read_token(&file));
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

fn read_token(file: &Path) -> Result<String, String> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) => Err(format!(
            "can't read the token from {}: {error}",
            file.display()
        )),
    }
}

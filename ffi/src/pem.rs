//! Certificates and keys from the caller: as text, or as the name of a file that is read when a
//! client or server is made.

use witrpc_core::{Error, Result};

/// PEM, or where it is.
#[derive(Clone)]
pub(crate) enum Pem {
    Text(Vec<u8>),
    File(String),
}

impl Pem {
    /// `what` names it in the error.
    pub(crate) fn load(&self, what: &str) -> Result<Vec<u8>> {
        match self {
            Self::Text(pem) => Ok(pem.clone()),
            Self::File(path) => std::fs::read(path).map_err(|e| {
                Error::invalid_argument(format!("tls: can't read the {what} from {path}: {e}"))
            }),
        }
    }
}

//! The options of TLS: from file names on the command line to what the library takes.

use std::path::{Path, PathBuf};

use clap::Args;
use witrpc::config::units;
use witrpc::transport::tls::{Identity, TlsClientOptions, TlsServerOptions};
use witrpc::transport::{Endpoint, Scheme};

use crate::failure::Failure;

/// What `call` and `listen` take.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS (tls:// and wss://)")]
pub(crate) struct ClientTlsArgs {
    /// PEM file with the certificate authorities to trust [default: the system's]
    #[arg(long, value_name = "FILE", conflicts_with = "pin")]
    ca_file: Option<PathBuf>,

    /// Trust the system's authorities beside those of --ca-file
    #[arg(long, requires = "ca_file")]
    system_ca: bool,

    /// Accept only the certificate with this SHA-256 (64 hexadecimal digits, colons allowed); then
    /// neither name nor authority matters. May be repeated
    #[arg(long, value_name = "SHA256", value_parser = pin)]
    pin: Vec<[u8; 32]>,

    /// The name that the server's certificate must be for [default: the host of the endpoint]
    #[arg(long, value_name = "NAME", conflicts_with = "pin")]
    server_name: Option<String>,

    /// PEM file with the client's own certificate
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,

    /// PEM file with its private key [default: the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

/// What `serve` takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS (tls:// and wss://)")]
pub(crate) struct ServerTlsArgs {
    /// PEM file with the server's certificate
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,

    /// PEM file with its private key [default: the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// PEM file with the authorities that clients' certificates must come from; clients without one
    /// are refused
    #[arg(long, value_name = "FILE", requires = "cert")]
    client_ca: Option<PathBuf>,
}

impl ClientTlsArgs {
    /// `None` where nothing is said about TLS.
    pub(crate) fn options(&self, endpoint: &str) -> Result<Option<TlsClientOptions>, Failure> {
        let given = [
            ("--ca-file", self.ca_file.is_some()),
            ("--pin", !self.pin.is_empty()),
            ("--server-name", self.server_name.is_some()),
            ("--cert", self.cert.is_some()),
        ];
        let Some((option, _)) = given.into_iter().find(|(_, given)| *given) else {
            return Ok(None);
        };
        demand_tls(option, &[endpoint])?;
        let ca = self.ca_file.as_deref();
        Ok(Some(TlsClientOptions {
            authorities: ca.map(|file| read("--ca-file", file)).transpose()?,
            system_authorities: self.system_ca,
            server_name: self.server_name.clone(),
            pinned: self.pin.clone(),
            identity: identity(self.cert.as_deref(), self.key.as_deref())?,
        }))
    }
}

impl ServerTlsArgs {
    /// `None` where nothing is said about TLS.
    pub(crate) fn options(&self, endpoints: &[&str]) -> Result<Option<TlsServerOptions>, Failure> {
        let identity = identity(self.cert.as_deref(), self.key.as_deref())?;
        let Some(identity) = identity else {
            return match endpoints.iter().find(|e| has_tls(e) == Some(true)) {
                Some(endpoint) => Err(Failure::argument(format!(
                    "{endpoint} needs a certificate: give PEM files with --cert and --key"
                ))),
                None => Ok(None),
            };
        };
        demand_tls("--cert", endpoints)?;
        let ca = self.client_ca.as_deref();
        Ok(Some(TlsServerOptions {
            identity,
            client_authorities: ca.map(|file| read("--client-ca", file)).transpose()?,
        }))
    }
}

/// What was meant to protect a connection is not passed over in silence.
fn demand_tls(option: &str, endpoints: &[&str]) -> Result<(), Failure> {
    match endpoints.iter().any(|e| has_tls(e).unwrap_or(true)) {
        true => Ok(()),
        false => Err(Failure::argument(format!(
            "{option} is for tls:// and wss://, and {} is neither",
            endpoints.join(", ")
        ))),
    }
}

/// `None` for what is no endpoint, which is told of elsewhere.
fn has_tls(endpoint: &str) -> Option<bool> {
    let endpoint: Endpoint = endpoint.parse().ok()?;
    Some(matches!(endpoint.scheme(), Scheme::Tls | Scheme::Wss))
}

fn identity(cert: Option<&Path>, key: Option<&Path>) -> Result<Option<Identity>, Failure> {
    let Some(cert) = cert else { return Ok(None) };
    Ok(Some(Identity {
        certificates: read("--cert", cert)?,
        key: read("--key", key.unwrap_or(cert))?,
    }))
}

pub(crate) fn read(option: &str, file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file)
        .map_err(|e| Failure::argument(format!("{option}: can't read {}: {e}", file.display())))
}

/// Reads a SHA-256 as `sha256sum` or OpenSSL write it.
fn pin(text: &str) -> Result<[u8; 32], String> {
    units::sha256(text).ok_or_else(|| {
        "write the SHA-256 of the certificate's DER form: 64 hexadecimal digits, colons allowed"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_read_as_tools_write_it() {
        let mut expected = [0xab; 32];
        expected[0] = 0x01;
        let plain = format!("01{}", "ab".repeat(31));
        let colons = format!("01{}", ":AB".repeat(31));
        assert_eq!(pin(&plain), Ok(expected));
        assert_eq!(pin(&colons), Ok(expected));
        for wrong in [
            "",
            "01",
            &plain[1..],
            &format!("{plain}ab"),
            &plain.replace("01", "0g"),
        ] {
            assert!(pin(wrong).is_err(), "{wrong}");
        }
    }
}

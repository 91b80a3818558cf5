//! The TLS options of a server.

use std::ffi::c_char;

use witrpc_core::Result as CoreResult;
use witrpc_core::transport::tls::{Identity, TlsServerOptions};

use crate::pem::Pem;
use crate::server_options::{change, witrpc_server_options};
use crate::text;

/// What to show, and whom to let in.
#[derive(Clone)]
pub(crate) struct ServerTls {
    certificates: Pem,
    key: Pem,
    client_authorities: Option<Pem>,
}

impl ServerTls {
    /// Reads the files.
    pub(crate) fn load(&self) -> CoreResult<TlsServerOptions> {
        let authorities = self.client_authorities.as_ref();
        let authorities = authorities.map(|pem| pem.load("authorities of clients"));
        Ok(TlsServerOptions {
            identity: Identity {
                certificates: self.certificates.load("certificate")?,
                key: self.key.load("private key")?,
            },
            client_authorities: authorities.transpose()?,
        })
    }
}

/// The certificate of tls:// and wss:// and its private key, as the texts of PEM files (sizes in
/// bytes), and the authorities that clients' certificates must come from (size 0 = clients need
/// none). The certificate may be followed by those that lead to a root; the key is PKCS#8, PKCS#1 or
/// SEC1, not encrypted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_tls(
    options: *mut witrpc_server_options,
    certificate: *const c_char,
    certificate_size: usize,
    key: *const c_char,
    key_size: usize,
    client_authorities: *const c_char,
    client_authorities_size: usize,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands valid pointers.
        let (certificates, key, authorities) = unsafe {
            (
                text::bytes(certificate.cast(), certificate_size)?.to_vec(),
                text::bytes(key.cast(), key_size)?.to_vec(),
                text::bytes(client_authorities.cast(), client_authorities_size)?.to_vec(),
            )
        };
        o.tls = Some(ServerTls {
            certificates: Pem::Text(certificates),
            key: Pem::Text(key),
            client_authorities: (!authorities.is_empty()).then_some(Pem::Text(authorities)),
        });
        Ok(())
    })
}

/// The same from PEM files (their paths NUL-terminated; `client_authorities_path` may be NULL =
/// clients need no certificate), which are read when a server is started; that fails with
/// WITRPC_INVALID_ARGUMENT if they can't be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_tls_files(
    options: *mut witrpc_server_options,
    certificate_path: *const c_char,
    key_path: *const c_char,
    client_authorities_path: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands valid pointers.
        let (certificates, key, authorities) = unsafe {
            (
                text::terminated(certificate_path, "certificate_path")?.to_owned(),
                text::terminated(key_path, "key_path")?.to_owned(),
                match client_authorities_path.is_null() {
                    true => None,
                    false => Some(text::terminated(
                        client_authorities_path,
                        "client_authorities_path",
                    )?),
                },
            )
        };
        o.tls = Some(ServerTls {
            certificates: Pem::File(certificates),
            key: Pem::File(key),
            client_authorities: authorities.map(|path| Pem::File(path.to_owned())),
        });
        Ok(())
    })
}

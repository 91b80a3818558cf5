//! The TLS options of a client.

use std::ffi::c_char;
use std::path::PathBuf;

use witrpc_core::Result as CoreResult;
use witrpc_core::config::TlsConfig;
use witrpc_core::transport::tls::{Identity, TlsClientOptions};

use crate::client_options::{change, witrpc_client_options};
use crate::pem::Pem;
use crate::text;

/// Whom to trust, and what to show.
#[derive(Clone, Default)]
pub(crate) struct ClientTls {
    authorities: Option<Pem>,
    system_authorities: bool,
    server_name: Option<String>,
    pinned: Vec<[u8; 32]>,
    /// Certificate and key.
    identity: Option<(Pem, Pem)>,
}

impl ClientTls {
    /// What a file of named clients says.
    pub(crate) fn from_config(config: TlsConfig) -> Self {
        let pem = |path: PathBuf| Pem::File(path.to_string_lossy().into_owned());
        Self {
            authorities: config.authorities_file.map(pem),
            system_authorities: config.system_authorities,
            server_name: config.server_name,
            pinned: config.pinned,
            identity: config.identity_files.map(|(c, k)| (pem(c), pem(k))),
        }
    }

    /// Reads the files.
    pub(crate) fn load(&self) -> CoreResult<TlsClientOptions> {
        let authorities = self.authorities.as_ref();
        let authorities = authorities.map(|pem| pem.load("certificate authorities"));
        let identity = self.identity.as_ref().map(|(certificates, key)| {
            Ok(Identity {
                certificates: certificates.load("certificate")?,
                key: key.load("private key")?,
            })
        });
        Ok(TlsClientOptions {
            authorities: authorities.transpose()?,
            system_authorities: self.system_authorities,
            server_name: self.server_name.clone(),
            pinned: self.pinned.clone(),
            identity: identity.transpose()?,
        })
    }
}

/// Certificate authorities to trust with tls:// and wss://, as the text of a PEM file (`size` in
/// bytes). Default: those of the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_tls_authorities(
    options: *mut witrpc_client_options,
    pem: *const c_char,
    size: usize,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands a valid pointer.
        let pem = unsafe { text::bytes(pem.cast(), size) }?;
        o.tls.authorities = Some(Pem::Text(pem.to_vec()));
        Ok(())
    })
}

/// The same from a PEM file (its path NUL-terminated), which is read when a client is made; that
/// fails with WITRPC_INVALID_ARGUMENT if it can't be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_tls_authorities_file(
    options: *mut witrpc_client_options,
    path: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands a valid pointer.
        let path = unsafe { text::terminated(path, "path") }?;
        o.tls.authorities = Some(Pem::File(path.to_owned()));
        Ok(())
    })
}

/// Whether to trust the system's certificate authorities also where authorities are given. Default
/// false. Without given ones the system's are trusted in any case.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_tls_system_authorities(
    options: *mut witrpc_client_options,
    also: bool,
) -> i32 {
    change(options, |o| {
        o.tls.system_authorities = also;
        Ok(())
    })
}

/// The name that the server's certificate must be for, NUL-terminated. Default: the host of the
/// endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_tls_server_name(
    options: *mut witrpc_client_options,
    name: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands a valid pointer.
        o.tls.server_name = Some(unsafe { text::terminated(name, "name") }?.to_owned());
        Ok(())
    })
}

/// Accepts the certificate whose DER form has this SHA-256 (32 bytes), and no others but those
/// given by further calls; then neither names nor authorities are looked at. For devices with
/// self-signed certificates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_tls_pin(
    options: *mut witrpc_client_options,
    sha256: *const u8,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands 32 bytes.
        let pin = unsafe { text::bytes(sha256, 32) }?;
        o.tls.pinned.extend(<[u8; 32]>::try_from(pin).ok());
        Ok(())
    })
}

/// The client's own certificate and its private key, as the texts of PEM files (sizes in bytes). The
/// certificate may be followed by those that lead to a root; the key is PKCS#8, PKCS#1 or SEC1, not
/// encrypted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_tls_identity(
    options: *mut witrpc_client_options,
    certificate: *const c_char,
    certificate_size: usize,
    key: *const c_char,
    key_size: usize,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands valid pointers.
        let (certificates, key) = unsafe {
            (
                text::bytes(certificate.cast(), certificate_size)?.to_vec(),
                text::bytes(key.cast(), key_size)?.to_vec(),
            )
        };
        o.tls.identity = Some((Pem::Text(certificates), Pem::Text(key)));
        Ok(())
    })
}

/// The same from PEM files (their paths NUL-terminated; they may be one file), which are read when a
/// client is made; that fails with WITRPC_INVALID_ARGUMENT if they can't be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_tls_identity_files(
    options: *mut witrpc_client_options,
    certificate_path: *const c_char,
    key_path: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands valid pointers.
        let (certificates, key) = unsafe {
            (
                text::terminated(certificate_path, "certificate_path")?.to_owned(),
                text::terminated(key_path, "key_path")?.to_owned(),
            )
        };
        o.tls.identity = Some((Pem::File(certificates), Pem::File(key)));
        Ok(())
    })
}

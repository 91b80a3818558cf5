//! TLS as a layer without a socket, by rustls with aws-lc-rs; and the options of both ends.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    AlertDescription, CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use super::io::Io;
use super::pump::Ending;
use crate::error::{Error, ErrorCode, Result};

/// A certificate chain and its private key, as PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate and those that lead to a root.
    pub certificates: Vec<u8>,
    /// The key: PKCS#8, PKCS#1 or SEC1.
    pub key: Vec<u8>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Which servers a client trusts, and what it shows of itself. For `tls://` and `wss://`.
#[derive(Debug, Clone, Default)]
pub struct TlsClientOptions {
    /// Certificate authorities to trust, as PEM. Default: those of the system.
    pub authorities: Option<Vec<u8>>,
    /// Whether to trust the system's too where `authorities` are given. Default false.
    pub system_authorities: bool,
    /// The name that the server's certificate must be for. Default: the host of the endpoint.
    pub server_name: Option<String>,
    /// Certificates to accept by the SHA-256 of their DER form, and no others; then neither names
    /// nor authorities are looked at. For devices with self-signed certificates.
    pub pinned: Vec<[u8; 32]>,
    /// The client's own certificate.
    pub identity: Option<Identity>,
}

/// What a server shows of itself, and which clients it accepts. For `tls://` and `wss://`.
#[derive(Debug, Clone)]
pub struct TlsServerOptions {
    /// The server's certificate.
    pub identity: Identity,
    /// Authorities that a client's certificate must come from, as PEM; with it, clients without one
    /// are refused. Default: none is asked for.
    pub client_authorities: Option<Vec<u8>>,
}

/// Options of a client, checked and loaded.
pub(crate) struct ClientConfig {
    config: Arc<rustls::ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl ClientConfig {
    /// With the name that the certificate of this host must be for.
    pub(crate) fn towards(
        &self,
        host: &str,
    ) -> Result<(Arc<rustls::ClientConfig>, ServerName<'static>)> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned())
                .map_err(|e| wrong(&format!("server name \"{host}\""), e))?,
        };
        Ok((self.config.clone(), name))
    }
}

/// The provider is named here and nowhere else; the process default is never looked at.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn wrong(what: &str, error: impl fmt::Display) -> Error {
    Error::invalid_argument(format!("tls: {what}: {error}"))
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(pem)
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|e| wrong(what, e))?;
    if found.is_empty() {
        return Err(wrong(what, "there is no certificate in it"));
    }
    Ok(found)
}

fn roots(pem: &[u8], what: &str) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, what)? {
        roots.add(certificate).map_err(|e| wrong(what, e))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore> {
    let loaded = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(loaded.certs);
    if added == 0 {
        let reason = loaded
            .errors
            .first()
            .map_or_else(|| "none found".into(), ToString::to_string);
        return Err(wrong("the system's certificate authorities", reason));
    }
    Ok(roots)
}

impl Identity {
    fn load(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let certificates = certificates(&self.certificates, "certificate")?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|e| match e {
            pem::Error::NoItemsFound => wrong(
                "private key",
                "there is none in it that can be read: PKCS#8, PKCS#1 or SEC1 as PEM, not encrypted",
            ),
            other => wrong("private key", other),
        })?;
        Ok((certificates, key))
    }
}

impl TlsClientOptions {
    pub(crate) fn load(&self) -> Result<ClientConfig> {
        let provider = provider();
        let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong("versions", e))?;
        let builder = if self.pinned.is_empty() {
            let roots = match &self.authorities {
                Some(pem) if self.system_authorities => {
                    let mut both = system_roots()?;
                    both.extend(roots(pem, "authorities")?.roots);
                    both
                }
                Some(pem) => roots(pem, "authorities")?,
                None => system_roots()?,
            };
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|e| wrong("authorities", e))?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        } else {
            let pinned = Pinned {
                certificates: self.pinned.clone(),
                provider,
            };
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(pinned))
        };
        let config = match &self.identity {
            Some(identity) => {
                let (certificates, key) = identity.load()?;
                builder
                    .with_client_auth_cert(certificates, key)
                    .map_err(|e| wrong("certificate", e))?
            }
            None => builder.with_no_client_auth(),
        };
        let server_name = match &self.server_name {
            Some(name) => Some(
                ServerName::try_from(name.clone())
                    .map_err(|e| wrong(&format!("server name \"{name}\""), e))?,
            ),
            None => None,
        };
        Ok(ClientConfig {
            config: Arc::new(config),
            server_name,
        })
    }
}

impl TlsServerOptions {
    pub(crate) fn load(&self) -> Result<Arc<rustls::ServerConfig>> {
        let provider = provider();
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong("versions", e))?;
        let builder = match &self.client_authorities {
            Some(pem) => {
                let roots = Arc::new(roots(pem, "client authorities")?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(|e| wrong("client authorities", e))?;
                builder.with_client_cert_verifier(verifier)
            }
            None => builder.with_no_client_auth(),
        };
        let (certificates, key) = self.identity.load()?;
        let config = builder
            .with_single_cert(certificates, key)
            .map_err(|e| wrong("certificate", e))?;
        Ok(Arc::new(config))
    }
}

/// Accepts certificates by their hash. The handshake's signature is checked all the same: who shows
/// the certificate must have its key.
#[derive(Debug)]
struct Pinned {
    certificates: Vec<[u8; 32]>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, end_entity);
        if self
            .certificates
            .iter()
            .any(|pinned| pinned.as_slice() == digest.as_ref())
        {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// One connection's TLS.
pub(super) struct Tls(rustls::Connection);

/// Makes the handshake of a client. `host` is the endpoint's.
pub(super) async fn connect(
    io: &mut Io,
    config: &ClientConfig,
    host: &str,
) -> Result<(Tls, BytesMut)> {
    let (config, name) = config.towards(host)?;
    let connection = rustls::ClientConnection::new(config, name).map_err(|e| failed(&e))?;
    Tls(connection.into()).handshake(io).await
}

/// Makes the handshake of a server.
pub(super) async fn accept(
    io: &mut Io,
    config: Arc<rustls::ServerConfig>,
) -> Result<(Tls, BytesMut)> {
    let connection = rustls::ServerConnection::new(config).map_err(|e| failed(&e))?;
    Tls(connection.into()).handshake(io).await
}

fn failed(error: &rustls::Error) -> Error {
    let is_certificate = match error {
        rustls::Error::InvalidCertificate(_)
        | rustls::Error::NoCertificatesPresented
        | rustls::Error::UnsupportedNameType => true,
        rustls::Error::AlertReceived(alert) => matches!(
            alert,
            AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA
                | AlertDescription::AccessDenied
                | AlertDescription::CertificateRequired
                | AlertDescription::DecryptError
        ),
        _ => false,
    };
    let (code, what) = match (is_certificate, error) {
        (true, rustls::Error::AlertReceived(_)) => (
            ErrorCode::Certificate,
            "the peer did not accept our certificate",
        ),
        (true, _) => (
            ErrorCode::Certificate,
            "the peer's certificate is not accepted",
        ),
        (false, _) => (ErrorCode::Transport, "TLS failed"),
    };
    Error::new(code, what).with_details(Some(error.to_string()))
}

fn broken(error: std::io::Error) -> Error {
    Error::new(ErrorCode::Transport, "TLS failed").with_details(Some(error.to_string()))
}

impl Tls {
    /// Returns what arrived of the stream behind the handshake: plain bytes.
    async fn handshake(mut self, io: &mut Io) -> Result<(Self, BytesMut)> {
        let (mut input, mut wire, mut plain) = (BytesMut::new(), BytesMut::new(), BytesMut::new());
        loop {
            self.flush(&mut wire);
            io.write_all(&wire.split()).await.map_err(broken)?;
            if !self.0.is_handshaking() {
                // What is left in `input` has been taken in by rustls already.
                return Ok((self, plain));
            }
            if io.read(&mut input).await.map_err(broken)? == 0 {
                return Err(
                    Error::new(ErrorCode::Transport, "the peer closed the connection")
                        .with_details(Some("within the TLS handshake".into())),
                );
            }
            if let Err(ending) = self.decode(&mut input, &mut plain, &mut wire) {
                // The alert that says why.
                if io.write_all(&wire).await.is_ok() {
                    io.linger().await;
                }
                return Err(match ending {
                    Ending::Layer(error) => error,
                    ending => Error::new(ErrorCode::Transport, ending.to_string()),
                });
            }
        }
    }

    fn flush(&mut self, wire: &mut BytesMut) {
        struct Append<'a>(&'a mut BytesMut);
        impl Write for Append<'_> {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.extend_from_slice(bytes);
                Ok(bytes.len())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        while self.0.wants_write() {
            if self.0.write_tls(&mut Append(wire)).is_err() {
                return;
            }
        }
    }

    pub(super) fn encode(
        &mut self,
        plain: &[u8],
        wire: &mut BytesMut,
    ) -> std::result::Result<(), Ending> {
        // Its buffer has a limit; it is emptied before that is reached.
        for piece in plain.chunks(16 * 1024) {
            self.0.writer().write_all(piece).map_err(Ending::Io)?;
            self.flush(wire);
        }
        Ok(())
    }

    pub(super) fn decode(
        &mut self,
        input: &mut BytesMut,
        plain: &mut BytesMut,
        wire: &mut BytesMut,
    ) -> std::result::Result<(), Ending> {
        loop {
            let before = input.len();
            if before > 0 {
                let mut source = &input[..];
                let taken = self.0.read_tls(&mut source).map_err(Ending::Io)?;
                input.advance(taken);
            }
            let state = self.0.process_new_packets();
            self.flush(wire);
            let state = state.map_err(|e| Ending::Layer(failed(&e)))?;
            let waiting = state.plaintext_bytes_to_read();
            let start = plain.len();
            plain.resize(start + waiting, 0);
            self.0
                .reader()
                .read_exact(&mut plain[start..])
                .map_err(Ending::Io)?;
            if state.peer_has_closed() {
                return Err(Ending::Closed);
            }
            if input.is_empty() || input.len() == before {
                return Ok(());
            }
        }
    }

    /// Says that nothing more will come.
    pub(super) fn close(&mut self, wire: &mut BytesMut) {
        self.0.send_close_notify();
        self.flush(wire);
    }
}

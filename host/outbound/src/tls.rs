//! How TLS is spoken: HTTP/1.1 over TLS 1.2 or 1.3, with certificates verified for the host's name.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::ConnectError;
use crate::origin::Host;

/// What is kept of a problem. That of a wrong certificate lists all names that stand in it, which are the
/// server's choice.
const MOST_CHARS: usize = 400;

/// How TLS is spoken, and which authorities are trusted.
#[derive(Clone)]
pub struct Tls(TlsConnector);

/// TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be set up, for instance because the system has no certificates of authorities: {0}")]
pub struct TlsError(#[from] rustls::Error);

impl Tls {
    /// Trusts the authorities that the system trusts. Reads them from files.
    pub fn system() -> Result<Self, TlsError> {
        let builder =
            ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        Ok(Self::new(builder.with_platform_verifier()?.with_no_client_auth()))
    }

    /// Trusts those authorities only.
    pub fn with_roots(roots: RootCertStore) -> Result<Self, TlsError> {
        let builder =
            ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        Ok(Self::new(builder.with_root_certificates(roots).with_no_client_auth()))
    }

    fn new(mut config: ClientConfig) -> Self {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self(TlsConnector::from(Arc::new(config)))
    }

    /// The certificate is verified for the name in the URL, never for the address behind it.
    pub(crate) async fn handshake(
        &self,
        host: &Host,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, ConnectError> {
        let name = match host {
            Host::Address(address, _) => ServerName::IpAddress((*address).into()),
            Host::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|error| ConnectError::Tls(error.to_string()))?
            }
        };
        self.0.connect(name, stream).await.map_err(|error| failed(&error))
    }
}

fn failed(error: &io::Error) -> ConnectError {
    let problem: String = error.to_string().chars().take(MOST_CHARS).collect();
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(_)) => ConnectError::Certificate(problem),
        Some(_) => ConnectError::Tls(problem),
        None => ConnectError::Failed(problem),
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

#[cfg(test)]
mod tests {
    use rustls::CertificateError;

    use super::*;

    #[test]
    fn little_is_said_of_a_certificate_with_many_names() {
        let presented = vec!["DnsName(\"a.test\")".to_owned(); 1_000];
        let expected = ServerName::try_from("b.test").unwrap();
        let wrong = CertificateError::NotValidForNameContext { expected, presented };
        let error = io::Error::other(rustls::Error::InvalidCertificate(wrong));
        let ConnectError::Certificate(problem) = failed(&error) else { panic!("it is the certificate") };
        assert!(
            problem.contains("not valid for name \"b.test\"") && problem.len() <= MOST_CHARS,
            "{problem}"
        );
    }

    /// What the service starts with.
    #[test]
    fn the_systems_authorities_are_found_or_their_lack_is_said() {
        match Tls::system() {
            Ok(tls) => assert_eq!(format!("{tls:?}"), "Tls"),
            Err(error) => assert!(error.to_string().contains("certificates of authorities"), "{error}"),
        }
    }
}

//! TLS: verified for the name in the URL, by authorities that are trusted.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use super::server::ok;
use super::*;

/// An authority of the test's own.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn acceptor(&self, name: &str, protocols: &[&str]) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config =
            config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    fn call(&self) -> (Egress, Call) {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let resolver = FakeResolver::new(&[&["127.0.0.1"]]);
        let tls = Tls::with_roots(roots).unwrap();
        let egress =
            Egress::new(Handle::current(), resolver, tls, EgressBounds::default(), HttpMode::default());
        let secrets = vec![ascii_secret("api-key", header("authorization", "Bearer "))];
        let deadline = Instant::now() + Duration::from_secs(60);
        let call = egress.call(grant(true, secrets, RequestLimits::default()), deadline);
        (egress, call)
    }
}

#[tokio::test]
async fn a_server_with_a_valid_certificate_is_reached_and_gets_the_credential() {
    let authority = Authority::new();
    let mut server = Server::over_tls(authority.acceptor("example.test", &["h2", "http/1.1"]), |received| {
        ok(received.header("authorization").unwrap())
    })
    .await;
    let (egress, call) = authority.call();
    for _ in 0..2 {
        let url = format!("https://example.test:{}/", server.port());
        assert_eq!(fetch(&call, get(url)).await.unwrap().1, "Bearer [secret api-key]");
        assert_eq!(server.next().await.header("authorization"), Some("Bearer ascii-s3cret/v+lue"));
    }
    assert_eq!((server.connections(), egress.idle_connections()), (1, 1));
    assert_eq!(call.receipt().hosts[0].scheme, "https");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let server = Server::over_tls(authority.acceptor("other.test", &["http/1.1"]), |_| ok("")).await;
    let (_egress, call) = authority.call();
    for host in ["example.test", "127.0.0.1"] {
        let url = format!("https://{host}:{}/", server.port());
        let refused = fetch(&call, get(url)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TlsCertificateError, "{refused:?}");
    }
}

#[tokio::test]
async fn an_authority_that_nobody_knows_is_refused() {
    let (own, foreign) = (Authority::new(), Authority::new());
    let server = Server::over_tls(foreign.acceptor("example.test", &["http/1.1"]), |_| ok("")).await;
    let (_egress, call) = own.call();
    let url = format!("https://example.test:{}/", server.port());
    let refused = fetch(&call, get(&url)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TlsCertificateError, "{refused:?}");
    assert!(
        refused.log_text().len() > refused.to_string().len(),
        "the log says more: {}",
        refused.log_text()
    );
}

#[tokio::test]
async fn an_address_is_verified_as_an_address() {
    let authority = Authority::new();
    let server = Server::over_tls(authority.acceptor("127.0.0.1", &["http/1.1"]), |_| ok("by address")).await;
    let (_egress, call) = authority.call();
    let url = format!("https://127.0.0.1:{}/", server.port());
    assert_eq!(fetch(&call, get(url)).await.unwrap().1, "by address");
}

#[tokio::test]
async fn a_server_without_tls_or_without_http_1_is_an_error() {
    let authority = Authority::new();
    let (_egress, call) = authority.call();
    let plain = Server::scripted(|mut connection| async move {
        connection.write("HTTP/1.1 400 Bad Request\r\n\r\n").await;
        connection.wait_for_close().await;
    })
    .await;
    let failed = fetch(&call, get(format!("https://example.test:{}/", plain.port()))).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::TlsProtocolError, "{failed:?}");
    let http2 = Server::over_tls(authority.acceptor("example.test", &["h2"]), |_| ok("")).await;
    let failed = fetch(&call, get(format!("https://example.test:{}/", http2.port()))).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::TlsProtocolError, "{failed:?}");
}

//! Components, manifests and clients for the tests.

use std::time::Duration;

use tool_registry::{Client, Credentials, Digest, Limits, Options, Pulled, Reference};

/// Largest component here.
pub(crate) const MOST_BYTES: u64 = 1 << 20;

/// A component that does nothing, with that text in a custom section.
pub(crate) fn component(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len() + 2).expect("a short text");
    [b"\0asm\x0d\0\x01\0\0".as_slice(), &[length, 1], b"x", text.as_bytes()].concat()
}

pub(crate) fn manifest(component: &[u8]) -> String {
    manifest_of(&Digest::of(component).to_string(), component.len() as u64, "")
}

/// A manifest with a component of that digest and size, and `more` behind its last field.
pub(crate) fn manifest_of(digest: &str, size: u64, more: &str) -> String {
    let empty = Digest::of(b"{}");
    format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{{"mediaType":"application/vnd.wasm.config.v0+json","digest":"{empty}","size":2}},"layers":[{{"mediaType":"application/wasm","digest":"{digest}","size":{size}}}]{more}}}"#
    )
}

/// An HTTP client of somebody else.
pub(crate) fn foreign_client() -> reqwest::Client {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

/// A client without TLS.
pub(crate) fn client(credentials: Option<Credentials>) -> Client {
    let limits = Limits {
        component_bytes: MOST_BYTES,
        total: Duration::from_mins(10),
        stall: Duration::from_secs(30),
    };
    Client::new(Options { plain_http: true, credentials, limits }).unwrap()
}

/// Pulls as nobody.
pub(crate) async fn pull(reference: &str) -> Result<Pulled, tool_registry::Error> {
    tool_registry::pull(&client(None), &Reference::parse(reference).unwrap(), &mut |_, _| {}).await
}

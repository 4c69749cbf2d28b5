//! Pulling a component: the manifest once, then the component by its digest.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap};
use http::{Method, StatusCode};
use tokio::time::timeout;

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::{ACCEPTED, Artifact};
use crate::reference::Reference;
use crate::session::body;
use crate::session::client::Client;
use crate::session::{Access, Outgoing, Session};

/// Most bytes of a manifest. (The specification wants registries to take manifests of up to 4 MiB; those of
/// components have one layer.)
const MOST_MANIFEST_BYTES: u64 = 1 << 20;

/// What was pulled. Component and manifest have the digests that are said.
#[derive(Debug, Clone)]
pub struct Pulled {
    pub component: Bytes,
    /// What belongs into `<name>.wasm.sig`, if it was published with a signature. Nobody has verified it yet.
    pub signature: Option<Bytes>,
    /// The name that the signature is said to be for.
    pub signed_name: Option<String>,
    pub manifest_digest: Digest,
    pub component_digest: Digest,
    /// Reference to the same place with the manifest's digest: it never means anything else.
    pub reference_pinned: Reference,
}

/// Pulls a component. `progress` is told how many of how many bytes of it have arrived.
pub async fn pull(
    client: &Client,
    reference: &Reference,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Pulled, Error> {
    let limit = client.options.limits.total;
    let pulled = timeout(limit, Box::pin(pull_whole(client, reference, progress))).await;
    let too_slow = |_elapsed| Error::TooSlow { registry: reference.registry().to_owned(), limit };
    pulled.map_err(too_slow)?
}

async fn pull_whole(
    client: &Client,
    reference: &Reference,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Pulled, Error> {
    let mut session = Session::new(client, reference, Access::Pull)?;
    let (manifest_digest, artifact) = pull_manifest(&mut session, reference).await?;
    let reference_pinned = reference.pinned(manifest_digest);
    let most = client.options.limits.component_bytes;
    if artifact.size > most {
        let (what, mend) = ("the component", ": leave out what it does not need, such as debug information");
        return Err(Error::TooLarge { registry: session.registry(), what, most, mend });
    }
    let component = pull_component(&mut session, &artifact, progress).await?;
    Ok(Pulled {
        component,
        signature: artifact.signature,
        signed_name: artifact.signed_name,
        manifest_digest,
        component_digest: artifact.digest,
        reference_pinned,
    })
}

/// Asks once: what a tag names is what it named then.
async fn pull_manifest(
    session: &mut Session<'_>,
    reference: &Reference,
) -> Result<(Digest, Artifact), Error> {
    let digest = reference.digest();
    let name = digest
        .map(|digest| digest.to_string())
        .or_else(|| reference.tag().map(str::to_owned))
        .unwrap_or_default();
    let request = session.request(Method::GET, &format!("manifests/{name}"));
    let response = session.send(&Outgoing { accept: ACCEPTED, ..request }).await?;
    let separator = if digest.is_some() { '@' } else { ':' };
    let what = format!("{}{separator}{name}", reference.repository());
    let response = session.expect(response, StatusCode::OK, &what).await?;
    let promised = promised_digest(response.headers());
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.map(str::to_owned);
    let bounds = session.bounds("the manifest", MOST_MANIFEST_BYTES, ": that is not one of a component");
    let bytes = body::read(response, bounds, |_| {}).await?;
    let found = Digest::of(&bytes);
    if let Some(expected) = digest.or(promised).filter(|expected| *expected != found) {
        let (registry, what) = (session.registry(), "the manifest");
        return Err(Error::WrongDigest { registry, what, expected, found });
    }
    let artifact = Artifact::read(&bytes, content_type.as_deref())
        .map_err(|problem| Error::Manifest { reference: reference.pinned(found).to_string(), problem })?;
    Ok((found, artifact))
}

async fn pull_component(
    session: &mut Session<'_>,
    artifact: &Artifact,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Bytes, Error> {
    let (what, expected) = ("the component", artifact.digest);
    let request = session.request(Method::GET, &format!("blobs/{expected}"));
    let response = session.send(&request).await?;
    let response = session.expect(response, StatusCode::OK, &format!("component {expected}")).await?;
    let mend = ", as its manifest says: do not install this, and tell the registry's operator";
    let bounds = session.bounds(what, artifact.size, mend);
    let bytes = body::read(response, bounds, |received| progress(received, artifact.size)).await?;
    let received = bytes.len() as u64;
    if received < artifact.size {
        let (registry, promised) = (session.registry(), artifact.size);
        return Err(Error::Incomplete { registry, what, received, promised });
    }
    let found = Digest::of(&bytes);
    if found != expected {
        return Err(Error::WrongDigest { registry: session.registry(), what, expected, found });
    }
    Ok(bytes)
}

/// The digest that a registry says it sends or has taken in.
pub(crate) fn promised_digest(headers: &HeaderMap) -> Option<Digest> {
    Digest::parse(headers.get("docker-content-digest")?.to_str().ok()?)
}

//! Pushing a component: what the registry does not have yet, and the manifest last, so that nobody finds half
//! of it.

use bytes::Bytes;
use http::header::LOCATION;
use http::{Method, StatusCode};
use tokio::time::timeout;

use crate::component_names;
use crate::digest::Digest;
use crate::error::{Error, RedirectProblem};
use crate::manifest::{MANIFEST_TYPE, SIGNATURE_BYTES, Written};
use crate::pull::promised_digest;
use crate::reference::Reference;
use crate::session::client::Client;
use crate::session::{Access, Outgoing, Session};

#[derive(Debug, Clone)]
pub struct Publication<'a> {
    pub component: Bytes,
    /// The name that was signed and the signature, as `<name>.wasm.sig` has it.
    pub signed: Option<(&'a str, &'a [u8])>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    pub manifest_digest: Digest,
    pub component_digest: Digest,
    /// Where it can be pulled from, for good.
    pub reference_pinned: Reference,
}

/// Publishes a component there, under the tag if the reference has one.
pub async fn push(
    client: &Client,
    reference: &Reference,
    publication: &Publication<'_>,
) -> Result<Pushed, Error> {
    let limit = client.options.limits.total;
    let pushed = timeout(limit, Box::pin(push_whole(client, reference, publication))).await;
    let too_slow = |_elapsed| Error::TooSlow { registry: reference.registry().to_owned(), limit };
    pushed.map_err(too_slow)?
}

async fn push_whole(
    client: &Client,
    reference: &Reference,
    publication: &Publication<'_>,
) -> Result<Pushed, Error> {
    // Before anything is sent: nobody could install what has another one.
    if let Some((name, signature)) =
        publication.signed.filter(|(_, signature)| signature.len() != SIGNATURE_BYTES)
    {
        return Err(Error::Signature { name: name.to_owned(), found: signature.len() });
    }
    let mut session = Session::new(client, reference, Access::Push)?;
    let (component, most) = (&publication.component, client.options.limits.component_bytes);
    if component.len() as u64 > most {
        let (what, mend) = ("the component", ": leave out what it does not need, such as debug information");
        return Err(Error::TooLarge { registry: session.registry(), what, most, mend });
    }
    let names = component_names::read(component).map_err(|problem| Error::NotAComponent { problem })?;
    let written = Written::new(component, &names, publication.signed)
        .map_err(|error| Error::NotAComponent { problem: error.to_string() })?;
    push_blob(&mut session, component).await?;
    push_blob(&mut session, &written.config).await?;
    let manifest_digest = Digest::of(&written.manifest);
    push_manifest(&mut session, reference.tag(), written.manifest).await?;
    Ok(Pushed {
        manifest_digest,
        component_digest: Digest::of(component),
        reference_pinned: reference.pinned(manifest_digest),
    })
}

/// Uploads something unless it is there.
async fn push_blob(session: &mut Session<'_>, content: &Bytes) -> Result<(), Error> {
    let digest = Digest::of(content);
    let there = session.send(&session.request(Method::HEAD, &format!("blobs/{digest}"))).await?;
    if there.status() == StatusCode::OK {
        return Ok(());
    }
    let request = session.request(Method::POST, "blobs/uploads/");
    let begun = session.send(&request).await?;
    let begun = session.expect(begun, StatusCode::ACCEPTED, "repository of that name").await?;
    let location =
        begun.headers().get(LOCATION).and_then(|value| request.url.join(value.to_str().ok()?).ok());
    let Some(mut url) = location else {
        let (registry, to, why) = (session.registry(), String::new(), RedirectProblem::NoAddress);
        return Err(Error::Redirect { registry, to, why });
    };
    url.query_pairs_mut().append_pair("digest", &digest.to_string());
    let content = Some(("application/octet-stream", content.clone()));
    let uploaded = session.send(&Outgoing { method: Method::PUT, url, content, ..request }).await?;
    session.expect(uploaded, StatusCode::CREATED, "upload of that name any more").await?;
    Ok(())
}

async fn push_manifest(session: &mut Session<'_>, tag: Option<&str>, manifest: Bytes) -> Result<(), Error> {
    let expected = Digest::of(&manifest);
    let name = tag.map_or_else(|| expected.to_string(), str::to_owned);
    let request = session.request(Method::PUT, &format!("manifests/{name}"));
    let content = Some((MANIFEST_TYPE, manifest));
    let response = session.send(&Outgoing { content, ..request }).await?;
    let response = session.expect(response, StatusCode::CREATED, "repository of that name").await?;
    match promised_digest(response.headers()).filter(|found| *found != expected) {
        Some(found) => {
            let (registry, what) = (session.registry(), "the manifest that was pushed");
            Err(Error::WrongDigest { registry, what, expected, found })
        }
        None => Ok(()),
    }
}

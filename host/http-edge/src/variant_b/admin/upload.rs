//! `PUT /admin/tools/{name}`: proposes a version. The body is the component.

use agent_core::ports::Upload;
use axum::extract::State;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::json;

use super::super::error::{AdminRefusal, Error};
use super::change::Change;
use super::component_body::{self, ComponentBody};
use super::state::Shared;
use super::{digest, documented};
use crate::body::Payload;
use crate::openapi::{Operation, Parameter, tags};

/// What lies beside a file as `<name>.wasm.sig`, in base64.
const SIGNATURE: HeaderName = HeaderName::from_static("agent-tool-signature");

/// Most bytes of a signature, as of the file.
const MOST_SIGNATURE_BYTES: usize = 1 << 10;

pub(super) fn describe() -> Operation {
    let signature = json!({
        "type": "string", "contentEncoding": "base64", "minLength": 4, "maxLength": 1368, "examples": ["c2lnbmF0dXJl"],
    });
    let refused = [
        AdminRefusal::Signature,
        AdminRefusal::ContentType,
        AdminRefusal::ContentCoding,
        AdminRefusal::Part,
        AdminRefusal::Empty,
        AdminRefusal::Busy,
    ];
    documented::change(Operation::new("proposeVersion", tags::TOOLS, "Propose a version of a component"))
        .about("Every check of the headers is made before the body is read.")
        .parameter(Parameter::header(
            "Agent-Tool-Signature",
            "The bytes of `<name>.wasm.sig` in base64.",
            signature,
        ))
        .bytes("The component", &["application/wasm", "application/octet-stream"])
        .answers::<ComponentBody<'static>>(StatusCode::CREATED, "The version serves")
        .answers::<ComponentBody<'static>>(
            StatusCode::ACCEPTED,
            "The version is kept, and does not serve yet",
        )
        .header(StatusCode::CREATED, &ETAG)
        .header(StatusCode::ACCEPTED, &ETAG)
        .header(StatusCode::CREATED, &LOCATION)
        .header(StatusCode::ACCEPTED, &LOCATION)
        .refuses(refused.map(Error::AdminRequest))
}

/// 201 when the version is the one that serves, 202 when it is kept and serves not yet: it waits, or a fault
/// such as another component with a tool of that name is in its way. Everything that the head can tell is
/// checked before the body is read, so that a client which waits for `100 Continue` is spared the upload.
pub(super) async fn propose_version(
    State(admin): State<Shared>,
    change: Change,
    headers: HeaderMap,
    payload: Payload,
) -> Result<Response, Error> {
    check_content(&headers)?;
    let signature = read_signature(&headers)?;
    // Held to the end: what it bounds is the memory of the bytes and the work that they make.
    let _permit = admin.permit_upload()?;
    change.check_revision(&*admin.tools).await?;
    let bytes = payload.read(&admin.upload_settings()).await?;
    if bytes.is_empty() {
        return Err(AdminRefusal::Empty.into());
    }
    let digest = digest::of(&bytes).await;
    change.note_digest(Some(&digest));
    // The upload took its time.
    change.check_revision(&*admin.tools).await?;
    let view = admin.tools.upload(change.name(), Upload { bytes, signature }, change.operator()).await?;
    let is_down = view.fault.is_some() && view.serving.as_ref() != Some(&digest);
    let serves = view.record.active.as_ref() == Some(&digest) && !is_down;
    let status = if serves { StatusCode::CREATED } else { StatusCode::ACCEPTED };
    let mut answer = component_body::answer(status, &view, Some(&digest));
    // A component's name is always fit for a header.
    if let Ok(location) = HeaderValue::try_from(format!("/admin/tools/{}", change.name())) {
        answer.headers_mut().insert(LOCATION, location);
    }
    Ok(answer)
}

/// What the body is said to be. Nothing is said of it by clients that send a file as it is.
fn check_content(headers: &HeaderMap) -> Result<(), AdminRefusal> {
    let is_one_of = |value: &HeaderValue, allowed: &[&str]| {
        let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        allowed.iter().any(|allowed| essence.eq_ignore_ascii_case(allowed.as_bytes()))
    };
    if headers.contains_key(CONTENT_RANGE) {
        return Err(AdminRefusal::Part);
    }
    let types = ["application/wasm", "application/octet-stream"];
    if !headers.get_all(CONTENT_TYPE).iter().all(|value| is_one_of(value, &types)) {
        return Err(AdminRefusal::ContentType);
    }
    // Decoding that much would keep a thread that serves others for too long.
    if !headers.get_all(CONTENT_ENCODING).iter().all(|value| is_one_of(value, &["identity"])) {
        return Err(AdminRefusal::ContentCoding);
    }
    Ok(())
}

fn read_signature(headers: &HeaderMap) -> Result<Option<Bytes>, AdminRefusal> {
    let mut lines = headers.get_all(SIGNATURE).iter();
    let (line, second) = (lines.next(), lines.next());
    let Some(line) = line else { return Ok(None) };
    let signature = STANDARD.decode(line.as_bytes().trim_ascii()).map_err(|_| AdminRefusal::Signature)?;
    if second.is_some() || !(1..=MOST_SIGNATURE_BYTES).contains(&signature.len()) {
        return Err(AdminRefusal::Signature);
    }
    Ok(Some(signature.into()))
}

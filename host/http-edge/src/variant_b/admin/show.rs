//! What is asked of the tools: which components there are, everything about one, its versions, what differs
//! between two of them, and who did what.

use agent_core::words::VersionDiff;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use http::header::ETAG;
use serde_json::json;

use super::super::error::Error;
use super::component_body::{self, AuditBody, ComponentBody, Listed, Page, VersionLine};
use super::component_name::ComponentName;
use super::state::Shared;
use super::{digest, documented};
use crate::answer;
use crate::openapi::{Operation, tags};
use crate::request::{Field, Object, Pattern, read_query, request};

pub(super) fn describe_list() -> Operation {
    Operation::new("listComponents", tags::TOOLS, "List the components and what serves of each")
        .answers_list::<Listed<'static>>(StatusCode::OK, "Every component, by name")
}

pub(super) fn describe_component() -> Operation {
    documented::component(Operation::new("readComponent", tags::TOOLS, "Read everything about one component"))
        .answers::<ComponentBody<'static>>(StatusCode::OK, "The component; its tag is its revision")
        .header(StatusCode::OK, &ETAG)
}

pub(super) fn describe_versions() -> Operation {
    documented::component(Operation::new("listVersions", tags::TOOLS, "List the versions of a component"))
        .answers_list::<VersionLine<'static>>(StatusCode::OK, "Its versions, the newest first")
}

pub(super) fn describe_diff() -> Operation {
    documented::component(Operation::new(
        "compareVersions",
        tags::TOOLS,
        "Tell what differs between two versions",
    ))
    .query::<VersionPair>()
    .answers::<VersionDiff>(StatusCode::OK, "What differs")
    .refuses(documented::no_version())
}

request! {
    /// Which versions are compared.
    pub(super) struct VersionPair = Object::OPEN;

    /// The older one; without it the one that serves.
    from: Option<String> = version("from");

    /// The newer one; without it the newest proposal.
    to: Option<String> = version("to");
}

const fn version(name: &'static str) -> Field {
    Field::text(name).like(DIGEST_OR_NONE).empty_is_absent().example(|| json!(digest::EXAMPLE))
}

const DIGEST_OR_NONE: &Pattern =
    &Pattern { keywords: || json!({ "pattern": "^(sha256:[0-9a-f]{64})?$" }), ..*digest::DIGEST };

pub(super) fn describe_audit() -> Operation {
    documented::component(Operation::new("listAudit", tags::TOOLS, "List who did what with a component"))
        .answers_list::<AuditBody<'static>>(StatusCode::OK, "What was done, the newest first")
}

/// `GET /admin/tools`.
pub(super) async fn list(State(admin): State<Shared>) -> Result<Response, Error> {
    let views = admin.tools.list().await?;
    Ok(page(views.iter().map(Listed::from).collect()))
}

/// `GET /admin/tools/{name}`.
pub(super) async fn component(State(admin): State<Shared>, name: ComponentName) -> Result<Response, Error> {
    let view = admin.tools.get(name.as_str()).await?;
    Ok(component_body::answer(StatusCode::OK, &view, None))
}

/// `GET /admin/tools/{name}/versions`, the newest first.
pub(super) async fn versions(State(admin): State<Shared>, name: ComponentName) -> Result<Response, Error> {
    let view = admin.tools.get(name.as_str()).await?;
    Ok(page(view.record.versions.iter().map(|version| VersionLine::new(version, &view)).collect()))
}

/// `GET /admin/tools/{name}/diff?from=&to=`.
pub(super) async fn diff(
    State(admin): State<Shared>,
    name: ComponentName,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let VersionPair { from, to } = read_query(query.as_deref())?;
    let diff = admin.tools.diff(name.as_str(), from.as_deref(), to.as_deref()).await?;
    Ok(answer::visible_json(StatusCode::OK, &diff))
}

/// `GET /admin/tools/{name}/audit`, the newest first.
pub(super) async fn audit(State(admin): State<Shared>, name: ComponentName) -> Result<Response, Error> {
    let lines = admin.tools.audit(name.as_str()).await?;
    Ok(page(lines.iter().map(AuditBody::from).collect()))
}

fn page<T: serde::Serialize>(data: Vec<T>) -> Response {
    answer::visible_json(StatusCode::OK, &Page { data })
}

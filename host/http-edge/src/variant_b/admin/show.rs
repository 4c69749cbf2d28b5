//! What is asked of the tools: which components there are, everything about one, its versions, what differs between
//! two of them, and who did what.

use agent_core::words::VersionDiff;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use http::header::ETAG;
use serde_json::json;

use super::super::error::Error;
use super::super::parameters;
use super::super::validation_issue::{Issues, Path};
use super::component_body::{self, AuditBody, ComponentBody, Listed, Page, VersionLine};
use super::component_name::ComponentName;
use super::state::Shared;
use super::{digest, documented};
use crate::answer;
use crate::openapi::{Operation, Parameter, tags};

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
    let digest = || {
        json!({ "type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$",
                "examples": ["sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"] })
    };
    documented::component(Operation::new(
        "compareVersions",
        tags::TOOLS,
        "Tell what differs between two versions",
    ))
    .parameter(Parameter::query("from", "The older one; without it the one that serves.", digest()))
    .parameter(Parameter::query("to", "The newer one; without it the newest proposal.", digest()))
    .answers::<VersionDiff>(StatusCode::OK, "What differs")
    .refuses(documented::digest())
    .refuses(documented::no_version())
}

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
    let mut issues = Issues::default();
    let mut read = |parameter: &str, path: Path| {
        let text = parameters::find(query.as_deref(), parameter).filter(|text| !text.is_empty())?;
        issues.check(digest::check(&text, path))
    };
    let (from, to) = (read("from", &["from"]), read("to", &["to"]));
    if !issues.0.is_empty() {
        return Err(issues.into());
    }
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

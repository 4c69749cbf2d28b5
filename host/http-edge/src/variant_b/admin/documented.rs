//! What the routes of the admin API have in common, for the document.

use agent_core::ports::AdminError;
use http::StatusCode;
use http::header::ETAG;
use serde_json::{Value, json};

use super::super::documented as variant_b;
use super::super::error::Error;
use super::super::validation_issue::Issue;
use super::refusal::Refusal;
use crate::openapi::{Operation, Parameter, Refused};

/// Every route of it: for administrators.
pub(super) fn administrators(operation: Operation) -> Operation {
    operation.wants_token(&["admin"]).refuses(variant_b::rows([Error::NotAdmin]))
}

/// Those about the tools.
pub(super) fn of_tools(operation: Operation) -> Operation {
    administrators(operation).refuses(variant_b::rows([
        Error::Admin(AdminError::NoStore),
        Error::Admin(AdminError::Unavailable(String::new())),
    ]))
}

/// Routes about one component.
pub(super) fn component(operation: Operation) -> Operation {
    let schema = json!({
        "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$", "not": { "enum": [".", ".."] },
        "examples": ["calculator"],
    });
    let of_name = [Error::AdminRequest(Refusal::Name), Error::Admin(AdminError::UnknownComponent)];
    operation
        .parameter(Parameter::path("name", "The component: its file without `.wasm`.", schema))
        .refuses(variant_b::rows(of_name))
}

/// Routes that change one, whatever its revision unless that is said.
pub(super) fn change(operation: Operation) -> Operation {
    with_revision(
        operation,
        Parameter::header("If-Match", "The revisions that it may be made to, or `*`.", if_match()),
    )
}

/// Routes that change one that its caller has read.
pub(super) fn change_of_what_was_read(operation: Operation) -> Operation {
    let about = "The revision that was read: the `ETag` of the component. `*` names none.";
    with_revision(operation, Parameter::header("If-Match", about, revisions()).required())
        .refuses(variant_b::rows([Error::AdminRequest(Refusal::NoRevision)]))
}

fn with_revision(operation: Operation, revision: Parameter) -> Operation {
    let refused = [Refusal::IfMatch, Refusal::Changed { revision: 7 }, Refusal::NeverThere];
    let refused = refused.map(Error::AdminRequest);
    let of_tools = [
        Error::Admin(AdminError::Invalid("`share` is not a number above 0".to_owned())),
        Error::Admin(AdminError::UnknownVersion("There is no such version".to_owned())),
        Error::Admin(AdminError::Refused("The component cannot serve".to_owned())),
        Error::Admin(AdminError::Conflict("No version waits for an approval".to_owned())),
    ];
    component(operation)
        .parameter(revision)
        .refuses(variant_b::rows(refused))
        .refuses(variant_b::rows(of_tools).chain(variant_b::bodies()))
        .refuses(digest())
        .header(StatusCode::OK, &ETAG)
}

/// A digest that is none.
pub(super) fn digest() -> impl Iterator<Item = Refused> {
    variant_b::parameters(Issue::custom(super::digest::NOT_A_DIGEST, &["digest"]))
}

/// A version that there is not.
pub(super) fn no_version() -> impl Iterator<Item = Refused> {
    variant_b::rows([
        Error::Admin(AdminError::UnknownVersion("There is no such version".to_owned())),
        Error::Admin(AdminError::Conflict("Nothing is proposed".to_owned())),
    ])
}

/// What `If-Match` may hold where a revision has to be named.
fn revisions() -> Value {
    json!({
        "type": "string", "pattern": r#"^(W/)?"[^,"]*"(, *(W/)?"[^,"]*")*$"#, "examples": ["\"7\""],
    })
}

/// What `If-Match` may hold elsewhere.
fn if_match() -> Value {
    json!({
        "type": "string", "pattern": r#"^(\*|(W/)?"[^,"]*"(, *(W/)?"[^,"]*")*)$"#, "examples": ["\"7\""],
    })
}

//! What the routes of the admin API have in common, for the document.

use agent_core::ports::AdminError;
use agent_core::words::is_component_name;
use http::StatusCode;
use http::header::ETAG;
use serde_json::{Value, json};

use super::super::documented as variant_b;
use super::super::error::{AdminRefusal, Error};
use super::action_body::VersionChoice;
use crate::openapi::{Operation, Parameter, Refused};
use crate::request::{Field, Pattern, Request};

/// Every route of it: for administrators.
pub(super) fn administrators(operation: Operation) -> Operation {
    operation.wants_token(&["admin"]).refuses([Error::NotAdmin])
}

/// Describes an operation about the tools.
pub(super) fn of_tools(operation: Operation) -> Operation {
    administrators(operation)
        .refuses([Error::Admin(AdminError::NoStore), Error::Admin(AdminError::Unavailable(String::new()))])
}

/// Routes about one component.
pub(super) fn component(operation: Operation) -> Operation {
    let of_name = [Error::AdminRequest(AdminRefusal::Name), Error::Admin(AdminError::UnknownComponent)];
    operation.path(NAME).refuses(of_name)
}

const NAME: Field = Field::text("name")
    .like(&Pattern {
        is: is_component_name,
        fault: "",
        keywords: || json!({ "pattern": "^[A-Za-z0-9._-]{1,64}$", "not": { "enum": [".", ".."] } }),
    })
    .about("The component: its file without `.wasm`.")
    .example(|| json!("calculator"));

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
        .refuses([Error::AdminRequest(AdminRefusal::NoRevision)])
}

fn with_revision(operation: Operation, revision: Parameter) -> Operation {
    let refused = [AdminRefusal::IfMatch, AdminRefusal::Changed { revision: 7 }, AdminRefusal::NeverThere];
    let refused = refused.map(Error::AdminRequest);
    let of_tools = [
        Error::Admin(AdminError::Invalid("`share` is not a number above 0".to_owned())),
        Error::Admin(AdminError::UnknownVersion("There is no such version".to_owned())),
        Error::Admin(AdminError::Refused("The component cannot serve".to_owned())),
        Error::Admin(AdminError::Conflict("No version waits for an approval".to_owned())),
    ];
    component(operation)
        .parameter(revision)
        .refuses(refused)
        .refuses(of_tools)
        .refuses(variant_b::bodies())
        .refuses([Refused::issue(VersionChoice::OBJECT)])
        .header(StatusCode::OK, &ETAG)
}

/// A version that there is not.
pub(super) fn no_version() -> [Error; 2] {
    [
        Error::Admin(AdminError::UnknownVersion("There is no such version".to_owned())),
        Error::Admin(AdminError::Conflict("Nothing is proposed".to_owned())),
    ]
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

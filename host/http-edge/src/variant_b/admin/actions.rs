//! `POST /admin/tools/{name}/<verb>` and `DELETE /admin/tools/{name}`: changes that need no bytes of a
//! component.

use agent_core::ports::AdminAction;
use agent_core::words::TrialKind;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{MethodRouter, post};
use http::StatusCode;
use serde_json::Value;

use super::super::bodies::read_json;
use super::super::error::Error;
use super::action_body::{Approval, NoOptions, TrialRequest, VersionChoice};
use super::change::Change;
use super::component_body::{self, ComponentBody};
use super::documented;
use super::state::Shared;
use crate::body::Payload;
use crate::openapi::{Operation, tags};
use crate::request::{Issues, read};

/// What is done with a component, without the bytes of one.
#[derive(Clone, Copy)]
pub(super) struct Verb {
    /// The last part of its path.
    pub(super) name: &'static str,
    id: &'static str,
    summary: &'static str,
    /// True when its caller has to say which revision was read, because a second one, or one in another
    /// state, does something else. Trials begin, end and are promoted once: the second is refused.
    requires_revision: bool,
    describe_body: fn(Operation) -> Operation,
    read: fn(Value) -> Result<AdminAction, Issues>,
}

/// All of them. Where no version is named the component itself is meant: a digest would not be heeded.
pub(super) const VERBS: [Verb; 8] = [
    Verb {
        name: "approve",
        id: "approveVersion",
        summary: "Let a version serve that waits",
        requires_revision: true,
        describe_body: Operation::optional_body::<Approval>,
        read: |body| {
            read(body).map(|Approval { digest, facts, serve }| AdminAction::Approve { digest, facts, serve })
        },
    },
    Verb {
        name: "end-trial",
        id: "endTrial",
        summary: "End a trial; what serves stays",
        requires_revision: false,
        describe_body: Operation::optional_body::<NoOptions>,
        read: |body| read(body).map(|NoOptions {}| AdminAction::EndTrial),
    },
    Verb {
        name: "enable",
        id: "enableComponent",
        summary: "Have a component serve again",
        requires_revision: true,
        describe_body: Operation::optional_body::<NoOptions>,
        read: |body| read(body).map(|NoOptions {}| AdminAction::Enable),
    },
    Verb {
        name: "disable",
        id: "disableComponent",
        summary: "Have a component serve no longer",
        requires_revision: true,
        describe_body: Operation::optional_body::<NoOptions>,
        read: |body| read(body).map(|NoOptions {}| AdminAction::Disable),
    },
    Verb {
        name: "rollback",
        id: "rollBack",
        summary: "Have an earlier version serve",
        requires_revision: true,
        describe_body: Operation::optional_body::<VersionChoice>,
        read: |body| read(body).map(|VersionChoice { digest }| AdminAction::Rollback(digest)),
    },
    Verb {
        name: "shadow",
        id: "beginShadow",
        summary: "Try a version beside the calls of the one that serves",
        requires_revision: false,
        describe_body: Operation::optional_body::<TrialRequest>,
        read: |body| {
            read::<TrialRequest>(body).map(|trial| AdminAction::Try(TrialKind::Shadow, trial.into()))
        },
    },
    Verb {
        name: "canary",
        id: "beginCanary",
        summary: "Try a version on a share of the runs",
        requires_revision: false,
        describe_body: Operation::optional_body::<TrialRequest>,
        read: |body| {
            read::<TrialRequest>(body).map(|trial| AdminAction::Try(TrialKind::Canary, trial.into()))
        },
    },
    Verb {
        name: "promote",
        id: "promoteVersion",
        summary: "End a trial and have its version serve",
        requires_revision: false,
        describe_body: Operation::optional_body::<VersionChoice>,
        read: |body| read(body).map(|VersionChoice { digest }| AdminAction::Promote(digest)),
    },
];

impl Verb {
    /// `POST /admin/tools/{name}/<verb>`.
    pub(super) fn handler(self) -> MethodRouter<Shared> {
        post(move |admin: State<Shared>, change: Change, payload: Payload| async move {
            if self.requires_revision {
                change.require_revision()?;
            }
            act(admin, change, payload, self.read).await
        })
    }

    pub(super) fn describe(&self) -> Operation {
        let operation = Operation::new(self.id, tags::TOOLS, self.summary);
        let operation = if self.requires_revision {
            documented::change_of_what_was_read(operation)
        } else {
            documented::change(operation)
        };
        (self.describe_body)(operation)
            .answers::<ComponentBody<'static>>(StatusCode::OK, "The component after it")
    }
}

pub(super) fn describe_removal() -> Operation {
    let operation = Operation::new("removeComponent", tags::TOOLS, "Remove a component and all its versions");
    documented::change_of_what_was_read(operation)
        .optional_body::<NoOptions>()
        .answers::<ComponentBody<'static>>(StatusCode::OK, "What is left of it")
}

/// `DELETE /admin/tools/{name}`. A body that names a version is refused: all of them would be gone.
pub(super) async fn remove_component(
    admin: State<Shared>,
    change: Change,
    payload: Payload,
) -> Result<Response, Error> {
    change.require_revision()?;
    act(admin, change, payload, |body| read(body).map(|NoOptions {}| AdminAction::Delete)).await
}

/// Not cancellation-safe by itself: when the client goes away this is dropped, and what is behind the port
/// has to see to it that a change is made as a whole or not at all.
async fn act(
    State(admin): State<Shared>,
    change: Change,
    payload: Payload,
    read: impl FnOnce(Value) -> Result<AdminAction, Issues> + Send,
) -> Result<Response, Error> {
    let action = read(read_json(payload, &admin.settings).await?)?;
    change.note_digest(digest_of(&action));
    change.check_revision(&*admin.tools).await?;
    let view = admin.tools.act(change.name(), action, change.operator()).await?;
    Ok(component_body::answer(StatusCode::OK, &view, None))
}

/// The version that an action names.
fn digest_of(action: &AdminAction) -> Option<&str> {
    match action {
        AdminAction::Approve { digest, .. }
        | AdminAction::Rollback(digest)
        | AdminAction::Promote(digest) => digest.as_deref(),
        AdminAction::Try(_, trial) => trial.digest.as_deref(),
        AdminAction::EndTrial | AdminAction::Enable | AdminAction::Disable | AdminAction::Delete => None,
    }
}

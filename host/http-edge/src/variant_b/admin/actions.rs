//! `POST /admin/tools/{name}/<verb>` and `DELETE /admin/tools/{name}`: changes that need no bytes of a component.

use agent_core::ports::AdminAction;
use agent_core::words::TrialKind;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{MethodRouter, post};
use http::StatusCode;
use serde_json::Value;

use super::super::error::Error;
use super::super::schema;
use super::super::validation_issue::Issues;
use super::action_body::{
    approval_schema, digest_schema, nothing_schema, read_approval, read_digest, read_nothing, read_trial,
    trial_schema,
};
use super::change::Change;
use super::component_body::{self, ComponentBody};
use super::documented;
use super::state::Shared;
use crate::body::Payload;
use crate::openapi::{Operation, tags};

/// What is done with a component: the last part of the path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verb {
    Approve,
    Enable,
    Disable,
    Rollback,
    Shadow,
    Canary,
    EndTrial,
    Promote,
}

/// `POST /admin/tools/{name}/<verb>`.
pub(super) fn action(verb: Verb) -> MethodRouter<Shared> {
    post(move |admin: State<Shared>, change: Change, payload: Payload| async move {
        if verb.requires_revision() {
            change.require_revision()?;
        }
        act(admin, change, payload, move |body| verb.read(body)).await
    })
}

pub(super) fn describe_removal() -> Operation {
    let operation = Operation::new("removeComponent", tags::TOOLS, "Remove a component and all its versions");
    documented::change_of_what_was_read(operation)
        .optional_body(nothing_schema())
        .answers::<ComponentBody<'static>>(StatusCode::OK, "What is left of it")
}

/// `DELETE /admin/tools/{name}`. A body that names a version is refused: all of them would be gone.
pub(super) async fn remove_component(
    admin: State<Shared>,
    change: Change,
    payload: Payload,
) -> Result<Response, Error> {
    change.require_revision()?;
    act(admin, change, payload, |body| read_nothing(body).map(|()| AdminAction::Delete)).await
}

/// Not cancellation-safe by itself: when the client goes away this is dropped, and what is behind the port has to see to
/// it that a change is made as a whole or not at all.
async fn act(
    State(admin): State<Shared>,
    change: Change,
    payload: Payload,
    read: impl FnOnce(Value) -> Result<AdminAction, Issues> + Send,
) -> Result<Response, Error> {
    let body = schema::read_json(payload, &admin.settings).await?;
    let action = read(body)?;
    change.note_digest(digest_of(&action));
    change.check_revision(&*admin.tools).await?;
    let view = admin.tools.act(change.name(), action, change.operator()).await?;
    Ok(component_body::answer(StatusCode::OK, &view, None))
}

impl Verb {
    /// All of them.
    pub(super) const ALL: [Self; 8] = [
        Self::Approve,
        Self::EndTrial,
        Self::Enable,
        Self::Disable,
        Self::Rollback,
        Self::Shadow,
        Self::Canary,
        Self::Promote,
    ];

    /// The last part of its path.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::EndTrial => "end-trial",
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Rollback => "rollback",
            Self::Shadow => "shadow",
            Self::Canary => "canary",
            Self::Promote => "promote",
        }
    }

    /// True when its caller has to say which revision was read, because a second one, or one in another
    /// state, does something else. Trials begin, end and are promoted once: the second is refused.
    fn requires_revision(self) -> bool {
        match self {
            Self::Approve | Self::Enable | Self::Disable | Self::Rollback => true,
            Self::Shadow | Self::Canary | Self::EndTrial | Self::Promote => false,
        }
    }

    pub(super) fn describe(self) -> Operation {
        let (id, summary, body) = match self {
            Self::Approve => ("approveVersion", "Let a version serve that waits", approval_schema()),
            Self::EndTrial => ("endTrial", "End a trial; what serves stays", nothing_schema()),
            Self::Enable => ("enableComponent", "Have a component serve again", nothing_schema()),
            Self::Disable => ("disableComponent", "Have a component serve no longer", nothing_schema()),
            Self::Rollback => ("rollBack", "Have an earlier version serve", digest_schema()),
            Self::Shadow => {
                ("beginShadow", "Try a version beside the calls of the one that serves", trial_schema())
            }
            Self::Canary => ("beginCanary", "Try a version on a share of the runs", trial_schema()),
            Self::Promote => ("promoteVersion", "End a trial and have its version serve", digest_schema()),
        };
        let operation = Operation::new(id, tags::TOOLS, summary);
        let operation = if self.requires_revision() {
            documented::change_of_what_was_read(operation)
        } else {
            documented::change(operation)
        };
        operation
            .optional_body(body)
            .answers::<ComponentBody<'static>>(StatusCode::OK, "The component after it")
    }

    fn read(self, body: Value) -> Result<AdminAction, Issues> {
        Ok(match self {
            Self::Approve => {
                let (digest, facts, serve) = read_approval(body)?;
                AdminAction::Approve { digest, facts, serve }
            }
            Self::Rollback => AdminAction::Rollback(read_digest(body)?),
            Self::Promote => AdminAction::Promote(read_digest(body)?),
            Self::Shadow => AdminAction::Try(TrialKind::Shadow, read_trial(body)?),
            Self::Canary => AdminAction::Try(TrialKind::Canary, read_trial(body)?),
            // These are about the component: a digest would not be heeded.
            Self::EndTrial => read_nothing(body).map(|()| AdminAction::EndTrial)?,
            Self::Enable => read_nothing(body).map(|()| AdminAction::Enable)?,
            Self::Disable => read_nothing(body).map(|()| AdminAction::Disable)?,
        })
    }
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

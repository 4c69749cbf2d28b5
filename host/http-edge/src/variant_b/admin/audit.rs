//! The audit line: one log entry for every request that changes something, or was to, whatever became of it:
//! who, what, which component, run or job, which version, with which outcome. It stands beside the trail that
//! the store keeps, which knows only what was done.
//!
//! | outcome | when |
//! |---|---|
//! | `done` | the answer has a 2xx |
//! | `refused` | a 4xx: no token, no role, a full window, a component that cannot serve, … |
//! | `failed` | a 5xx |
//! | `replayed` | the answer of an earlier request with the same `Idempotency-Key`, which has a line of its own |
//! | `unknown` | the client went away before there was an answer: the store's trail knows |

use std::sync::{Arc, OnceLock};

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::{Extensions, Method, StatusCode};

use crate::answer::Failure;
use crate::middleware::idempotency::REPLAYED;
use crate::middleware::log_text::LogText;
use crate::middleware::request_id::RequestId;
use crate::middleware::request_log::RequestUser;

/// What a log filter names to pick these lines.
const TARGET: &str = "http_edge::audit";

/// Writes the line of a request that is a change.
pub(super) async fn log_change(mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
    let about = About::of(route);
    let action = action_of(request.method(), route).map(str::to_owned);
    let Some(action) = action else { return next.run(request).await };
    let note = AuditNote::default();
    request.extensions_mut().insert(note.clone());
    let mut line = AuditLine {
        action,
        about,
        name: request.uri().path().split('/').nth(2).unwrap_or_default().to_owned(),
        user: request.extensions().get().cloned().unwrap_or_default(),
        request_id: request.extensions().get().cloned(),
        note,
        is_written: false,
    };
    let answer = next.run(request).await;
    line.end(&answer);
    answer
}

/// What a change is about, by the field that names it in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    Component,
    Run,
    Job,
}

impl About {
    fn of(route: &str) -> Self {
        match route {
            _ if route.contains("/{run_id}") => Self::Run,
            _ if route.contains("/{job_id}") => Self::Job,
            _ => Self::Component,
        }
    }
}

/// What a route does, if it changes something: the last part of its path, or what its method means for a
/// component.
fn action_of<'a>(method: &Method, route: &'a str) -> Option<&'a str> {
    match (method, route.rsplit('/').next()?) {
        (&Method::PUT, "{name}") => Some("upload"),
        (&Method::DELETE, "{name}") => Some("delete"),
        (&Method::POST, verb)
            if ["/{name}/", "/{run_id}/", "/{job_id}/"].iter().any(|of| route.contains(of)) =>
        {
            Some(verb)
        }
        _ => None,
    }
}

/// What a handler adds to the line of its request: an extension of the request.
#[derive(Debug, Clone, Default)]
pub(super) struct AuditNote(Arc<OnceLock<String>>);

impl AuditNote {
    /// The note of a request.
    pub(super) fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// The digest of the version that the change is about. Only the first call counts.
    pub(super) fn set_digest(&self, digest: &str) {
        let _known_before = self.0.set(digest.to_owned());
    }
}

/// The line of a change that has no answer yet. Dropping it means that there will be none.
struct AuditLine {
    action: String,
    about: About,
    /// As the path has it: it may be no name at all.
    name: String,
    user: RequestUser,
    request_id: Option<RequestId>,
    note: AuditNote,
    is_written: bool,
}

impl AuditLine {
    fn end(&mut self, answer: &Response) {
        let status = answer.status();
        let outcome = match status {
            _ if answer.headers().contains_key(REPLAYED) => "replayed",
            _ if status.is_success() => "done",
            _ if status.is_server_error() => "failed",
            _ => "refused",
        };
        self.write(outcome, Some(status), answer.extensions().get());
    }

    fn write(&mut self, outcome: &str, status: Option<StatusCode>, error: Option<&Failure>) {
        use tracing::field::display;

        self.is_written = true;
        let action = &self.action;
        let name = LogText { text: &self.name, limit: 192 };
        let [component, run_id, job_id] = [About::Component, About::Run, About::Job]
            .map(|about| (about == self.about).then(|| display(LogText { text: &self.name, limit: 192 })));
        let user_id = self.user.get().map(|text| display(LogText { text, limit: 256 }));
        let digest = self.note.0.get().map(|text| display(LogText { text, limit: 128 }));
        let status = status.map(|status| status.as_u16());
        let error = error.map(|text| display(LogText { text, limit: 4096 }));
        let request_id = self.request_id.as_ref().map(display);
        tracing::info!(
            target: TARGET,
            user_id, action, component, run_id, job_id, digest, outcome, status, request_id, error,
            "{action} of {name}: {outcome}"
        );
    }
}

impl Drop for AuditLine {
    fn drop(&mut self) {
        if !self.is_written {
            self.write("unknown", None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_has_a_name_and_nothing_else_has() {
        for (method, route, action) in [
            (Method::PUT, "/admin/tools/{name}", Some("upload")),
            (Method::DELETE, "/admin/tools/{name}", Some("delete")),
            (Method::POST, "/admin/tools/{name}/rollback", Some("rollback")),
            (Method::POST, "/admin/tools/{name}", None),
            (Method::GET, "/admin/tools/{name}", None),
            (Method::HEAD, "/admin/tools/{name}/audit", None),
            (Method::OPTIONS, "/admin/tools/{name}/rollback", None),
            (Method::PUT, "/admin/tools", None),
            (Method::POST, "/admin/runs/{run_id}/cancel", Some("cancel")),
            (Method::POST, "/admin/jobs/{job_id}/retry", Some("retry")),
            (Method::GET, "/admin/jobs/{job_id}", None),
            (Method::GET, "/admin/runs/{run_id}/events", None),
            (Method::POST, "", None),
        ] {
            assert_eq!(action_of(&method, route), action, "{method} {route}");
        }
    }
}

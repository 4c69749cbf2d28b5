//! Variant B's error table: what a client is told of what goes wrong.
//!
//! Handlers and middlewares return an [`Error`]; [`render()`] gives it its body in one place, which knows
//! whether this is production. Two errors of the interface (host/docs/interface/errors-and-limits.md#errors)
//! are missing, because nothing here raises them: `UnauthorizedError` (a missing token is the 401 with an
//! empty body) and, beside the body that is not JSON, `ValidationError` (the schema's 400 has a list). What
//! only the admin API, MCP or clients of OpenAI are refused for has its texts in a file of its own here.

mod admin_refusal;
mod answer;
mod mcp_refusal;
pub mod openai_problem;
mod render;
#[cfg(test)]
mod tests;
mod wait_refusal;

use std::borrow::Cow;
use std::time::Duration;

use agent_core::error_chain::ErrorChain;
use agent_core::ports::{
    AdminError, CacheError, ClusterError, JournalError, ModelError, QueueError, WebhookError,
};
use http::header::{ACCEPT_ENCODING, ETAG, RETRY_AFTER, UPGRADE};
use http::{HeaderValue, StatusCode};
use run_service::conversations::ConversationRefusal;
use run_service::jobs::NotRetried;
use run_service::layers::InvokeError;
use run_service::loop_driver::RunError;
use serde_json::{Value, json};

pub(super) use self::admin_refusal::AdminRefusal;
use self::answer::{Body, ErrorAnswer, TOO_MANY};
pub use self::answer::{UNAVAILABLE, retry_after_seconds};
pub(super) use self::mcp_refusal::McpRefusal;
use self::openai_problem as problem;
pub use self::openai_problem::Problem;
pub use self::render::{Render, refuse_openai, render, render_openai};
pub use self::wait_refusal::WaitRefusal;
use crate::answer as answers;
use crate::body::{ACCEPTED_CODINGS, BodyError};
use crate::json::JsonError;
use crate::middleware::idempotency;
use crate::openapi::{Refused, RefusedBody};
use crate::request::{Issue, Issues, Step, dotted};
use crate::tokens::TokenError;

/// Everything that can go wrong in a route of Variant B.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the address has sent too many requests")]
    AddressLimited { retry_after: Duration },
    #[error("there is no token")]
    NoToken,
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The token is not accepted, where the protocol has 401 for it.
    #[error(transparent)]
    TokenRejected(TokenError),
    #[error("the user has sent too many requests")]
    UserLimited { retry_after: Duration },
    #[error("the user is no administrator")]
    NotAdmin,
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error(transparent)]
    Schema(#[from] Issues),
    #[error(transparent)]
    Invoke(#[from] InvokeError),
    /// An [`InvokeError`] of a route whose every failure is a 500 with a message
    /// (host/docs/interface/endpoints.md#variant-b).
    #[error(transparent)]
    Serverless(InvokeError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error("the user has no such job")]
    UnknownJob,
    #[error("the job had ended")]
    JobHadEnded,
    #[error("the job has not failed")]
    JobNotFailed,
    #[error("the job is a run that job {parent} began")]
    JobOfChildRun {
        /// The job of the run that began it.
        parent: String,
    },
    #[error("the job is held by a worker that cannot be told, or belongs to a job scheduler")]
    JobOutOfReach,
    #[error("the user has no such conversation")]
    UnknownConversation,
    #[error("the user has no such run")]
    UnknownRun,
    #[error("the run had ended")]
    RunHadEnded,
    #[error("nobody knows who carries the run, or its owner is just beginning or appending")]
    RunOutOfReach,
    #[error("the user has too many streams")]
    TooManyStreams,
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// What an administrator asked for cannot be done.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// What an administrator asked for in a way that cannot be.
    #[error(transparent)]
    AdminRequest(#[from] AdminRefusal),
    #[error(transparent)]
    Mcp(#[from] McpRefusal),
    #[error(transparent)]
    Idempotency(idempotency::Refusal),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error("the webhook is still on its way")]
    WebhookOnItsWay,
    #[error(transparent)]
    Wait(#[from] WaitRefusal),
    /// What a client of OpenAI asked for and cannot be.
    #[error(transparent)]
    OpenAi(#[from] Problem),
}

impl From<NotRetried> for Error {
    fn from(refusal: NotRetried) -> Self {
        match refusal {
            NotRetried::Unknown => Self::UnknownJob,
            NotRetried::NotFailed => Self::JobNotFailed,
            NotRetried::ChildRun { parent } => Self::JobOfChildRun { parent },
            NotRetried::Queue(error) => Self::Queue(error),
            NotRetried::Webhook(error) => Self::Webhook(error),
        }
    }
}

impl From<JournalError> for Error {
    fn from(error: JournalError) -> Self {
        match error {
            // Coming back later does not mend it.
            JournalError::Damaged { .. } => Self::Invoke(RunError::Journal(error).into()),
            error => Self::Queue(QueueError::Store { detail: error.to_string() }),
        }
    }
}

impl From<idempotency::Refusal> for Error {
    fn from(refusal: idempotency::Refusal) -> Self {
        match refusal {
            idempotency::Refusal::Body(error) => Self::Body(error),
            refusal => Self::Idempotency(refusal),
        }
    }
}

pub const RATE_LIMITED: &str = "Rate limit exceeded";

/// What the empty 401 and 403 say to clients that read headers (RFC 6750, section 3).
const TOKEN_NEEDED: HeaderValue = HeaderValue::from_static(r#"Bearer realm="agent-host""#);
const TOKEN_INVALID: HeaderValue =
    HeaderValue::from_static(r#"Bearer realm="agent-host", error="invalid_token""#);

/// What is said of a body that cannot be read (host/docs/interface/errors-and-limits.md#errors).
const INVALID_INPUT: &str = "Invalid input";

/// What is said of a body that is too large, as it is or for what is in it
/// (host/docs/interface/decisions-http.md#bodies).
const TOO_LARGE: &str = "Payload too large";

/// When to try again what fails for reasons that nobody knows the end of.
const SOON: Duration = Duration::from_secs(1);

/// When to try again what is refused with that status, where no more is known.
fn soon(status: StatusCode) -> Option<Duration> {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE).then_some(SOON)
}

impl Error {
    /// The table. It has no catch-all arm, so that whoever adds an error has to decide what clients see of
    /// it.
    fn answer(&self, production: bool) -> ErrorAnswer<'_> {
        let text = ErrorAnswer::text;
        match self {
            Self::AddressLimited { retry_after } => {
                ErrorAnswer::new(StatusCode::TOO_MANY_REQUESTS, Body::Page(TOO_MANY))
                    .after(Some(*retry_after))
            }
            Self::NoToken => ErrorAnswer::challenging(StatusCode::UNAUTHORIZED, TOKEN_NEEDED),
            Self::Token(
                TokenError::Forged
                | TokenError::Malformed
                | TokenError::NotATime(_)
                | TokenError::Expired
                | TokenError::NotYet
                | TokenError::Nobody,
            ) => ErrorAnswer::challenging(StatusCode::FORBIDDEN, TOKEN_INVALID),
            Self::TokenRejected(_) => ErrorAnswer::challenging(StatusCode::UNAUTHORIZED, TOKEN_INVALID),
            Self::UserLimited { retry_after } => {
                text(StatusCode::TOO_MANY_REQUESTS, RATE_LIMITED).after(Some(*retry_after))
            }
            Self::NotAdmin => text(StatusCode::FORBIDDEN, "Forbidden"),
            Self::Body(error) => Self::body_refused(error),
            Self::Json(error) => Self::json_refused(error),
            Self::Schema(issues) => Self::invalid(issues.0.as_slice()),
            Self::Invoke(error) => self.agent_failed(error, production),
            Self::Serverless(InvokeError::Waits { job_id }) => ErrorAnswer::parked(job_id),
            // The outermost text alone: what is below it quotes a provider.
            Self::Serverless(
                error @ (InvokeError::Run(_)
                | InvokeError::TimedOut { .. }
                | InvokeError::Busy { .. }
                | InvokeError::CircuitOpen { .. }
                | InvokeError::Stopping
                | InvokeError::ToolsNotPrepared { .. }
                // The body of a serverless request has no options, and the request is counted before.
                | InvokeError::UnknownTools { .. }
                | InvokeError::Conversation(_)
                | InvokeError::OverLimit),
            ) => ErrorAnswer::new(StatusCode::INTERNAL_SERVER_ERROR, Body::Text(error.to_string().into())),
            Self::Queue(QueueError::Store { .. }) | Self::Cache(_) | Self::Cluster(_) | Self::Webhook(_) => {
                ErrorAnswer::unavailable(SOON)
            }
            Self::Queue(QueueError::BadCursor) => Self::invalid(vec![Issue::bad_cursor()]),
            // Callers hold no leases.
            Self::Queue(QueueError::LeaseLost { .. }) => self.internal(production),
            Self::UnknownJob | Self::UnknownRun | Self::UnknownConversation => text(StatusCode::NOT_FOUND, "Not found"),
            Self::RunHadEnded => text(StatusCode::CONFLICT, "The run has already ended"),
            Self::RunOutOfReach => text(StatusCode::CONFLICT, "The run cannot be cancelled at this moment").after(Some(SOON)),
            Self::WebhookOnItsWay => text(StatusCode::CONFLICT, "The webhook is still on its way"),
            Self::JobHadEnded => text(StatusCode::CONFLICT, "The job has already ended"),
            Self::JobNotFailed => text(StatusCode::CONFLICT, "Only a job that failed can be tried again"),
            Self::JobOfChildRun { parent } => Self::child_run_not_retried(parent),
            Self::JobOutOfReach => text(StatusCode::CONFLICT, "The job cannot be cancelled here"),
            Self::TooManyStreams => text(StatusCode::TOO_MANY_REQUESTS, "Too many streams").after(Some(SOON)),
            Self::Idempotency(refusal) => self.key_refused(refusal, production),
            Self::Admin(error) => Self::admin_failed(error),
            Self::AdminRequest(refusal) => Self::admin_refused(refusal),
            Self::Mcp(McpRefusal::Unanswered) => self.internal(production),
            Self::Mcp(refusal) => {
                ErrorAnswer { header: refusal.header(), ..ErrorAnswer::quoting(refusal.status(), refusal) }
            }
            Self::Wait(refusal) => ErrorAnswer::quoting(refusal.status(), refusal),
            Self::OpenAi(problem) => Self::openai_refused(problem),
        }
    }

    fn invalid<'a>(issues: impl Into<Cow<'a, [Issue]>>) -> ErrorAnswer<'a> {
        ErrorAnswer::new(StatusCode::BAD_REQUEST, Body::Issues(issues.into()))
    }

    fn child_run_not_retried(parent: &str) -> ErrorAnswer<'static> {
        let text = format!("The job is a run that job {parent} began: retry that one, if it failed");
        ErrorAnswer::quoting(StatusCode::CONFLICT, &text)
    }

    fn openai_refused(problem: &Problem) -> ErrorAnswer<'_> {
        let upgrade = (UPGRADE, HeaderValue::from_static("websocket"));
        let header = (problem.status() == StatusCode::UPGRADE_REQUIRED).then_some(upgrade);
        let answer = ErrorAnswer::new(problem.status(), Body::Quoting(problem.message().into()));
        ErrorAnswer { header, ..answer }.after(soon(problem.status()))
    }

    fn json_refused(error: &JsonError) -> ErrorAnswer<'_> {
        match error {
            JsonError::Syntax { .. } => ErrorAnswer::text(StatusCode::BAD_REQUEST, INVALID_INPUT),
            JsonError::TooLarge(_) => ErrorAnswer::text(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE),
        }
    }

    fn body_refused(error: &BodyError) -> ErrorAnswer<'_> {
        let text = ErrorAnswer::text;
        match error {
            BodyError::TooLarge { .. } => text(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE),
            BodyError::TooSlow { .. } => text(StatusCode::REQUEST_TIMEOUT, "Request timeout"),
            BodyError::UnknownCoding => {
                let header = Some((ACCEPT_ENCODING, ACCEPTED_CODINGS));
                ErrorAnswer {
                    header,
                    ..text(StatusCode::UNSUPPORTED_MEDIA_TYPE, answers::UNSUPPORTED_CODING)
                }
            }
            BodyError::Broken(_) | BodyError::Undecodable(_) => text(StatusCode::BAD_REQUEST, INVALID_INPUT),
        }
    }

    /// Status and body for a failure that is told within an answer, not by one.
    pub fn status_and_body(&self, production: bool) -> (StatusCode, Value) {
        let answer = self.answer(production);
        let error = match answer.body {
            Body::Empty => Value::Null,
            Body::Page(text) => text.into(),
            Body::Text(text) => text.into(),
            Body::Quoting(text) => text.into(),
            Body::Issues(issues) => serde_json::to_value(&*issues).unwrap_or_default(),
            Body::Job(job_id) => return (answer.status, json!({ "jobId": job_id })),
        };
        (answer.status, json!({ "error": error }))
    }

    /// When its client is to come back, where the error passes by itself.
    pub fn retry_after(&self) -> Option<Duration> {
        self.answer(true).retry_after
    }

    /// Renders the error for a client of OpenAI, in the form that it reads. Whatever is wrong with a token is
    /// a 401 there.
    pub fn openai(&self, production: bool) -> (StatusCode, Value) {
        let ErrorAnswer { status, body, .. } = self.answer(production);
        let (status, text): (_, Cow<'_, str>) = match (self, body) {
            (Self::OpenAi(problem), _) => return problem.rendered(),
            (
                Self::Invoke(InvokeError::Run(RunError::Model(ModelError::RefusedFunctions {
                    functions,
                    ..
                }))),
                _,
            ) => {
                return (status, Problem::refused_functions(functions).body());
            }
            (Self::Invoke(InvokeError::Run(RunError::Model(ModelError::TooLong { .. }))), _) => {
                return Problem::too_long().rendered();
            }
            (Self::NoToken, _) => (
                StatusCode::UNAUTHORIZED,
                "There is no token: send it as API key, in the header 'Authorization: Bearer …'".into(),
            ),
            (Self::Token(_), _) => {
                (StatusCode::UNAUTHORIZED, "The token that was sent as API key is not valid".into())
            }
            (_, Body::Page(text)) => (status, text.into()),
            (_, Body::Text(text)) => (status, text),
            (_, Body::Quoting(text)) => (status, text),
            // Only query strings are read by a schema of ours.
            (_, Body::Issues(issues)) => {
                let Some(issue) = issues.first() else { return Problem::no_object().rendered() };
                return Problem::invalid(dotted(issue.path()), &format!("{}.", issue.message())).rendered();
            }
            // Said as a reply of the agent (`run/waiting.rs` of the crate `openai-edge`).
            (_, Body::Job(job_id)) => (status, format!("The job {job_id} goes on with it").into()),
            (_, Body::Empty) => (status, status.canonical_reason().unwrap_or_default().into()),
        };
        (status, problem::body(status, &text, None, problem::code_of(status)))
    }

    /// What is said of it in the document: what a client gets in production.
    pub fn refused(&self) -> Refused {
        let ErrorAnswer { status, body, retry_after, header } = self.answer(true);
        let body = match body {
            Body::Empty => RefusedBody::Empty,
            Body::Page(text) => RefusedBody::Page(text),
            Body::Text(text) => RefusedBody::Text(text.into_owned()),
            Body::Quoting(text) => RefusedBody::Text(text.into_owned()),
            // Routes describe it among their answers.
            Body::Job(_) => RefusedBody::Empty,
            // Issues are always JSON.
            Body::Issues(issues) => RefusedBody::Issues(serde_json::to_value(&*issues).unwrap_or_default()),
        };
        let tag = matches!(body, RefusedBody::Page(_)).then_some(ETAG);
        let headers = retry_after.map(|_| RETRY_AFTER).into_iter().chain(header.map(|(name, _)| name));
        Refused { status, body, headers: headers.chain(tag).collect() }
    }

    /// The part of the table that is about looking after the tools. Administrators are told what is wrong.
    fn admin_failed(error: &AdminError) -> ErrorAnswer<'_> {
        let quoting = |status| ErrorAnswer::quoting(status, error);
        match error {
            AdminError::UnknownComponent | AdminError::UnknownVersion(_) => quoting(StatusCode::NOT_FOUND),
            AdminError::Invalid(_) => quoting(StatusCode::BAD_REQUEST),
            AdminError::Changed { .. } => quoting(StatusCode::PRECONDITION_FAILED),
            AdminError::Refused(_) => quoting(StatusCode::UNPROCESSABLE_ENTITY),
            // Coming back later does not make a store.
            AdminError::Conflict(_) | AdminError::NoStore => quoting(StatusCode::CONFLICT),
            AdminError::Unavailable(_) => ErrorAnswer::unavailable(SOON),
        }
    }

    /// The part of the table that is about how an administrator asks.
    fn admin_refused(refusal: &AdminRefusal) -> ErrorAnswer<'_> {
        let retry_after = matches!(refusal, AdminRefusal::Busy).then_some(SOON);
        let answer =
            ErrorAnswer { header: refusal.header(), ..ErrorAnswer::quoting(refusal.status(), refusal) };
        answer.after(retry_after)
    }

    /// The part of the table that is about idempotency keys.
    fn key_refused(&self, refusal: &idempotency::Refusal, production: bool) -> ErrorAnswer<'_> {
        match refusal.status_and_text() {
            Some((status, text)) => {
                ErrorAnswer::text(status, text).after(refusal.may_be_tried_again().then_some(SOON))
            }
            None => self.internal(production),
        }
    }

    /// The part of the table that is about the agent.
    fn agent_failed<'a>(&'a self, error: &'a InvokeError, production: bool) -> ErrorAnswer<'a> {
        match error {
            InvokeError::Run(RunError::Model(ModelError::RateLimited { retry_after, .. })) => {
                ErrorAnswer::text(StatusCode::TOO_MANY_REQUESTS, RATE_LIMITED)
                    .after(Some(retry_after.unwrap_or(SOON)))
            }
            // Only clients of OpenAI bring functions along.
            InvokeError::Run(RunError::Model(ModelError::RefusedFunctions { functions, .. })) => {
                let problem = Problem::refused_functions(functions);
                ErrorAnswer::new(problem.status(), Body::Quoting(problem.message().to_owned().into()))
            }
            InvokeError::Run(
                RunError::Model(
                    ModelError::Timeout { .. }
                    | ModelError::Unreachable { .. }
                    | ModelError::Unavailable { .. }
                    | ModelError::Refused { .. }
                    // Clients of OpenAI are told.
                    | ModelError::TooLong { .. }
                    | ModelError::Malformed { .. },
                )
                | RunError::Journal(_)
                | RunError::Driver(_)
                // Only jobs are stopped or taken up again.
                | RunError::Stopped
                | RunError::Parked { .. }
                | RunError::Stuck { .. }
                | RunError::Panicked,
            ) => self.internal(production),
            InvokeError::TimedOut { retry_after, .. } => ErrorAnswer::unavailable(retry_after.unwrap_or(SOON)),
            InvokeError::Busy { .. } | InvokeError::Stopping | InvokeError::ToolsNotPrepared { .. } => {
                ErrorAnswer::unavailable(SOON)
            }
            InvokeError::Waits { job_id } => ErrorAnswer::parked(job_id),
            // `rate_limit` answers in its place, with the window that is full.
            InvokeError::OverLimit => ErrorAnswer::text(StatusCode::TOO_MANY_REQUESTS, RATE_LIMITED),
            InvokeError::CircuitOpen { retry_after } => ErrorAnswer::unavailable(*retry_after),
            InvokeError::Conversation(refusal) => self.conversation_refused(refusal, production),
            InvokeError::UnknownTools { indexes } => {
                // Whether it is somebody else's tool is not said.
                let at = |index: &usize| [Step::Name("options"), Step::Name("tools"), Step::Index(*index)];
                let issue = |index| Issue::custom("Unknown tool", at(index).to_vec());
                Self::invalid(indexes.iter().map(issue).collect::<Vec<_>>())
            }
        }
    }

    /// The part of the table that is about conversations.
    fn conversation_refused(&self, refusal: &ConversationRefusal, production: bool) -> ErrorAnswer<'_> {
        let conflict = |text| ErrorAnswer::text(StatusCode::CONFLICT, text);
        match refusal {
            ConversationRefusal::Busy => conflict("The conversation is busy").after(Some(SOON)),
            // Whoever asks again goes on from there.
            ConversationRefusal::Changed => {
                conflict("The conversation was gone on with meanwhile").after(Some(SOON))
            }
            ConversationRefusal::TooMany => conflict("Too many conversations: delete one"),
            ConversationRefusal::Store(_) => ErrorAnswer::unavailable(SOON),
            ConversationRefusal::Unreadable(_) => self.internal(production),
        }
    }

    /// "500 | Variant B: any other error" (host/docs/interface/errors-and-limits.md#errors).
    fn internal(&self, production: bool) -> ErrorAnswer<'_> {
        let text = match production {
            true => answers::INTERNAL_ERROR.into(),
            false => ErrorChain(self).to_string().into(),
        };
        ErrorAnswer::new(StatusCode::INTERNAL_SERVER_ERROR, Body::Text(text))
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        error.refused()
    }
}

//! Calls that wait for somebody, as the protocol has them: a task (`io.modelcontextprotocol/tasks`), an
//! answer that asks the client's user and is followed by the call once more, or a sentence. All three show
//! one wait, which is decided here as it is by `/api/agent/waits`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::words::{Principal, Verdict, Wait, WaitKind};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, DetailedTask,
    ErrorData, GetTaskResult, InputRequiredResult, InputResponses, JsonObject, MetaObject, ProtocolVersion,
    Task, TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;
use run_service::direct_calls::{CallRun, CallState, WaitingCalls};
use run_service::runs::moment;
use run_service::waits::{JobWait, NotDecided, ProposedDecision, WaitError};
use serde_json::{Value, json};

use crate::request_state::{RequestStates, ShownWait};
use crate::{forms, listing};

/// How long an answer is held back while a worker makes the call.
const HOLD: Duration = Duration::from_secs(8);

/// How often clients are to ask, which counts in their windows.
const POLL_MS: u64 = 5_000;

/// The member of `_meta` that names the job which goes on with a call.
const JOB: &str = "agent-host/jobId";

/// What a client can do with a call that waits, as its request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Abilities {
    tasks: bool,
    /// Whether it asks its user, by a form.
    asks: bool,
}

impl Abilities {
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        // Both are of that version; earlier ones had other tasks.
        let is_new = |version: ProtocolVersion| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str();
        if !context.protocol_version().is_some_and(is_new) {
            return Self { tasks: false, asks: false };
        }
        let client = context.client_capabilities().unwrap_or_default();
        let tasks = client.supports_tasks();
        // One that names no mode has forms.
        let asks = client.elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        Self { tasks, asks }
    }
}

/// The waiting calls of one client.
pub(crate) struct ClientCalls<'a> {
    pub(crate) waiting: &'a WaitingCalls,
    pub(crate) caller: &'a Principal,
    pub(crate) states: &'a RequestStates,
    pub(crate) client: Abilities,
}

impl ClientCalls<'_> {
    /// What is answered to a call whose run has just begun to wait.
    pub(crate) async fn begun(
        &self,
        call: &CallToolRequestParams,
        job_id: &str,
    ) -> Result<CallToolResponse, ErrorData> {
        let run = self.read(job_id, Duration::ZERO).await?;
        self.answer(call, &run, None)
    }

    /// Goes on with a call that its client repeats with what its user has said.
    pub(crate) async fn go_on(
        &self,
        call: &CallToolRequestParams,
        state: &str,
    ) -> Result<CallToolResponse, ErrorData> {
        let shown = self.states.open(self.caller, call, state).ok_or_else(unknown_state)?;
        let job_id = Wait::job_of(&shown.wait).ok_or_else(unknown_state)?;
        let response = call.input_responses.as_ref().and_then(|responses| responses.get(&shown.wait));
        let mut is_left_open = false;
        if let Some(response) = response
            && let CallState::Waits(wait) = self.read(job_id, Duration::ZERO).await?.state
            && wait.id == shown.wait
        {
            match forms::verdict(&wait.open.wait, response)? {
                Some(verdict) => self.decide(&shown.wait, &shown.digest, verdict).await?,
                None => is_left_open = true,
            }
        }
        let run = self.read(job_id, HOLD).await?;
        match &run.state {
            // The user was asked and has said nothing: they are not asked once more.
            CallState::Waits(wait) if is_left_open => Ok(sentence(&run, Some(wait)).into()),
            _ => self.answer(call, &run, Some(&shown)),
        }
    }

    /// The task of a job, as it stands by now.
    pub(crate) async fn task(&self, id: &str) -> Result<GetTaskResult, ErrorData> {
        let run = self.read(id, HOLD).await?;
        Ok(GetTaskResult::new(self.detailed(&run)))
    }

    /// Takes what the client's user has said. What is not waited for any more is left aside.
    pub(crate) async fn update(&self, id: &str, responses: &InputResponses) -> Result<(), ErrorData> {
        let run = self.read(id, Duration::ZERO).await?;
        let CallState::Waits(wait) = &run.state else { return Ok(()) };
        let Some(response) = responses.get(&wait.id) else { return Ok(()) };
        match forms::verdict(&wait.open.wait, response)? {
            Some(verdict) => self.decide(&wait.id, &wait.open.wait.shown.digest(), verdict).await,
            None => Ok(()),
        }
    }

    pub(crate) async fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        let run = self.read(id, Duration::ZERO).await?;
        self.waiting.cancel(self.user_id(), &run.job.id).await.map_err(|error| unavailable(&error))
    }

    async fn read(&self, job_id: &str, within: Duration) -> Result<CallRun, ErrorData> {
        let read = self.waiting.read(self.user_id(), job_id, within).await;
        let found = read.map_err(|error| unavailable(&error))?;
        found.ok_or_else(|| ErrorData::invalid_params("there is no such task", None))
    }

    fn user_id(&self) -> &str {
        self.caller.user_id.as_deref().unwrap_or_default()
    }

    /// Decides a wait. Somebody may have been first, or something else is to be decided by now: what follows
    /// says that.
    async fn decide(&self, wait: &str, digest: &str, verdict: Verdict) -> Result<(), ErrorData> {
        let proposed = ProposedDecision { by: self.caller.clone(), shown: digest.to_owned(), verdict };
        match self.waiting.decide(wait, &proposed).await {
            Ok(_)
            | Err(
                NotDecided::Unknown
                | NotDecided::Already(_)
                | NotDecided::Twice
                | NotDecided::NotWaiting
                | NotDecided::Outdated(_)
                | NotDecided::Void(_),
            ) => Ok(()),
            Err(NotDecided::Failed(error)) => Err(unavailable(&error)),
            Err(
                refused @ (NotDecided::NotYours
                | NotDecided::BadArguments(_)
                | NotDecided::NotEditable
                | NotDecided::OtherDecision(_)),
            ) => Err(ErrorData::invalid_params(refused.to_string(), None)),
        }
    }

    /// The answer to a call that became a run, as far as that has got. `shown` is what the client has carried
    /// here.
    fn answer(
        &self,
        call: &CallToolRequestParams,
        run: &CallRun,
        shown: Option<&ShownWait>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.client.tasks {
            return Ok(CreateTaskResult::new(self.detailed(run).task).into());
        }
        match &run.state {
            CallState::Answered(answer) => listing::answer(answer.clone()).map(CallToolResponse::from),
            CallState::Failed(why) => Err(ErrorData::internal_error(why.clone(), None)),
            CallState::Cancelled => Ok(error("Error: the call was cancelled before it was made.").into()),
            CallState::Waits(wait) if self.asks_about(wait) => {
                let until = UNIX_EPOCH + Duration::from_millis(wait.open.wait.expires_at);
                let left = until.duration_since(SystemTime::now()).unwrap_or_default();
                let state = self.states.seal(self.caller, call, &ShownWait::of(wait), left);
                Ok(InputRequiredResult::new(Some(forms::questions(wait)), Some(state)).into())
            }
            CallState::Waits(wait) => Ok(sentence(run, Some(wait)).into()),
            // The client comes again for the answer.
            CallState::Working => Ok(match shown {
                Some(shown) => {
                    let state = self.states.seal(self.caller, call, shown, Duration::ZERO);
                    InputRequiredResult::from_request_state(state).into()
                }
                None => sentence(run, None).into(),
            }),
        }
    }

    /// Whether the client's user is asked: they may decide and have not.
    fn asks_about(&self, wait: &JobWait) -> bool {
        let has_decided = wait.open.has_decided(self.user_id());
        let can_ask = matches!(wait.open.wait.kind, WaitKind::Approval | WaitKind::Question);
        self.client.asks && can_ask && wait.may_be_decided_by(self.caller) && !has_decided
    }

    fn detailed(&self, run: &CallRun) -> DetailedTask {
        let job = &run.job;
        let updated = match &run.state {
            CallState::Waits(wait) => UNIX_EPOCH + Duration::from_millis(wait.open.wait.began_at),
            _ => job.finished_at.or(job.started_at).unwrap_or(job.created_at),
        };
        let task = Task::new(&job.id, TaskStatus::Working, moment(job.created_at), moment(updated));
        let task = task.with_poll_interval_ms(POLL_MS);
        match &run.state {
            CallState::Working => DetailedTask::new(task, TaskPayload::Working),
            CallState::Waits(wait) => {
                let task = task.with_status_message(forms::waits_for(wait));
                // Only a client that can give the answer is asked for it.
                DetailedTask::new(
                    task,
                    match self.asks_about(wait) {
                        true => TaskPayload::InputRequired { input_requests: forms::questions(wait) },
                        false => TaskPayload::Working,
                    },
                )
            }
            CallState::Answered(answer) => {
                let payload = match listing::answer(answer.clone()) {
                    Ok(result) => TaskPayload::Completed { result: object(&result) },
                    Err(error) => TaskPayload::Failed { error: object(&error) },
                };
                DetailedTask::new(task, payload)
            }
            CallState::Cancelled => DetailedTask::new(task, TaskPayload::Cancelled),
            CallState::Failed(why) => {
                let error = object(&ErrorData::internal_error(why.clone(), None));
                DetailedTask::new(task, TaskPayload::Failed { error })
            }
        }
    }
}

/// What a client without tasks and questions is told. It is an error, as the tool has not done all that it
/// was asked for.
fn sentence(run: &CallRun, wait: Option<&JobWait>) -> CallToolResult {
    let job = &run.job.id;
    let text = match wait {
        Some(wait) => format!(
            "This call is not made yet, or not to its end. {} Do not call again: the job {job} goes on with the call \
             then, and /api/agent/jobs/{job} has its answer.",
            forms::waits_for(wait)
        ),
        None => format!("The job {job} makes this call now: /api/agent/jobs/{job} has its answer soon."),
    };
    let mut meta = MetaObject::default();
    meta.insert(JOB.to_owned(), json!(job));
    error(&text).with_meta(Some(meta))
}

fn error(text: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn object(value: &impl serde::Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        // Both kinds of answers are objects.
        _ => JsonObject::new(),
    }
}

fn unknown_state() -> ErrorData {
    let why = "`requestState` is not of this call, or its time is over: call without it";
    ErrorData::invalid_params(why, None)
}

fn unavailable(error: &WaitError) -> ErrorData {
    tracing::error!(error = %agent_core::error_chain::ErrorChain(error), "a waiting call cannot be read");
    ErrorData::internal_error(
        match error.is_damage() {
            true => "what waits cannot be read: its run is damaged",
            false => "what waits cannot be read at this moment: ask again",
        },
        None,
    )
}

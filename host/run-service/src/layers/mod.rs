//! The one entry to an agent run, and the wrappers around it: one file each.
//!
//! Wrappers are stacked in one visible place, the binary's `composition/invoke.rs`.

mod admission;
mod agent;
mod cached;
mod circuit_breaker;
mod client_functions;
mod conversation_turns;
mod deadline;
mod parkable;
mod prepared_tools;
mod rate_check;
mod recorded;
mod recorded_start;
mod shutdown_check;
mod single_flight;
mod stream_heartbeat;
pub(crate) mod wait_tools;

use std::sync::Arc;
use std::time::Duration;

use agent_core::chosen_tools::UnknownTools;
use agent_core::words::{AgentResult, CanonicalResult, Grants, Options, Principal, RunOutcome, RunRecord};
use boxed_async::boxed_async;

pub use admission::{Admission, Admitted, DEFAULT_PLACES, DEFAULT_WAIT, Permit};
pub use agent::Agent;
pub use cached::{Answerer, Cached, TIME_TO_LIVE, Unshared, WriteBehindCache};
pub use circuit_breaker::Breaker;
pub use conversation_turns::ConversationTurns;
pub use deadline::Deadline;
pub use parkable::Parkable;
pub use prepared_tools::{PreparedTools, WithPreparedTools};
pub use rate_check::{RateCheck, RateChecked};
pub use recorded::Recorded;
pub use recorded_start::RecordedStart;
pub use shutdown_check::ShutdownChecked;
pub use stream_heartbeat::{HEARTBEAT, Heartbeat, cancel_in_journal, record_end};

use crate::clock;
use crate::conversations::{ConversationRefusal, InConversation};
use crate::held_lease::LeaseWatch;
use crate::loop_driver::{RunClaim, RunControl, RunError};

/// Answers a caller's text with an agent run, or with something around one.
#[boxed_async]
pub trait Invoke: Send + Sync {
    /// Runs the agent. Dropping the future stops the run.
    async fn invoke(&self, ask: Ask) -> InvokeResult;

    /// Runs the agent for a caller who passes the result on as JSON and reads nothing of it: a result from
    /// the cache is not parsed for it.
    async fn invoke_for_json(&self, ask: Ask) -> Result<JsonAnswer, InvokeError> {
        self.invoke(ask).await.map(JsonAnswer::Parsed)
    }
}

#[boxed_async]
impl<I: Invoke + ?Sized> Invoke for Arc<I> {
    async fn invoke(&self, ask: Ask) -> InvokeResult {
        (**self).invoke(ask).await
    }

    async fn invoke_for_json(&self, ask: Ask) -> Result<JsonAnswer, InvokeError> {
        (**self).invoke_for_json(ask).await
    }
}

/// What a caller wants. What a claim knows of it, and how its run is ended, are set and read in this crate
/// only.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Id of the HTTP request or job.
    pub request_id: String,
    /// Id of the run that it takes, `run_…`.
    pub run_id: String,
    /// Who asks.
    pub principal: Principal,
    /// What the run may do.
    pub grants: Grants,
    /// The caller's text.
    pub input: String,
    /// The caller's wishes for the model calls and the tools.
    pub options: Options,
    /// The kept conversation that the run is part of.
    pub conversation: Option<InConversation>,
    /// The check of the caller's rate limits that is still under way. Nothing is begun before it has passed;
    /// absent where it has passed already.
    pub rate_check: Option<RateCheck>,
    /// What the queue knows of it; absent for a request.
    pub(crate) claim: Option<RunClaim>,
    /// How its run is ended, metered and watched.
    pub(crate) control: RunControl,
}

impl Ask {
    /// A text from an anonymous caller, without options.
    pub fn new(request_id: String, input: String) -> Self {
        Self {
            request_id,
            run_id: format!("run_{}", clock::new_id()),
            principal: Principal::default(),
            grants: Grants::default(),
            input,
            options: Options::default(),
            conversation: None,
            rate_check: None,
            claim: None,
            control: RunControl::default(),
        }
    }

    /// Has the run begin no call of the model or of a tool while somebody else may have the lease.
    pub fn acts_under(&mut self, lease: Option<LeaseWatch>) {
        self.control.lease = lease;
    }

    /// The job that is worked off; absent for a request.
    pub(crate) fn job_id(&self) -> Option<&str> {
        self.claim.as_ref().map(|claim| claim.job_id.as_str())
    }

    /// The record of its run, which begins now.
    fn record(&self, outcome: RunOutcome) -> RunRecord {
        let now = clock::now();
        RunRecord {
            id: self.run_id.clone(),
            request_id: self.request_id.clone(),
            user_id: self.principal.user_id.clone(),
            job_id: self.job_id().map(str::to_owned),
            started_at: now,
            finished_at: now,
            outcome,
        }
    }
}

/// What a caller gets.
#[derive(Debug, Clone)]
pub struct RunAnswer {
    /// The agent's result, shared with everybody who gets the same one.
    pub result: Arc<AgentResult>,
    /// Whether it came from the cache; absent where none is in use.
    pub cached: Option<bool>,
    /// Whether the run's turn could not be appended to the conversation that it was part of: later runs do
    /// not know it.
    pub is_turn_lost: bool,
}

/// What comes of an ask, for everybody who reads it.
pub type InvokeResult = Result<RunAnswer, InvokeError>;

/// What a caller gets who passes the result on as JSON.
#[derive(Debug, Clone)]
pub enum JsonAnswer {
    /// A result that has to be written.
    Parsed(RunAnswer),
    /// A result from the cache that is written already.
    Written(CanonicalResult),
}

/// Why there is no answer. What a client may read of it is decided by each variant's error table.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InvokeError {
    /// The run broke off.
    #[error("the agent run failed")]
    Run(
        #[source]
        #[from]
        RunError,
    ),
    /// The run waits for somebody. A job goes on with it.
    #[error("the run waits for somebody: the job {job_id} goes on with it")]
    Waits {
        /// The job that goes on with the run.
        job_id: String,
    },
    /// The run took longer than it may.
    #[error("the agent run took longer than the {} ms of AGENT_TIMEOUT_MS", .limit.as_millis())]
    TimedOut {
        /// How long it may take.
        limit: Duration,
        /// When to ask again, if anything is known about it.
        retry_after: Option<Duration>,
        /// Whether tools were called by then, and not the model.
        in_tools: bool,
    },
    /// As many agents run as may, and none became free in time.
    #[error("no agent became free within {} ms", .waited.as_millis())]
    Busy {
        /// How long the caller waited.
        waited: Duration,
    },
    /// The service has just started and its tools were not prepared in time.
    #[error("the tools were not prepared within {} ms", .waited.as_millis())]
    ToolsNotPrepared {
        /// How long the caller waited.
        waited: Duration,
    },
    /// The circuit is open: the agent failed too often of late.
    #[error("the circuit breaker is open")]
    CircuitOpen {
        /// How long until one run is tried again.
        retry_after: Duration,
    },
    /// The service stops, and the run could not end before it has stopped.
    #[error("the service is stopping")]
    Stopping,
    /// The caller is over its rate limits, which was found out while the ask was on its way.
    #[error("the caller is over its rate limits")]
    OverLimit,
    /// The conversation that the run was to be part of cannot be gone on with.
    #[error(transparent)]
    Conversation(#[from] ConversationRefusal),
    /// The caller chose tools that there are not, or that the caller may not use. Which of the two is not
    /// said, so that nobody learns which tools others have.
    #[error("tools were chosen that the caller does not have")]
    UnknownTools {
        /// Where they stand in [`Options::tools`], counted from 0.
        indexes: Vec<usize>,
    },
}

impl From<UnknownTools> for InvokeError {
    fn from(UnknownTools { indexes }: UnknownTools) -> Self {
        Self::UnknownTools { indexes }
    }
}

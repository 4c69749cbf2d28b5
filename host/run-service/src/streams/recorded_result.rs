//! What came of a run, and how that is found when its owner does not tell it: from its journal, or from its
//! job.

use std::sync::Arc;

use agent_core::agent_loop::recorded_end;
use agent_core::ports::{Journal, JournalError};
use agent_core::words::{AgentResult, FailureKind, Job, JobStatus, StopReason};

use crate::jobs::failure_kind;
use crate::layers::{InvokeError, RunAnswer};
use crate::loop_driver::RunError;

/// What came of a run.
#[derive(Debug, Clone)]
pub enum RunEnd {
    /// A result.
    Answer(RunAnswer),
    /// None, as the run's owner in this process says.
    Failed(InvokeError),
    /// None, as its record or its job says.
    Recorded(RunFailure),
    /// The run was cancelled before it began.
    NeverBegan,
}

/// Why a run has no result, if its error is not at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFailure {
    /// What a client is told.
    pub kind: FailureKind,
    /// What the log would say, or what the job's owner reads.
    pub error: String,
    /// Whether a client may read [`Self::error`].
    pub is_public: bool,
    /// Whether that is known, and not only concluded from the owner's silence: then no event can follow.
    pub is_final: bool,
}

impl RunEnd {
    /// Whether no event can follow.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Answer(_) | Self::NeverBegan => true,
            // Somebody else may carry it on, unless nobody can read it.
            Self::Failed(InvokeError::Run(RunError::Journal(error))) => {
                matches!(error, JournalError::Damaged { .. })
            }
            Self::Failed(_) => true,
            Self::Recorded(failure) => failure.is_final,
        }
    }
}

/// Why a reader is told to come again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interruption {
    /// The reader did not keep up.
    TooSlow,
    /// The service stops.
    Stopping,
    /// The run waits for somebody, which may take long.
    Waiting,
    /// The store cannot be read.
    Store(JournalError),
    /// Neither the queue nor the store knows what became of the run.
    Unknown,
}

/// Makes the result of a run from its journal. Apart from [`super::Following`], which cannot be shared
/// between threads.
pub(super) struct Fold {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) run_id: Arc<str>,
    pub(super) cached: Option<bool>,
}

impl Fold {
    /// The end of a job's run, as the queue has it.
    pub(super) async fn end_of_job(&self, job: Job) -> Result<RunEnd, Interruption> {
        match job.status {
            JobStatus::Cancelled => self.result(Some(StopReason::Cancelled), RunEnd::NeverBegan).await,
            JobStatus::Failed => {
                let error = job.error.unwrap_or_default();
                Ok(RunEnd::Recorded(RunFailure {
                    kind: failure_kind(&error),
                    error,
                    is_public: true,
                    is_final: true,
                }))
            }
            JobStatus::Completed
            | JobStatus::Waiting
            | JobStatus::Active
            | JobStatus::Delayed
            | JobStatus::Parked => {
                let result =
                    job.result.and_then(|result| serde_json::from_str::<AgentResult>(result.get()).ok());
                Ok(match result {
                    Some(result) => RunEnd::Answer(from_journal(result, None)),
                    // Another program may have worked on it.
                    None => failure("its result is none of an agent"),
                })
            }
        }
    }

    /// The result that the journal comes to, or what else there is to say.
    pub(super) async fn result(
        &self,
        recorded: Option<StopReason>,
        otherwise: RunEnd,
    ) -> Result<RunEnd, Interruption> {
        let events = self.journal.read(&self.run_id, 0).await.map_err(Interruption::Store)?;
        Ok(match recorded_end(events, recorded) {
            Ok(Some(result)) => RunEnd::Answer(from_journal(result, self.cached)),
            Ok(None) | Err(_) => otherwise,
        })
    }
}

/// Whether the conversation knows the run is said to its first reader alone.
fn from_journal(result: AgentResult, cached: Option<bool>) -> RunAnswer {
    RunAnswer { result: Arc::new(result), cached, is_turn_lost: false }
}

/// A run that has no result, as far as is known.
pub(super) fn failure(error: &str) -> RunEnd {
    let (kind, error) = (FailureKind::Internal, error.to_owned());
    RunEnd::Recorded(RunFailure { kind, error, is_public: false, is_final: false })
}

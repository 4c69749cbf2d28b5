//! What an attempt at a job came to, and what that means for the job: the error table of jobs.

use std::time::{Duration, UNIX_EPOCH};

use agent_core::ports::{AttemptEnd, AttemptOutcome, JournalError, ModelError};
use agent_core::words::{FailureKind, OpenKinds, StopReason};
use serde_json::value::to_raw_value;

use super::provider_outage::Fault;
use crate::clock;
use crate::conversations::ConversationRefusal;
use crate::layers::{InvokeError, RunAnswer};
use crate::loop_driver::RunError;

/// How an attempt ended, on the worker's side.
#[derive(Debug)]
pub(super) enum End {
    /// The run ended.
    Ran(Result<RunAnswer, InvokeError>),
    /// The job cannot be worked on, and why: its payload is none, or the queue says that it has failed.
    Unreadable(String),
    /// The job's owner did not want it any more, and the run was dropped or ended without a step.
    Cancelled,
    /// The process ends and the run did not come to the end of its step in time.
    OutOfTime,
    /// Another worker has the job, or may have it by now.
    Lost,
}

/// What that means for the job.
#[derive(Debug)]
pub(super) struct Disposition {
    /// What the queue is told; nothing when another worker has the job.
    pub(super) end: Option<AttemptEnd>,
    pub(super) outcome: AttemptOutcome,
    /// The run may be taken up again although it made no progress: that was not its own fault.
    pub(super) is_excused: bool,
    /// The attempt's end was not about this job: the next one would not fare better.
    pub(super) pause: bool,
    /// What the attempt says about the model provider.
    pub(super) provider: Provider,
}

/// What an attempt says about the model provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Provider {
    /// The provider answered.
    Answered,
    /// The provider failed. While it fails everybody the job is handed back instead, see
    /// [`Disposition::handed_back`].
    Failed(Fault),
    /// Nothing.
    Unknown,
}

impl Provider {
    /// How long it wants to be left alone, if it says so.
    pub(super) fn retry_after(self) -> Duration {
        match self {
            Self::Failed(fault) => fault.retry_after().unwrap_or_default(),
            Self::Answered | Self::Unknown => Duration::ZERO,
        }
    }
}

impl Disposition {
    /// Gives the job back without an attempt, for the provider's sake. The run let go of in good order stays
    /// noted.
    pub(super) fn handed_back(self, delay: Duration) -> Self {
        Self {
            end: Some(AttemptEnd::HandedBack { delay }),
            outcome: AttemptOutcome::HandedBack,
            is_excused: true,
            ..self
        }
    }

    /// What the attempt says about the provider, where it does not say that by how it ended: with a result,
    /// or because its run waits for somebody. Either may be folded from the journal alone.
    pub(super) fn heard(self, has_replied: bool) -> Self {
        match self.outcome {
            AttemptOutcome::Completed | AttemptOutcome::Parked if has_replied => {
                Self { provider: Provider::Answered, ..self }
            }
            _ => self,
        }
    }

    /// Has a job wait where people look for what waits, if it is handed back for a while and its run waits
    /// for somebody: what they decide meanwhile has it claimed.
    pub(super) fn parked_meanwhile(self, open: OpenKinds) -> Self {
        match self.end {
            Some(AttemptEnd::HandedBack { delay }) if !open.is_empty() && !delay.is_zero() => {
                Self { end: Some(AttemptEnd::Parked { until: clock::now() + delay, open }), ..self }
            }
            _ => self,
        }
    }
}

impl End {
    pub(super) fn disposition(&self) -> Disposition {
        match self {
            Self::Ran(Ok(answer)) => completed(answer),
            #[cfg(any(test, feature = "testing"))]
            Self::Ran(Err(InvokeError::Conversation(ConversationRefusal::Busy)))
                if crate::testing::has(crate::testing::Bug::BusyFails) =>
            {
                end_failed(INTERNAL.to_owned(), false)
            }
            #[cfg(any(test, feature = "testing"))]
            Self::Ran(Err(InvokeError::Run(RunError::Stopped)))
                if crate::testing::has(crate::testing::Bug::StoppedKept) =>
            {
                lost()
            }
            Self::Ran(Err(error)) => failed(error),
            Self::Unreadable(problem) => end_failed(problem.clone(), false),
            Self::Cancelled => cancelled(),
            Self::OutOfTime => handed_back(),
            Self::Lost => lost(),
        }
    }
}

fn completed(answer: &RunAnswer) -> Disposition {
    if answer.result.stop_reason == StopReason::Cancelled {
        return cancelled();
    }
    match to_raw_value(&*answer.result) {
        Ok(result) => Disposition {
            end: Some(AttemptEnd::Completed(result)),
            outcome: AttemptOutcome::Completed,
            is_excused: false,
            pause: false,
            provider: Provider::Unknown,
        },
        Err(_) => end_failed(INTERNAL.to_owned(), false),
    }
}

/// How long a job whose journal a newer program wrote is left for one.
const NEWER_JOURNAL_DELAY: Duration = Duration::from_secs(5);

/// How long a job is left alone whose conversation another run holds.
const BUSY_CONVERSATION_DELAY: Duration = Duration::from_secs(1);

/// How long a job is left alone whose stores fail: at once, it would be claimed before all others each time.
const STORE_FAILED_DELAY: Duration = Duration::from_secs(1);

const INTERNAL: &str = "Internal server error";
const UNAVAILABLE: &str = "Service temporarily unavailable";
const RATE_LIMITED: &str = "Rate limit exceeded";
const TOO_LONG: &str = "The conversation is longer than the model takes";
const TOOLS_GONE: &str = "A tool that the job chose is not there any more, or not for its submitter.";

/// The texts are those that a request would have been answered with
/// (host/docs/interface/errors-and-limits.md#errors), and hold no more.
fn failed(error: &InvokeError) -> Disposition {
    match error {
        // Nothing was tried: three attempts would be used up before a circuit closes.
        InvokeError::Busy { .. }
        | InvokeError::CircuitOpen { .. }
        | InvokeError::Stopping
        | InvokeError::ToolsNotPrepared { .. } => Disposition { pause: true, ..handed_back() },
        // However slow its tools are, the provider has answered.
        InvokeError::TimedOut { in_tools: true, .. } => end_failed(UNAVAILABLE.to_owned(), true),
        InvokeError::TimedOut { in_tools: false, .. } => provider_failed(Fault::Unwell(None)),
        // The tools were there when the job was submitted.
        InvokeError::UnknownTools { .. } => end_failed(TOOLS_GONE.to_owned(), false),
        // Jobs were counted when they were submitted, and need no other one to go on.
        InvokeError::OverLimit | InvokeError::Waits { .. } => end_failed(INTERNAL.to_owned(), false),
        // Jobs of one conversation take turns: this one is due again soon.
        InvokeError::Conversation(ConversationRefusal::Busy | ConversationRefusal::Changed) => Disposition {
            end: Some(AttemptEnd::HandedBack { delay: BUSY_CONVERSATION_DELAY }),
            ..handed_back()
        },
        InvokeError::Conversation(error @ ConversationRefusal::TooMany) => {
            end_failed(error.to_string(), false)
        }
        InvokeError::Conversation(ConversationRefusal::Store(_)) => store_failed(),
        // Conversations have no version: it is damaged, or a worker of a newer program reads it.
        InvokeError::Conversation(ConversationRefusal::Unreadable(_)) => {
            end_failed(INTERNAL.to_owned(), true)
        }
        InvokeError::Run(error) => match error {
            RunError::Model(ModelError::RateLimited { retry_after, .. }) => {
                provider_failed(Fault::RateLimited(*retry_after))
            }
            RunError::Model(ModelError::Unreachable { .. }) => provider_failed(Fault::Unreachable),
            RunError::Model(ModelError::Timeout { .. }) => provider_failed(Fault::Unwell(None)),
            RunError::Model(ModelError::Unavailable { retry_after, .. }) => {
                provider_failed(Fault::Unwell(*retry_after))
            }
            // The names are the submitter's own.
            RunError::Model(ModelError::RefusedFunctions { functions, .. }) => {
                let error = format!("The model's provider refuses the functions: {}", functions.join(", "));
                Disposition { provider: Provider::Answered, ..end_failed(error, false) }
            }
            RunError::Model(ModelError::TooLong { .. }) => {
                Disposition { provider: Provider::Answered, ..end_failed(TOO_LONG.to_owned(), false) }
            }
            // A repetition of the request would come to the same end.
            RunError::Model(ModelError::Refused { .. } | ModelError::Malformed { .. }) => {
                Disposition { provider: Provider::Answered, ..end_failed(INTERNAL.to_owned(), false) }
            }
            RunError::Driver(_) | RunError::Journal(JournalError::Damaged { .. }) => {
                end_failed(INTERNAL.to_owned(), false)
            }
            RunError::Panicked => end_failed(INTERNAL.to_owned(), true),
            RunError::Stuck { .. } => end_failed(error.to_string(), false),
            RunError::Stopped => handed_back(),
            RunError::Parked { due, open, .. } => parked(*due, *open),
            RunError::Journal(JournalError::Store { .. }) => store_failed(),
            RunError::Journal(JournalError::Conflict { .. } | JournalError::Fenced { .. }) => lost(),
            // Nothing is wrong with the job: a newer process reads what this one cannot. The delay leaves it
            // time to claim the job before this one does again.
            RunError::Journal(JournalError::Newer { .. }) => Disposition {
                end: Some(AttemptEnd::HandedBack { delay: NEWER_JOURNAL_DELAY }),
                is_excused: false,
                ..handed_back()
            },
        },
    }
}

/// What a client is told of a job that failed, whoever worked on it, by its error text.
pub fn failure_kind(error: &str) -> FailureKind {
    match error {
        RATE_LIMITED => FailureKind::RateLimited,
        UNAVAILABLE => FailureKind::Unavailable,
        _ => FailureKind::Internal,
    }
}

/// What a job comes to whose provider failed, if it has to pay for that.
fn provider_failed(fault: Fault) -> Disposition {
    let error = match fault {
        Fault::RateLimited(_) => RATE_LIMITED,
        Fault::Unreachable | Fault::Unwell(_) => UNAVAILABLE,
    };
    Disposition { provider: Provider::Failed(fault), ..end_failed(error.to_owned(), true) }
}

fn end_failed(error: String, retry: bool) -> Disposition {
    Disposition {
        end: Some(AttemptEnd::Failed { error, retry }),
        outcome: AttemptOutcome::Failed,
        is_excused: retry,
        pause: false,
        provider: Provider::Unknown,
    }
}

fn cancelled() -> Disposition {
    Disposition {
        end: Some(AttemptEnd::Cancelled),
        outcome: AttemptOutcome::Cancelled,
        is_excused: false,
        pause: false,
        provider: Provider::Unknown,
    }
}

fn handed_back() -> Disposition {
    Disposition {
        end: Some(AttemptEnd::HANDED_BACK),
        outcome: AttemptOutcome::HandedBack,
        is_excused: true,
        pause: false,
        provider: Provider::Unknown,
    }
}

/// Not excused: a run whose events the store refuses would be paid for again and again.
fn store_failed() -> Disposition {
    Disposition {
        end: Some(AttemptEnd::HandedBack { delay: STORE_FAILED_DELAY }),
        is_excused: false,
        pause: true,
        ..handed_back()
    }
}

fn parked(until: u64, open: OpenKinds) -> Disposition {
    Disposition {
        end: Some(AttemptEnd::Parked { until: UNIX_EPOCH + Duration::from_millis(until), open }),
        outcome: AttemptOutcome::Parked,
        is_excused: false,
        pause: false,
        provider: Provider::Unknown,
    }
}

fn lost() -> Disposition {
    Disposition {
        end: None,
        outcome: AttemptOutcome::Lost,
        is_excused: false,
        pause: false,
        provider: Provider::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agent_core::ports::ConversationError;

    use super::*;

    #[test]
    fn what_may_pass_is_tried_again_and_no_text_tells_more_than_it_may() {
        let (provider, detail) = ("openai/secret-model".to_owned(), "sk-secret".to_owned());
        let model = |error| InvokeError::Run(RunError::Model(error));
        let refused = ModelError::Refused { provider: provider.clone(), detail: detail.clone() };
        let long = ModelError::TooLong { provider: provider.clone(), detail: detail.clone() };
        let functions = vec!["look".to_owned()];
        let functions =
            ModelError::RefusedFunctions { provider: provider.clone(), functions, detail: detail.clone() };
        let malformed = ModelError::Malformed { provider: provider.clone(), detail: detail.clone() };
        let unreachable = ModelError::Unreachable { provider: provider.clone(), detail: detail.clone() };
        let limited = ModelError::RateLimited {
            provider: provider.clone(),
            detail: detail.clone(),
            retry_after: None,
            quota_exhausted: false,
        };
        let timeout = ModelError::Timeout { provider: provider.clone() };
        let overloaded = ModelError::Unavailable { provider, detail, retry_after: None };
        let moment = Duration::from_secs(1);
        for (error, text, retried) in [
            (model(timeout), UNAVAILABLE, true),
            (model(unreachable), UNAVAILABLE, true),
            (model(overloaded), UNAVAILABLE, true),
            (model(limited), RATE_LIMITED, true),
            (model(refused), INTERNAL, false),
            (model(malformed), INTERNAL, false),
            (model(long), TOO_LONG, false),
            (model(functions), "The model's provider refuses the functions: look", false),
            (InvokeError::UnknownTools { indexes: vec![0] }, TOOLS_GONE, false),
            (InvokeError::TimedOut { limit: moment, retry_after: None, in_tools: false }, UNAVAILABLE, true),
            (InvokeError::TimedOut { limit: moment, retry_after: None, in_tools: true }, UNAVAILABLE, true),
            (RunError::Panicked.into(), INTERNAL, true),
            (RunError::Journal(JournalError::Damaged { detail: "sk-secret".into() }).into(), INTERNAL, false),
            (InvokeError::Conversation(ConversationError::Unreadable.into()), INTERNAL, true),
            (RunError::Stuck { attempts: 3 }.into(), "the run stopped its worker 3 times", false),
        ] {
            let disposition = End::Ran(Err(error)).disposition();
            let Some(AttemptEnd::Failed { error, retry }) = &disposition.end else {
                panic!("{disposition:?}")
            };
            assert_eq!((error.as_str(), *retry), (text, retried));
            assert_eq!(disposition.is_excused, retried, "{error}");
        }
    }

    #[test]
    fn tools_that_take_too_long_say_nothing_about_the_provider() {
        for (in_tools, provider) in
            [(true, Provider::Unknown), (false, Provider::Failed(Fault::Unwell(None)))]
        {
            let late = InvokeError::TimedOut { limit: Duration::ZERO, retry_after: None, in_tools };
            assert_eq!(End::Ran(Err(late)).disposition().provider, provider);
        }
    }

    #[test]
    fn what_is_not_about_the_job_costs_it_no_attempt() {
        let (moment, at_once) = (Duration::from_secs(1), Duration::ZERO);
        let store = JournalError::Store { detail: "the disk is full".into() };
        let conversations = ConversationError::Store("the disk is full".into());
        for (error, after, is_excused, pause) in [
            (InvokeError::Busy { waited: moment }, at_once, true, true),
            (InvokeError::CircuitOpen { retry_after: moment }, at_once, true, true),
            (InvokeError::ToolsNotPrepared { waited: moment }, at_once, true, true),
            (RunError::Journal(store).into(), STORE_FAILED_DELAY, false, true),
            (InvokeError::Conversation(conversations.into()), STORE_FAILED_DELAY, false, true),
            (RunError::Stopped.into(), at_once, true, false),
        ] {
            let disposition = End::Ran(Err(error)).disposition();
            let Some(AttemptEnd::HandedBack { delay }) = disposition.end else { panic!("{disposition:?}") };
            assert_eq!(
                (delay, disposition.is_excused, disposition.pause),
                (after, is_excused, pause),
                "{disposition:?}"
            );
        }
    }

    #[test]
    fn a_job_whose_journal_a_newer_program_wrote_is_left_for_one_without_an_attempt() {
        let newer = JournalError::Newer { run_id: "run_1".into(), sequence: 3, version: 9, known: 2 };
        let disposition = End::Ran(Err(RunError::Journal(newer).into())).disposition();
        let Some(AttemptEnd::HandedBack { delay }) = disposition.end else { panic!("{disposition:?}") };
        assert_eq!((delay, disposition.outcome), (NEWER_JOURNAL_DELAY, AttemptOutcome::HandedBack));
    }

    #[test]
    fn a_job_that_somebody_else_drives_is_left_alone() {
        let conflict = JournalError::Conflict { run_id: "run_1".into(), sequence: 3 };
        for error in [conflict, JournalError::Fenced { run_id: "run_1".into() }] {
            let disposition = End::Ran(Err(RunError::Journal(error).into())).disposition();
            assert!(disposition.end.is_none() && disposition.outcome == AttemptOutcome::Lost);
        }
    }
}

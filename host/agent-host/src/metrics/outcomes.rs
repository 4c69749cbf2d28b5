//! What runs came to, and why: what an alert needs.

use agent_core::ports::ModelError;
use agent_core::words::StopReason;
use boxed_async::boxed_async;
use prometheus::{IntCounter, IntCounterVec, Opts};
use run_service::layers::{Ask, Invoke, InvokeError, RunAnswer};
use run_service::loop_driver::RunError;

use super::described::Register;

/// What a run came to, and why: the values of both labels.
type Outcome = (&'static str, &'static str);

const ENDED: &str = "ended";
const FAILED: &str = "failed";
const CANCELLED: &str = "cancelled";

/// Nobody waited any more: a client went away, or a worker lost its job.
const DROPPED: Outcome = (CANCELLED, "dropped");

/// The run waits for somebody.
const PARKED: Outcome = ("parked", "waits");

/// Outcomes without a stop reason.
const OTHERS: [Outcome; 22] = [
    (CANCELLED, "requested"),
    DROPPED,
    (FAILED, "model_timeout"),
    (FAILED, "model_unreachable"),
    (FAILED, "model_unavailable"),
    (FAILED, "model_rate_limited"),
    (FAILED, "model_refused"),
    (FAILED, "model_malformed"),
    (FAILED, "journal"),
    (FAILED, "stuck"),
    (FAILED, "internal"),
    (FAILED, "panicked"),
    ("timed_out", "deadline"),
    ("rejected", "busy"),
    ("rejected", "circuit_open"),
    ("rejected", "stopping"),
    ("rejected", "tools_not_prepared"),
    ("rejected", "unknown_tools"),
    ("rejected", "over_limit"),
    ("rejected", "conversation"),
    ("handed_back", "shutdown"),
    PARKED,
];

/// `agent_runs_total`.
#[derive(Debug, Clone)]
pub(super) struct Outcomes(IntCounterVec);

impl Outcomes {
    pub(super) fn register(registry: &impl Register) -> prometheus::Result<Self> {
        let help = "Runs of requests and jobs by what they came to and why: the stop reason of those that ended, and \
                    what failed, stopped or turned away the others";
        let runs = IntCounterVec::new(Opts::new("agent_runs_total", help), &["outcome", "reason"]);
        let this = Self(registry.keep(runs)?);
        // A series that begins at zero shows its first increase; one that begins at one hides it.
        let ended = StopReason::ALL.into_iter().map(of_stop);
        ended.chain(OTHERS).for_each(|outcome| drop(this.of(outcome)));
        Ok(this)
    }

    fn of(&self, (outcome, reason): Outcome) -> IntCounter {
        self.0.with_label_values(&[outcome, reason])
    }
}

/// Counts what becomes of everything it is asked, once for each.
#[derive(Debug)]
pub struct CountedOutcomes<I> {
    inner: I,
    outcomes: Outcomes,
}

impl<I> CountedOutcomes<I> {
    pub(super) fn new(inner: I, outcomes: Outcomes) -> Self {
        Self { inner, outcomes }
    }
}

#[boxed_async]
impl<I: Invoke> Invoke for CountedOutcomes<I> {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        let mut run = Run { outcomes: &self.outcomes, outcome: DROPPED };
        let answer = self.inner.invoke(ask).await;
        run.outcome = judge(&answer);
        answer
    }
}

/// A run under way. It is counted when it is dropped, so that none is forgotten.
struct Run<'a> {
    outcomes: &'a Outcomes,
    outcome: Outcome,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let outcome = if std::thread::panicking() { (FAILED, "panicked") } else { self.outcome };
        self.outcomes.of(outcome).inc();
    }
}

/// The table. It has no catch-all arm, so that whoever adds an error has to decide how it is counted.
fn judge(answer: &Result<RunAnswer, InvokeError>) -> Outcome {
    match answer {
        Ok(answer) => of_stop(answer.result.stop_reason),
        Err(InvokeError::TimedOut { .. }) => ("timed_out", "deadline"),
        Err(InvokeError::Busy { .. }) => ("rejected", "busy"),
        Err(InvokeError::CircuitOpen { .. }) => ("rejected", "circuit_open"),
        Err(InvokeError::Stopping) => ("rejected", "stopping"),
        Err(InvokeError::ToolsNotPrepared { .. }) => ("rejected", "tools_not_prepared"),
        Err(InvokeError::UnknownTools { .. }) => ("rejected", "unknown_tools"),
        Err(InvokeError::Waits { .. }) => PARKED,
        Err(InvokeError::OverLimit) => ("rejected", "over_limit"),
        Err(InvokeError::Conversation(_)) => ("rejected", "conversation"),
        Err(InvokeError::Run(error)) => match error {
            RunError::Model(ModelError::Timeout { .. }) => (FAILED, "model_timeout"),
            RunError::Model(ModelError::Unreachable { .. }) => (FAILED, "model_unreachable"),
            RunError::Model(ModelError::Unavailable { .. }) => (FAILED, "model_unavailable"),
            RunError::Model(ModelError::RateLimited { .. }) => (FAILED, "model_rate_limited"),
            RunError::Model(
                ModelError::Refused { .. } | ModelError::TooLong { .. } | ModelError::RefusedFunctions { .. },
            ) => (FAILED, "model_refused"),
            RunError::Model(ModelError::Malformed { .. }) => (FAILED, "model_malformed"),
            RunError::Journal(_) => (FAILED, "journal"),
            RunError::Driver(_) => (FAILED, "internal"),
            RunError::Stuck { .. } => (FAILED, "stuck"),
            RunError::Panicked => (FAILED, "panicked"),
            RunError::Stopped => ("handed_back", "shutdown"),
            RunError::Parked { .. } => PARKED,
        },
    }
}

fn of_stop(reason: StopReason) -> Outcome {
    match reason {
        StopReason::Cancelled => (CANCELLED, "requested"),
        reason => (ENDED, reason.as_str()),
    }
}

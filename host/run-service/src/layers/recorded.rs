//! Writes a record of every run, behind its answer.

use agent_core::error_chain::ErrorChain;
use agent_core::ports::{JournalError, ModelError};
use agent_core::words::{FailureKind, RunOutcome, RunRecord};
use boxed_async::boxed_async;
use tokio_util::sync::CancellationToken;

use super::{Ask, Invoke, InvokeError, RunAnswer};
use crate::clock;
use crate::journal::WriteBehind;
use crate::loop_driver::{Flag, RunControl, RunError};
use crate::usage_meter::UsageMeter;

/// Records how each run ended, also when it failed or nobody waited for it any more. What began no run, an
/// answer from the cache or a request that was turned away, leaves no record.
pub struct Recorded<I> {
    inner: I,
    behind: WriteBehind,
}

impl<I> Recorded<I> {
    /// Records go to `behind`. The runs of requests have their journal there as well.
    pub fn new(inner: I, behind: WriteBehind) -> Self {
        Self { inner, behind }
    }
}

#[boxed_async]
impl<I: Invoke> Invoke for Recorded<I> {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        let entry = Entry::begin(&ask, self.behind.clone());
        let answer = self.inner.invoke(ask).await;
        entry.end(&answer);
        answer
    }
}

/// How a run ended, if one began and will not go on elsewhere.
fn outcome(answer: &Result<RunAnswer, InvokeError>, meter: &UsageMeter, is_job: bool) -> Option<RunOutcome> {
    match answer {
        // Somebody else goes on with the job. Nobody does with the run of a request: its store has lost an
        // event, or somebody has ended it, and then their record stays.
        Err(InvokeError::Run(RunError::Journal(JournalError::Conflict { .. }))) if is_job => None,
        Ok(RunAnswer { cached: Some(true), .. })
        | Err(
            InvokeError::Busy { .. }
            | InvokeError::CircuitOpen { .. }
            | InvokeError::Stopping
            | InvokeError::ToolsNotPrepared { .. }
            | InvokeError::OverLimit
            | InvokeError::UnknownTools { .. }
            // A job goes on with it.
            | InvokeError::Waits { .. }
            // Refused outside of the run.
            | InvokeError::Conversation(_)
            | InvokeError::Run(
                RunError::Stopped
                | RunError::Parked { .. }
                | RunError::Journal(JournalError::Fenced { .. } | JournalError::Newer { .. }),
            ),
        ) => None,
        Ok(RunAnswer { result, .. }) => Some(RunOutcome::of(result)),
        Err(error @ (InvokeError::Run(_) | InvokeError::TimedOut { .. })) => {
            Some(failed(ErrorChain(error).to_string(), meter, kind(error)))
        }
    }
}

/// What was spent on a run is on the bill whether it has a result or not.
fn failed(error: String, meter: &UsageMeter, kind: FailureKind) -> RunOutcome {
    RunOutcome::Failed { error, iterations: meter.iterations(), usage: meter.usage(), kind }
}

fn kind(error: &InvokeError) -> FailureKind {
    match error {
        InvokeError::Run(RunError::Model(ModelError::RateLimited { .. })) => FailureKind::RateLimited,
        InvokeError::TimedOut { .. }
        | InvokeError::Busy { .. }
        | InvokeError::CircuitOpen { .. }
        | InvokeError::Stopping
        | InvokeError::ToolsNotPrepared { .. } => FailureKind::Unavailable,
        InvokeError::OverLimit => FailureKind::RateLimited,
        InvokeError::Run(_)
        | InvokeError::Waits { .. }
        | InvokeError::UnknownTools { .. }
        | InvokeError::Conversation(_) => FailureKind::Internal,
    }
}

/// A record that is being made. Dropped before its end, it says so: then the request went away, or the run
/// was cancelled and did not come to its end in time. Any other job goes on in another attempt.
struct Entry {
    record: Option<RunRecord>,
    cancel: Option<CancellationToken>,
    meter: UsageMeter,
    /// Whether a job goes on with the run, whose record this is not any more.
    handed_over: Flag,
    behind: WriteBehind,
}

impl Entry {
    fn begin(ask: &Ask, behind: WriteBehind) -> Self {
        let record = ask.record(failed(String::new(), &ask.control.meter, FailureKind::Internal));
        let RunControl { cancel, meter, handed_over, .. } = ask.control.clone();
        Self { record: Some(record), cancel, meter, handed_over, behind }
    }

    fn end(mut self, answer: &Result<RunAnswer, InvokeError>) {
        let is_job = self.record.as_ref().is_some_and(|record| record.job_id.is_some());
        let outcome = outcome(answer, &self.meter, is_job);
        self.write(outcome);
    }

    fn write(&mut self, outcome: Option<RunOutcome>) {
        let Some(record) = self.record.take() else { return };
        #[cfg(any(test, feature = "testing"))]
        if record.job_id.is_some() && crate::testing::has(crate::testing::Bug::EndForgotten) {
            return self.behind.forget(&record.id);
        }
        match outcome {
            Some(outcome) => {
                self.behind.end(RunRecord { finished_at: clock::now(), outcome, ..record });
            }
            None => self.behind.forget(&record.id),
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.handed_over.is_set() {
            return self.write(None);
        }
        let is_request = self.record.as_ref().is_some_and(|record| record.job_id.is_none());
        let is_cancelled = self.cancel.as_ref().is_some_and(CancellationToken::is_cancelled);
        let why = if std::thread::panicking() {
            "the run broke off"
        } else if is_cancelled {
            "it was cancelled, and its journal could not say so in time"
        } else {
            "nobody waited for it any more"
        };
        let outcome =
            (is_request || is_cancelled).then(|| failed(why.to_owned(), &self.meter, FailureKind::Internal));
        self.write(outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent_core::ports::Unobserved;
    use agent_core::testing::{EchoTools, TestRuns, asks_for, says};
    use agent_core::words::{Principal, StopReason};
    use futures::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::journal::{Backlog, Flusher};
    use crate::layers::Deadline;
    use crate::loop_driver::RunClaim;
    use crate::testing::{ScriptedInvoke, flush, scripted_agent};

    fn behind() -> (Arc<TestRuns>, WriteBehind, Flusher) {
        let store = Arc::new(TestRuns::default());
        let (behind, drain) = WriteBehind::new(store.clone(), Backlog::default(), Arc::new(Unobserved));
        (store, behind, drain)
    }

    fn ask() -> Ask {
        Ask { principal: Principal::user("u1"), ..Ask::new("req-1".into(), "hi".into()) }
    }

    fn of_job(cancel: &CancellationToken) -> Ask {
        let control = RunControl { cancel: Some(cancel.clone()), ..RunControl::default() };
        Ask { claim: Some(RunClaim::default()), control, ..ask() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_answered_although_the_store_hangs_and_recorded_once_it_does_not() {
        let (store, behind, drain) = behind();
        store.switch.hang(true);
        let script = [Ok(asks_for(&[("1", "echo", json!({}))])), Ok(says("done"))];
        let agent = scripted_agent(script, EchoTools::new(&["echo"]), Arc::new(behind.clone()));
        let answer = Recorded::new(agent, behind).invoke(ask()).now_or_never().unwrap().unwrap();
        store.switch.hang(false);
        flush(&drain).await;
        let records = store.records();
        assert_eq!((records[0].id.as_str(), records[0].request_id.as_str()), (&*answer.result.id, "req-1"));
        assert_eq!((records[0].user_id.as_deref(), &records[0].job_id), (Some("u1"), &None));
        let RunOutcome::Ended { stop_reason, iterations, .. } = &records[0].outcome else { panic!() };
        assert_eq!((*stop_reason, *iterations), (StopReason::Completed, 2));
        assert_eq!(store.events(&answer.result.id).len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_whose_event_comes_behind_a_hole_is_recorded_where_nobody_goes_on_with_it() {
        let conflict = || JournalError::Conflict { run_id: "run_1".into(), sequence: 2 };
        for (claim, records) in [(None, 1), (Some(RunClaim::default()), 0)] {
            let (store, behind, drain) = behind();
            let error = InvokeError::Run(RunError::Journal(conflict()));
            let recorder = Recorded::new(ScriptedInvoke::new([Err(error)]), behind);
            recorder.invoke(Ask { claim, ..ask() }).await.unwrap_err();
            flush(&drain).await;
            assert_eq!(store.records().len(), records);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_and_requests_that_went_away_are_recorded_and_those_turned_away_are_not() {
        let refused = ModelError::Refused { provider: "p".into(), detail: "401".into() };
        for (error, recorded) in [
            (
                InvokeError::Run(RunError::Model(refused)),
                Some(
                    "the agent run failed: the model call failed: the model provider p refused the request: 401",
                ),
            ),
            (InvokeError::Busy { waited: std::time::Duration::ZERO }, None),
            (InvokeError::Run(RunError::Stopped), None),
        ] {
            let (store, behind, drain) = behind();
            let recorder = Recorded::new(ScriptedInvoke::new([Err(error)]), behind);
            recorder.invoke(ask()).await.unwrap_err();
            flush(&drain).await;
            let errors: Vec<_> = store.records().into_iter().map(|record| record.outcome).collect();
            let expected: Vec<_> = recorded
                .iter()
                .map(|error| failed((*error).into(), &UsageMeter::default(), FailureKind::Internal))
                .collect();
            assert_eq!(errors, expected);
        }

        for (claim, records) in [(None, 1), (Some(RunClaim::default()), 0)] {
            let (store, behind, drain) = behind();
            let recorder = Recorded::new(ScriptedInvoke::hanging(), behind);
            assert!(recorder.invoke(Ask { claim, ..ask() }).now_or_never().is_none());
            flush(&drain).await;
            assert_eq!(store.records().len(), records);
        }
    }

    /// The second model call fails, or the run is late or given up while a tool hangs: the first call is paid
    /// for.
    #[tokio::test(start_paused = true)]
    async fn a_run_without_a_result_is_recorded_with_what_it_cost() {
        let refused = || ModelError::Refused { provider: "p".into(), detail: "401".into() };
        let minute = std::time::Duration::from_secs(60);
        for (hangs, waits) in [(false, minute), (true, minute), (true, minute / 60)] {
            let (store, behind, drain) = behind();
            let tools = EchoTools::new(&["echo"]);
            let tools = if hangs { tools.hanging() } else { tools };
            let script = [Ok(asks_for(&[("1", "echo", json!({}))])), Err(refused())];
            let agent = scripted_agent(script, tools, Arc::new(behind.clone()));
            let recorder = Recorded::new(Deadline::new(agent, minute / 2), behind);
            let ended = tokio::time::timeout(waits, recorder.invoke(ask())).await;
            assert!(!matches!(ended, Ok(Ok(_))), "{ended:?}");
            flush(&drain).await;
            let outcome = &store.records()[0].outcome;
            let RunOutcome::Failed { iterations, usage, .. } = outcome else { panic!("{outcome:?}") };
            assert_eq!((*iterations, usage.total()), (1, 15), "{outcome:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_run_of_a_job_that_is_cancelled_is_recorded_with_what_it_cost() {
        let (store, behind, drain) = behind();
        let script = [Ok(asks_for(&[("1", "echo", json!({}))])), Ok(says("done"))];
        let tools = EchoTools::new(&["echo"]).hanging();
        let agent = scripted_agent(script, tools, Arc::new(TestRuns::default()));
        let cancel = CancellationToken::new();
        let recorder = Recorded::new(agent, behind);
        let mut run = recorder.invoke(of_job(&cancel));
        let second = std::time::Duration::from_secs(1);
        assert!(tokio::time::timeout(second, &mut run).await.is_err());
        cancel.cancel();
        let answer = run.await.unwrap();
        flush(&drain).await;
        assert_eq!(answer.result.stop_reason, StopReason::Cancelled);
        let RunOutcome::Ended { stop_reason, usage, .. } = &store.records()[0].outcome else { panic!() };
        assert_eq!((*stop_reason, usage.total()), (StopReason::Cancelled, 15));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_run_that_does_not_end_in_time_is_recorded_all_the_same() {
        let (store, behind, drain) = behind();
        let cancel = CancellationToken::new();
        let mut run = Box::pin(async {
            let _entry = Entry::begin(&of_job(&cancel), behind.clone());
            std::future::pending::<()>().await;
        });
        assert!(run.as_mut().now_or_never().is_none());
        cancel.cancel();
        drop(run);
        flush(&drain).await;
        assert_eq!(
            store.records()[0].outcome,
            failed(
                "it was cancelled, and its journal could not say so in time".into(),
                &UsageMeter::default(),
                FailureKind::Internal
            )
        );
    }
}

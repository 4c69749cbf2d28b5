//! The heartbeat of a run that is streamed: a record which says that it is under way, written again and
//! again. Readers on other replicas take a run for dead whose record does not change any more.
//!
//! The runs of jobs have no such record: their lease is their heartbeat.

use std::sync::Arc;
use std::time::Duration;

use agent_core::agent_loop::recorded_end;
use agent_core::ports::{Epoch, Journal, JournalError, JournalResult, RunStore};
use agent_core::words::{Event, RunOutcome, RunRecord, StopReason};
use boxed_async::boxed_async;
use futures::FutureExt as _;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::{Ask, Invoke, InvokeError, RunAnswer};
use crate::clock;
use crate::loop_driver::RunError;

/// How often the record is written. Several fit into the time after which a run counts as dead.
pub const HEARTBEAT: Duration = Duration::from_secs(2);

/// How long one call of the store may take.
const CALL_LIMIT: Duration = Duration::from_secs(2);

/// Writes the record of each run while it is under way, and ends the run when somebody else has cancelled it
/// in its journal. It stands inside of [`Recorded`](super::Recorded), which writes the last record.
pub struct Heartbeat<I> {
    inner: I,
    store: Arc<dyn RunStore>,
}

impl<I> Heartbeat<I> {
    /// Records and journals are in `store`.
    pub fn new(inner: I, store: Arc<dyn RunStore>) -> Self {
        Self { inner, store }
    }

    async fn beat(&self, record: &mut RunRecord, seen: &mut u64) -> JournalResult<bool> {
        // Before it is written: whoever cancels a run writes its last record.
        let events = self.store.read(&record.id, *seen).await?;
        *seen += events.len() as u64;
        if events.contains(&Event::Cancelled) {
            return Ok(true);
        }
        // The store keeps the latest one: a wall clock that was put back must not silence those that follow.
        record.finished_at = clock::now().max(record.finished_at + Duration::from_millis(1));
        self.store.save(record).await?;
        Ok(false)
    }

    /// A run that somebody else has ended in its journal has a record that says so, whoever wrote it last.
    async fn settle(&self, answer: &Result<RunAnswer, InvokeError>, record: &mut RunRecord) {
        if let Err(InvokeError::Run(RunError::Journal(JournalError::Fenced { .. }))) = answer
            && !matches!(timeout(CALL_LIMIT, record_end(&*self.store, record)).await, Ok(Ok(_)))
        {
            debug!("the record of a run that was cancelled elsewhere could not be written");
        }
    }
}

/// Writes into the journal of a run, which has these events, that it is cancelled. Whoever carries the run is
/// refused from then on. A run that had ended keeps its end, and why it ended is answered.
/// [`JournalError::Conflict`] means that another event came first: with the events as they are by then it may
/// be tried again.
pub async fn cancel_in_journal(
    journal: &dyn Journal,
    run_id: &str,
    events: Vec<Event>,
) -> JournalResult<Option<StopReason>> {
    let next = events.len() as u64;
    if let Ok(Some(result)) = recorded_end(events, None) {
        return Ok(Some(result.stop_reason));
    }
    journal.append(run_id, Epoch::FINAL, next, &[Event::Cancelled]).await?;
    Ok(None)
}

/// Writes the last record of a run whose journal says by itself that it has ended. Says whether it does.
pub async fn record_end(store: &dyn RunStore, record: &mut RunRecord) -> JournalResult<bool> {
    let events = store.read(&record.id, 0).await?;
    let Ok(Some(result)) = recorded_end(events, None) else { return Ok(false) };
    record.finished_at = clock::now();
    record.outcome = RunOutcome::of(&result);
    store.save(record).await?;
    Ok(true)
}

#[boxed_async]
impl<I: Invoke> Invoke for Heartbeat<I> {
    async fn invoke(&self, mut ask: Ask) -> Result<RunAnswer, InvokeError> {
        let mut record = ask.record(RunOutcome::Running);
        let cancel = ask.control.cancel.get_or_insert_default().clone();
        let mut inner = self.inner.invoke(ask);
        // What fails at once never began.
        if let Some(answer) = (&mut inner).now_or_never() {
            return answer;
        }
        let mut seen = 0;
        loop {
            let ended = {
                let mut beat = std::pin::pin!(timeout(CALL_LIMIT, self.beat(&mut record, &mut seen)));
                tokio::select! {
                    biased;
                    answer = &mut inner => {
                        // Dropped, it might be carried out after the last record was written.
                        let _ = beat.await;
                        Err(answer)
                    }
                    beat = &mut beat => Ok(beat),
                }
            };
            match ended {
                Err(answer) => {
                    self.settle(&answer, &mut record).await;
                    return answer;
                }
                Ok(Ok(Ok(true))) => cancel.cancel(),
                Ok(Ok(Ok(false))) => {}
                Ok(Ok(Err(error))) => debug!(%error, "the heartbeat of a run could not be written"),
                Ok(Err(_elapsed)) => debug!("the heartbeat of a run could not be written in time"),
            }
            tokio::select! {
                biased;
                answer = &mut inner => {
                    self.settle(&answer, &mut record).await;
                    return answer;
                }
                () = sleep(HEARTBEAT) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_core::ports::{Epoch, Journal as _};
    use agent_core::testing::TestRuns;
    use agent_core::words::StopReason;

    use super::*;
    use crate::testing::ScriptedInvoke;

    #[tokio::test(start_paused = true)]
    async fn the_record_of_a_run_under_way_is_written_again_and_again() {
        let store = Arc::new(TestRuns::default());
        let agent = ScriptedInvoke::default();
        agent.add_after(Duration::from_secs(7), Ok(ScriptedInvoke::answer("done")));
        let heartbeat = Heartbeat::new(agent, store.clone());
        let watching = async {
            let mut times = Vec::new();
            for _ in 0..13 {
                tokio::time::sleep(Duration::from_millis(500)).await;
                let record = store.records().remove(0);
                assert_eq!(record.outcome, RunOutcome::Running);
                times.push(record.finished_at);
            }
            times
        };
        let (answer, mut times) = tokio::join!(heartbeat.invoke(Ask::new("r".into(), "hi".into())), watching);
        answer.unwrap();
        times.dedup();
        assert_eq!(times.len(), 4, "{times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_somebody_else_has_cancelled_ends() {
        let store = Arc::new(TestRuns::default());
        let heartbeat = Heartbeat::new(ScriptedInvoke::hanging(), store.clone());
        let ask = Ask::new("r".into(), "hi".into());
        let run_id = ask.run_id.clone();
        let elsewhere = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            store.append(&run_id, Epoch::FINAL, 0, &[Event::Cancelled]).await.unwrap();
        };
        let (answer, ()) = tokio::join!(heartbeat.invoke(ask), elsewhere);
        assert_eq!(answer.unwrap().result.stop_reason, StopReason::Cancelled);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_at_once_leaves_no_record() {
        let store = Arc::new(TestRuns::default());
        struct Refuses;
        #[boxed_async]
        impl Invoke for Refuses {
            async fn invoke(&self, _ask: Ask) -> Result<RunAnswer, InvokeError> {
                Err(InvokeError::UnknownTools { indexes: vec![0] })
            }
        }
        let heartbeat = Heartbeat::new(Refuses, store.clone());
        heartbeat.invoke(Ask::new("r".into(), "hi".into())).await.unwrap_err();
        assert!(store.records().is_empty());
    }
}

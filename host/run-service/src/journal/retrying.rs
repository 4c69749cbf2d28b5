//! A journal that does not give up at the first failure of its store.

use std::sync::Arc;
use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::ports::{Epoch, Journal, JournalError, JournalResult};
use agent_core::words::Event;
use boxed_async::boxed_async;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, info, warn};

use crate::outage::Outage;

/// How long a store may fail before the run is given up. A worker holds its job all the while.
const PATIENCE: Duration = Duration::from_secs(15);

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Tries again for up to 15 s while the store fails. A paid reply of the model is worth waiting for.
pub struct RetryingJournal {
    journal: Arc<dyn Journal>,
    outage: Outage,
}

impl RetryingJournal {
    /// Writes to and reads from `journal`.
    pub fn new(journal: Arc<dyn Journal>) -> Self {
        Self { journal, outage: Outage::default() }
    }
}

/// Tries until it works, time is up or trying again would not help. What seemed to fail may have been carried
/// out: repeated, it has to be known for the same. `outage` is that of the store.
pub(crate) async fn persist<T, F>(outage: &Outage, attempt: impl Fn() -> F) -> JournalResult<T>
where
    F: Future<Output = Result<T, JournalError>>,
{
    let until = Instant::now() + PATIENCE;
    let mut backoff = Backoff::new(FIRST_PAUSE, LAST_PAUSE);
    loop {
        let error = match timeout_at(until, attempt()).await {
            Ok(Err(error @ JournalError::Store { .. })) => error,
            Ok(other) => {
                if let Some(lasted) = outage.ends() {
                    info!(outage_ms = lasted.as_millis(), "the run journal works again");
                }
                return other;
            }
            Err(_elapsed) => JournalError::Store { detail: "no answer in time".into() },
        };
        if outage.begins() {
            warn!(%error, "runs wait for their journal");
        } else {
            debug!(%error, "the run journal still fails");
        }
        let pause = backoff.next();
        if Instant::now() + pause >= until {
            return Err(error);
        }
        sleep(pause).await;
    }
}

#[boxed_async]
impl Journal for RetryingJournal {
    async fn append(&self, run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> JournalResult {
        persist(&self.outage, || self.journal.append(run_id, epoch, first, events)).await
    }

    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        persist(&self.outage, || self.journal.read(run_id, from)).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use agent_core::testing::TestRuns;

    use super::*;

    /// Carries the first append out and then says that it failed. Like every store it knows its own events.
    #[derive(Default)]
    struct Ambiguous {
        runs: TestRuns,
        lied: AtomicBool,
    }

    #[boxed_async]
    impl Journal for Ambiguous {
        async fn append(&self, run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> JournalResult {
            self.runs.append(run_id, epoch, first, events).await?;
            if self.lied.swap(true, Ordering::SeqCst) {
                return Ok(());
            }
            Err(JournalError::Store { detail: "connection reset".into() })
        }

        async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
            self.runs.read(run_id, from).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_fails_for_a_while_loses_nothing() {
        let runs = Arc::new(TestRuns::default());
        let patient = RetryingJournal::new(runs.clone());
        runs.switch.fail(true);
        let back = async {
            sleep(Duration::from_secs(10)).await;
            runs.switch.fail(false);
        };
        let (appended, ()) = tokio::join!(patient.append("run_1", Epoch(1), 0, &[Event::Cancelled]), back);
        assert_eq!(appended, Ok(()));
        assert_eq!(patient.read("run_1", 0).await, Ok(vec![Event::Cancelled]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_stays_away_or_hangs_is_given_up_in_the_end() {
        for breaks in [agent_core::testing::Switch::fail, agent_core::testing::Switch::hang] {
            let runs = Arc::new(TestRuns::default());
            let patient = RetryingJournal::new(runs.clone());
            breaks(&runs.switch, true);
            let start = Instant::now();
            let error = patient.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await.unwrap_err();
            assert!(matches!(error, JournalError::Store { .. }), "{error}");
            let waited = start.elapsed();
            assert!(waited <= PATIENCE + LAST_PAUSE && waited >= PATIENCE - LAST_PAUSE, "{waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_append_that_was_carried_out_although_it_failed_is_no_conflict() {
        let patient = RetryingJournal::new(Arc::new(Ambiguous::default()));
        patient.append("run_1", Epoch(1), 0, &[Event::TakenUp { by: "me".into() }]).await.unwrap();
        patient.append("run_1", Epoch(1), 1, &[Event::Cancelled]).await.unwrap();
        assert_eq!(patient.read("run_1", 0).await.unwrap().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_of_somebody_else_is_a_conflict_at_once() {
        let runs = Arc::new(TestRuns::default());
        runs.append("run_1", Epoch(1), 0, &[Event::TakenUp { by: "somebody".into() }]).await.unwrap();
        let start = Instant::now();
        let mine = Event::TakenUp { by: "me".into() };
        let error =
            RetryingJournal::new(runs.clone()).append("run_1", Epoch(1), 0, &[mine]).await.unwrap_err();
        assert!(matches!(error, JournalError::Conflict { .. }), "{error}");
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}

//! Runs of requests that wait for somebody: a job goes on with each.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::ports::{Epoch, JobQueue, Journal, JournalError, RunStore};
use agent_core::words::{JobData, ParkedRun, RunOutcome, RunRecord};
use async_trait::async_trait;
use uuid::Uuid;

use super::{Ask, Invoke, InvokeError, RunAnswer};
use crate::loop_driver::RunError;

/// Hands the run of a request over to a job when it has to wait for somebody. Its journal goes to the store
/// first, and the job is added behind that: whoever is killed in between loses a run that nobody was told of.
///
/// It stands inside of [`Recorded`](super::Recorded), which forgets what it would have written of the run,
/// and outside of the heartbeat, which would write over the record. Runs of jobs pass by, and those of
/// callers who have no jobs.
pub struct Parkable<I> {
    inner: I,
    queue: Arc<dyn JobQueue>,
    /// Where the runs' events are until now.
    journal: Arc<dyn Journal>,
    store: Arc<dyn RunStore>,
}

impl<I> Parkable<I> {
    /// Runs of `inner`, whose events are read from `journal`, become jobs of `queue`, whose journals are in
    /// `store`.
    pub fn new(
        inner: I,
        queue: Arc<dyn JobQueue>,
        journal: Arc<dyn Journal>,
        store: Arc<dyn RunStore>,
    ) -> Self {
        Self { inner, queue, journal, store }
    }

    async fn hand_over(&self, record: RunRecord, mut job: JobData) -> Result<(), JournalError> {
        let events = self.journal.read(&record.id, 0).await?;
        let kept = self.store.read(&record.id, 0).await?.len();
        if let Some(missing) = events.get(kept..).filter(|missing| !missing.is_empty()) {
            self.store.append(&record.id, Epoch::UNCLAIMED, kept as u64, missing).await?;
        }
        // As long as it waits, it is not taken for one that has ended: neither by who reads of it nor by who
        // removes what is old.
        self.store.save(&record).await?;
        job.id = record.job_id;
        job.goes_on = Some(ParkedRun { run_id: record.id, until: record.finished_at });
        let added = self.queue.add(&job).await;
        added.map(drop).map_err(|error| JournalError::Store { detail: error.to_string() })
    }
}

#[async_trait]
impl<I: Invoke> Invoke for Parkable<I> {
    async fn invoke(&self, mut ask: Ask) -> Result<RunAnswer, InvokeError> {
        if ask.claim.is_some() || ask.principal.user_id.is_none() {
            return self.inner.invoke(ask).await;
        }
        let job_id = Uuid::now_v7().simple().to_string();
        ask.control.job_id = Some(job_id.clone());
        let mut record = RunRecord {
            id: ask.run_id.clone(),
            request_id: ask.request_id.clone(),
            user_id: ask.principal.user_id.clone(),
            job_id: Some(job_id.clone()),
            started_at: SystemTime::now(),
            finished_at: UNIX_EPOCH,
            outcome: RunOutcome::Running,
        };
        let mut job = JobData::submitted_by(ask.principal.clone(), ask.input.clone());
        job.conversation_id.clone_from(&ask.control.conversation_id);
        match self.inner.invoke(ask).await {
            Err(InvokeError::Run(RunError::Parked { until, .. })) => {
                record.finished_at = UNIX_EPOCH + Duration::from_millis(until);
                self.hand_over(record, job).await.map_err(RunError::Journal)?;
                Err(InvokeError::Waits { job_id })
            }
            ended => ended,
        }
    }
}

impl<I> std::fmt::Debug for Parkable<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parkable").finish_non_exhaustive()
    }
}

//! The queue of jobs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::{AttemptEnd, Claim, Epoch, JobChanges, JobQueue, QueueError, Renewal};
use agent_core::testing::TestQueue;
use agent_core::words::{CancelOutcome, Depth, Job, JobData, JobPage, JobQuery, JobStatus, RetryOutcome};
use boxed_async::boxed_async;

use super::Ported;
use crate::faults::gate::Call;
use crate::faults::mutation::Mutation;
use crate::judge::promises::{GivenClaim, end_of};

fn fails(detail: String) -> QueueError {
    QueueError::Store { detail }
}

impl Ported<TestQueue> {
    /// A claim as the store gave it, or as the seeded bug has it.
    fn given(&self, worker: &str, claim: Option<Claim>) -> Option<Claim> {
        let world = &self.gate.world;
        let mut claim = claim?;
        if claim.earlier.lost > 0 {
            world.reached("a lost job was claimed again");
        }
        if world.has(Mutation::EpochStandsStill) {
            claim.epoch = Epoch(1);
        }
        if world.has(Mutation::ClaimsForgotten) {
            claim.earlier.are_none = true;
        }
        // A release that does not know it carries the run on until its first heartbeat.
        claim.cancel_asked &= self.gate.process.release.knows_cancel_requests;
        if claim.cancel_asked {
            world.reached("a job was claimed to be cancelled");
        }
        world.claimed(&claim.job_id, claim.epoch);
        world.note(worker, "claimed", &claim.job_id, &claim.epoch.0.to_string());
        let given =
            GivenClaim { job_id: claim.job_id.clone(), by: self.gate.process.name.clone(), is_told: false };
        world.promises.lock().claims.insert(claim.token.clone(), given);
        claim.data = claim.data.map(|data| self.gate.process.release.job(data));
        Some(claim)
    }

    fn name_of(end: &AttemptEnd) -> &'static str {
        match end {
            AttemptEnd::Completed(_) => "queue.settle completed",
            AttemptEnd::Failed { .. } => "queue.settle failed",
            AttemptEnd::Cancelled => "queue.settle cancelled",
            AttemptEnd::Parked { .. } => "queue.settle parked",
            AttemptEnd::HandedBack { .. } => "queue.settle handed back",
        }
    }

    /// Tells the store of an end, and takes note of who has, if that was not told before.
    async fn tell<T: Send + 'static, S: Future<Output = Result<T, QueueError>> + Send + 'static>(
        &self,
        claim: &Claim,
        end: &AttemptEnd,
        settle: impl FnOnce(Arc<TestQueue>, Claim, AttemptEnd) -> S + Send + 'static,
    ) -> Result<T, QueueError> {
        let world = &self.gate.world;
        if let Some(given) = world.promises.lock().claims.get_mut(&claim.token) {
            given.is_told = true;
        }
        let is_stopping = self.gate.process.shutdown.stopping().is_cancelled();
        if is_stopping && matches!(end, AttemptEnd::HandedBack { .. }) {
            world.reached("a job was handed back as its process stopped");
        }
        let (this, told, end_told) = (self.clone(), self.told_under(claim), end.clone());
        let settle = async move {
            let job_id = told.job_id.clone();
            let had_ended = this.has_ended(&job_id);
            let settled = settle(this.store.clone(), told, end_told).await;
            match &settled {
                Ok(_) if !had_ended => this.note_end(&job_id),
                Err(QueueError::LeaseLost { .. }) => {
                    this.gate.world.reached("the end of an attempt came too late");
                }
                Ok(_) | Err(_) => {}
            }
            settled
        };
        let told = self.gate.write(Call::rare(Self::name_of(end), &claim.job_id), fails, settle).await;
        if matches!(told, Ok(_) | Err(QueueError::LeaseLost { .. })) {
            world.promises.lock().claims.remove(&claim.token);
        }
        told
    }

    /// Whether the job has ended; of its end note is taken.
    fn has_ended(&self, job_id: &str) -> bool {
        let ended = self.store.find(job_id).filter(|job| job.status.has_ended());
        self.gate.world.promises.lock().happened.extend(ended.as_ref().map(end_of));
        ended.is_some()
    }

    /// Takes note of the process that has ended the job, or that nobody has.
    fn note_end(&self, job_id: &str) {
        let has_ended = self.has_ended(job_id);
        let mut promises = self.gate.world.promises.lock();
        if has_ended {
            promises.ended_by.insert(job_id.to_owned(), self.gate.process.name.clone());
        } else {
            promises.ended_by.remove(job_id);
        }
    }

    /// The claim under which the store is told of an end: that of the worker, or of whoever holds the job.
    fn told_under(&self, claim: &Claim) -> Claim {
        let is_bug = self.gate.world.has(Mutation::SettleNotFenced);
        let holder = if is_bug { self.store.token_of(&claim.job_id) } else { None };
        Claim { token: holder.unwrap_or_else(|| claim.token.clone()), ..claim.clone() }
    }
}

#[boxed_async]
impl JobQueue for Ported<TestQueue> {
    async fn add(&self, job: &JobData) -> Result<String, QueueError> {
        let (this, added) = (self.clone(), job.clone());
        let add = async move {
            let world = &this.gate.world;
            if world.has(Mutation::JobDropped) && world.seed.is_multiple_of(2) {
                return Ok(added.id.unwrap_or_else(|| "dropped".to_owned()));
            }
            this.store.add(&added).await
        };
        self.gate.write(Call::rare("queue.add", &job.query), fails, add).await
    }

    async fn read(&self, job_id: &str) -> Result<Option<Job>, QueueError> {
        self.gate
            .pass(Call { subject: job_id, ..Call::poll("queue.read") }, fails, self.store.read(job_id))
            .await
    }

    async fn list(&self, wanted: &JobQuery<'_>) -> Result<JobPage, QueueError> {
        self.gate.pass(Call::step("queue.list", wanted.user_id), fails, self.store.list(wanted)).await
    }

    async fn cancel(&self, job_id: &str) -> Result<CancelOutcome, QueueError> {
        let (this, id) = (self.clone(), job_id.to_owned());
        let cancel = async move {
            let cancelled = this.store.cancel(&id).await;
            this.has_ended(&id);
            cancelled
        };
        let cancelled = self.gate.write(Call::rare("queue.cancel", job_id), fails, cancel).await;
        // Whoever had no answer does not know that there is a run to be ended.
        if cancelled == Ok(CancelOutcome::Done) {
            self.note_end(job_id);
        }
        cancelled
    }

    async fn list_parked(&self, limit: usize, cursor: Option<&str>) -> Result<JobPage, QueueError> {
        self.gate.pass(Call::poll("queue.list_parked"), fails, self.store.list_parked(limit, cursor)).await
    }

    async fn resume(&self, job_id: &str, within: Duration) -> Result<bool, QueueError> {
        let (this, id) = (self.clone(), job_id.to_owned());
        let resume = async move {
            if this.gate.world.has(Mutation::ResumeLost) {
                let job = this.store.read(&id).await?;
                return Ok(job.is_some_and(|job| job.status == JobStatus::Parked));
            }
            this.store.resume(&id, within).await
        };
        let name = if within.is_zero() { "queue.resume" } else { "queue.resume armed" };
        self.gate.write(Call::rare(name, job_id), fails, resume).await
    }

    async fn retry(&self, job_id: &str) -> Result<RetryOutcome, QueueError> {
        let retry = async {
            let run_of = || self.store.find(job_id).map(|job| job.run_id);
            let before = run_of();
            let retried = self.store.retry(job_id).await;
            if retried == Ok(RetryOutcome::Done) {
                self.note_end(job_id);
                let mut promises = self.gate.world.promises.lock();
                promises.retries.extend(run_of());
                promises.retried.extend(before.into_iter().chain([job_id.to_owned()]));
            }
            retried
        };
        self.gate.pass(Call::step("queue.retry", job_id), fails, retry).await
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        self.gate.pass(Call::poll("queue.depth"), fails, self.store.depth()).await
    }

    async fn claim(&self, worker: &str, patience: Duration) -> Result<Option<Claim>, QueueError> {
        if self.gate.world.has(Mutation::ClaimGivenTwice) {
            self.store.forget_holder();
        }
        let (store, by) = (self.store.clone(), worker.to_owned());
        let claim = async move { store.claim(&by, patience).await };
        let claim = self.gate.write(Call::poll("queue.claim"), fails, claim).await?;
        Ok(self.given(worker, claim))
    }

    async fn incarnation(&self) -> Result<Option<String>, QueueError> {
        self.gate.pass(Call::poll("queue.incarnation"), fails, self.store.incarnation()).await
    }

    async fn now(&self) -> Result<SystemTime, QueueError> {
        self.gate.pass(Call::poll("queue.now"), fails, self.store.now()).await
    }

    async fn reclaim(&self, worker: &str, began: SystemTime) -> Result<u64, QueueError> {
        let (store, by) = (self.store.clone(), worker.to_owned());
        let reclaim = async move { store.reclaim(&by, began).await };
        let reclaimed = self.gate.write(Call::poll("queue.reclaim"), fails, reclaim).await?;
        if reclaimed > 0 {
            self.gate.world.reached("a restarted replica took its predecessor's jobs back");
        }
        Ok(reclaimed)
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal, QueueError> {
        if self.gate.world.has(Mutation::RenewalSkipped) {
            return Ok(Renewal::Held);
        }
        let call = Call { subject: &claim.job_id, ..Call::poll("queue.renew") };
        let (store, held) = (self.store.clone(), claim.clone());
        let renewed = self.gate.write(call, fails, async move { store.renew(&held).await }).await;
        if renewed != Ok(Renewal::Held) {
            // A worker may take the lease for lost by then.
            self.gate.world.promises.lock().claims.remove(&claim.token);
        }
        let renewal = renewed?;
        match renewal {
            Renewal::Cancelled => self.gate.world.reached("a renewal said that the job was cancelled"),
            Renewal::Lost => self.gate.world.reached("a renewal said that the lease was lost"),
            Renewal::Held => {}
        }
        Ok(renewal)
    }

    async fn settle(&self, claim: &Claim, end: &AttemptEnd) -> Result<(), QueueError> {
        self.tell(claim, end, |store, claim, end| async move { store.settle(&claim, &end).await }).await
    }

    async fn settle_and_claim(
        &self,
        claim: &Claim,
        end: &AttemptEnd,
        worker: &str,
    ) -> Result<Option<Claim>, QueueError> {
        let by = worker.to_owned();
        let settle = |store: Arc<TestQueue>, claim, end| async move {
            store.settle_and_claim(&claim, &end, &by).await
        };
        let next = self.tell(claim, end, settle).await?;
        if next.is_some() {
            self.gate.world.reached("the end of an attempt claimed the next job");
        }
        Ok(self.given(worker, next))
    }

    async fn changes(&self, after: Option<&str>) -> Result<Option<JobChanges>, QueueError> {
        self.gate.pass(Call::poll("queue.changes"), fails, self.store.changes(after)).await
    }

    async fn close(&self) {}
}

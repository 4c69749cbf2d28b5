//! The worker: claims a job, drives its run, and tells the queue how that ended.
//!
//! What does not belong here: keeping the lease (`lease_renewal.rs`), what an end means for the job
//! (`retry_or_fail.rs`), and how a run is resumed (`loop_driver/`).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::circuit_breaker::SharedCircuit;
use agent_core::ports::queue::LEASE;
use agent_core::ports::{
    AttemptEnd, AttemptOutcome, Claim, ClaimedJob, JobQueue, Journal, Observer, QueueError,
};
use agent_core::trace::{InTrace as _, Span};
use agent_core::words::JobData;
use futures::FutureExt;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error_span, info, warn};

use super::cancelled::CancelledRuns;
use super::provider_outage::{ClaimPermit, MOST_HAND_BACKS, ProviderOutage, delay};
use super::report::report;
use super::retry_or_fail::{End, Provider};
use super::spans;
use super::wakeups::{JobSignals, Running};
use super::{Jobs, LAST_WORDS};
use crate::conversations::InConversation;
use crate::layers::{Admission, Ask, Invoke, InvokeError, RunAnswer};
use crate::live::LiveRuns;
use crate::loop_driver::{RunClaim, RunControl, RunError, WaitObserver};
use crate::outage::Outage;
use crate::waits::ARMED;

/// How long the queue is asked to wait for a job. A worker that is told to stop waits no longer than that.
const CLAIM_PATIENCE: Duration = Duration::from_secs(1);

/// How long a run may take to come to the end of its step when the process ends (it is forced to after 30 s),
/// unless the process has less.
const STEP_GRACE: Duration = Duration::from_secs(20);

/// How long one call of a store may take.
const CALL_LIMIT: Duration = LEASE;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// The dependencies of a worker.
pub struct WorkerContext {
    /// Names this process; unique among those that live.
    pub name: String,
    /// The permits for runs, shared with requests.
    pub admission: Admission,
    /// Runs the agent on behalf of jobs, going on where their journals end. Its calls pass through `circuit`.
    pub agent: Arc<dyn Invoke>,
    /// The provider's circuit, shared with requests: while it is open no jobs are claimed.
    pub circuit: SharedCircuit,
    /// The journals of these runs.
    pub journal: Arc<dyn Journal>,
    /// Counts how attempts end.
    pub observer: Arc<dyn Observer>,
}

/// Works off the jobs of a queue.
pub struct Worker {
    pub(super) queue: Arc<dyn JobQueue>,
    signals: JobSignals,
    live: LiveRuns,
    pub(super) context: WorkerContext,
    /// Absent where no runs are recorded.
    pub(super) cancelled: Option<Arc<CancelledRuns>>,
    provider: ProviderOutage,
    outage: Outage,
    step_grace: Duration,
    /// From when the moments are counted at which leases are renewed.
    pub(super) began: Instant,
}

/// A job that this worker holds, and its right to run one.
struct Claimed {
    claim: Claim,
    permit: ClaimPermit,
}

/// What an attempt came to for the worker.
struct Attempted {
    /// Whether the next job may fare well.
    fared_well: bool,
    /// The next job, if it was claimed with the end of this one.
    next: Option<Claimed>,
}

impl Worker {
    /// A worker for these jobs. Callers of the same [`Jobs`] learn at once what it does.
    pub fn new(jobs: &Jobs, context: WorkerContext) -> Self {
        let provider = ProviderOutage::new(context.circuit.clone());
        let (queue, signals, live) = (jobs.queue.clone(), jobs.signals.clone(), jobs.live.clone());
        let (cancelled, outage, began) = (jobs.cancelled.clone(), Outage::default(), Instant::now());
        let step_grace = STEP_GRACE;
        Self { queue, signals, live, context, cancelled, provider, outage, step_grace, began }
    }

    /// Has runs take no longer than that to come to the end of their step when the process ends: what is cut
    /// off with the process is not handed back, and counts as a worker that died.
    #[must_use]
    pub fn with_step_grace(self, step_grace: Duration) -> Self {
        Self { step_grace: step_grace.min(STEP_GRACE), ..self }
    }

    /// One job after the other until `stopping`. Then the run under way stops at its next step boundary, or
    /// is dropped after 20 s or less, and its job is handed back. Called once for each job to be worked on at
    /// once.
    pub async fn work(&self, stopping: CancellationToken) {
        let mut pause = Backoff::new(FIRST_PAUSE, LAST_PAUSE);
        let mut next = None;
        while next.is_some() || !stopping.is_cancelled() {
            let claimed = match next.take() {
                // Claimed with the end of the last one.
                Some(claimed) => Ok(Some(claimed)),
                None => match self.permit(&stopping).await {
                    Some(permit) => {
                        self.claim(&stopping).await.map(|claim| Some(Claimed { claim: claim?, permit }))
                    }
                    None => break,
                },
            };
            let fared_well = match claimed {
                Ok(None) => true,
                Ok(Some(claimed)) => {
                    let attempted = self.attempt_traced(claimed, &stopping).await;
                    next = attempted.next;
                    attempted.fared_well
                }
                Err(error) => {
                    self.queue_fails(&error);
                    false
                }
            };
            if fared_well {
                pause.reset();
            } else {
                tokio::select! {
                    biased;
                    () = sleep(pause.next()) => {}
                    () = stopping.cancelled() => {}
                }
            }
        }
    }

    /// Waits until a job may be claimed; `None` when the worker stops instead.
    ///
    /// Wait for a permit before claiming: a job claimed without one would sit here under our lease while
    /// another worker is idle. The permit is given back at once, so the run itself may still have to wait for
    /// one.
    async fn permit(&self, stopping: &CancellationToken) -> Option<ClaimPermit> {
        let may_claim = async {
            let permit = self.provider.claim_permit().await;
            self.context.admission.available().await;
            permit
        };
        tokio::select! {
            biased;
            () = stopping.cancelled() => None,
            permit = may_claim => Some(permit),
        }
    }

    /// A permit without waiting. None while the provider fails: then one job at a time is a trial.
    fn permit_now(&self, stopping: &CancellationToken) -> Option<ClaimPermit> {
        let may_run = !stopping.is_cancelled() && self.context.admission.is_available();
        if may_run { self.provider.claim_permit_now() } else { None }
    }

    /// Claims the next job, if there is one soon.
    ///
    /// Not cancellation-safe: dropping this future after the queue leased a job loses the claim until the
    /// lease expires. So shutdown lets it finish.
    async fn claim(&self, stopping: &CancellationToken) -> ClaimedJob {
        let claim = tokio::select! {
            biased;
            claim = self.queue.claim(&self.context.name, CLAIM_PATIENCE) => claim?,
            () = after(stopping, CLAIM_PATIENCE * 2) => return Ok(None),
        };
        self.queue_works();
        Ok(claim)
    }

    async fn attempt_traced(&self, claimed: Claimed, stopping: &CancellationToken) -> Attempted {
        let Claimed { claim, permit } = claimed;
        // Of that level so that every line has it, whatever `LOG_LEVEL` says.
        let span = error_span!("job", job_id = claim.job_id);
        let traced = spans::process(&claim);
        let attempt = self.attempt(&claim, permit, &traced, stopping);
        attempt.in_trace(traced.inner()).instrument(span).await
    }

    /// Makes one attempt at a job.
    async fn attempt(
        &self,
        claim: &Claim,
        permit: ClaimPermit,
        span: &Span,
        stopping: &CancellationToken,
    ) -> Attempted {
        let began = Instant::now();
        let user_id = claim.data.as_ref().map_or("", |data| &data.user_id);
        let running = self.signals.begin(&claim.job_id, user_id);
        let is_cancelled = claim.cancel_asked && self.end_unwanted(claim).await;
        let end = match &claim.data {
            _ if is_cancelled => End::Cancelled,
            Ok(data) => self.run(claim, data, &running, stopping).await,
            Err(problem) => End::Unreadable(problem.clone()),
        };
        let mut disposition = end.disposition().heard(running.model_replied.is_set());
        let spared = match disposition.provider {
            Provider::Answered => {
                self.provider.answered();
                false
            }
            Provider::Failed(fault) => self.provider.failed(&permit, fault, began, &claim.run_id),
            Provider::Unknown => false,
        };
        // Given back before the queue is told, so that the next trial need not wait for that.
        drop(permit);
        if disposition.is_excused {
            let excused = self.excuse(claim, disposition.end.as_ref()).await;
            let hand_backs = excused.hand_backs;
            if spared && hand_backs < MOST_HAND_BACKS {
                let asked = disposition.provider.retry_after();
                disposition =
                    disposition.handed_back(delay(self.provider.remaining().max(asked), hand_backs));
            }
            disposition = disposition.parked_meanwhile(excused.open);
        }
        let mut next = None;
        if let Some(attempt_end) = &disposition.end {
            let wanted = if disposition.pause { None } else { self.permit_now(stopping) };
            self.wake_parent(claim, attempt_end, ARMED).await;
            match self.settle(claim, attempt_end, wanted.is_some(), stopping).await {
                Some(claimed) => next = claimed.zip(wanted).map(|(claim, permit)| Claimed { claim, permit }),
                None => disposition.outcome = AttemptOutcome::Lost,
            }
            self.wake_parent(claim, attempt_end, Duration::ZERO).await;
            self.stop_children_of_failed(claim, attempt_end).await;
            // Also where the lease is said to be lost: that may be the answer to an end that was told twice.
            if !matches!(end, End::Ran(Ok(_))) {
                self.end_if_cancelled(claim).await;
            }
        }
        if let (
            AttemptOutcome::Parked,
            End::Ran(Err(InvokeError::Run(RunError::Parked { events, children, .. }))),
        ) = (disposition.outcome, &end)
        {
            self.resume_if_decided(claim, *events, children).await;
        }
        // Whoever begins to wait from now on looks at the job, and those who wait are woken.
        drop(running);
        spans::processed(span, disposition.outcome);
        report(claim, &end, &disposition);
        self.context.observer.attempt_ended(disposition.outcome, began.elapsed());
        Attempted { fared_well: !disposition.pause, next }
    }

    /// Drives the run. When this returns, nothing of it goes on.
    async fn run(
        &self,
        claim: &Claim,
        data: &JobData,
        running: &Running,
        stopping: &CancellationToken,
    ) -> End {
        let (cancel, model_replied) = (CancellationToken::new(), running.model_replied.clone());
        let control = RunControl { cancel: Some(cancel.clone()), model_replied, ..RunControl::default() };
        // A run that panics must not take the worker with it.
        let run = AssertUnwindSafe(self.invoke(claim, data, stopping, control)).catch_unwind();
        let mut run = std::pin::pin!(run);
        let end = tokio::select! {
            biased;
            () = running.cancelled() => End::Cancelled,
            end = self.hold(claim) => end,
            answer = &mut run => End::Ran(answer.unwrap_or(Err(RunError::Panicked.into()))),
            () = after(stopping, self.step_grace) => End::OutOfTime,
        };
        if matches!(end, End::Cancelled) {
            // Model and tools are dropped at once. What is left is for the run to write down what it had
            // cost, well within the lease.
            cancel.cancel();
            // One that had come to its end before has said so: in its journal, its record, its conversation.
            if let Ok(Ok(Ok(answer))) = timeout(LAST_WORDS, run).await {
                return End::Ran(Ok(answer));
            }
        }
        end
    }

    async fn invoke(
        &self,
        claim: &Claim,
        data: &JobData,
        stopping: &CancellationToken,
        control: RunControl,
    ) -> Result<RunAnswer, InvokeError> {
        let cancel = control.cancel.clone().unwrap_or_default();
        let _permit = tokio::select! {
            biased;
            () = stopping.cancelled() => return Err(RunError::Stopped.into()),
            () = cancel.cancelled() => return Err(RunError::Stopped.into()),
            permit = self.context.admission.acquire() => permit,
        };
        let ask = Ask {
            run_id: claim.run_id.clone(),
            principal: data.principal(),
            conversation: data.conversation_id.clone().map(InConversation::of_job),
            claim: Some(RunClaim {
                job_id: claim.job_id.clone(),
                epoch: claim.epoch,
                earlier: claim.earlier,
                is_given_up: claim.has_killed_enough(),
                // The turn of a conversation is appended before the queue is told, which may fail and hand
                // the job back.
                last_may_wait: data.conversation_id.is_none(),
                stop: stopping.clone(),
            }),
            control: RunControl {
                live: Some(self.live.run(&claim.run_id)),
                children: self.children(),
                observer: WaitObserver(self.context.observer.clone()),
                ..control
            },
            options: data.options.options.clone(),
            ..Ask::new(claim.job_id.clone(), data.input().to_owned())
        };
        self.context.agent.invoke(ask).await
    }

    /// Tells the queue how the attempt ended, and retries until that works; claims the next job with it if
    /// the worker `wants_next` and the queue can. `None` when another worker has the job by now, or when the
    /// process ends.
    async fn settle(
        &self,
        claim: &Claim,
        end: &AttemptEnd,
        wants_next: bool,
        stopping: &CancellationToken,
    ) -> Option<Option<Claim>> {
        let tell = async || {
            if wants_next {
                self.queue.settle_and_claim(claim, end, &self.context.name).await
            } else {
                self.queue.settle(claim, end).await.map(|()| None)
            }
        };
        let telling = async {
            let mut pause = Backoff::new(FIRST_PAUSE, LAST_PAUSE);
            loop {
                match timeout(CALL_LIMIT, tell()).await {
                    Ok(Ok(next)) => return Some(next),
                    Ok(Err(QueueError::LeaseLost { .. })) => return None,
                    Ok(Err(error)) => self.queue_fails(&error),
                    Err(_elapsed) => self.queue_fails(&QueueError::Store { detail: "no answer".into() }),
                }
                sleep(pause.next()).await;
            }
        };
        let told = tokio::select! {
            biased;
            told = telling => told,
            () = after(stopping, LAST_WORDS) => return None,
        };
        self.queue_works();
        told
    }

    pub(super) fn queue_fails(&self, error: &QueueError) {
        if self.outage.begins() {
            warn!(%error, "the worker waits for its queue");
        }
    }

    pub(super) fn queue_works(&self) {
        if let Some(lasted) = self.outage.ends() {
            info!(outage_ms = lasted.as_millis(), "the worker's queue works again");
        }
    }
}

/// So long after `stopping`.
async fn after(stopping: &CancellationToken, grace: Duration) {
    stopping.cancelled().await;
    sleep(grace).await;
}

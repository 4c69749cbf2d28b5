//! Runs of requests that wait for somebody: a job goes on with each.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::ports::{Epoch, JobQueue, Journal, JournalError, JournalResult, Observer, RunStore, Spawn};
use agent_core::trace::InTrace as _;
use agent_core::words::{
    Event, JobData, JobStatus, Message, OpenKinds, Options, ParkedRun, RunOutcome, RunRecord,
};
use boxed_async::boxed_async;
use futures::{FutureExt as _, TryFutureExt as _};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{Ask, Invoke, InvokeError, RunAnswer, cancel_in_journal, record_end};
use crate::clock;
use crate::journal::persist;
use crate::loop_driver::{ChildRuns, RunError, WaitObserver};
use crate::outage::Outage;

/// Hands the run of a request over to a job when it has to wait for somebody. Its journal goes to the store
/// first, and the job is added behind that: whoever is killed in between loses a run that nobody was told of.
///
/// It stands inside of [`Recorded`](super::Recorded), which forgets what it would have written of the run,
/// and outside of the heartbeat, which would write over the record. Runs of jobs pass by, and those of
/// callers who have no jobs.
pub struct Parkable<I> {
    inner: I,
    desk: Arc<Desk>,
    spawn: Arc<dyn Spawn>,
    observer: WaitObserver,
}

/// Where runs are handed over.
struct Desk {
    queue: Arc<dyn JobQueue>,
    /// Where the runs' events are until now.
    journal: Arc<dyn Journal>,
    store: Arc<dyn RunStore>,
    /// Whether queue and store fail at this moment.
    outage: Outage,
}

impl<I> Parkable<I> {
    /// Runs of `inner`, whose events are read from `journal`, become jobs of `queue`, whose journals are in
    /// `store`. Tasks that hand runs over are begun by `spawn`.
    pub fn new(
        inner: I,
        queue: Arc<dyn JobQueue>,
        journal: Arc<dyn Journal>,
        store: Arc<dyn RunStore>,
        spawn: Arc<dyn Spawn>,
    ) -> Self {
        let observer = WaitObserver::default();
        let desk = Arc::new(Desk { queue, journal, store, outage: Outage::default() });
        Self { inner, desk, spawn, observer }
    }

    /// Tells `observer` that runs begin to wait.
    #[must_use]
    pub fn observed_by(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer: WaitObserver(observer), ..self }
    }

    /// Hands a run over in a task of its own: who asked may leave meanwhile.
    async fn hand_over(&self, run: HandedOver) -> JournalResult {
        let (done, handed_over) = oneshot::channel();
        let desk = self.desk.clone();
        let work = async move {
            let _nobody_waits_any_more = done.send(desk.hand_over(run).await);
        };
        self.spawn.spawn("hand-over", work.in_current_span().in_current_trace().boxed());
        let stopped =
            || JournalError::Store { detail: "the task that hands the run over broke off".to_owned() };
        handed_over.await.unwrap_or_else(|_dropped| Err(stopped()))
    }
}

/// A run that goes to a job.
struct HandedOver {
    record: RunRecord,
    /// The kept conversation that it is part of, and what its caller said beside the input.
    conversation: Option<(String, Vec<Message>)>,
    job_id: String,
    /// When it is to be taken up at the latest.
    due: SystemTime,
    /// The kinds of things for which it waits.
    open: OpenKinds,
    /// Events so far, read before the task begins: when the caller leaves, the backlog forgets the run.
    events: Vec<Event>,
    /// Whether somebody has cancelled the run.
    cancel: Option<CancellationToken>,
}

impl Desk {
    /// The events of a run that has so many.
    async fn events(&self, run_id: &str, count: u64) -> JournalResult<Vec<Event>> {
        let events = persist(&self.outage, || self.journal.read(run_id, 0)).await?;
        if events.len() as u64 != count {
            // The backlog had no room for them.
            let detail = "the events of a run that has to wait were not kept".to_owned();
            return Err(JournalError::Store { detail });
        }
        Ok(events)
    }

    /// Tries again while a store fails: the run is paid for, and each step may be made twice.
    async fn hand_over(&self, run: HandedOver) -> JournalResult {
        let HandedOver { record, conversation, job_id, due, open, events, cancel } = run;
        let (outage, count) = (&self.outage, events.len() as u64);
        let kept = persist(outage, || self.store.read(&record.id, 0)).await?.len();
        if let Some(missing) = events.get(kept..).filter(|missing| !missing.is_empty()) {
            let first = kept as u64;
            persist(outage, || self.store.append(&record.id, Epoch::UNCLAIMED, first, missing)).await?;
        }
        // As long as it waits, it is not taken for one that has ended: neither by who reads of it nor by who
        // removes what is old.
        persist(outage, || self.store.save(&record)).await?;
        let Some(Event::Started { task, .. }) = events.into_iter().next() else {
            let detail = "the journal of a run that has to wait does not begin with it".to_owned();
            return Err(JournalError::Store { detail });
        };
        // What the job does stands in the journal. Its options are for its turn in a conversation, and for
        // another run if somebody has the job tried again when it has failed.
        let (conversation_id, own) = conversation.unzip();
        let history = own.unwrap_or(task.options.history);
        let options = Options { history, ..task.options };
        let job = JobData {
            id: Some(job_id.clone()),
            goes_on: Some(ParkedRun { run_id: record.id.clone(), until: due, open }),
            conversation_id,
            ..JobData::with_options(task.principal, task.input, options)
        };
        persist(outage, || self.queue.add(&job).map_err(JournalError::from)).await?;
        // Another replica may have cancelled the run in its journal before it could know of the job.
        // silent-ok: then the job finds that out when its wait expires.
        let later = persist(outage, || self.store.read(&record.id, count)).await.unwrap_or_default();
        if later.contains(&Event::Cancelled) || cancel.is_some_and(|cancel| cancel.is_cancelled()) {
            persist(outage, || self.queue.cancel(&job_id).map_err(JournalError::from)).await?;
            self.end_cancelled(&record, &job_id).await?;
        }
        Ok(())
    }

    /// Ends the run of a job that was cancelled before anybody could claim it. Whoever has cancelled the run
    /// in its journal may have died behind that.
    async fn end_cancelled(&self, record: &RunRecord, job_id: &str) -> JournalResult {
        let (outage, store) = (&self.outage, &*self.store);
        let job = persist(outage, || self.queue.read(job_id).map_err(JournalError::from)).await?;
        if job.is_none_or(|job| job.status != JobStatus::Cancelled) {
            return Ok(());
        }
        let cancel = async || cancel_in_journal(store, &record.id, store.read(&record.id, 0).await?).await;
        // The conflict is with a decision that was under way. None can be made about a job that is cancelled.
        while let Err(error) = persist(outage, &cancel).await {
            if !matches!(error, JournalError::Conflict { .. }) {
                return Err(error);
            }
        }
        let save = || {
            let mut record = record.clone();
            async move { record_end(store, &mut record).await }
        };
        persist(outage, save).await.map(drop)
    }
}

#[boxed_async]
impl<I: Invoke> Invoke for Parkable<I> {
    async fn invoke(&self, mut ask: Ask) -> Result<RunAnswer, InvokeError> {
        if ask.claim.is_some() || ask.principal.user_id.is_none() {
            return self.inner.invoke(ask).await;
        }
        let job_id = clock::new_id();
        ask.control.job_id = Some(job_id.clone());
        ask.control.observer = self.observer.clone();
        ask.control.children = ChildRuns::by_job_of(&*self.desk.queue);
        let mut record = RunRecord { job_id: Some(job_id.clone()), ..ask.record(RunOutcome::Running) };
        let conversation = ask.control.conversation_id.clone().zip(Some(ask.control.own_history.clone()));
        let (cancel, handed_over) = (ask.control.cancel.clone(), ask.control.handed_over.clone());
        match self.inner.invoke(ask).await {
            Err(InvokeError::Run(RunError::Parked { until, due, events, open, .. })) => {
                record.finished_at = UNIX_EPOCH + Duration::from_millis(until);
                let events = self.desk.events(&record.id, events).await.map_err(RunError::Journal)?;
                handed_over.set();
                let due = UNIX_EPOCH + Duration::from_millis(due);
                let run =
                    HandedOver { record, conversation, job_id: job_id.clone(), due, open, events, cancel };
                self.hand_over(run).await.map_err(RunError::Journal)?;
                Err(InvokeError::Waits { job_id })
            }
            ended => ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_core::ports::Unobserved;
    use agent_core::testing::{EchoTools, ScriptedModel, TestQueue, TestRuns, TokioSpawn, asks_for};
    use agent_core::words::{Principal, StopReason};
    use serde_json::json;
    use tokio::time::sleep;

    use super::*;
    use crate::journal::{Backlog, WriteBehind};
    use crate::layers::{Agent, Recorded};

    /// Requests whose runs have to wait for an approval of their only call.
    struct Bench {
        queue: Arc<TestQueue>,
        runs: Arc<TestRuns>,
        requests: Recorded<Parkable<Agent>>,
    }

    fn bench() -> Bench {
        let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
        let (behind, flusher) = WriteBehind::new(runs.clone(), Backlog::default(), Arc::new(Unobserved));
        TokioSpawn.spawn("flusher", Box::pin(async move { flusher.run(CancellationToken::new()).await }));
        let journal: Arc<dyn Journal> = Arc::new(behind.clone());
        let model = ScriptedModel::new([Ok(asks_for(&[("1", "pay", json!({}))]))]);
        let tools = EchoTools::new(&["pay"]).approved_by("pay", "sha256:policy");
        let agent = Agent::new(Arc::new(model), Arc::new(tools), journal.clone());
        let run = Parkable::new(agent, queue.clone(), journal, runs.clone(), Arc::new(TokioSpawn));
        Bench { queue, runs, requests: Recorded::new(run, behind) }
    }

    fn ask() -> Ask {
        Ask { principal: Principal::user("u1"), ..Ask::new("r".into(), "pay".into()) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_handed_over_although_its_caller_leaves_before_that_has_begun() {
        let bench = bench();
        assert!(bench.requests.invoke(ask()).now_or_never().is_none());
        sleep(Duration::from_secs(1)).await;
        let jobs = bench.queue.look(|job, _| Some((job.status, job.run_id.clone())));
        let [(JobStatus::Parked, run_id)] = &jobs[..] else { panic!("{jobs:?}") };
        assert_eq!(bench.runs.events(run_id).len(), 3);
        let records = bench.runs.records();
        assert!(matches!(&records[..], [RunRecord { outcome: RunOutcome::Running, .. }]), "{records:?}");
    }

    /// The run of a request that is cancelled while the queue is away: by its owner, or by another replica,
    /// which died behind that.
    #[tokio::test(start_paused = true)]
    async fn a_run_that_is_cancelled_while_it_is_handed_over_ends() {
        for is_elsewhere in [false, true] {
            let bench = bench();
            bench.queue.switch.fail(true);
            let (mut ask, cancel) = (ask(), CancellationToken::new());
            ask.control.cancel = Some(cancel.clone());
            let run_id = ask.run_id.clone();
            let meanwhile = async {
                sleep(Duration::from_secs(2)).await;
                if is_elsewhere {
                    bench.runs.append(&run_id, Epoch::FINAL, 3, &[Event::Cancelled]).await.unwrap();
                } else {
                    cancel.cancel();
                }
                bench.queue.switch.fail(false);
            };
            let (answer, ()) = tokio::join!(bench.requests.invoke(ask), meanwhile);
            assert!(matches!(answer, Err(InvokeError::Waits { .. })), "{answer:?}");
            assert_eq!(bench.queue.look(|job, _| Some(job.status)), [JobStatus::Cancelled]);
            let events = bench.runs.events(&run_id);
            assert_eq!((events.len(), events.last()), (4, Some(&Event::Cancelled)), "{is_elsewhere}");
            let records = bench.runs.records();
            let [RunRecord { outcome: RunOutcome::Ended { stop_reason, .. }, job_id, .. }] = &records[..]
            else {
                panic!("{records:?}")
            };
            assert_eq!((*stop_reason, job_id.is_some()), (StopReason::Cancelled, true));
        }
    }
}

//! Where the jobs of the queue stand, without anybody who waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::backoff::exponential;
use agent_core::ports::queue::{ATTEMPTS, FIRST_BACKOFF};
use agent_core::ports::{AttemptEnd, Claim, EarlierClaims, Epoch, QueueError};
use agent_core::testing::clock::store_clock;
use agent_core::words::{Job, JobData, JobStatus, OpenKinds};
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) jobs: BTreeMap<u64, Entry>,
    pub(super) by_id: BTreeMap<String, u64>,
    /// Ids of jobs in the order in which they ended.
    pub(super) ended: Vec<String>,
    pub(super) claims: u64,
    pub(super) runs: u64,
    pub(super) last_place: i64,
    pub(super) first_place: i64,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) job: Job,
    pub(super) data: JobData,
    /// Where it stands among those that wait.
    pub(super) place: i64,
    /// When anybody may claim it who may not yet.
    pub(super) due: Option<Instant>,
    /// For what its run waits, while it is parked.
    pub(super) open: OpenKinds,
    /// Who holds it, while it is active.
    pub(super) held: Option<Held>,
    pub(super) cancel_asked: bool,
    pub(super) epoch: u64,
    /// Claims of the run, and those that were lost.
    pub(super) claims: u32,
    pub(super) lost: u32,
    /// The last end, told again by whoever had no answer.
    pub(super) last_end: Option<LastEnd>,
}

#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) token: String,
    pub(super) worker: String,
    pub(super) renewed: Instant,
    pub(super) until: Instant,
}

#[derive(Debug, Clone)]
pub(super) struct LastEnd {
    pub(super) token: String,
    pub(super) end: String,
    pub(super) next: Option<Claim>,
}

impl State {
    pub(super) fn of_id(&mut self, job_id: &str) -> Option<&mut Entry> {
        self.jobs.get_mut(self.by_id.get(job_id)?)
    }

    pub(super) fn new_run(&mut self) -> String {
        self.runs += 1;
        format!("run_{:032x}", self.runs)
    }

    pub(super) fn add(&mut self, data: &JobData) -> String {
        let number = self.jobs.len() as u64 + 1;
        let id = data.id.clone().unwrap_or_else(|| number.to_string());
        if self.by_id.contains_key(&id) {
            return id;
        }
        let left = |until: SystemTime| until.duration_since(store_clock()).unwrap_or_default();
        let parked = data.goes_on.clone();
        let run_id = parked.as_ref().map(|parked| parked.run_id.clone());
        self.last_place += 1;
        let job = Job {
            id: id.clone(),
            run_id: run_id.unwrap_or_else(|| self.new_run()),
            user_id: data.user_id.clone(),
            status: if parked.is_some() { JobStatus::Parked } else { JobStatus::Waiting },
            result: None,
            error: None,
            attempts_made: 0,
            created_at: to_millis(store_clock()),
            started_at: None,
            finished_at: None,
            parent: data.parent.clone(),
        };
        let entry = Entry {
            number,
            job,
            data: JobData { id: None, goes_on: None, ..data.clone() },
            place: self.last_place,
            due: parked.as_ref().map(|parked| Instant::now() + left(parked.until)),
            open: parked.as_ref().map(|parked| parked.open).unwrap_or_default(),
            held: None,
            cancel_asked: false,
            epoch: 0,
            // The run of a parked job was begun before the job was added.
            claims: u32::from(parked.is_some()),
            lost: 0,
            last_end: None,
        };
        self.by_id.insert(id.clone(), number);
        self.jobs.insert(number, entry);
        id
    }

    /// Puts those whose time has come among those that wait.
    pub(super) fn promote(&mut self, now: Instant) {
        for entry in self.jobs.values_mut().filter(|entry| entry.due.is_some_and(|due| due <= now)) {
            self.last_place += 1;
            entry.wait_at(self.last_place);
        }
    }

    /// When anything may be claimed that may not yet.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due =
            self.jobs.values().filter_map(|entry| entry.due.or(entry.held.as_ref().map(|held| held.until)));
        due.min()
    }

    pub(super) fn claim(&mut self, worker: &str, lease: Duration) -> Option<Claim> {
        let now = Instant::now();
        self.promote(now);
        let free = self.jobs.values_mut().filter(|entry| entry.is_waiting() || entry.is_lost(now));
        let entry = free.min_by_key(|entry| entry.place)?;
        self.claims += 1;
        entry.lost += u32::from(entry.is_lost(now));
        let token = format!("{:032x}", self.claims);
        entry.claims += 1;
        entry.epoch += 1;
        entry.held =
            Some(Held { token: token.clone(), worker: worker.to_owned(), renewed: now, until: now + lease });
        entry.job.status = JobStatus::Active;
        entry.job.started_at = Some(to_millis(store_clock()));
        Some(Claim {
            job_id: entry.job.id.clone(),
            token,
            epoch: Epoch(entry.epoch),
            earlier: EarlierClaims { are_none: entry.claims == 1, lost: entry.lost },
            run_id: entry.job.run_id.clone(),
            data: Ok(entry.data.clone()),
            attempts_made: entry.job.attempts_made,
            created_at: entry.job.created_at,
            trace: None,
            leased_at: now.into_std(),
            notes: Arc::default(),
        })
    }

    pub(super) fn settle(&mut self, claim: &Claim, end: &AttemptEnd) -> Result<Option<LastEnd>, QueueError> {
        let (first_place, last_place) = (self.first_place, self.last_place);
        let lost = || QueueError::LeaseLost { job_id: claim.job_id.clone() };
        let entry = self.of_id(&claim.job_id).ok_or_else(lost)?;
        let told = format!("{end:?}");
        if let Some(last) =
            entry.last_end.as_ref().filter(|last| last.token == claim.token && last.end == told)
        {
            return Ok(Some(last.clone()));
        }
        if entry.held.as_ref().is_none_or(|held| held.token != claim.token) {
            return Err(lost());
        }
        entry.end(end, first_place - 1, last_place + 1);
        entry.last_end = Some(LastEnd { token: claim.token.clone(), end: told, next: None });
        let (id, has_ended) = (entry.job.id.clone(), entry.job.status.has_ended());
        (self.first_place, self.last_place) = (first_place - 1, last_place + 1);
        if has_ended {
            self.ended.push(id);
        }
        Ok(None)
    }
}

impl Entry {
    fn is_waiting(&self) -> bool {
        self.job.status == JobStatus::Waiting
    }

    /// Whether its worker is taken for dead.
    fn is_lost(&self, now: Instant) -> bool {
        self.held.as_ref().is_some_and(|held| held.until <= now)
    }

    pub(super) fn wait_at(&mut self, place: i64) {
        (self.place, self.due, self.held, self.job.status) = (place, None, None, JobStatus::Waiting);
    }

    fn wait_until(&mut self, status: JobStatus, within: Duration) {
        (self.due, self.held, self.job.status) = (Some(Instant::now() + within), None, status);
    }

    pub(super) fn finish(&mut self, status: JobStatus) {
        (self.due, self.held, self.job.status) = (None, None, status);
        self.job.finished_at = Some(to_millis(store_clock()));
    }

    fn end(&mut self, end: &AttemptEnd, front: i64, back: i64) {
        let counts = !matches!(end, AttemptEnd::HandedBack { .. } | AttemptEnd::Parked { .. });
        self.job.attempts_made += u32::from(counts);
        match end {
            AttemptEnd::Completed(result) => {
                (self.job.result, self.job.error) = (Some(result.clone()), None);
                self.finish(JobStatus::Completed);
            }
            AttemptEnd::Cancelled => self.finish(JobStatus::Cancelled),
            AttemptEnd::Failed { error, retry } => {
                self.job.error = Some(error.clone());
                match (*retry && self.job.attempts_made < ATTEMPTS, self.cancel_asked) {
                    (true, false) => {
                        let pause = exponential(FIRST_BACKOFF, self.job.attempts_made.saturating_sub(1));
                        self.wait_until(JobStatus::Delayed, pause);
                    }
                    (true, true) => self.finish(JobStatus::Cancelled),
                    (false, _) => self.finish(JobStatus::Failed),
                }
            }
            AttemptEnd::Parked { .. } | AttemptEnd::HandedBack { .. } if self.cancel_asked => {
                self.finish(JobStatus::Cancelled);
            }
            AttemptEnd::Parked { until, open } => {
                self.open = *open;
                let left = until.duration_since(store_clock()).unwrap_or_default();
                self.wait_until(JobStatus::Parked, left);
            }
            AttemptEnd::HandedBack { delay } if delay.is_zero() => self.wait_at(front),
            AttemptEnd::HandedBack { delay } => {
                self.place = back;
                self.wait_until(JobStatus::Delayed, *delay);
            }
        }
    }
}

fn to_millis(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

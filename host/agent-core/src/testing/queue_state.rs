//! Where the jobs of the queue in memory stand, without anybody who waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::clock::store_clock;
use crate::backoff::exponential;
use crate::ports::queue::{ATTEMPTS, FIRST_BACKOFF};
use crate::ports::{AttemptEnd, Claim, EarlierClaims, Epoch, QueueError};
use crate::trace::{self, TraceContext};
use crate::words::{Job, JobData, JobStatus, OpenKinds};

/// For how long after a server forgot something its queue knows nothing for sure of the claims of a job.
const NOT_SURE_FOR: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) jobs: BTreeMap<u64, Entry>,
    pub(super) by_id: BTreeMap<String, u64>,
    /// Numbers of the jobs that have not ended, and of some that have.
    pub(super) open: BTreeSet<u64>,
    /// Ids of jobs in the order in which they ended.
    pub(super) ended: Vec<String>,
    pub(super) claims: u64,
    runs: u64,
    pub(super) last_place: i64,
    pub(super) first_place: i64,
    /// The highest number of a job that was forgotten: no other one gets it.
    forgotten: u64,
    forgot_at: Option<Instant>,
    /// Whether claims are numbered by the time, so that no number comes twice when claims are forgotten.
    pub(super) is_numbered_by_time: bool,
    /// The least number of a claim by the time, higher after each restart: no server is up again in the
    /// millisecond in which it went down.
    first_epoch: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) job: Job,
    pub(super) data: Result<JobData, String>,
    trace: Option<TraceContext>,
    added: Instant,
    /// Where it stands among those that wait.
    pub(super) place: i64,
    /// When anybody may claim it who may not yet.
    pub(super) due: Option<Instant>,
    /// For what its run waits, while it is parked.
    pub(super) open: OpenKinds,
    /// Who holds it, while it is active.
    pub(super) held: Option<Held>,
    pub(super) cancel_asked: bool,
    epoch: u64,
    /// Claims of the run, and those that were lost.
    pub(super) claims: u32,
    pub(super) lost: u32,
    /// The last end, told again by whoever had no answer.
    pub(super) last_end: Option<LastEnd>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Held {
    pub(super) token: String,
    pub(super) worker: String,
    pub(super) renewed: Instant,
    pub(super) until: Instant,
}

#[derive(Debug, Clone)]
pub(super) struct LastEnd {
    token: String,
    end: String,
    pub(super) next: Option<Claim>,
}

impl State {
    pub(super) fn of_id(&mut self, job_id: &str) -> Option<&mut Entry> {
        self.jobs.get_mut(self.by_id.get(job_id)?)
    }

    pub(super) fn entry(&self, job_id: &str) -> Option<&Entry> {
        self.jobs.get(self.by_id.get(job_id)?)
    }

    pub(super) fn new_run(&mut self) -> String {
        self.runs += 1;
        format!("run_job_{}", self.runs)
    }

    pub(super) fn add(&mut self, user_id: &str, data: Result<JobData, String>) -> String {
        let last = self.jobs.last_key_value().map_or(0, |(number, _)| *number);
        let number = last.max(self.forgotten) + 1;
        let wanted = data.as_ref().ok();
        let id = wanted.and_then(|data| data.id.clone()).unwrap_or_else(|| number.to_string());
        if self.by_id.contains_key(&id) {
            return id;
        }
        let left = |until: SystemTime| until.duration_since(store_clock()).unwrap_or_default();
        let begun = wanted.and_then(|data| data.goes_on.clone());
        let parked = begun.as_ref().filter(|run| run.is_parked(store_clock()));
        let parent = wanted.and_then(|data| data.parent.clone());
        let run_id = wanted.and_then(JobData::known_run);
        self.last_place += 1;
        // The run may have been begun before the job was added.
        let claims = u32::from(run_id.is_some());
        let job = Job {
            id: id.clone(),
            run_id: run_id.unwrap_or_else(|| self.new_run()),
            user_id: user_id.to_owned(),
            status: if parked.is_some() { JobStatus::Parked } else { JobStatus::Waiting },
            result: None,
            error: None,
            attempts_made: 0,
            created_at: to_millis(store_clock()),
            started_at: None,
            finished_at: None,
            parent,
        };
        let entry = Entry {
            number,
            job,
            data: data.map(|data| JobData { id: None, goes_on: None, ..data }),
            trace: trace::current(),
            added: Instant::now(),
            place: self.last_place,
            due: parked.map(|parked| Instant::now() + left(parked.until)),
            open: parked.map(|parked| parked.open).unwrap_or_default(),
            held: None,
            cancel_asked: false,
            epoch: 0,
            claims,
            lost: 0,
            last_end: None,
        };
        self.by_id.insert(id.clone(), number);
        self.open.insert(number);
        self.jobs.insert(number, entry);
        id
    }

    /// Whether that claim still holds its job, whose lease then begins anew.
    pub(super) fn is_held(&mut self, claim: &Claim, lease: Duration) -> bool {
        let held = self.of_id(&claim.job_id).and_then(|entry| entry.held.as_mut());
        let Some(held) = held.filter(|held| held.token == claim.token) else { return false };
        held.renewed = Instant::now();
        held.until = held.renewed + lease;
        true
    }

    pub(super) fn remove(&mut self, job_id: &str) {
        if let Some(number) = self.by_id.remove(job_id) {
            self.jobs.remove(&number);
        }
        self.ended.push(job_id.to_owned());
    }

    /// Puts the jobs whose time has come among those that wait: in front the ones whose wait has expired,
    /// behind the others.
    pub(super) fn promote(&mut self, now: Instant) {
        self.open.retain(|number| self.jobs.get(number).is_some_and(|entry| !entry.job.status.has_ended()));
        let mut expired = Vec::new();
        for number in &self.open {
            let Some(entry) = self.jobs.get_mut(number) else { continue };
            let Some(due) = entry.due.filter(|due| *due <= now) else { continue };
            if entry.job.status == JobStatus::Parked {
                expired.push((due, *number));
            } else {
                self.last_place += 1;
                entry.wait_at(self.last_place);
            }
        }
        // The wait that expired first is claimed first.
        expired.sort_unstable();
        for (_, number) in expired.iter().rev() {
            if let Some(entry) = self.jobs.get_mut(number) {
                self.first_place -= 1;
                entry.wait_at(self.first_place);
            }
        }
    }

    fn open(&self) -> impl Iterator<Item = &Entry> {
        self.open.iter().filter_map(|number| self.jobs.get(number))
    }

    /// When anything may be claimed that may not yet.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = |entry: &Entry| entry.due.or(entry.held.as_ref().map(|held| held.until));
        self.open().filter_map(due).min()
    }

    pub(super) fn claim(&mut self, worker: &str, lease: Duration) -> Option<Claim> {
        let now = Instant::now();
        self.promote(now);
        let free = self.open().filter(|entry| entry.is_waiting() || entry.is_lost(now));
        let number = free.min_by_key(|entry| entry.place)?.number;
        let entry = self.jobs.get_mut(&number)?;
        self.claims += 1;
        entry.lost += u32::from(entry.is_lost(now));
        let token = format!("{:032x}", self.claims);
        entry.claims += 1;
        entry.epoch += 1;
        if self.is_numbered_by_time {
            entry.epoch = entry.epoch.max(millis(store_clock())).max(self.first_epoch);
        }
        let is_sure = self.forgot_at.is_none_or(|forgot| entry.added > forgot + NOT_SURE_FOR);
        entry.held =
            Some(Held { token: token.clone(), worker: worker.to_owned(), renewed: now, until: now + lease });
        entry.job.status = JobStatus::Active;
        entry.job.started_at = Some(to_millis(store_clock()));
        Some(Claim {
            job_id: entry.job.id.clone(),
            token,
            epoch: Epoch(entry.epoch),
            earlier: EarlierClaims { are_none: entry.claims == 1 && is_sure, lost: entry.lost },
            run_id: entry.job.run_id.clone(),
            cancel_asked: entry.cancel_asked,
            data: entry.data.clone(),
            attempts_made: entry.job.attempts_made,
            created_at: entry.job.created_at,
            trace: entry.trace,
            leased_at: now.into_std(),
            notes: Arc::default(),
        })
    }

    pub(super) fn settle(&mut self, claim: &Claim, end: &AttemptEnd) -> Result<Option<LastEnd>, QueueError> {
        let (first_place, last_place) = (self.first_place, self.last_place);
        let lost = || QueueError::LeaseLost { job_id: claim.job_id.clone() };
        let entry = self.of_id(&claim.job_id).ok_or_else(lost)?;
        let is_last = |last: &&LastEnd| last.token == claim.token && last.end == told(end);
        if let Some(last) = entry.last_end.as_ref().filter(is_last) {
            return Ok(Some(last.clone()));
        }
        if entry.held.as_ref().is_none_or(|held| held.token != claim.token) {
            return Err(lost());
        }
        entry.end(end, first_place - 1, last_place + 1);
        entry.last_end = Some(LastEnd { token: claim.token.clone(), end: told(end), next: None });
        let (id, has_ended) = (entry.job.id.clone(), entry.job.status.has_ended());
        (self.first_place, self.last_place) = (first_place - 1, last_place + 1);
        if has_ended {
            self.ended.push(id);
        }
        Ok(None)
    }

    /// Which life of the server this is, if it forgets when it is restarted.
    pub(super) fn incarnation(&self) -> Option<u64> {
        (self.is_numbered_by_time || self.forgot_at.is_some()).then_some(self.first_epoch)
    }

    /// Goes back to `earlier`, and says of which jobs anything was forgotten. What is given once is not given
    /// again: numbers of jobs, names of runs, tokens.
    pub(super) fn go_back(&mut self, earlier: Self) -> BTreeSet<String> {
        let later = std::mem::replace(self, earlier);
        let changed = |(number, later): &(&u64, &Entry)| {
            self.jobs.get(number).is_none_or(|entry| !entry.stands_as(later))
        };
        let undone = later.jobs.iter().filter(changed).map(|(_, entry)| entry.job.id.clone()).collect();
        let last = later.jobs.last_key_value().map_or(0, |(number, _)| *number);
        (self.claims, self.runs) = (later.claims, later.runs);
        self.forgotten = last.max(later.forgotten);
        self.forgot_at = Some(Instant::now());
        self.first_epoch = millis(store_clock()) + 1;
        undone
    }
}

/// An end as it is compared with one that is told again.
fn told(end: &AttemptEnd) -> String {
    format!("{end:?}")
}

impl Entry {
    fn is_waiting(&self) -> bool {
        self.job.status == JobStatus::Waiting
    }

    /// Whether nobody could tell the two apart but by when the claim was renewed.
    fn stands_as(&self, other: &Self) -> bool {
        let token = |entry: &Self| entry.held.as_ref().map(|held| held.token.clone());
        let job = |entry: &Self| (entry.job.status, entry.job.run_id.clone(), entry.job.finished_at);
        job(self) == job(other)
            && token(self) == token(other)
            && (self.due, self.epoch, self.cancel_asked) == (other.due, other.epoch, other.cancel_asked)
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

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn to_millis(time: SystemTime) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis(time))
}

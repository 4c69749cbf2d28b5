//! The queue in memory beside its port: tests and simulations look into it, and break it.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::queue::TestQueue;
use super::queue_state::{Entry, Held, State};
use crate::words::{Job, JobData};

/// The jobs that a queue held at some time.
pub struct HeldJobs(State);

impl TestQueue {
    /// Adds a job whose payload cannot be read.
    pub fn add_broken(&self, problem: &str) -> String {
        let id = self.write().add("nobody", Err(problem.into()));
        self.wake();
        id
    }

    /// A job, read without the switch.
    ///
    /// # Panics
    /// When there is none of that id.
    pub fn job(&self, job_id: &str) -> Job {
        self.find(job_id).unwrap_or_else(|| panic_no_job(job_id))
    }

    /// A job, if there is one of that id.
    pub fn find(&self, job_id: &str) -> Option<Job> {
        self.state.lock().entry(job_id).map(|entry| entry.job.clone())
    }

    /// What every job is to do, in the order in which they were added.
    pub fn added(&self) -> Vec<JobData> {
        self.look(|_, data| data.cloned())
    }

    /// Changes how a job stands, as if a worker had.
    ///
    /// # Panics
    /// When there is none of that id.
    pub fn change(&self, job_id: &str, change: impl FnOnce(&mut Job)) {
        match self.write().of_id(job_id) {
            Some(entry) => change(&mut entry.job),
            None => drop(panic_no_job(job_id)),
        }
        self.wake();
    }

    /// Looks at every job, as it stands, and at what is known of it.
    pub fn look<T>(&self, mut look: impl FnMut(&Job, Option<&JobData>) -> Option<T>) -> Vec<T> {
        let state = self.state.lock();
        state.jobs.values().filter_map(|entry| look(&entry.job, entry.data.as_ref().ok())).collect()
    }

    /// How many claims of the job's run were lost.
    pub fn lost_claims(&self, job_id: &str) -> u32 {
        self.state.lock().entry(job_id).map_or(0, |entry| entry.lost)
    }

    /// How many jobs that worker holds.
    pub fn held_by(&self, worker: &str) -> usize {
        let held = |entry: &&Entry| entry.held.as_ref().is_some_and(|held| held.worker == worker);
        self.state.lock().jobs.values().filter(held).count()
    }

    /// The token of whoever holds the job.
    pub fn token_of(&self, job_id: &str) -> Option<String> {
        self.state.lock().entry(job_id)?.held.as_ref().map(|held| held.token.clone())
    }

    /// Makes a job claimable although somebody holds it, without that anybody knows: what a queue must never
    /// do.
    pub fn forget_holder(&self) {
        if let Some(held) = self.write().jobs.values_mut().find_map(|entry| entry.held.as_mut()) {
            held.until = Instant::now();
        }
        self.wake();
    }

    /// Removes a job, as an operator does. Another one may get its id.
    pub fn remove(&self, job_id: &str) {
        self.write().remove(job_id);
        self.wake();
    }

    /// Gives the job's lease to somebody else.
    pub fn steal(&self, job_id: &str) {
        let now = Instant::now();
        let (token, worker, until) = ("a thief".to_owned(), "a thief".to_owned(), now + self.lease);
        if let Some(entry) = self.write().of_id(job_id) {
            entry.held = Some(Held { token, worker, renewed: now, until });
        }
    }

    /// How many jobs were claimed with the end of another one.
    pub fn handed_over(&self) -> u64 {
        *self.handed_over.lock()
    }

    /// How many jobs were claimed.
    pub fn claims(&self) -> u64 {
        self.state.lock().claims
    }

    /// Numbers claims by the time: one whose claim is forgotten is not followed by another one of its number.
    #[must_use]
    pub fn numbered_by_time(self) -> Self {
        self.state.lock().is_numbered_by_time = true;
        self
    }

    /// Has `look` called before each change.
    pub fn before_writes(&self, look: impl Fn(&Self) + Send + Sync + 'static) {
        // Set once, before the queue is used.
        let _is_first = self.before_writes.set(Box::new(look));
    }

    /// All jobs that it holds now.
    pub fn held_now(&self) -> HeldJobs {
        HeldJobs(self.state.lock().clone())
    }

    /// Forgets everything since then, as the server does that did not keep it. Says of which jobs something
    /// was forgotten.
    pub fn go_back(&self, to: HeldJobs) -> BTreeSet<String> {
        let undone = self.state.lock().go_back(to.0);
        self.wake();
        undone
    }
}

#[expect(clippy::panic, reason = "a test that asks for it has lost it")]
fn panic_no_job(job_id: &str) -> Job {
    panic!("there is no job {job_id}")
}

impl std::fmt::Debug for HeldJobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldJobs").field("jobs", &self.0.jobs.len()).finish()
    }
}

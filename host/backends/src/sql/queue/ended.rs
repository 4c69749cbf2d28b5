//! Which jobs have ended, told among the processes on one PostgreSQL (`NOTIFY`), for those who wait for jobs
//! that another process works on.
//!
//! An end is announced behind its statement and not in it: PostgreSQL commits transactions that notify one
//! after the other. Those of a few milliseconds are announced together. An announcement that is lost, or was
//! never made, as by a program of an earlier release, costs whoever waits [`UNANNOUNCED_INTERVAL`].
//!
//! What does not belong here: the connection that listens (`../listener.rs`). SQLite tells nothing: its
//! processes poll.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;

use agent_core::ports::{ChangedJobs, JobChanges, QueueError};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use crate::sql::SqlPool;
use crate::sql::error::describe;
use crate::sql::listener::ENDED_JOBS;
use crate::sql::listening;

/// For how long ends gather until they are announced.
const GATHER: Duration = Duration::from_millis(10);

/// After how long without news whoever waits looks at the table nevertheless.
const UNANNOUNCED_INTERVAL: Duration = Duration::from_secs(5);

/// How long whoever asks first is kept until announcements are heard. Connecting and the proof of that take
/// up to 2 s each.
const HEARD_WITHIN: Duration = Duration::from_secs(5);

/// How many ends are remembered for whoever asks next.
const MOST_REMEMBERED: usize = 4096;

/// How many ends may wait to be announced one by one.
const MOST_UNANNOUNCED: usize = 4096;

/// PostgreSQL takes texts below 8,000 bytes.
const LONGEST_TEXT: usize = 7_000;

/// Stands for any job.
const ANY: &str = "*";

/// Ends that are to be announced, and those that were heard of.
#[derive(Debug, Default)]
pub(super) struct EndedJobs {
    /// What this process has ended and not announced yet.
    own: Mutex<Vec<String>>,
    has_own: Notify,
    heard: Mutex<Heard>,
    changed: Notify,
}

/// What others have ended, in the order in which that was heard.
#[derive(Debug, Default)]
struct Heard {
    /// Whether announcements arrive.
    is_listening: bool,
    /// The number of the first that is remembered. A cursor before it has missed some.
    first: u64,
    jobs: VecDeque<String>,
    /// When it was last said that it may be any job.
    said_any: Option<Instant>,
}

impl Heard {
    fn end(&self) -> u64 {
        self.first + self.jobs.len() as u64
    }

    fn remember(&mut self, job_id: &str) {
        if self.jobs.len() >= MOST_REMEMBERED {
            self.jobs.pop_front();
            self.first += 1;
        }
        self.jobs.push_back(job_id.to_owned());
    }

    /// Whether ends that nobody announced have to be looked for.
    fn is_any_due(&self) -> bool {
        self.said_any.is_none_or(|said| said.elapsed() >= UNANNOUNCED_INTERVAL)
    }

    /// Any job may have ended: the asker looks at all jobs that it waits for.
    fn any(&mut self) -> JobChanges {
        self.said_any = Some(Instant::now());
        JobChanges { cursor: self.end().to_string(), jobs: ChangedJobs::Any }
    }

    /// Forgets all ended jobs. Every cursor has missed something now, so the next change may be of any job.
    fn forget(&mut self) {
        self.first = self.end() + 1;
        self.jobs.clear();
    }
}

impl EndedJobs {
    /// A job has ended in this process.
    pub(super) fn ended(&self, job_id: &str) {
        let mut own = self.own.lock();
        // One more says that there were too many.
        if own.len() <= MOST_UNANNOUNCED {
            own.push(job_id.to_owned());
        }
        drop(own);
        self.has_own.notify_one();
    }

    /// A job has ended in this process, and whoever waits for it here does not know.
    pub(super) fn ended_unseen(&self, job_id: &str) {
        self.heard.lock().remember(job_id);
        self.changed.notify_waiters();
        self.ended(job_id);
    }

    /// Announces what this process ends, for ever. `process` begins each text.
    pub(super) async fn announce(&self, pool: &SqlPool, process: &str) {
        let SqlPool::Postgres(postgres) = pool else { return std::future::pending().await };
        loop {
            self.has_own.notified().await;
            sleep(GATHER).await;
            let own = std::mem::take(&mut *self.own.lock());
            for text in texts(process, &own) {
                if let Err(error) = listening::announce(postgres, ENDED_JOBS, &text).await {
                    tracing::debug!(
                        error = describe(&error),
                        "ends of jobs are not announced; who waits for them looks by itself"
                    );
                }
            }
        }
    }

    /// From now on announcements arrive, or do not. Either way some may have been missed.
    pub(super) fn listening(&self, is_listening: bool) {
        let mut heard = self.heard.lock();
        heard.is_listening = is_listening;
        heard.forget();
        drop(heard);
        self.changed.notify_waiters();
    }

    /// An announcement has arrived. Those of `process` itself are known.
    pub(super) fn hear(&self, text: &str, process: &str) {
        let Some((from, jobs)) = text.split_once('\n') else { return };
        if from == process {
            return;
        }
        let mut heard = self.heard.lock();
        for job in jobs.split('\n') {
            if job == ANY {
                heard.forget();
                continue;
            }
            heard.remember(job);
        }
        drop(heard);
        self.changed.notify_waiters();
    }

    /// As [`agent_core::ports::JobQueue::changes`] says. An error while nothing is heard.
    pub(super) async fn changes(&self, after: Option<&str>) -> Result<JobChanges, QueueError> {
        let deadline = match after {
            Some(_) => self.next_look(),
            None => Instant::now() + HEARD_WITHIN,
        };
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // From here on nothing that is heard is missed.
            changed.as_mut().enable();
            let deaf = match self.known(after) {
                Ok(Some(changes)) => return Ok(changes),
                Ok(None) => None,
                Err(deaf) if after.is_some() => return Err(deaf),
                Err(deaf) => Some(deaf),
            };
            if timeout_at(deadline, changed).await.is_err() {
                return deaf.map_or_else(|| Ok(self.heard.lock().any()), Err);
            }
        }
    }

    /// What is known by now; nothing when there is nothing new.
    fn known(&self, after: Option<&str>) -> Result<Option<JobChanges>, QueueError> {
        let mut heard = self.heard.lock();
        if !heard.is_listening {
            let detail = "what other processes announce is not heard".to_owned();
            return Err(QueueError::Store { detail });
        }
        let cursor = heard.end().to_string();
        let after = after.and_then(|after| after.parse::<u64>().ok());
        let is_known = |after: &u64| (heard.first..=heard.end()).contains(after);
        // Also while other ends come, or those that nobody announced would wait for a quiet moment.
        let Some(after) = after.filter(is_known).filter(|_| !heard.is_any_due()) else {
            return Ok(Some(heard.any()));
        };
        let known = usize::try_from(after - heard.first).unwrap_or(usize::MAX);
        let new: Vec<_> = heard.jobs.iter().skip(known).cloned().collect();
        Ok((!new.is_empty()).then_some(JobChanges { cursor, jobs: ChangedJobs::These(new) }))
    }

    /// When whoever waits looks at the table at the latest.
    fn next_look(&self) -> Instant {
        self.heard.lock().said_any.unwrap_or_else(Instant::now) + UNANNOUNCED_INTERVAL
    }
}

/// The texts that announce these ends.
fn texts(process: &str, jobs: &[String]) -> Vec<String> {
    let is_plain = |job: &String| job != ANY && !job.contains('\n') && job.len() <= LONGEST_TEXT / 2;
    if jobs.len() > MOST_UNANNOUNCED || !jobs.iter().all(is_plain) {
        return vec![format!("{process}\n{ANY}")];
    }
    let mut texts: Vec<String> = Vec::new();
    for job in jobs {
        match texts.last_mut() {
            Some(text) if text.len() + 1 + job.len() <= LONGEST_TEXT => {
                text.push('\n');
                text.push_str(job);
            }
            _ => texts.push(format!("{process}\n{job}")),
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn these(jobs: &[&str]) -> ChangedJobs {
        ChangedJobs::These(jobs.iter().map(|job| (*job).to_owned()).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_is_told_what_others_ended_since_and_looks_when_something_may_be_missed() {
        let jobs = EndedJobs::default();
        let begun = Instant::now();
        assert!(jobs.changes(None).await.is_err(), "nothing is heard");
        assert_eq!(begun.elapsed(), HEARD_WITHIN);
        jobs.listening(true);
        let mut cursor = jobs.changes(None).await.unwrap().cursor;
        for (text, expected) in [
            ("other\n1\n2", these(&["1", "2"])),
            ("me\n3", ChangedJobs::Any),
            ("other\n4", these(&["4"])),
            ("other\n*", ChangedJobs::Any),
            ("no announcement", ChangedJobs::Any),
        ] {
            let begun = Instant::now();
            jobs.hear(text, "me");
            let changes = jobs.changes(Some(&cursor)).await.unwrap();
            assert_eq!(changes.jobs, expected, "{text}");
            // What comes from nobody else is no news: after a while one looks nevertheless.
            let waits = !text.starts_with("other");
            assert_eq!(begun.elapsed() >= UNANNOUNCED_INTERVAL, waits, "{text}");
            cursor = changes.cursor;
        }
        for number in 0..=MOST_REMEMBERED {
            jobs.hear(&format!("other\n{number}"), "me");
        }
        let changes = jobs.changes(Some(&cursor)).await.unwrap();
        assert_eq!(changes.jobs, ChangedJobs::Any, "more than are remembered");
        jobs.listening(false);
        assert!(jobs.changes(Some(&changes.cursor)).await.is_err());
        jobs.listening(true);
        assert_eq!(jobs.changes(Some(&changes.cursor)).await.unwrap().jobs, ChangedJobs::Any);
    }

    /// However many others are announced meanwhile.
    #[tokio::test(start_paused = true)]
    async fn ends_that_nobody_announced_are_looked_for_although_others_come() {
        let jobs = EndedJobs::default();
        jobs.listening(true);
        let (begun, mut cursor) = (Instant::now(), jobs.changes(None).await.unwrap().cursor);
        let mut looked = Vec::new();
        for number in 0..12 {
            jobs.hear(&format!("other\n{number}"), "me");
            let changes = jobs.changes(Some(&cursor)).await.unwrap();
            if changes.jobs == ChangedJobs::Any {
                looked.push(begun.elapsed());
            }
            cursor = changes.cursor;
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(looked, [UNANNOUNCED_INTERVAL, 2 * UNANNOUNCED_INTERVAL]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_here_is_told_of_an_end_that_nobody_here_was_told_of() {
        let jobs = EndedJobs::default();
        jobs.listening(true);
        let cursor = jobs.changes(None).await.unwrap().cursor;
        jobs.ended("1");
        jobs.ended_unseen("2");
        assert_eq!(jobs.changes(Some(&cursor)).await.unwrap().jobs, these(&["2"]));
        assert_eq!(*jobs.own.lock(), ["1", "2"], "others are told of both");
    }

    #[test]
    fn ends_are_announced_together_in_texts_that_fit() {
        let long = |letter: &str| letter.repeat(3_000);
        let jobs = [long("a"), long("b"), long("c")];
        assert_eq!(texts("me", &jobs), [format!("me\n{}\n{}", jobs[0], jobs[1]), format!("me\n{}", jobs[2])]);
        for odd in ["a\nb", ANY, &"x".repeat(LONGEST_TEXT)] {
            assert_eq!(texts("me", &["1".into(), odd.to_owned()]), ["me\n*"]);
        }
        assert!(texts("me", &[]).is_empty());
    }
}

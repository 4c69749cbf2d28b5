//! What the queue has forgotten about jobs that wait: its server was restarted and had not kept its last
//! second. The journals have it. So whenever the server lives another life, the runs of parked jobs are
//! looked at: each that was decided about since it was taken up last is claimed, and each other one when
//! what it waits for by its journal expires, which may be sooner than the queue knows.

use std::time::Duration;

use agent_core::ports::JournalError;
use agent_core::words::{Event, Job};
use tokio::time::sleep;
use tracing::{debug, info};

use super::{WaitResult, Waits};
use crate::clock;

/// How often the queue is asked which life of its server this is.
const LOOK: Duration = Duration::from_secs(20);

/// How often the parked jobs are looked through in each life: a decision that was under way when the server
/// was restarted may reach its journal behind the first time.
const TIMES: u32 = 3;

/// How many jobs are listed at once, and how long others have the stores for themselves after each such page.
const PAGE: usize = 100;
const PAUSE: Duration = Duration::from_millis(50);

impl Waits {
    /// Has jobs go on whose decisions the queue has forgotten. Ends where it forgets nothing, and may be
    /// dropped anywhere.
    pub async fn recover_decided(&self) {
        let (mut known, mut times) = (None, 0);
        loop {
            match self.queue.incarnation().await {
                Ok(None) => return,
                Ok(now) if now != known => (known, times) = (now, TIMES),
                Ok(_) => {}
                Err(error) => debug!(%error, "whether the queue has forgotten anything cannot be asked"),
            }
            if times > 0 {
                match self.resume_decided().await {
                    Ok(resumed) => {
                        times -= 1;
                        if resumed > 0 {
                            info!(resumed, "jobs go on whose decisions the queue had forgotten");
                        }
                    }
                    Err(error) => debug!(%error, "what parked jobs wait for cannot be read yet"),
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Looks through all parked jobs once, and says how many go on. A job whose journal cannot be read is
    /// passed over: it must not keep the others waiting. When none can be read, their store is away.
    async fn resume_decided(&self) -> WaitResult<usize> {
        let (mut resumed, mut cursor) = (0, None::<String>);
        let (mut read, mut unread) = (0, None);
        loop {
            let page = self.queue.list_parked(PAGE, cursor.as_deref()).await?;
            for job in &page.jobs {
                match self.due_within(job).await {
                    Ok(due) => {
                        read += 1;
                        if let Some(within) = due {
                            let is_parked = self.queue.resume(&job.id, within).await?;
                            resumed += usize::from(is_parked && within.is_zero());
                        }
                    }
                    Err(error) => {
                        debug!(job_id = job.id, %error, "what a parked job waits for cannot be read");
                        unread = Some(error);
                    }
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return unread.filter(|_| read == 0).map_or(Ok(resumed), Err);
            }
            sleep(PAUSE).await;
        }
    }

    /// In how long the run of a job is to go on by its journal, if that is known: at once where a decision
    /// or more is written behind its last wait, else when the first of what it waits for expires. That an
    /// attempt failed behind it decides nothing.
    async fn due_within(&self, job: &Job) -> WaitResult<Option<Duration>> {
        match self.journal.read(&job.run_id, 0).await {
            Ok(events) => match events.iter().rfind(|event| **event != Event::HandedBack) {
                None => Ok(None),
                Some(Event::Waiting { waits, .. }) => {
                    let first = waits.iter().map(|wait| wait.expires_at).min();
                    Ok(first.map(|first| Duration::from_millis(first.saturating_sub(clock::millis()))))
                }
                Some(_) => Ok(Some(Duration::ZERO)),
            },
            // A program that can read it goes on with it. The job of a damaged one ends when it is due.
            Err(JournalError::Newer { .. } | JournalError::Damaged { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

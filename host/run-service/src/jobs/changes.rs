//! Wakes callers that wait for jobs when the queue says that these have ended, whoever worked on them.
//!
//! What does not belong here: the wake-ups of this process' own workers, which need no queue (`wakeups.rs`).

use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::ports::ChangedJobs;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::{Jobs, LAST_POLL};
use crate::outage::Outage;

/// How long somebody has to wait before the queue is followed for it. Most callers ask again about a job that
/// is just ending: following it would cost more than their one look. Shorter than
/// [`FIRST_POLL`](super::FIRST_POLL), by which they look until then.
const WORTH_FOLLOWING: Duration = Duration::from_millis(20);

impl Jobs {
    /// Follows the queue for as long as somebody waits for a job that is not worked on here; ends when this
    /// queue cannot be followed. Called once for all callers of the process. While it does not run or the
    /// queue fails, callers poll.
    pub async fn follow_changes(&self) {
        let (mut pause, outage) = (Backoff::new(LAST_POLL, LAST_POLL * 10), Outage::default());
        let mut cursor: Option<String> = None;
        loop {
            while !self.signals.is_wanted() {
                // What happens until somebody waits again is of no use to anybody.
                cursor = None;
                self.signals.follow(false);
                self.signals.wanted().await;
                sleep(WORTH_FOLLOWING).await;
            }
            match self.queue.changes(cursor.as_deref()).await {
                Ok(None) => return,
                Ok(Some(changes)) => {
                    cursor = Some(changes.cursor);
                    self.signals.follow(true);
                    match changes.jobs {
                        ChangedJobs::These(ids) => ids.iter().for_each(|id| self.signals.notify(id)),
                        ChangedJobs::Any => self.signals.notify_all(),
                    }
                    pause.reset();
                    if let Some(lasted) = outage.ends() {
                        info!(outage_ms = lasted.as_millis(), "the queue says again which jobs end");
                    }
                }
                Err(error) => {
                    cursor = None;
                    self.signals.follow(false);
                    // So that they poll.
                    self.signals.notify_all();
                    if outage.begins() {
                        warn!(%error, "callers that wait for a job poll: the queue does not say which jobs end");
                    } else {
                        debug!(%error, "the queue does not say which jobs end");
                    }
                    sleep(pause.next()).await;
                }
            }
        }
    }
}

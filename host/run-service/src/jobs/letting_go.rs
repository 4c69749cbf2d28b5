//! What a worker does around the end of an attempt, when the job is let go of: the journal is told that
//! nothing went wrong, and whoever waits for the run is woken.

use std::time::Duration;

use agent_core::agent_loop::{Run, attempts_without_progress, hand_backs_without_progress};
use agent_core::ports::{AttemptEnd, Claim, QueueError};
use agent_core::words::{Event, JobStatus, OpenKinds, StopReason, Wait};
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::cancelled::UnwantedRun;
use super::worker::Worker;
use super::{LAST_WORDS, cancelled};
use crate::loop_driver::ChildRuns;

/// How long the queue is left alone that could not say whether a job is cancelled.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What the journal says of a run that was let go of.
#[derive(Default)]
pub(super) struct Excused {
    /// How often that was noted before without any progress since.
    pub(super) hand_backs: u32,
    /// The kinds of things that somebody may decide about, although nobody works on the run.
    pub(super) open: OpenKinds,
}

impl Worker {
    /// Notes in the journal that the attempt ended in good order, so that it does not count among those that
    /// killed their worker. When that cannot be noted, the attempt does count, which matters only at the
    /// third one.
    ///
    /// Behind a failed attempt the next number of the journal is taken in any case. The run may have been
    /// dropped in the middle of an append, which the store would carry out behind the end of a job that is
    /// not tried again. Where the run waits and this claim has written nothing, nothing is on its way, and
    /// decisions have to find the epoch of who wrote last.
    pub(super) async fn excuse(&self, claim: &Claim, end: Option<&AttemptEnd>) -> Excused {
        let has_failed = matches!(end, Some(AttemptEnd::Failed { .. }));
        let note = async {
            let events = self.context.journal.read(&claim.run_id, 0).await?;
            let (next, attempts) = (events.len() as u64, attempts_without_progress(&events));
            let hand_backs = hand_backs_without_progress(&events);
            let run = Run::waiting(events).ok().filter(|run| run.waits_epoch().is_some());
            let has_written = run.as_ref().is_none_or(|run| run.waits_epoch() == Some(claim.epoch.0));
            if attempts > 0 || (has_failed && has_written && next > 0) {
                self.context.journal.append(&claim.run_id, claim.epoch, next, &[Event::HandedBack]).await?;
            }
            let waits = run.iter().flat_map(Run::waits).filter(|wait| wait.decided().is_none());
            let open = OpenKinds::of(waits.map(|open| &open.wait));
            Ok::<_, agent_core::ports::JournalError>(Excused { hand_backs, open })
        };
        match timeout(LAST_WORDS, note).await {
            Ok(Ok(excused)) => return excused,
            Ok(Err(error)) => debug!(%error, "the journal does not say that the run was let go of"),
            Err(_elapsed) => debug!("the journal does not say that the run was let go of"),
        }
        Excused::default()
    }

    /// How the runs of this worker begin runs of their own.
    pub(super) fn children(&self) -> ChildRuns {
        ChildRuns::of(&self.queue, self.cancelled.as_ref())
    }

    /// Has the parent of a child run that ends claimed: in some seconds before the queue is told, in case
    /// that this worker is killed behind it, and at once then. A parent that is taken up too early is let go
    /// of again.
    pub(super) async fn wake_parent(&self, claim: &Claim, end: &AttemptEnd, within: Duration) {
        let parent = claim.data.as_ref().ok().and_then(|data| Wait::job_of(data.parent.as_deref()?));
        if let Some(parent) = parent.filter(|_| !end.goes_on()) {
            // silent-ok: the parent is due by itself after a while.
            let _ = timeout(LAST_WORDS, self.queue.resume(parent, within)).await;
        }
    }

    /// Stops the child runs of a run that it failed for good: nobody waits for them any more. Not where its
    /// journal may be what kills those who read it.
    pub(super) async fn stop_children_of_failed(&self, claim: &Claim, end: &AttemptEnd) {
        if !matches!(end, AttemptEnd::Failed { .. }) || claim.has_killed_enough() {
            return;
        }
        let stop = async {
            let job = self.queue.read(&claim.job_id).await.ok()?.filter(|job| job.status.has_ended())?;
            let run = Run::waiting(self.context.journal.read(&job.run_id, 0).await.ok()?).ok()?;
            let children = run.children().map(|(_, child)| child.job_id.as_str());
            self.children().stop(children).await;
            Some(())
        };
        // silent-ok: a child that is taken up finds out by itself.
        let _ = timeout(LAST_WORDS, stop).await;
    }

    /// Has a parked job claimed again when something was decided about it, or a child run of its ended, while
    /// this attempt still held it: nobody could have it claimed then.
    pub(super) async fn resume_if_decided(&self, claim: &Claim, seen: u64, children: &[String]) {
        let look = async {
            let later = self.context.journal.read_page(&claim.run_id, seen, 1).await.ok()?;
            if later.is_empty() && !self.children().has_ended(children).await.ok()? {
                return None;
            }
            self.queue.resume(&claim.job_id, Duration::ZERO).await.ok()
        };
        // silent-ok: the job is claimed when its wait expires at the latest, and whoever decided tries it
        // too.
        let _ = timeout(LAST_WORDS, look).await;
    }

    /// Ends the run of a job whose owner asked to cancel it before its last worker died. False when the run
    /// has come to another end by its journal, of which the queue was not told: that end came first, so it is
    /// told now, and nothing is asked or called for it. False as well where its journal may be what kills
    /// those who read it: then the job fails.
    pub(super) async fn end_unwanted(&self, claim: &Claim) -> bool {
        if claim.has_killed_enough() {
            return false;
        }
        let Some(runs) = &self.cancelled else { return true };
        let ended = runs.end(UnwantedRun::claimed(claim), &self.queue).await;
        ended.is_none_or(|reason| reason == StopReason::Cancelled)
    }

    /// Ends the run of a job that is cancelled, where the attempt did not end it: it was not driven yet, or
    /// parked or failed in that moment, or the queue has made an end of the job by itself, because somebody
    /// asked for that elsewhere and too late for the attempt to be told by its lease.
    pub(super) async fn end_if_cancelled(&self, claim: &Claim) {
        let look = async {
            while let Err(error) = self.end_cancelled(claim).await {
                debug!(%error, "it is not known yet whether the job was cancelled meanwhile");
                sleep(LOOK_AGAIN).await;
            }
        };
        // The ending takes up to `LAST_WORDS` of its own.
        if timeout(LAST_WORDS * 2, look).await.is_err() {
            debug!("it is not known whether the job was cancelled meanwhile");
        }
    }

    async fn end_cancelled(&self, claim: &Claim) -> Result<(), QueueError> {
        let job = self.queue.read(&claim.job_id).await?;
        match job.filter(|job| job.status == JobStatus::Cancelled && job.run_id == claim.run_id) {
            Some(job) => cancelled::end_run(&job, &self.queue, self.cancelled.as_ref()).await,
            None => Ok(()),
        }
    }
}

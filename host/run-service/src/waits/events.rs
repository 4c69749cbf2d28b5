//! Events that are delivered to runs which wait for them.

use std::collections::HashSet;

use agent_core::words::{Job, JobQuery, JobStatus, Principal, Verdict, WaitKind};
use futures::future::join_all;
use serde_json::Value;

use super::{JobWait, NotDecided, Proposal, ProposedDecision, WaitError, Waits};
use crate::clock;
use crate::job_pages::read_page;

/// How many jobs are listed at once.
const PAGE: usize = 100;
const MOST_PAGES: usize = 10;

/// How many of the newest jobs are looked at at once: a decision may have to wait for each.
const AT_ONCE: usize = 20;

/// An event that somebody delivers from outside.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// What the event is called.
    pub name: String,
    /// Which one of that name it is.
    pub key: String,
    /// What the runs are answered.
    pub data: Value,
}

impl Waits {
    /// Delivers an event to the runs of a user that wait for it, of up to a thousand that are parked and of
    /// the hundred newest. Of these also to one whose job is under way, for another wait of the same reply.
    /// Says to how many: none is kept for a run that begins to wait later.
    pub async fn deliver(
        &self,
        by: &Principal,
        user_id: &str,
        event: &Delivery,
    ) -> Result<usize, NotDecided> {
        let wanted = JobQuery { user_id, status: None, limit: PAGE, cursor: None };
        let is_open = |job: &Job| !job.status.has_ended();
        let newest = read_page(&*self.queue, &wanted, is_open).await.map_err(WaitError::from)?.jobs;
        let mut delivered = 0;
        for jobs in newest.chunks(AT_ONCE) {
            for of_job in join_all(jobs.iter().map(|job| self.deliver_to(job, by, event))).await {
                delivered += usize::from(of_job?);
            }
        }
        let looked_at: HashSet<_> = newest.iter().map(|job| job.id.as_str()).collect();
        let mut cursor = None::<String>;
        for _ in 0..MOST_PAGES {
            let wanted = JobQuery { status: Some(JobStatus::Parked), cursor: cursor.as_deref(), ..wanted };
            let page = self.queue.list(&wanted).await.map_err(WaitError::from)?;
            for job in page.jobs.iter().filter(|job| !looked_at.contains(job.id.as_str())) {
                delivered += usize::from(self.deliver_to(job, by, event).await?);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(delivered)
    }

    /// Delivers an event to one run: to all of its waits at once, since behind the first one it goes on. Says
    /// whether there is any.
    async fn deliver_to(&self, job: &Job, by: &Principal, event: &Delivery) -> Result<bool, NotDecided> {
        loop {
            let mut waits = self.readable(job).await?.unwrap_or_default();
            waits.retain(|wait| event.is_for(wait));
            if waits.is_empty() {
                return Ok(false);
            }
            let decision = |wait: &JobWait| {
                let (shown, answer) = (wait.open.wait.shown.digest(), event.data.clone());
                ProposedDecision { by: by.clone(), shown, verdict: Verdict::Answer { answer } }
            };
            let decisions: Vec<_> = waits.iter().map(decision).collect();
            let proposals = waits.iter().zip(&decisions);
            let proposals: Vec<_> =
                proposals.map(|(wait, decision)| Proposal { wait: &wait.id, decision }).collect();
            match self.decide_all(&proposals).await {
                Ok(_) => return Ok(true),
                // One of them was decided meanwhile, and is not among them when they are read again.
                Err(NotDecided::Already(_)) => {}
                // Nor is one that expired. The others wait on.
                Err(NotDecided::NotWaiting) if !waits.iter().all(|wait| event.is_for(wait)) => {}
                // The run was cancelled meanwhile, or has ended.
                Err(NotDecided::NotWaiting | NotDecided::Unknown) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Delivery {
    fn is_for(&self, wait: &JobWait) -> bool {
        let of = &wait.open.wait;
        of.kind == WaitKind::Event
            && wait.decided().is_none()
            && of.expires_at > clock::millis()
            && of.shown.arguments["name"] == self.name.as_str()
            && of.shown.arguments["key"] == self.key.as_str()
    }
}

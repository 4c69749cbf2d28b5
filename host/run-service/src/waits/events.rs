//! Events that are delivered to runs which wait for them.

use agent_core::words::{JobQuery, JobStatus, Principal, Verdict, WaitKind};
use serde_json::Value;

use super::{JobWait, NotDecided, ProposedDecision, WaitError, Waits};

/// How many jobs are looked at at once.
const PAGE: usize = 100;
const MOST_PAGES: usize = 10;

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
    /// Delivers an event to the runs of a user that wait for it, of up to a thousand that wait. Says to how
    /// many: none is kept for a run that begins to wait later.
    pub async fn deliver(
        &self,
        by: &Principal,
        user_id: &str,
        event: &Delivery,
    ) -> Result<usize, NotDecided> {
        let (mut delivered, mut cursor) = (0, None::<String>);
        for _ in 0..MOST_PAGES {
            let wanted =
                JobQuery { user_id, status: Some(JobStatus::Parked), limit: PAGE, cursor: cursor.as_deref() };
            let page = self.queue.list(&wanted).await.map_err(WaitError::from)?;
            for job in &page.jobs {
                let of_job = self.readable(job).await?;
                for wait in of_job.iter().filter(|wait| event.is_for(wait)) {
                    let verdict = Verdict::Answer { answer: event.data.clone() };
                    let proposed =
                        ProposedDecision { by: by.clone(), shown: wait.open.wait.shown.digest(), verdict };
                    match self.decide(&wait.id, &proposed).await {
                        Ok(_) => delivered += 1,
                        // Delivered before, expired or cancelled meanwhile.
                        Err(NotDecided::Already(_) | NotDecided::NotWaiting | NotDecided::Unknown) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(delivered)
    }
}

impl Delivery {
    fn is_for(&self, wait: &JobWait) -> bool {
        let of = &wait.open.wait;
        of.kind == WaitKind::Event
            && wait.decided().is_none()
            && of.shown.arguments["name"] == self.name.as_str()
            && of.shown.arguments["key"] == self.key.as_str()
    }
}

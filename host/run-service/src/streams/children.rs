//! Readers that follow a run through its child runs: as long as these go on by themselves, the run waits for
//! nobody.

use std::sync::Arc;
use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::words::{JobStatus, Principal};
use futures::FutureExt as _;
use tokio::time::sleep;

use super::ending::{Ending, Ends, RunOfJob, of_job};
use crate::jobs::Jobs;
use crate::layers::InvokeError;
use crate::waits::Waits;

/// How often it is looked at what children wait for: soon at first, then less and less often.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LAST_LOOK: Duration = Duration::from_secs(2);

/// The reader for whom a run is followed, and who knows of its children.
pub(super) struct Family {
    /// The run that is followed.
    pub(super) run_id: Arc<str>,
    pub(super) jobs: Jobs,
    pub(super) waits: Waits,
    /// On whose behalf the run is read.
    pub(super) by: Principal,
}

/// The end that `ends` tells of; of a run that waits for child runs which go on, what comes behind that,
/// until one of them waits for an approval of the reader.
pub(super) fn through_children(ends: Ends, family: Family) -> Ends {
    async move {
        let mut ending = ends.await;
        let mut looks = Backoff::new(FIRST_LOOK, LAST_LOOK);
        loop {
            let (Ending::Parked { job_id } | Ending::Outcome(Err(InvokeError::Waits { job_id }))) = &ending
            else {
                return ending;
            };
            match family.look(job_id).await {
                Look::Waits => return ending,
                Look::UnderWay => sleep(looks.next()).await,
                Look::GoesOn => {
                    let (run_id, job_id) = (family.run_id.clone(), job_id.clone());
                    let user_id = family.by.user_id.clone().unwrap_or_default();
                    ending = of_job(family.jobs.clone(), RunOfJob { run_id, job_id, user_id }).await;
                    looks.reset();
                }
            }
        }
    }
    .boxed()
}

enum Look {
    /// The run waits for somebody, or nobody can tell.
    Waits,
    /// The runs that it began go on.
    UnderWay,
    /// The run itself goes on.
    GoesOn,
}

impl Family {
    async fn look(&self, job_id: &str) -> Look {
        let user_id = self.by.user_id.as_deref().unwrap_or_default();
        let Ok(Some(job)) = self.jobs.read(user_id, job_id, Duration::ZERO).await else { return Look::Waits };
        if job.status != JobStatus::Parked {
            return Look::GoesOn;
        }
        match self.waits.of_family(&job).await {
            Ok(family) if family.is_under_way_for(&self.by) => Look::UnderWay,
            Ok(_) | Err(_) => Look::Waits,
        }
    }
}

//! The job of a run that has no record yet: one is written once an attempt has ended, and not when the run is
//! parked.

use std::time::Duration;

use agent_core::ports::{Journal, JournalResult};
use agent_core::words::{Event, JobData, JobQuery, JobStatus, Wait};

use crate::jobs::Jobs;

/// Most jobs of the run's user that are looked through for each status.
const MOST_JOBS: usize = 100;

/// Where the job of a run without a record may stand that no wait and no id tells of.
const OPEN: [JobStatus; 3] = [JobStatus::Active, JobStatus::Waiting, JobStatus::Delayed];

/// Id of the job whose run that is by now; nothing where none is found among the newest of its user.
pub(super) async fn job_of_run(
    jobs: &Jobs,
    journal: &dyn Journal,
    user_id: &str,
    run_id: &str,
) -> JournalResult<Option<String>> {
    let given = JobData::id_of_known_run(run_id).map(str::to_owned);
    let waited = journal.read(run_id, 0).await?.iter().rev().find_map(|event| match event {
        Event::Waiting { waits, .. } => {
            waits.first().and_then(|wait| Wait::job_of(&wait.id)).map(str::to_owned)
        }
        _ => None,
    });
    for job_id in [given, waited].into_iter().flatten() {
        let job = jobs.read(user_id, &job_id, Duration::ZERO).await?;
        if job.is_some_and(|job| job.run_id == run_id) {
            return Ok(Some(job_id));
        }
    }
    for status in OPEN {
        let wanted = JobQuery { user_id, status: Some(status), limit: MOST_JOBS, cursor: None };
        let page = jobs.list(&wanted).await?;
        if let Some(job) = page.jobs.into_iter().find(|job| job.run_id == run_id) {
            return Ok(Some(job.id));
        }
    }
    Ok(None)
}

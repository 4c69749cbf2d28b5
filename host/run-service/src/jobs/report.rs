//! What the log says of an attempt.

use agent_core::error_chain::ErrorChain;
use agent_core::ports::{AttemptEnd, AttemptOutcome, Claim};
use tracing::{info, warn};

use super::retry_or_fail::{Disposition, End};

/// One line per attempt (host/docs/interface/endpoints.md#events): whose job it was, never what was asked.
pub(super) fn report(claim: &Claim, end: &End, disposition: &Disposition) {
    let Claim { job_id, run_id, .. } = claim;
    let user_id = claim.data.as_ref().map_or("", |data| data.user_id.as_str());
    let attempts = claim.attempts_made + 1;
    match (disposition.outcome, &disposition.end) {
        (AttemptOutcome::Completed, _) => info!(job_id, run_id, user_id, attempts, "job completed"),
        (AttemptOutcome::Failed, Some(AttemptEnd::Failed { error, retry })) => {
            let error = match end {
                End::Ran(Err(error)) => ErrorChain(error).to_string(),
                _ => error.clone(),
            };
            warn!(job_id, run_id, user_id, attempts, retry, error, "job failed");
        }
        (AttemptOutcome::Cancelled, _) => info!(job_id, run_id, user_id, attempts, "job cancelled"),
        (AttemptOutcome::Parked, _) => info!(job_id, run_id, user_id, attempts, "job waits for somebody"),
        (AttemptOutcome::HandedBack, _) => {
            let error = match end {
                End::Ran(Err(error)) => ErrorChain(error).to_string(),
                _ => "its step took too long".to_owned(),
            };
            info!(job_id, run_id, user_id, attempts, error, "job handed back");
        }
        (AttemptOutcome::Lost | AttemptOutcome::Failed, _) => {
            warn!(job_id, run_id, user_id, attempts, "job left to whoever holds its lease");
        }
    }
}

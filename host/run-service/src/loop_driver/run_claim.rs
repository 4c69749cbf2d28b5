//! What the claim of a job says of the run that is carried out under it.

use agent_core::ports::{EarlierClaims, Epoch};
use tokio_util::sync::CancellationToken;

/// The claim of a job, as the run under it needs it. A request's run has none.
#[derive(Debug, Clone, Default)]
pub struct RunClaim {
    /// The job that is worked off, whose run may have begun before.
    pub job_id: String,
    /// Under which the run's journal is written.
    pub epoch: Epoch,
    /// What the queue knows of the claims before it. That there were none allows the start to wait.
    pub earlier: EarlierClaims,
    /// Whether as many workers died of the run as may: then it fails, and nothing of it is read.
    pub is_given_up: bool,
    /// Whether nothing follows from the last reply but that the queue is told of the end: then it is written
    /// beside that.
    pub last_may_wait: bool,
    /// Tells the run to stop before its next step.
    pub stop: CancellationToken,
}

//! Requests to cancel an active job: a key beside the queue (`own_keys.rs`) that its worker's heartbeat looks
//! at.

use std::time::Duration;

use agent_core::ports::Claim;

use super::time::to_millis;

/// How long a request is kept: much longer than it takes to claim a job again whose worker died before it
/// heard of it.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(60 * 60);

/// The attempt that a request is about, as `cancel.lua` and `renew.lua` write it: when the job was added, and
/// how many attempts had ended. Another job of the same id is not meant, nor is one that somebody retries
/// later.
pub(super) fn attempt_of(claim: &Claim) -> String {
    format!("{}:{}", to_millis(claim.created_at), claim.attempts_made)
}

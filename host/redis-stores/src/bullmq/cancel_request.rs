//! Requests to cancel an active job: a key beside the queue (`own_keys.rs`) that its worker's heartbeat looks
//! at, and the next claim when that worker died. Each end of the job removes it. It is kept for as long as
//! what is known of a cancelled job, in case that no worker is there for long.

use agent_core::ports::Claim;

use super::time::to_millis;

/// The attempt that a request is about, as `cancel.lua` and `renew.lua` write it: when the job was added, and
/// how many attempts had ended. Another job of the same id is not meant, nor is one that somebody retries
/// later.
pub(super) fn attempt_of(claim: &Claim) -> String {
    format!("{}:{}", to_millis(claim.created_at), claim.attempts_made)
}

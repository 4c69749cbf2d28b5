//! The claim that a worker makes with the end of an attempt.

use sha2::{Digest, Sha256};

use crate::sql::commit::{AttemptRow, NextClaim};

/// The claim that is made with this end. Its token follows from the claim and the end: a worker that had no
/// answer hands in the same end again, and is given the job that was claimed the first time. The delay is no
/// part of the token: that of a parked job is what is left until it is due, and shorter the second time.
pub(super) fn next_claim(attempt: &AttemptRow, worker: String, lease: i64) -> NextClaim {
    let mut digest = Sha256::new();
    let AttemptRow { token, status, result, error, .. } = attempt;
    let texts = [Some(token.as_str()), Some(status), result.as_deref(), error.as_deref()];
    for text in texts {
        digest.update(text.map_or(u64::MAX, |text| text.len() as u64).to_le_bytes());
        digest.update(text.unwrap_or_default());
    }
    // As long as the other tokens.
    let token = format!("{:.32x}", digest.finalize());
    NextClaim { worker, token, lease }
}

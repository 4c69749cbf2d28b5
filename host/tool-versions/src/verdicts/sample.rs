//! Which runs and calls a trial gets: by a hash, so that every replica and every later attempt says the same.

use sha2::{Digest as _, Sha256};

/// Whether a run is one of the `share` of runs that a canary serves.
pub fn is_in(trial_id: &str, run_id: &str, share: f64) -> bool {
    fraction(&[trial_id, run_id]) < share
}

/// Whether a call is one of the `share` of calls that a shadow gets too. Models name calls, so its run is
/// part of it.
pub fn is_shadowed(trial_id: &str, run_id: &str, call_id: &str, share: f64) -> bool {
    fraction(&[trial_id, run_id, call_id]) < share
}

/// A number from 0 up to, but not including, 1: every one as likely, and the same for the same texts.
fn fraction(texts: &[&str]) -> f64 {
    let mut hasher = Sha256::new();
    for text in texts {
        // With its length before it, no text can be read as the end of another.
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text);
    }
    let first =
        hasher.finalize().iter().take(size_of::<u64>()).fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
    // As many bits as a fraction of this type has.
    (first >> 11) as f64 / (1_u64 << 53) as f64
}

//! Judges the first calls of a version that has come to serve: it is withdrawn when they trap.

use agent_core::words::TrialCounts;

/// The calls that are judged: those that a version answers first once it serves.
pub const FIRST_CALLS: u64 = 50;

/// Fewest of them that have to trap.
const LEAST_TRAPS: u64 = 5;

/// Why the version is to be withdrawn; nothing while it may stay. Its calls are counted as those of a version
/// that is tried.
///
/// At least `LEAST_TRAPS` of the calls trapped, and at least half of them. Where several users have called,
/// at least half of the calls trapped without those of any one user, too: an input that traps every version
/// is no reason to change them.
pub fn because(counts: &TrialCounts) -> Option<String> {
    let (calls, trapped) = (counts.new.calls, counts.new.trapped);
    let has_trapped = |counts: &TrialCounts| {
        let new = &counts.new;
        new.trapped > 0 && new.trapped >= new.calls.saturating_sub(new.trapped)
    };
    let is_bad =
        trapped >= LEAST_TRAPS && has_trapped(counts) && counts.without_each_user().iter().all(has_trapped);
    is_bad.then(|| format!("{trapped} of its first {calls} calls trapped"))
}

//! Verdicts on counts of several users, of whom no single one decides; and when a version that serves is
//! withdrawn.

use agent_core::words::{CallCounts, Thresholds, TrialCounts, UserCounts};

use super::verdicts::{calls, canary, sums};
use crate::verdicts::rollback_on_traps::because;
use crate::verdicts::{Verdict, judge};

/// The calls of both versions by each of these users.
fn of_users(users: &[(&str, CallCounts, CallCounts)]) -> TrialCounts {
    let mut all = TrialCounts::default();
    for (user, old, new) in users {
        let mut counts = sums(old.clone(), new.clone());
        *counts.of_user(user).unwrap() = UserCounts { old: old.clone(), new: new.clone() };
        all.add(&counts);
    }
    all
}

fn trapped(count: u64) -> CallCounts {
    CallCounts { trapped: count, ..calls(count, count) }
}

#[test]
fn no_single_user_decides_a_trial_where_there_are_others() {
    let strict = canary(Thresholds { pass_after: 40, ..Thresholds::default() });
    let none = CallCounts::default;
    let fails = |counts| matches!(judge(&strict, &counts), Verdict::Failed { .. });
    // An input that traps any version: alone its user decides, beside others not.
    assert!(fails(of_users(&[("a", none(), trapped(1))])));
    assert!(!fails(of_users(&[("a", none(), trapped(40)), ("b", none(), calls(3, 0))])));
    assert!(!fails(of_users(&[("a", none(), trapped(40)), ("b", calls(1, 0), none())])), "b is there");
    assert!(fails(of_users(&[("a", none(), trapped(1)), ("b", none(), trapped(1))])));
    // Calls that report failures.
    let (good, bad) = (calls(40, 0), calls(40, 40));
    assert!(!fails(of_users(&[("a", good.clone(), bad.clone()), ("b", good.clone(), good.clone())])));
    assert!(fails(of_users(&[("a", good.clone(), bad.clone()), ("b", good.clone(), bad)])));
    // Cheap calls that are to make it pass.
    let passes = |counts| judge(&strict, &counts) == Verdict::Passed;
    assert!(passes(of_users(&[("a", good.clone(), good.clone())])));
    assert!(!passes(of_users(&[("a", good.clone(), good.clone()), ("b", good.clone(), calls(9, 0))])));
    assert!(passes(of_users(&[("a", good.clone(), good.clone()), ("b", good.clone(), good)])));
}

#[test]
fn a_version_that_serves_is_withdrawn_when_half_of_its_first_calls_trap() {
    let of = |calls_made: u64, traps: u64| {
        let new = CallCounts { trapped: traps, ..calls(calls_made, traps) };
        because(&TrialCounts { new, ..TrialCounts::default() })
    };
    for (calls, traps) in [(0, 0), (4, 4), (11, 5), (50, 24)] {
        assert_eq!(of(calls, traps), None, "{traps} of {calls}");
    }
    assert_eq!(of(5, 5).unwrap(), "5 of its first 5 calls trapped");
    assert_eq!(of(50, 25).unwrap(), "25 of its first 50 calls trapped");
    let by = |users: &[(&str, CallCounts)]| {
        let users: Vec<_> =
            users.iter().map(|(user, new)| (*user, CallCounts::default(), new.clone())).collect();
        because(&of_users(&users)).is_some()
    };
    assert!(by(&[("a", trapped(5))]));
    // One of several users alone does not decide, however often that one calls.
    assert!(!by(&[("a", trapped(40)), ("b", calls(1, 0))]));
    assert!(!by(&[("a", trapped(40)), ("b", CallCounts::default())]), "others called the version before");
    assert!(by(&[("a", trapped(40)), ("b", trapped(1))]));
    assert!(by(&[("a", calls(4, 0)), ("b", trapped(4)), ("c", trapped(4))]));
}

//! When a version that is tried has failed or passed, and which runs and calls it gets.

use std::time::Duration;

use agent_core::ports::TrialOptions;
use agent_core::words::{CallCounts, Thresholds, ToolOutcome, Trial, TrialCounts, TrialKind, TrialState};
use proptest::prelude::*;

use super::digest;
use crate::verdicts::answer::{ComparedAnswer, agree};
use crate::verdicts::sample::{is_in, is_shadowed};
use crate::verdicts::{Verdict, check_options, count, count_cancelled, count_comparison, judge};

fn trial(kind: TrialKind, thresholds: Thresholds) -> Trial {
    Trial {
        id: "t1".into(),
        kind,
        digest: digest("new"),
        against: digest("old"),
        share: 0.05,
        thresholds,
        by: "user:anna".into(),
        since: 0,
        state: TrialState::Running,
    }
}

pub(super) fn canary(thresholds: Thresholds) -> Trial {
    trial(TrialKind::Canary, thresholds)
}

/// Calls that take a millisecond and a half each, of which some fail.
pub(super) fn calls(count: u64, failed: u64) -> CallCounts {
    let mut counts = timed(count, Duration::from_micros(1_500));
    counts.failed = failed;
    counts
}

fn timed(calls: u64, each: Duration) -> CallCounts {
    let mut counts = CallCounts::default();
    (0..calls).for_each(|_| count(&mut counts, ToolOutcome::Ok, each));
    counts
}

pub(super) fn sums(old: CallCounts, new: CallCounts) -> TrialCounts {
    TrialCounts { old, new, ..TrialCounts::default() }
}

fn reasons(verdict: Verdict) -> Vec<String> {
    if let Verdict::Failed { because } = verdict { because } else { panic!("{verdict:?}") }
}

#[test]
fn traps_above_the_limit_fail_from_the_first_call_on() {
    let trapped = |trapped| {
        let new = CallCounts { trapped, ..calls(trapped, trapped) };
        TrialCounts { new, ..TrialCounts::default() }
    };
    assert_eq!(
        reasons(judge(&canary(Thresholds::default()), &trapped(1))),
        ["1 of 1 calls trapped; at most 0 may"]
    );
    let patient = canary(Thresholds { max_traps: 2, ..Thresholds::default() });
    assert_eq!(judge(&patient, &trapped(2)), Verdict::GoesOn);
    assert_eq!(reasons(judge(&patient, &trapped(3))).len(), 1);
}

#[test]
fn errors_count_beyond_what_chance_explains() {
    let thresholds = Thresholds { pass_after: 20, ..Thresholds::default() };
    // Calls and failures of the new version and of the old one.
    let table = [
        ((20, 0), (400, 0), Verdict::Passed),
        // One in twenty may be chance, and is no reason to pass.
        ((20, 1), (400, 0), Verdict::GoesOn),
        ((20, 1), (400, 20), Verdict::Passed),
        ((20, 1), (20, 1), Verdict::Passed),
        ((200, 10), (4_000, 200), Verdict::Passed),
        // The canary fails no more often than allowed above the old one.
        ((2_000, 140), (4_000, 200), Verdict::Passed),
        // A little more, which needs many calls to be told.
        ((200, 7), (4_000, 0), Verdict::GoesOn),
        // Too few calls of either.
        ((19, 19), (400, 0), Verdict::GoesOn),
        ((20, 20), (19, 0), Verdict::GoesOn),
    ];
    for ((new, new_failed), (old, old_failed), expected) in table {
        let counts = sums(calls(old, old_failed), calls(new, new_failed));
        assert_eq!(
            judge(&canary(thresholds), &counts),
            expected,
            "{new_failed} of {new}, {old_failed} of {old}"
        );
    }
    for ((new, new_failed), (old, old_failed)) in
        [((20, 2), (400, 0)), ((20, 20), (20, 0)), ((20, 9), (400, 20)), ((2_000, 70), (40_000, 0))]
    {
        let counts = sums(calls(old, old_failed), calls(new, new_failed));
        let because = reasons(judge(&canary(thresholds), &counts));
        assert_eq!(because.len(), 1, "{because:?}");
    }
    let counts = sums(calls(400, 1), calls(40, 12));
    assert_eq!(
        reasons(judge(&canary(thresholds), &counts)),
        ["12 of 40 calls failed (30.0 %), of the old version 1 of 400 (0.2 %); it may be 2.0 % more"]
    );
}

#[test]
fn a_canary_of_all_runs_is_held_against_a_version_without_errors() {
    let alone = Trial { share: 1.0, ..canary(Thresholds { pass_after: 20, ..Thresholds::default() }) };
    let judge = |failed| judge(&alone, &TrialCounts { new: calls(40, failed), ..TrialCounts::default() });
    assert_eq!(judge(0), Verdict::Passed);
    assert_eq!(judge(1), Verdict::GoesOn);
    assert_eq!(reasons(judge(20)).len(), 1);
}

#[test]
fn a_version_that_slows_down_fails_when_that_is_certain() {
    let thresholds = Thresholds { pass_after: 20, ..Thresholds::default() };
    let millis = Duration::from_millis;
    // How long each call of the new version and of the old one takes.
    let table = [
        (millis(5), millis(5), Verdict::Passed),
        (millis(1), millis(500), Verdict::Passed),
        (millis(9), millis(5), Verdict::Passed),
        // As slow as it may be: both are only known to within a factor of two.
        (millis(12), millis(5), Verdict::Passed),
        // A thousand times slower, and nobody notices.
        (Duration::from_micros(900), Duration::from_micros(1), Verdict::Passed),
    ];
    for (new, old, expected) in table {
        let counts = sums(timed(100, old), timed(100, new));
        assert_eq!(judge(&canary(thresholds), &counts), expected, "{new:?} {old:?}");
    }
    // Slower than it may be by the numbers, and not for certain.
    let strict = canary(Thresholds { max_p99_ratio: 1.5, ..thresholds });
    let counts = sums(timed(100, millis(5)), timed(100, millis(12)));
    assert_eq!(judge(&strict, &counts), Verdict::GoesOn);
    let counts = sums(timed(100, millis(5)), timed(20, millis(600)));
    assert_eq!(
        reasons(judge(&canary(thresholds), &counts)),
        [
            "20 of 20 calls took longer than 16.4 ms; the p99 is about 1048.6 ms, that of the old version about 8.1 ms, and \
             it may be 2 times that"
        ]
    );
}

#[test]
fn a_single_slow_call_fails_no_version() {
    let thresholds = Thresholds::default();
    let with_slow = |slow: u64| {
        let mut new = timed(20 - slow, Duration::from_millis(5));
        (0..slow).for_each(|_| count(&mut new, ToolOutcome::Ok, Duration::from_secs(9)));
        judge(&canary(thresholds), &sums(timed(400, Duration::from_millis(5)), new))
    };
    assert_eq!(with_slow(1), Verdict::GoesOn);
    assert_eq!(reasons(with_slow(2)).len(), 1);
}

#[test]
fn a_shadow_that_answers_otherwise_fails_after_enough_comparisons() {
    let shadow = |least| {
        trial(TrialKind::Shadow, Thresholds { min_agreement: least, pass_after: 20, ..Thresholds::default() })
    };
    let counts = |compared, agreed| {
        let mut new = calls(20, 0);
        (0..compared).for_each(|index| count_comparison(&mut new, index < agreed));
        sums(calls(20, 0), new)
    };
    assert_eq!(judge(&shadow(1.0), &counts(20, 20)), Verdict::Passed);
    assert_eq!(judge(&shadow(1.0), &counts(19, 0)), Verdict::GoesOn, "too few");
    assert_eq!(
        reasons(judge(&shadow(1.0), &counts(20, 19))),
        ["1 of 20 compared answers were not those of the old version (5.0 %); at most 0.0 % may be"]
    );
    assert_eq!(judge(&shadow(0.9), &counts(20, 18)), Verdict::Passed);
    assert_eq!(judge(&shadow(0.9), &counts(20, 17)), Verdict::GoesOn);
    assert_eq!(reasons(judge(&shadow(0.9), &counts(20, 10))).len(), 1);
    // A canary has nothing to compare.
    assert_eq!(judge(&canary(shadow(1.0).thresholds), &counts(0, 0)), Verdict::Passed);
}

#[test]
fn a_trial_passes_when_it_was_asked_to_and_is_judged_while_it_runs() {
    let good = sums(calls(50, 0), calls(50, 0));
    for (pass_after, expected) in [(0, Verdict::GoesOn), (51, Verdict::GoesOn), (50, Verdict::Passed)] {
        let thresholds = Thresholds { pass_after, ..Thresholds::default() };
        assert_eq!(judge(&canary(thresholds), &good), expected);
        let ended = Trial { state: TrialState::Passed { at: 5 }, ..canary(thresholds) };
        assert_eq!(judge(&ended, &good), Verdict::GoesOn);
    }
    let bad = TrialCounts { new: CallCounts { trapped: 9, ..calls(9, 9) }, ..TrialCounts::default() };
    let ended = Trial { state: TrialState::Passed { at: 5 }, ..canary(Thresholds::default()) };
    assert_eq!(judge(&ended, &bad), Verdict::GoesOn);
}

#[test]
fn calls_count_by_how_they_ended() {
    use ToolOutcome::{
        Cancelled, Failed, HostError, Interrupted, InvalidArguments, InvalidOutput, MemoryLimit, NotRun, Ok,
        OutputLimit, TimedOut, Trapped, UnknownTool,
    };
    let table = [
        (Ok, (1, 0, 0)),
        (Failed, (1, 1, 0)),
        (TimedOut, (1, 1, 0)),
        (Trapped, (1, 1, 1)),
        (MemoryLimit, (1, 1, 0)),
        (OutputLimit, (1, 1, 0)),
        (InvalidOutput, (1, 1, 0)),
        (InvalidArguments, (1, 1, 0)),
        (UnknownTool, (0, 0, 0)),
        (Interrupted, (0, 0, 0)),
        (NotRun, (0, 0, 0)),
        (HostError, (0, 0, 0)),
        (Cancelled, (0, 0, 0)),
    ];
    for (outcome, expected) in table {
        let mut counts = CallCounts::default();
        count(&mut counts, outcome, Duration::from_micros(3));
        assert_eq!((counts.calls, counts.failed, counts.trapped), expected, "{outcome:?}");
        let timed = if outcome == InvalidArguments { 0 } else { counts.calls };
        assert_eq!(counts.durations.iter().sum::<u64>(), timed);
    }
}

#[test]
fn calls_that_nobody_waited_for_count_with_the_time_they_had_taken() {
    let mut counts = CallCounts::default();
    count_cancelled(&mut counts, Duration::from_micros(1_023));
    assert_eq!(counts, CallCounts::default(), "given up at once");
    count_cancelled(&mut counts, Duration::from_millis(40));
    assert_eq!((counts.calls, counts.failed), (1, 0));
    // A version whose callers give up after 40 ms, where the old one takes 3 µs.
    let mut slow = TrialCounts::default();
    for _ in 0..200 {
        count(&mut slow.old, ToolOutcome::Ok, Duration::from_micros(3));
        count_cancelled(&mut slow.new, Duration::from_millis(40));
    }
    assert!(matches!(judge(&canary(Thresholds::default()), &slow), Verdict::Failed { .. }));
}

#[test]
fn a_duration_is_in_the_bucket_of_its_power_of_two() {
    let table = [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1_023, 10), (1_024, 11), (u64::MAX, 31)];
    for (micros, bucket) in table {
        let mut counts = CallCounts::default();
        count(&mut counts, ToolOutcome::Ok, Duration::from_micros(micros));
        assert_eq!(counts.durations.iter().position(|count| *count == 1), Some(bucket), "{micros}");
        assert_eq!(counts.durations.len(), bucket + 1);
    }
}

#[test]
fn answers_agree_by_what_they_say() {
    use ToolOutcome::{Cancelled, Failed, InvalidArguments, Ok, TimedOut, Trapped};
    let table = [
        ((Ok, r#"{"a": 1, "b": [1, 2]}"#), (Ok, r#"{"b":[1,2.0],"a":1.0}"#), Some(true)),
        ((Ok, "[1, 2]"), (Ok, "[2, 1]"), Some(false)),
        ((Ok, "1.5"), (Ok, "1.50"), Some(true)),
        ((Ok, "9007199254740993"), (Ok, "9007199254740992.0"), Some(false)),
        ((Ok, r#""1""#), (Ok, "1"), Some(false)),
        ((Ok, r#"{"a": null}"#), (Ok, "{}"), Some(false)),
        ((Ok, "plain text"), (Ok, "plain text"), Some(true)),
        ((Ok, "plain text"), (Ok, "plain  text"), Some(false)),
        ((Ok, "same"), (Failed, "same"), Some(false)),
        ((Failed, "Error: no such city"), (Failed, "Error: no such city"), Some(true)),
        ((Failed, "Error: no such city"), (Failed, "Error: no"), Some(false)),
        ((Trapped, "Error: it crashed"), (TimedOut, "Error: it took too long"), Some(true)),
        ((Ok, "same"), (Trapped, "same"), Some(false)),
        ((Ok, "same"), (InvalidArguments, "same"), Some(false)),
        ((InvalidArguments, "a is missing"), (InvalidArguments, "b is missing"), Some(true)),
        ((Cancelled, ""), (Ok, ""), None),
        ((Ok, ""), (Cancelled, ""), None),
    ];
    for (old, new, expected) in table {
        let answer = |(outcome, content)| ComparedAnswer { outcome, content };
        assert_eq!(agree(answer(old), answer(new)), expected, "{old:?} {new:?}");
    }
    // A value that would take much memory is compared as it is written.
    let (long, spaced) = (format!("[{}1]", "[],".repeat(100_000)), format!("[ {}1]", "[],".repeat(100_000)));
    let answer = |content| ComparedAnswer { outcome: Ok, content };
    assert_eq!(agree(answer(&long), answer(&long)), Some(true));
    assert_eq!(agree(answer(&long), answer(&spaced)), Some(false));
    // As deep as nobody reads.
    let deep = "[".repeat(100_000);
    assert_eq!(agree(answer(&deep), answer(&deep)), Some(true));
}

#[test]
fn every_replica_takes_the_same_runs_and_calls() {
    // Pinned: another hash would give runs under way another version.
    let taken =
        |trial: &str| (0..40).filter(|run| is_in(trial, &format!("run-{run}"), 0.25)).collect::<Vec<_>>();
    assert_eq!(taken("t1"), taken("t1"));
    assert_ne!(taken("t1"), taken("t2"), "each trial has others");
    assert!(!is_in("t1", "run-1", 0.0) && is_in("t1", "run-1", 1.0) && !is_in("t1", "run-1", f64::NAN));
    assert!(!is_shadowed("t1", "run-1", "call-1", 0.0) && is_shadowed("t1", "run-1", "call-1", 1.0));
    // No two texts are read as two others.
    let calls = (0..200).filter(|call| {
        let call = format!("call-{call}");
        is_shadowed("t1", "run-1", &call, 0.5)
            == is_shadowed("t1", "run-1c", call.trim_start_matches('c'), 0.5)
    });
    assert!((60..140).contains(&calls.count()));
}

#[test]
fn options_that_make_no_sense_are_refused_in_words() {
    let with = |share: f64, change: fn(&mut Thresholds)| {
        let mut thresholds = Thresholds::default();
        change(&mut thresholds);
        check_options(&TrialOptions { share, thresholds })
    };
    let none = |_: &mut Thresholds| {};
    for share in [0.001, 0.5, 1.0] {
        assert_eq!(with(share, none), Ok(()));
    }
    for share in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert!(with(share, none).unwrap_err().starts_with("share is "), "{share}");
    }
    let problem = |change| with(0.5, change).unwrap_err();
    assert_eq!(problem(|t| t.max_error_rate = f64::NAN), "maxErrorRate is NaN; it must be between 0 and 1");
    assert_eq!(problem(|t| t.max_error_rate = -0.1), "maxErrorRate is -0.1; it must be between 0 and 1");
    assert_eq!(problem(|t| t.min_agreement = 1.5), "minAgreement is 1.5; it must be between 0 and 1");
    assert_eq!(
        problem(|t| t.max_p99_ratio = 0.0),
        "maxP99Ratio is 0; it must be above 0, as 2 for twice as slow"
    );
    assert_eq!(
        problem(|t| t.max_p99_ratio = f64::INFINITY),
        "maxP99Ratio is inf; it must be above 0, as 2 for twice as slow"
    );
    assert_eq!(
        problem(|t| t.pass_after = 5),
        "passAfter is 5; it must be 0, or at least minCalls, which is 20"
    );
    assert_eq!(
        problem(|t| t.promote = true),
        "promote is set, but passAfter is 0, so the trial never passes by itself: set passAfter"
    );
    assert_eq!(with(0.5, |t| (t.promote, t.pass_after) = (true, 20)), Ok(()));
}

fn any_counts(most: u64) -> impl Strategy<Value = CallCounts> {
    let number = move || prop_oneof![0_u64..50, 0..=most];
    (number(), number(), number(), number(), number(), prop::collection::vec(number(), 0..40)).prop_map(
        |(calls, failed, trapped, compared, agreed, durations)| CallCounts {
            calls,
            failed,
            trapped,
            compared,
            agreed,
            durations,
        },
    )
}

proptest! {
    /// About as many as the share says, whatever the trial.
    #[test]
    fn the_share_is_kept(id in "[a-z]{1,8}", percent in 1_u32..100) {
        let share = f64::from(percent) / 100.0;
        let taken = (0..2_000).filter(|run| is_in(&id, &format!("run-{run}"), share)).count() as f64 / 2_000.0;
        // Five standard deviations.
        prop_assert!((taken - share).abs() < 5.0 * (share * (1.0 - share) / 2_000.0).sqrt(), "{} {}", taken, share);
    }

    /// A version that does exactly what the old one does is not withdrawn, however few or many calls there
    /// were.
    #[test]
    fn a_version_that_is_the_same_does_not_fail(
        counts in any_counts(1 << 50),
        kind in prop::sample::select(vec![TrialKind::Shadow, TrialKind::Canary]),
    ) {
        let counts = CallCounts { trapped: 0, failed: counts.failed.min(counts.calls), agreed: counts.compared, ..counts };
        let both = sums(counts.clone(), counts);
        let verdict = judge(&trial(kind, Thresholds::default()), &both);
        prop_assert_eq!(verdict, Verdict::GoesOn);
    }

    /// Whatever replicas and stores say.
    #[test]
    fn any_counts_can_be_judged(
        old in any_counts(u64::MAX),
        new in any_counts(u64::MAX),
        share in 0.01_f64..=1.0,
        pass_after in 0_u64..40,
    ) {
        let thresholds = Thresholds { pass_after, ..Thresholds::default() };
        for kind in [TrialKind::Shadow, TrialKind::Canary] {
            let trial = Trial { share, ..trial(kind, thresholds) };
            let verdict = judge(&trial, &sums(old.clone(), new.clone()));
            if let Verdict::Failed { because } = &verdict {
                prop_assert!(!because.is_empty() && because.iter().all(|reason| reason.len() < 400));
            }
            prop_assert!(verdict != Verdict::Passed || (pass_after > 0 && new.calls >= pass_after));
        }
    }
}

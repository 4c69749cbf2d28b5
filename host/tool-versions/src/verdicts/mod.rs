//! Trying a version beside the one that serves: which runs and calls it gets, what is counted of them, and
//! when it has failed or passed.
//!
//! Every replica decides alike: `sample` takes runs and calls by a hash, and [`judge`] sees the sums of all
//! replicas. `statistics` keeps it from judging by chance, `rollback_on_traps` judges a version that serves,
//! tried or not. What a verdict leads to is in `record`.

pub mod answer;
mod durations;
pub mod rollback_on_traps;
pub mod sample;
mod statistics;

use std::mem::discriminant;
use std::time::Duration;

use agent_core::ports::TrialOptions;
use agent_core::words::{CallCounts, Thresholds, ToolOutcome, Trial, TrialCounts, TrialKind, TrialState};

use answer::Class;
use statistics::Share;

/// Calls may always take this long, in microseconds: below that a ratio says more of the machine than of the
/// version, and nobody notices.
const UNNOTICED_MICROS: f64 = 1024.0;

/// The share of calls that may be slower than a p99.
const BEYOND_P99: f64 = 0.01;

/// Shares that are no further apart are equal: what is left is how fractions are written.
const ROUNDING: f64 = 1e-9;

/// What has come of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet.
    GoesOn,
    /// The version is worse than it may be.
    Failed {
        /// What it did, for the operator.
        because: Vec<String>,
    },
    /// The canary held what was asked for, for as long as was asked.
    Passed,
}

/// Counts a call that ended. Those that the host or the caller ended say nothing of a version. A failure that
/// the tool itself reports counts, and so does a refusal by its schema: its version is compared with another
/// one under the same calls. A refusal has no duration, because nothing ran.
pub fn count(counts: &mut CallCounts, outcome: ToolOutcome, duration: Duration) {
    let Some(class) = Class::of(outcome) else { return };
    counts.calls = counts.calls.saturating_add(1);
    if class != Class::Answered {
        counts.failed = counts.failed.saturating_add(1);
    }
    if outcome == ToolOutcome::Trapped {
        counts.trapped = counts.trapped.saturating_add(1);
    }
    if class != Class::Refused {
        durations::add(&mut counts.durations, duration);
    }
}

/// True when a call that ended like this ran, and says something of its version.
pub fn has_run(outcome: ToolOutcome) -> bool {
    Class::of(outcome).is_some_and(|class| class != Class::Refused)
}

/// Counts a call whose caller went away while the guest ran: it would have taken at least this long. Without
/// these, a version that is so slow that its callers give up would have no slow calls. Of one that was given
/// up at once nothing is known.
pub fn count_cancelled(counts: &mut CallCounts, duration: Duration) {
    if duration.as_micros() as f64 >= UNNOTICED_MICROS {
        counts.calls = counts.calls.saturating_add(1);
        durations::add(&mut counts.durations, duration);
    }
}

/// Counts a comparison of a shadow's answer.
pub fn count_comparison(counts: &mut CallCounts, agreed: bool) {
    counts.compared = counts.compared.saturating_add(1);
    counts.agreed = counts.agreed.saturating_add(u64::from(agreed));
}

/// Says what is wrong with how somebody wants to try a version.
pub(crate) fn check_options(options: &TrialOptions) -> Result<(), String> {
    let Thresholds { min_calls, max_error_rate, max_p99_ratio, min_agreement, pass_after, promote, .. } =
        options.thresholds;
    let between = |name: &str, value: f64, least: f64, most: f64| {
        let fits = value >= least && value <= most;
        if fits { Ok(()) } else { Err(format!("{name} is {value}; it must be between {least} and {most}")) }
    };
    if !(options.share > 0.0 && options.share <= 1.0) {
        return Err(format!(
            "share is {}; it must be above 0 and at most 1, as 0.05 for one in twenty",
            options.share
        ));
    }
    between("maxErrorRate", max_error_rate, 0.0, 1.0)?;
    between("minAgreement", min_agreement, 0.0, 1.0)?;
    if !(max_p99_ratio.is_finite() && max_p99_ratio > 0.0) {
        return Err(format!("maxP99Ratio is {max_p99_ratio}; it must be above 0, as 2 for twice as slow"));
    }
    if pass_after > 0 && pass_after < min_calls {
        return Err(format!(
            "passAfter is {pass_after}; it must be 0, or at least minCalls, which is {min_calls}"
        ));
    }
    if promote && pass_after == 0 {
        return Err(
            "promote is set, but passAfter is 0, so the trial never passes by itself: set passAfter".into()
        );
    }
    Ok(())
}

/// Judges what was counted until now. Where several users have called, no single one of them decides: a
/// verdict holds only if it is the same without the calls of any one user. Until it is, the trial goes on.
pub fn judge(trial: &Trial, counts: &TrialCounts) -> Verdict {
    let verdict = judge_calls(trial, counts);
    if verdict == Verdict::GoesOn {
        return verdict;
    }
    let is_same = |others: &TrialCounts| discriminant(&judge_calls(trial, others)) == discriminant(&verdict);
    if counts.without_each_user().iter().all(is_same) { verdict } else { Verdict::GoesOn }
}

/// Judges calls, whoever made them.
///
/// - More traps than allowed: failed at once, from the first call on.
/// - From `min_calls` of the new version on, its errors and its p99 are compared with those of the old
///   version, when that has as many. With a share of 1 the old one gets no calls: errors are then compared
///   with a version that has none, and nothing is said of the p99. A shadow's answers are judged from
///   `min_calls` comparisons on.
/// - It fails when it is worse than allowed beyond what chance explains (99 %; see `statistics`), and passes
///   after `pass_after` calls if it is not worse than allowed by the bare numbers. In between it goes on.
/// - Durations are known to within a factor of two. The p99 counts against a version when more than one call
///   in a hundred took certainly longer than `max_p99_ratio` times the longest that the old p99 can be.
fn judge_calls(trial: &Trial, counts: &TrialCounts) -> Verdict {
    if trial.state != TrialState::Running {
        return Verdict::GoesOn;
    }
    let Thresholds { min_calls, max_traps, pass_after, .. } = trial.thresholds;
    let (old, new) = (&counts.old, &counts.new);
    if new.trapped > max_traps {
        let because = format!("{} of {} calls trapped; at most {max_traps} may", new.trapped, new.calls);
        return Verdict::Failed { because: vec![because] };
    }
    let least = min_calls.max(1);
    let mut judged = Vec::new();
    if trial.kind == TrialKind::Shadow {
        judged.push(if new.compared < least {
            ThresholdVerdict::Unknown
        } else {
            judge_agreement(trial, new)
        });
    }
    let is_alone = trial.share >= 1.0 && trial.kind == TrialKind::Canary;
    if new.calls < least || (old.calls < least && !is_alone) {
        judged.push(ThresholdVerdict::Unknown);
    } else {
        judged.push(judge_errors(trial, counts));
        if old.calls >= least {
            judged.push(judge_p99(trial, counts));
        }
    }
    let has_passed =
        pass_after > 0 && new.calls >= pass_after && judged.iter().all(|one| *one == ThresholdVerdict::Holds);
    let because: Vec<String> = judged.into_iter().filter_map(ThresholdVerdict::failure).collect();
    if !because.is_empty() {
        Verdict::Failed { because }
    } else if has_passed {
        Verdict::Passed
    } else {
        Verdict::GoesOn
    }
}

#[derive(Debug, PartialEq)]
enum ThresholdVerdict {
    Holds,
    /// Too few calls, or worse than allowed, but that may be chance.
    Unknown,
    Fails(String),
}

impl ThresholdVerdict {
    /// By whether it is worse than allowed beyond chance, and by the bare numbers.
    fn of(certainly_worse: bool, worse: bool, because: impl FnOnce() -> String) -> Self {
        match (certainly_worse, worse) {
            (true, _) => Self::Fails(because()),
            (false, true) => Self::Unknown,
            (false, false) => Self::Holds,
        }
    }

    fn failure(self) -> Option<String> {
        if let Self::Fails(because) = self { Some(because) } else { None }
    }
}

fn judge_agreement(trial: &Trial, new: &CallCounts) -> ThresholdVerdict {
    let differing = Share::new(new.compared.saturating_sub(new.agreed), new.compared);
    let allowed = 1.0 - trial.thresholds.min_agreement;
    let certainly = exceeds(differing.least(), allowed);
    ThresholdVerdict::of(certainly, exceeds(differing.counted(), allowed), || {
        format!(
            "{} of {} compared answers were not those of the old version ({}); at most {} may be",
            differing.part,
            differing.whole,
            percent(differing.counted()),
            percent(allowed)
        )
    })
}

fn judge_errors(trial: &Trial, TrialCounts { old, new, .. }: &TrialCounts) -> ThresholdVerdict {
    let allowed = trial.thresholds.max_error_rate;
    let [new_failed, old_failed] = [new, old].map(|counts| Share::new(counts.failed, counts.calls));
    let difference = new_failed.counted() - old_failed.counted();
    // Where the old version gets no calls, it is taken to have no errors.
    let certain_difference = if old.calls < trial.thresholds.min_calls.max(1) {
        new_failed.least()
    } else {
        new_failed.least_above(old_failed)
    };
    ThresholdVerdict::of(exceeds(certain_difference, allowed), exceeds(difference, allowed), || {
        format!(
            "{} of {} calls failed ({}), of the old version {} of {} ({}); it may be {} more",
            new.failed,
            new.calls,
            percent(new_failed.counted()),
            old.failed,
            old.calls,
            percent(old_failed.counted()),
            percent(allowed)
        )
    })
}

fn judge_p99(trial: &Trial, TrialCounts { old, new, .. }: &TrialCounts) -> ThresholdVerdict {
    let ratio = trial.thresholds.max_p99_ratio;
    let (Some(before), Some(after)) = (durations::p99(&old.durations), durations::p99(&new.durations)) else {
        return ThresholdVerdict::Unknown;
    };
    let limit = (before.most * ratio).max(UNNOTICED_MICROS);
    let (slow, all) = durations::at_least(&new.durations, limit);
    let is_slower = after.estimate > (before.estimate * ratio).max(UNNOTICED_MICROS);
    ThresholdVerdict::of(exceeds(Share::new(slow, all).least(), BEYOND_P99), is_slower, || {
        format!(
            "{slow} of {all} calls took longer than {}; the p99 is about {}, that of the old version about {}, and it may be \
             {ratio} times that",
            milliseconds(limit),
            milliseconds(after.estimate),
            milliseconds(before.estimate)
        )
    })
}

fn exceeds(share: f64, allowed: f64) -> bool {
    share > allowed + ROUNDING
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn milliseconds(micros: f64) -> String {
    format!("{:.1} ms", micros / 1000.0)
}

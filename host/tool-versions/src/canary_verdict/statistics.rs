//! How much of what was counted is more than chance.
//!
//! Of few calls a share says little: 1 failure in 20 may be one in ten or one in a thousand. [`least_share`]
//! is the least that the true share may be: only one time in a hundred would so much be counted of something
//! that is rarer. It is the lower end of Wilson's interval, which also holds for few calls and for none that
//! failed. [`least_difference`] is the same for how far one share is above another, by Newcombe's method,
//! which puts two of Wilson's intervals together.
//!
//! So 1 failure in 20 beside an old version without any is not yet told from chance, 2 in 20 are; and of a
//! version that is worse by a little, more calls tell.

/// Standard deviations beyond which one of a hundred lies.
const DEVIATIONS: f64 = 2.326;

/// The least that the true share of `part` in `whole` may be.
pub(super) fn least_share(part: u64, whole: u64) -> f64 {
    if part == 0 { 0.0 } else { interval(part, whole).0 }
}

/// The least that the first share may be above the second; negative when it may be below.
pub(super) fn least_difference(one: (u64, u64), other: (u64, u64)) -> f64 {
    let (one_share, other_share) = (share(one.0, one.1), share(other.0, other.1));
    let below = one_share - least_share(one.0, one.1);
    let above = interval(other.0, other.1).1 - other_share;
    one_share - other_share - below.hypot(above)
}

/// The share that was counted.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Wilson's interval for the true share: what it is at least and at most.
fn interval(part: u64, whole: u64) -> (f64, f64) {
    if whole == 0 {
        return (0.0, 1.0);
    }
    let calls = whole as f64;
    let share = share(part.min(whole), whole);
    let squared = DEVIATIONS * DEVIATIONS;
    let middle = share + squared / (2.0 * calls);
    let spread = DEVIATIONS * (share * (1.0 - share) / calls + squared / (4.0 * calls * calls)).sqrt();
    let of = |end: f64| (end / (1.0 + squared / calls)).clamp(0.0, 1.0);
    (of(middle - spread), of(middle + spread))
}

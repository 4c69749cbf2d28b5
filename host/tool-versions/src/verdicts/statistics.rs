//! How much of what was counted is more than chance.
//!
//! Of few calls a share says little: 1 failure in 20 may be one in ten or one in a thousand. [`Share::least`]
//! is the least that the true share may be: only one time in a hundred would so much be counted of something
//! that is rarer. It is the lower end of Wilson's interval, which also holds for few calls and for none that
//! failed. [`Share::least_above`] is the same for how far one share is above another, by Newcombe's method,
//! which puts two of Wilson's intervals together.
//!
//! So 1 failure in 20 beside an old version without any is not yet told from chance, 2 in 20 are; and of a
//! version that is worse by a little, more calls tell.

/// Standard deviations beyond which one of a hundred lies.
const DEVIATIONS: f64 = 2.326;

/// How many of those that were counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) part: u64,
    pub(super) whole: u64,
}

impl Share {
    pub(super) fn new(part: u64, whole: u64) -> Self {
        Self { part, whole }
    }

    pub(super) fn counted(self) -> f64 {
        if self.whole == 0 { 0.0 } else { self.part as f64 / self.whole as f64 }
    }

    /// The least that the true share may be.
    pub(super) fn least(self) -> f64 {
        if self.part == 0 { 0.0 } else { self.interval().0 }
    }

    /// The least that it may be above the other; negative when it may be below.
    pub(super) fn least_above(self, other: Self) -> f64 {
        let below = self.counted() - self.least();
        let above = other.interval().1 - other.counted();
        self.counted() - other.counted() - below.hypot(above)
    }

    /// Wilson's interval for the true share: what it is at least and at most.
    fn interval(self) -> (f64, f64) {
        if self.whole == 0 {
            return (0.0, 1.0);
        }
        let calls = self.whole as f64;
        let share = Self::new(self.part.min(self.whole), self.whole).counted();
        let squared = DEVIATIONS * DEVIATIONS;
        let middle = share + squared / (2.0 * calls);
        let spread = DEVIATIONS * (share * (1.0 - share) / calls + squared / (4.0 * calls * calls)).sqrt();
        let of = |end: f64| (end / (1.0 + squared / calls)).clamp(0.0, 1.0);
        (of(middle - spread), of(middle + spread))
    }
}

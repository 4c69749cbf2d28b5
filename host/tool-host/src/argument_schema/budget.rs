//! What the schemas of one component may cost the host when they are read.

use std::time::Instant;

use super::fuel::Fuel;
use super::pattern::PatternBudget;

/// What preparing the schemas of one component may use up.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(super) fuel: Fuel,
    pub(super) patterns: PatternBudget,
}

impl Budget {
    /// For work that ends at `deadline` at the latest.
    pub(crate) fn until(deadline: Instant) -> Self {
        Self { fuel: Fuel::until(deadline), patterns: PatternBudget::default() }
    }
}

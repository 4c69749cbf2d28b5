//! What the schemas of one component may cost the host when they are read.

use std::time::Instant;

use super::fuel::Fuel;
use super::pattern::PatternBudget;

/// What preparing the schemas of one component may use up.
#[derive(Debug)]
pub struct SchemaBudget {
    pub(super) fuel: Fuel,
    pub(super) patterns: PatternBudget,
    /// Whether a schema may refer to itself.
    pub(super) may_recur: bool,
}

impl SchemaBudget {
    /// For work that ends at `deadline` at the latest.
    pub fn until(deadline: Instant) -> Self {
        Self { fuel: Fuel::until(deadline), patterns: PatternBudget::default(), may_recur: false }
    }

    /// Lets schemas refer to themselves, for a part of the value each time.
    pub fn recursive(self) -> Self {
        Self { may_recur: true, ..self }
    }
}

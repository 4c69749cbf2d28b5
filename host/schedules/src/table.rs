//! The table of places.

use crate::{planted, real};

/// Something that is tried under schedules.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub name: &'static str,
    /// What its sources promise, as one schedule of a few tasks that panics when it is broken.
    pub scenario: fn(),
    /// The scenario over sources with a bug.
    pub planted: fn(),
}

macro_rules! places {
    ($($name:literal $module:ident;)*) => {
        [$(Place { name: $name, scenario: real::$module::scenario, planted: planted::$module::scenario }),*]
    };
}

/// Every place, in the order of the tests.
pub const PLACES: [Place; 7] = places! {
    "admission" of_admission;
    "claim-wakeup" of_claim_wakeup;
    "group-commit" of_group_commit;
    "job-wakeups" of_wakeups;
    "live-streams" of_live;
    "single-flight" of_single_flight;
    "tool-set-swap" of_retired;
};

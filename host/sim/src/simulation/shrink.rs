//! The shortest list of faults with which a simulation breaks the same promise.

use crate::faults::{Fault, Schedule};
use crate::simulation::Simulation;

/// Most simulations that are made for it.
const MOST_TRIES: usize = 400;

/// Leaves out faults for as long as the promise stays broken: halves first, then smaller and smaller parts,
/// one at a time in the end.
pub fn shortest(simulation: &Simulation, fired: Schedule, rule: &str) -> Schedule {
    let mut kept: Vec<(u64, Fault)> = fired.into_iter().collect();
    let mut tries = 0;
    let breaks = |faults: &[(u64, Fault)]| {
        let schedule = Some(faults.iter().copied().collect());
        let outcome = Simulation { schedule, keeps_trace: false, ..simulation.clone() }.run();
        outcome.broken.is_some_and(|broken| broken.rule == rule)
    };
    let mut part = kept.len().div_ceil(2).max(1);
    loop {
        let mut begin = 0;
        while begin < kept.len() && tries < MOST_TRIES {
            tries += 1;
            let without: Vec<_> =
                kept.iter().take(begin).chain(kept.iter().skip(begin + part)).copied().collect();
            if breaks(&without) {
                kept = without;
            } else {
                begin += part;
            }
        }
        if part == 1 || tries >= MOST_TRIES {
            return kept.into_iter().collect();
        }
        part = part.div_ceil(2);
    }
}

//! One test for each place, so that they run beside one another.

use std::mem;
use std::sync::Mutex;

use schedules::{PLACES, Place, run};
use shuttle::thread;

/// How many schedules in CI. `cargo xtask shuttle` makes a million.
const SCHEDULES: usize = 1_000;

/// What they are drawn by: a change is judged by the same schedules as the one before it.
const SEED: u64 = 2026;

fn place(name: &str) -> &'static Place {
    PLACES.iter().find(|place| place.name == name).unwrap()
}

macro_rules! hold {
    ($($test:ident $name:literal)*) => {
        $(
            mod $test {
                use super::*;

                #[test]
                fn promises_are_kept() {
                    assert_eq!(run(place($name).scenario, SCHEDULES, SEED), Ok(()));
                }

                #[test]
                fn a_planted_bug_is_found() {
                    assert!(run(place($name).planted, SCHEDULES, SEED).is_err(), "the scenario is too weak");
                }
            }
        )*

        #[test]
        fn every_place_is_tried() {
            assert_eq!(PLACES.map(|place| place.name), [$($name),*]);
        }
    };
}

hold! {
    admission "admission"
    claim_wakeup "claim-wakeup"
    group_commit "group-commit"
    job_wakeups "job-wakeups"
    live_streams "live-streams"
    single_flight "single-flight"
    tool_set_swap "tool-set-swap"
}

/// Otherwise a schedule that fails could not be made again.
#[test]
fn a_seed_draws_the_same_schedules_and_another_one_others() {
    static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let scenario: fn() = || {
        let note = |number| thread::spawn(move || ORDER.lock().unwrap().push(number));
        let threads: Vec<_> = (0..3).map(note).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    };
    let drawn = |seed| {
        assert_eq!(run(scenario, 20, seed), Ok(()));
        mem::take(&mut *ORDER.lock().unwrap())
    };
    let first = drawn(SEED);
    assert_eq!((first.len(), &drawn(SEED)), (60, &first));
    assert_ne!(drawn(SEED + 1), first);
}

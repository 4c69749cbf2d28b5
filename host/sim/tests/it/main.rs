//! The simulator about itself: what it repeats, what it reaches, and what it would find.

use std::time::Instant;

use sim::faults::Schedule;
use sim::mutation::Mutation;
use sim::shrink::shortest;
use sim::simulation::Simulation;
use sim::tally::Tally;

/// How many seeds are simulated in a run of the tests; `cargo xtask sim` goes on.
const SEEDS: u64 = 100;

/// How many seeds may pass until a bug is found that was put in: about half a minute.
const MOST_SEEDS: u64 = 250;

#[test]
fn the_same_seed_gives_the_same_trace_twice_and_another_one_another() {
    let mut hashes = Vec::new();
    for seed in 1..=8 {
        let (first, again) = (Simulation::of(seed).run(), Simulation::of(seed).run());
        assert_eq!((first.trace_hash, first.counts.calls), (again.trace_hash, again.counts.calls), "{seed}");
        // What hit it, given as a list, hits it again.
        let given = Simulation { schedule: Some(first.fired.clone()), ..Simulation::of(seed) }.run();
        assert_eq!(given.trace_hash, first.trace_hash, "{seed}");
        hashes.push(first.trace_hash);
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 8);
}

#[test]
fn no_promise_is_broken_and_every_fault_death_and_recovery_is_reached() {
    let (mut tally, began) = (Tally::default(), Instant::now());
    for seed in 1..=SEEDS {
        let outcome = Simulation::of(seed).run();
        let broken = outcome.broken.map(|broken| broken.to_string());
        assert_eq!(broken, None, "cargo xtask sim --seed {seed} --trace shows it");
        tally.add(&outcome.counts);
    }
    tally.took = began.elapsed();
    assert_eq!(tally.missing(), [] as [&str; 0], "{}", tally.report());
}

/// How many seeds it took.
fn found_after(mutation: Mutation) -> Option<u64> {
    let simulation = |seed| Simulation { mutation: Some(mutation), ..Simulation::of(seed) };
    (1..=MOST_SEEDS).find(|seed| simulation(*seed).run().broken.is_some())
}

macro_rules! each_is_found {
    ($($test:ident: $mutation:ident,)+) => {
        $(
            #[test]
            fn $test() {
                assert!(found_after(Mutation::$mutation).is_some(), "no seed up to {MOST_SEEDS} finds it");
            }
        )+

        #[test]
        fn every_mutation_has_a_test() {
            let tested = [$(Mutation::$mutation),+];
            assert!(Mutation::ALL.iter().all(|mutation| tested.contains(mutation)));
        }
    };
}

each_is_found! {
    a_skipped_renewal_is_found: RenewalSkipped,
    a_claim_that_is_given_twice_is_found: ClaimGivenTwice,
    an_epoch_that_stands_still_is_found: EpochStandsStill,
    an_epoch_that_is_not_compared_is_found: EpochNotCompared,
    a_decision_that_is_not_fenced_is_found: DecisionNotFenced,
    an_append_that_is_repeated_is_found: AppendRepeated,
    claims_that_are_forgotten_are_found: ClaimsForgotten,
    a_start_that_is_not_written_is_found: StartNotWritten,
    a_read_that_is_behind_is_found: ReadBehind,
    a_settle_that_is_not_fenced_is_found: SettleNotFenced,
    a_resume_that_is_lost_is_found: ResumeLost,
    a_conversation_that_is_given_twice_is_found: ConversationGivenTwice,
    last_events_that_are_dropped_are_found: LastEventsDropped,
    a_webhook_that_is_dropped_is_found: WebhookDropped,
    a_job_that_is_dropped_is_found: JobDropped,
    a_key_whose_id_changes_is_found: KeyIdChanges,
}

#[test]
fn a_failure_shrinks_to_a_few_faults_that_fail_alike() {
    let of = |seed| Simulation { mutation: Some(Mutation::StartNotWritten), ..Simulation::of(seed) };
    let failed =
        (1..=MOST_SEEDS).map(|seed| (seed, of(seed).run())).find(|(_, outcome)| outcome.broken.is_some());
    let (seed, outcome) = failed.expect("one that fails");
    let (broken, all) = (outcome.broken.unwrap(), outcome.fired.len());
    let schedule: Schedule = shortest(&of(seed), outcome.fired, broken.rule);
    assert!(schedule.len() <= 3 && schedule.len() <= all, "{all} faults, then {schedule:?}");
    let again = Simulation { schedule: Some(schedule), ..of(seed) }.run();
    assert_eq!(again.broken.map(|broken| broken.rule), Some(broken.rule));
}

//! The simulator about itself: what it repeats, and what it would find. That no promise is broken and
//! everything is reached is for `cargo xtask sim --strict`, which CI runs for minutes.

mod model;

use sim::deployment::Deployment;
use sim::faults::Schedule;
use sim::mutation::Mutation;
use sim::shrink::shortest;
use sim::simulation::Simulation;

/// How many seeds may pass until a bug is found that was put in.
const MOST_SEEDS: u64 = 250;

#[test]
fn the_same_seed_gives_the_same_trace_twice_and_another_one_another() {
    let mut hashes = Vec::new();
    for seed in 1..=6 {
        let (first, again) = (Simulation::of(seed).run(), Simulation::of(seed).run());
        assert_eq!(first.broken, None, "cargo xtask sim --seed {seed} --trace shows it");
        assert_eq!((first.trace_hash, first.counts.calls), (again.trace_hash, again.counts.calls), "{seed}");
        // What hit it, given as a list, hits it again.
        let given = Simulation { schedule: Some(first.fired.clone()), ..Simulation::of(seed) }.run();
        assert_eq!(given.trace_hash, first.trace_hash, "{seed}");
        hashes.push(first.trace_hash);
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 6);
}

/// How many seeds it took.
fn found_after(mutation: Mutation) -> Option<u64> {
    let simulation = |seed| Simulation { mutation: Some(mutation), ..Simulation::of(seed) };
    let mut seeds = (1..=MOST_SEEDS).filter(|seed| mutation.is_about(&Deployment::of(*seed)));
    seeds.find(|seed| simulation(*seed).run().broken.is_some())
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
    a_turn_that_is_not_fenced_is_found: TurnNotFenced,
    a_conversation_that_is_given_twice_is_found: ConversationGivenTwice,
    last_events_that_are_dropped_are_found: LastEventsDropped,
    a_webhook_that_is_dropped_is_found: WebhookDropped,
    a_job_that_is_dropped_is_found: JobDropped,
    a_key_whose_id_changes_is_found: KeyIdChanges,
    a_number_that_is_given_twice_is_found: NumbersGivenTwice,
    a_lost_lease_that_is_kept_is_found: LostLeaseKept,
    a_busy_conversation_that_fails_its_job_is_found: BusyFails,
    an_end_that_is_forgotten_is_found: EndForgotten,
}

#[test]
fn a_failure_shrinks_to_a_few_faults_that_fail_alike() {
    let of = |seed| Simulation { mutation: Some(Mutation::StartNotWritten), ..Simulation::of(seed) };
    let failed = (1..=MOST_SEEDS).filter_map(|seed| {
        let outcome = of(seed).run();
        Some((seed, outcome.broken?, outcome.fired))
    });
    // A fault that is left out moves what comes after it, so that not every failure becomes short.
    let mut fewest = usize::MAX;
    for (seed, broken, fired) in failed.take(8) {
        let all = fired.len();
        let schedule: Schedule = shortest(&of(seed), fired, broken.rule);
        assert!(schedule.len() <= all, "{all} faults, then {schedule:?}");
        fewest = fewest.min(schedule.len());
        let again = Simulation { schedule: Some(schedule), ..of(seed) }.run();
        assert_eq!(again.broken.map(|broken| broken.rule), Some(broken.rule));
        if fewest <= 3 {
            return;
        }
    }
    panic!("none has become shorter than {fewest} faults");
}

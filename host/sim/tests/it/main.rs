//! The simulator about itself: what it repeats, and what it would find. That no promise is broken and
//! everything is reached is for `cargo xtask sim --strict`, which CI runs for minutes.

mod model;

use std::collections::BTreeSet;

use clap::ValueEnum as _;
use sim::deployment::Deployment;
use sim::faults::Schedule;
use sim::faults::mutation::Mutation;
use sim::simulation::Simulation;
use sim::simulation::shrink::shortest;

/// How many seeds may pass until a bug is found that was put in.
const MOST_SEEDS: u64 = 250;

#[test]
fn the_same_seed_gives_the_same_trace_twice_and_another_one_another() {
    let mut hashes = BTreeSet::new();
    for seed in 1..=6 {
        let (first, again) = (Simulation::of(seed).run(), Simulation::of(seed).run());
        assert_eq!(first.broken, None, "cargo xtask sim --seed {seed} --trace shows it");
        assert_eq!((first.trace_hash, first.counts.calls), (again.trace_hash, again.counts.calls), "{seed}");
        // What hit it, given as a list, hits it again.
        let given = Simulation { schedule: Some(first.fired.clone()), ..Simulation::of(seed) }.run();
        assert_eq!(given.trace_hash, first.trace_hash, "{seed}");
        hashes.insert(first.trace_hash);
    }
    assert_eq!(hashes.len(), 6);
}

/// The first seed from that one on which finds it, and finds nothing without it.
fn found_by(mutation: Mutation, first: u64) -> Option<u64> {
    let simulation = |seed| Simulation { mutation: Some(mutation), ..Simulation::of(seed) };
    let mut seeds = (first..first + MOST_SEEDS).filter(|seed| mutation.is_about(&Deployment::of(*seed)));
    let breaks = |simulation: Simulation| simulation.run().broken.is_some();
    seeds.find(|seed| breaks(simulation(*seed)) && !breaks(Simulation::of(*seed)))
}

/// Each begins with the seed that found it last, where the seeds before take long. A change of the service
/// moves what a seed draws, and then the search goes on from there.
macro_rules! each_is_found {
    ($($test:ident: $mutation:ident from $first:literal,)+) => {
        $(
            #[test]
            fn $test() {
                let found = found_by(Mutation::$mutation, $first);
                assert!(found.is_some(), "none of {MOST_SEEDS} seeds finds it");
            }
        )+

        #[test]
        fn every_mutation_has_a_test() {
            let tested = [$(Mutation::$mutation),+];
            assert!(Mutation::value_variants().iter().all(|mutation| tested.contains(mutation)));
        }
    };
}

each_is_found! {
    a_skipped_renewal_is_found: RenewalSkipped from 1,
    a_claim_that_is_given_twice_is_found: ClaimGivenTwice from 1,
    an_epoch_that_stands_still_is_found: EpochStandsStill from 1,
    an_epoch_that_is_not_compared_is_found: EpochNotCompared from 6,
    a_decision_that_is_not_fenced_is_found: DecisionNotFenced from 6,
    a_nonce_that_is_dropped_is_found: NonceDropped from 81,
    an_append_that_is_repeated_is_found: AppendRepeated from 1,
    claims_that_are_forgotten_are_found: ClaimsForgotten from 1,
    a_start_that_is_not_written_is_found: StartNotWritten from 1,
    a_read_that_is_behind_is_found: ReadBehind from 1,
    a_settle_that_is_not_fenced_is_found: SettleNotFenced from 286,
    a_resume_that_is_lost_is_found: ResumeLost from 1,
    a_turn_that_is_not_fenced_is_found: TurnNotFenced from 1,
    a_conversation_that_is_given_twice_is_found: ConversationGivenTwice from 1,
    last_events_that_are_dropped_are_found: LastEventsDropped from 1,
    a_webhook_that_is_dropped_is_found: WebhookDropped from 1,
    a_webhook_that_is_not_armed_again_is_found: WebhookNotArmed from 558,
    a_job_that_is_dropped_is_found: JobDropped from 1,
    a_key_whose_id_changes_is_found: KeyIdChanges from 1,
    a_number_that_is_given_twice_is_found: NumbersGivenTwice from 1,
    a_lost_lease_that_is_kept_is_found: LostLeaseKept from 3,
    a_busy_conversation_that_fails_its_job_is_found: BusyFails from 1,
    an_end_that_is_forgotten_is_found: EndForgotten from 1,
    an_edit_that_is_ignored_is_found: EditIgnored from 1,
    a_flusher_that_stops_too_soon_is_found: FlushedTooSoon from 1,
    a_job_that_is_kept_by_a_process_that_stops_is_found: StoppedKept from 1,
    a_cut_reply_that_is_taken_for_whole_is_found: CutTaken from 1,
    limits_that_are_forgotten_are_found: LimitsForgotten from 1,
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

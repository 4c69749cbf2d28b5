//! One simulation: replicas, clients and faults for a while, then quiet until all is done, then the judge.

pub mod shrink;
pub mod tally;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::clock::SimulatedClock;
use agent_core::words::Job;
use run_service::testing::Planted;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};

use crate::clients::Client;
use crate::faults::mutation::Mutation;
use crate::faults::{Faults, Profile, Schedule, mixed};
use crate::judge;
use crate::replica::Replicas;
use crate::world::{Outcome, World};

const CLIENTS: u64 = 10;

const DECIDERS: u64 = 2;

/// How long things fail: a little longer or shorter by the seed.
const NOISE: u64 = 30_000;

/// How long everything may take to come to its end when nothing fails any more. A wait expires within
/// ten minutes, a webhook is tried again within minutes.
const QUIET: Duration = Duration::from_secs(900);

/// How often it is looked whether everything has.
const LOOK: Duration = Duration::from_millis(500);

/// How long a service may take to let go of what it held, and the claim of one that died to end with its
/// lease.
const LET_GO: Duration = Duration::from_secs(60);

/// How long after a decision a job may stay parked: longer than a circuit stays open and than any run has
/// waited when all becomes quiet, for after that time it is looked at again; and shorter than the longer
/// waits. Where clocks were wrong it may take three times as long as they were, besides: when a job is to be
/// looked at again is reckoned from when it began to wait, which another replica noted, and by the store's
/// clock.
const GOES_ON_WITHIN: Duration = Duration::from_secs(90);

pub const COMES_TO_ITS_END: &str = "every reader reaches its end, and every job";
pub const NO_PANIC: &str = "no process and no client panics";

#[derive(Debug, Clone, Default)]
pub struct Simulation {
    pub seed: u64,
    /// The faults that hit it; those of the seed when absent.
    pub schedule: Option<Schedule>,
    pub mutation: Option<Mutation>,
    pub keeps_trace: bool,
}

impl Simulation {
    pub fn of(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Makes it, in this thread.
    ///
    /// # Panics
    /// When there is no runtime for it.
    #[expect(clippy::expect_used, reason = "a runtime without drivers needs nothing of the system")]
    pub fn run(&self) -> Outcome {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(self.simulate())
    }

    async fn simulate(&self) -> Outcome {
        let _clock = SimulatedClock::begin(self.seed);
        let _bug = Planted::begin(self.mutation.and_then(Mutation::bug));
        let faults = match &self.schedule {
            Some(schedule) => Faults::Given(schedule.clone()),
            None => Faults::Seeded(Profile::of(self.seed)),
        };
        let world = World::new(self.seed, faults, self.mutation, self.keeps_trace);
        self.play(&world).await;
        world.outcome()
    }

    async fn play(&self, world: &Arc<World>) {
        let replicas = Replicas::new(world.deployment.replicas);
        let mut others = JoinSet::new();
        for number in 0..replicas.count() {
            others.spawn(replicas.clone().keep_alive(world.clone(), number));
        }
        for number in 0..DECIDERS {
            others.spawn(
                Client::new(world, &replicas, 100 + number)
                    .decide_for_ever(number > 0 && world.deployment.is_over_http),
            );
        }
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            clients.spawn(Client::new(world, &replicas, number).use_the_service());
        }
        let noise_ends = Instant::now() + Duration::from_millis(NOISE + mixed(self.seed, 3) % NOISE);
        while Instant::now() < noise_ends && world.broken().is_none() {
            sleep(LOOK).await;
            judge_ended(world, || clients.try_join_next().or_else(|| others.try_join_next()));
        }
        world.become_quiet();
        replicas.heal();
        world.note("world", "quiet", "", "");
        let until = Instant::now() + QUIET;
        let mut decided = BTreeMap::<String, Instant>::new();
        while world.broken().is_none() {
            let now = judge::decided(world);
            decided.retain(|job_id, _| now.contains(job_id));
            for job_id in now {
                let since = *decided.entry(job_id.clone()).or_insert_with(Instant::now);
                let within = GOES_ON_WITHIN + 3 * world.most_skew();
                world.holds(since.elapsed() < within, judge::GOES_ON, || job_id);
            }
            judge_ended(world, || clients.try_join_next().or_else(|| others.try_join_next()));
            if clients.is_empty() && judge::is_settled(world) {
                break;
            }
            world.holds(Instant::now() < until, COMES_TO_ITS_END, || open(world, clients.len()));
            sleep(LOOK).await;
        }
        if world.broken().is_none() {
            let until = Instant::now() + LET_GO;
            while !judge::is_free(world, &replicas).await && Instant::now() < until {
                sleep(LOOK).await;
            }
            judge::judge(world, &replicas).await;
            judge_ended(world, || others.try_join_next());
        }
    }
}

/// Judges how tasks have ended. A panic of the service ends the task of its replica, whose clients would
/// wait for ever.
fn judge_ended(world: &World, mut next: impl FnMut() -> Option<Result<(), JoinError>>) {
    while let Some(ended) = next() {
        world.holds(ended.is_ok(), NO_PANIC, || format!("{ended:?}"));
    }
}

/// What has not come to its end.
fn open(world: &World, clients: usize) -> String {
    let jobs = world.queue.look(|job, _| {
        let Job { id, run_id, status, .. } = job;
        (!status.has_ended()).then(|| format!("{id} ({run_id}) is {}", status.as_str()))
    });
    format!("{clients} clients wait; jobs: {}", jobs.join(", "))
}

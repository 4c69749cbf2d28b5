//! Simulated races: time is paused, and a seed decides how long each operation of the stores takes and when
//! each side begins. The seed of a failure is in its message, and repeats it exactly.

use tokio::time::timeout;

use super::children::Family;
use super::*;
use crate::clock;

/// Of each of the races.
const RACES: u64 = 5_000;

const KILLS: u64 = 500;

/// A job that waits, its stores as slow as the seed has it.
async fn parked(seed: u64) -> (Bench, ProposedDecision, JobWait, fastrand::Rng) {
    let bench = Bench::parked(tools()).await;
    let wait = bench.wait().await;
    let random = bench.slowed(seed);
    let proposed = approval(&wait);
    (bench, proposed, wait, random)
}

async fn within_ms(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

impl Bench {
    /// From now on the stores take as long as the seed has it. Gives what else is decided by chance.
    fn slowed(&self, seed: u64) -> fastrand::Rng {
        self.runs.switch.pause_by(seed);
        self.queue.switch.pause_by(!seed);
        fastrand::Rng::with_seed(seed.rotate_left(32))
    }

    /// Approves whatever the job waits for.
    async fn decide_all(&self) {
        for wait in self.waits.list("ada", 10, None).await.unwrap().waits {
            // Refused when it was decided meanwhile, or the job is at work.
            let _decided = self.approve(&wait).await;
        }
    }

    /// How many decisions there are, and the answers of calls that were made.
    fn acts(&self) -> (usize, Vec<String>) {
        self.acts_of("run_job_1")
    }

    fn acts_of(&self, run_id: &str) -> (usize, Vec<String>) {
        let events = self.runs.events(run_id);
        let decided = events.iter().filter(|event| matches!(event, Event::Decided { .. })).count();
        let acts = events.iter().filter_map(|event| match event {
            Event::ToolReturned { answer, .. } if answer.receipt.outcome == ToolOutcome::Ok => {
                Some(answer.content.clone())
            }
            _ => None,
        });
        (decided, acts.collect())
    }

    /// Whoever decides and whoever works is killed as often as that, a decider within so many milliseconds
    /// and a worker some later. Then others decide and work until the job has ended.
    async fn outlive_kills(&self, random: &mut fastrand::Rng, kills: u32, within: u64) {
        for _ in 0..kills {
            let (decider, worker) = (random.u64(0..within), random.u64(0..within + 20));
            let (_decided, _worked) = tokio::join!(
                timeout(Duration::from_millis(decider), self.decide_all()),
                timeout(Duration::from_millis(worker), self.work_for(1)),
            );
        }
        // Nobody was told that all is decided: whoever asks again is answered.
        for _ in 0..5 {
            self.work_for(60).await;
            self.decide_all().await;
        }
        self.work_to_its_end().await;
    }

    /// Works until the job has ended.
    async fn work_to_its_end(&self) {
        for _ in 0..20 {
            if matches!(self.status(), JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled) {
                return;
            }
            self.work_for(10).await;
        }
        panic!("the job never ends");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_deciders_one_decides_and_that_is_carried_out() {
    for seed in 0..RACES {
        let (bench, proposed, wait, mut random) = parked(seed).await;
        let eve = Principal { role: Some("admin".into()), ..Principal::user("eve") };
        let other =
            ProposedDecision { by: eve, verdict: Verdict::Reject { reason: None }, ..proposed.clone() };
        let (first, second) = (random.u64(0..6), random.u64(0..6));
        let (approved, rejected, ()) = tokio::join!(
            async {
                within_ms(first).await;
                bench.waits.decide(&wait.id, &proposed).await
            },
            async {
                within_ms(second).await;
                bench.waits.decide(&wait.id, &other).await
            },
            bench.work_for(1),
        );
        assert!(approved.is_ok() != rejected.is_ok(), "seed {seed}: {approved:?}, {rejected:?}");
        bench.work_to_its_end().await;
        let acts = if approved.is_ok() { vec![json!({ "euros": 5 }).to_string()] } else { vec![] };
        assert_eq!(bench.acts(), (1, acts), "seed {seed}");
        assert_eq!(bench.status(), JobStatus::Completed, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_and_a_cancellation_leave_one_ending_and_no_call_without_a_decision() {
    for seed in 0..RACES {
        let (bench, proposed, wait, mut random) = parked(seed).await;
        let (first, second) = (random.u64(0..12), random.u64(0..12));
        let (decided, cancelled, ()) = tokio::join!(
            async {
                within_ms(first).await;
                bench.waits.decide(&wait.id, &proposed).await
            },
            async {
                within_ms(second).await;
                bench.jobs.cancel("ada", &bench.job_id).await.unwrap()
            },
            bench.work_for(1),
        );
        bench.work_to_its_end().await;
        let (decisions, acts) = bench.acts();
        let said = format!("seed {seed}: {decided:?}, {cancelled:?}, {:?}", bench.status());
        assert_eq!(decisions, usize::from(decided.is_ok()), "{said}");
        assert!(acts.len() <= decisions, "{said}: {acts:?}");
        assert!(bench.status() != JobStatus::Completed || acts.len() == 1, "{said}");
        assert_ne!(bench.status(), JobStatus::Failed, "{said}");
    }
}

/// Whoever is dropped in the middle of an operation has not done what comes behind it, as with a kill.
#[tokio::test(start_paused = true)]
async fn deciders_and_workers_that_are_killed_at_any_point_lose_nothing() {
    let calls = [("1", "pay", json!({ "euros": 5 })), ("2", "pay", json!({ "euros": 6 }))];
    for seed in 0..KILLS {
        let bench = Bench::parked_by(tools(), &calls).await;
        let mut random = bench.slowed(seed);
        // The first kill leaves the job to workers of which the next is killed as well.
        bench.outlive_kills(&mut random, 2, 20).await;
        let (decided, mut acts) = bench.acts();
        acts.sort_unstable();
        let expected = [5, 6].map(|euros| json!({ "euros": euros }).to_string()).to_vec();
        assert_eq!((bench.status(), decided, acts), (JobStatus::Completed, 2, expected), "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_at_the_moment_of_the_expiry_counts_or_the_expiry_does() {
    // Longer than a worker that is told to stop still waits for a job.
    let within = Duration::from_secs(5);
    let (mut decided_first, mut expired_first) = (0, 0);
    for seed in 0..RACES {
        let bench = Bench::parked(tools().within(within)).await;
        let wait = bench.wait().await;
        let (proposed, mut random) = (approval(&wait), bench.slowed(seed));
        let left = wait.open.wait.expires_at - clock::millis();
        let (from, decider) = (left - 8, random.u64(0..16));
        let (decided, ()) = tokio::join!(
            async {
                within_ms(from + decider).await;
                bench.waits.decide(&wait.id, &proposed).await
            },
            async {
                within_ms(from).await;
                bench.work_for(1).await;
            },
        );
        bench.work_to_its_end().await;
        let acts = if decided.is_ok() { vec![json!({ "euros": 5 }).to_string()] } else { vec![] };
        assert_eq!(bench.acts(), (1, acts), "seed {seed}: {decided:?}");
        assert_eq!(bench.status(), JobStatus::Completed, "seed {seed}");
        *if decided.is_ok() { &mut decided_first } else { &mut expired_first } += 1;
    }
    assert!(decided_first.min(expired_first) > RACES / 20, "{decided_first} {expired_first}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_child_and_the_cancellation_of_its_parent_leave_one_ending() {
    let (mut cancelled_first, mut completed) = (0, 0);
    for seed in 0..RACES {
        let bench = Bench::begun(Arc::new(Family), tools(), "begin a").await;
        let mut random = bench.slowed(seed);
        let when = random.u64(0..120);
        let (outcome, (), ()) = tokio::join!(
            async {
                within_ms(when).await;
                bench.jobs.cancel("ada", "1").await.unwrap()
            },
            bench.work_for(1),
            bench.work_for(1),
        );
        bench.work_to_its_end().await;
        bench.work_for(10).await;
        let said = format!("seed {seed}: {outcome:?}");
        let (told, _) = bench.acts();
        match bench.status() {
            JobStatus::Completed => {
                assert_eq!((told, &bench.result()["output"]), (1, &json!("told a")), "{said}");
                completed += 1;
            }
            status => {
                assert_eq!((status, told.min(2)), (JobStatus::Cancelled, told.min(1)), "{said}");
                cancelled_first += 1;
            }
        }
        let statuses = bench.statuses().await;
        assert!(
            statuses.len() <= 2 && statuses.iter().all(|status| status.has_ended()),
            "{said}: {statuses:?}"
        );
    }
    assert!(cancelled_first.min(completed) > RACES / 20, "{cancelled_first} {completed}");
}

/// A child waits for an approval, and everybody is killed at some point: its parent, itself, who decides.
#[tokio::test(start_paused = true)]
async fn whoever_is_killed_around_a_child_run_it_is_begun_once_and_told_of_once() {
    for seed in 0..KILLS {
        let bench = Bench::begun(Arc::new(Family), tools(), "begin pay").await;
        let mut random = bench.slowed(seed);
        bench.outlive_kills(&mut random, 3, 60).await;
        let jobs = bench.all().await;
        let statuses: Vec<_> = jobs.iter().map(|job| job.status).collect();
        assert_eq!(statuses, [JobStatus::Completed; 2], "seed {seed}");
        let paid = json!({ "euros": 5 }).to_string();
        assert_eq!(bench.result()["output"], format!("told told {paid}"), "seed {seed}");
        assert_eq!(bench.acts().0, 1, "seed {seed}");
        assert_eq!(bench.acts_of(&jobs[1].run_id), (1, vec![paid]), "seed {seed}");
    }
}

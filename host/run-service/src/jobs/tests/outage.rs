//! A model provider that is away: no job pays for that.

use std::sync::atomic::{AtomicU32, Ordering};

use agent_core::circuit_breaker::{RESET_TIMEOUT, Verdict};
use agent_core::ports::{Model, ModelError, ModelRequest};
use agent_core::testing::{EchoTools, asks_for, says};
use agent_core::words::ModelReply;
use boxed_async::boxed_async;
use futures::future::join_all;
use serde_json::json;

use super::*;
use crate::journal::RetryingJournal;
use crate::layers::{Agent, Deadline};

const MINUTE: Duration = Duration::from_secs(60);

/// The longest that a run may take.
const LIMIT: Duration = Duration::from_secs(30);

/// A provider that is away until a certain time, in its own way, and never answers some prompts.
struct Away {
    until: Instant,
    way: Way,
    asked: AtomicU32,
    poison: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Refuses,
    Hangs,
    Fails,
    RunLimits,
}

#[boxed_async]
impl Model for Away {
    fn name(&self) -> &str {
        "test/away"
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let agent_core::words::Message::User { content } = &request.messages[0] else { panic!() };
        if self.poison.is_some_and(|poison| content.text() == poison) {
            std::future::pending::<()>().await;
        }
        moments(1).await;
        if Instant::now() >= self.until {
            return Ok(says("4"));
        }
        let (provider, detail) = ("p".to_owned(), "away".to_owned());
        Err(match self.way {
            Way::Refuses => ModelError::Unreachable { provider, detail },
            Way::Hangs => std::future::pending().await,
            Way::Fails => ModelError::Unavailable { provider, detail, retry_after: None },
            Way::RunLimits => {
                let retry_after = Some(SECOND * 7);
                ModelError::RateLimited { provider, detail, retry_after, quota_exhausted: false }
            }
        })
    }
}

fn away(lasts: Duration, way: Way, poison: Option<&'static str>) -> (Arc<Away>, Bench) {
    let until = Instant::now() + lasts;
    let model = Arc::new(Away { until, way, asked: AtomicU32::default(), poison });
    let runs = Arc::new(TestRuns::default());
    let agent = Agent::new(
        model.clone(),
        Arc::new(EchoTools::new(&[])),
        Arc::new(RetryingJournal::new(runs.clone())),
    );
    (model, bench_on(&Arc::default(), &runs, Deadline::new(agent, LIMIT)))
}

impl Bench {
    /// All slots of a process at work while `callers` do something.
    async fn all_work_while<T>(&self, callers: impl Future<Output = T>) -> T {
        let slots = join_all((0..DEFAULT_WORKERS).map(|_| self.worker.work(self.stopping.clone())));
        let callers = async {
            let answer = callers.await;
            self.stopping.cancel();
            answer
        };
        tokio::join!(slots, callers).1
    }

    async fn submit_all(&self, count: usize) -> Vec<String> {
        join_all((0..count).map(|_| self.submit())).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_ten_minutes_fails_none_of_a_hundred_jobs() {
    for way in [Way::Refuses, Way::Hangs, Way::Fails, Way::RunLimits] {
        let (model, bench) = away(MINUTE * 10, way, None);
        let jobs = bench.submit_all(100).await;
        let start = Instant::now();
        let outage = async {
            tokio::time::sleep(MINUTE * 10).await;
            let tried = model.asked.load(Ordering::SeqCst);
            assert!((5..60).contains(&tried), "{way:?}: {tried} tries in ten minutes");
            assert!(bench.queue.calls() < 10_000, "{way:?}: {} calls of the queue", bench.queue.calls());
            for job_id in &jobs {
                let job = bench.ended(job_id).await;
                assert_eq!((job.status, job.attempts_made), (JobStatus::Completed, 1), "{way:?}");
            }
        };
        bench.all_work_while(outage).await;
        assert!(start.elapsed() < MINUTE * 15, "{way:?}: {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_always_times_out_pays_for_it_while_the_provider_answers_others() {
    let (_model, bench) = away(Duration::ZERO, Way::Hangs, Some("2+2"));
    let poison = bench.submit().await;
    let others = async {
        let mut others = 0;
        while !bench.queue.job(&poison).status.has_ended() {
            let other = JobData::new("3+3", "u1");
            let other = bench.jobs.submit(&other).await.unwrap();
            assert_eq!(bench.ended(&other).await.status, JobStatus::Completed);
            others += 1;
            moments(1).await;
        }
        others
    };
    let start = Instant::now();
    let others = bench.all_work_while(others).await;
    let job = bench.queue.job(&poison);
    assert_eq!((job.status, job.attempts_made), (JobStatus::Failed, ATTEMPTS));
    assert_eq!(job.error.as_deref(), Some("Service temporarily unavailable"));
    // Nobody waited for it.
    assert!(others > 30 && start.elapsed() < MINUTE * 2, "{others} in {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_always_times_out_is_not_immortal_although_it_is_alone() {
    let (model, bench) = away(Duration::ZERO, Way::Hangs, Some("2+2"));
    let poison = bench.submit().await;
    let start = Instant::now();
    let job = bench.all_work_while(bench.ended(&poison)).await;
    assert_eq!((job.status, job.attempts_made), (JobStatus::Failed, ATTEMPTS));
    assert!(start.elapsed() > MINUTE * 30, "{:?}", start.elapsed());
    assert_eq!(model.asked.load(Ordering::SeqCst), super::super::provider_outage::MOST_HAND_BACKS + ATTEMPTS);
}

#[tokio::test(start_paused = true)]
async fn no_job_is_claimed_while_the_circuit_of_requests_is_open() {
    let (model, bench) = away(Duration::ZERO, Way::Refuses, None);
    for _ in 0..DEFAULT_MIN_VOLUME {
        bench.circuit.enter().unwrap().end(Verdict::Failure);
    }
    let jobs = bench.submit_all(3).await;
    let waiting = async {
        tokio::time::sleep(RESET_TIMEOUT - SECOND).await;
        assert_eq!(
            (model.asked.load(Ordering::SeqCst), bench.queue.job(&jobs[0]).status),
            (0, JobStatus::Waiting)
        );
        for job_id in &jobs {
            assert_eq!(bench.ended(job_id).await.attempts_made, 1);
        }
    };
    bench.all_work_while(waiting).await;
    assert_eq!(bench.noted(), [AttemptOutcome::Completed; 3], "nothing was taken to be handed back");
}

#[tokio::test(start_paused = true)]
async fn requests_learn_from_jobs_that_the_provider_is_down() {
    let (_model, bench) = away(MINUTE, Way::Refuses, None);
    let jobs = bench.submit_all(DEFAULT_WORKERS).await;
    bench
        .all_work_while(async {
            moments(5).await;
            assert_ne!(bench.circuit.state(), agent_core::circuit_breaker::CircuitState::Closed);
            bench.ended(&jobs[0]).await;
        })
        .await;
}

/// A model that is away once, then asks for a payment, and never replies behind that.
struct Paying(AtomicU32);

#[boxed_async]
impl Model for Paying {
    fn name(&self) -> &'static str {
        "test/paying"
    }

    async fn complete(&self, _request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Err(ModelError::Unreachable { provider: "p".into(), detail: "away".into() }),
            1 => Ok(asks_for(&[("1", "pay", json!({}))])),
            _ => std::future::pending().await,
        }
    }
}

/// Somebody may take days to decide.
#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_somebody_says_that_the_provider_answers_again() {
    let (model, runs) = (Arc::new(Paying(AtomicU32::default())), Arc::new(TestRuns::default()));
    let tools = Arc::new(EchoTools::new(&["pay"]).approved_by("pay", "sha256:policy"));
    let agent = Agent::new(model.clone(), tools, Arc::new(RetryingJournal::new(runs.clone())));
    let bench = bench_on(&Arc::default(), &runs, agent);
    let first = bench.submit().await;
    let others = async {
        moments(10).await;
        assert_eq!(bench.queue.job(&first).status, JobStatus::Parked);
        bench.submit_all(2).await;
        moments(10).await;
        assert_eq!(
            model.0.load(Ordering::SeqCst),
            4,
            "none of them is a trial beside which nothing is claimed"
        );
    };
    bench.all_work_while(others).await;
}

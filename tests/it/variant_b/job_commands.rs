//! What a job costs Redis, counted in commands that clients send: rate windows, cache and queue together.
//! What a script does within Redis is not counted; that it searches nothing is tested in `backends`.

use std::collections::BTreeMap;

use acceptance::{Gate, Model, Redis, Service, Task, Token, says};

/// A whole job: its submission, its run and one look at its result.
const MOST_FOR_A_JOB: usize = 8;

/// Jobs of one kind of measurement.
const JOBS: usize = 15;

/// How many of each, as the test's log shows it.
fn tally(commands: &[String]) -> BTreeMap<&str, usize> {
    let mut tally = BTreeMap::new();
    for command in commands {
        *tally.entry(command.as_str()).or_default() += 1;
    }
    tally
}

async fn service(redis: &Redis, model: &Model) -> Service {
    model.always(|request| says(&request.user_text()));
    Service::variant_b().redis(redis).model(model).start().await
}

/// Waits until the log says that a job has completed, which asks Redis nothing.
async fn is_completed(service: &Service, id: &str) {
    let completed = |line: &serde_json::Value| line["message"] == "job completed" && line["job_id"] == id;
    service.log().entry("the job to be completed", completed).await;
}

/// How whoever submitted a job looks at its result.
#[derive(Debug, Clone, Copy)]
enum Look {
    /// When it has ended.
    Afterwards,
    /// Held back until it has ended, from when it is worked on.
    Waiting,
}

/// A busy machine lets a second pass now and then, which costs a look for stalled jobs: so the median of the
/// counts.
async fn check_lone_jobs(look: Look) {
    let (redis, model) = (Redis::start().await, Model::openai().await);
    let service = service(&redis, &model).await;
    let mut monitor = redis.monitor().await;
    let mut counts = Vec::new();
    for number in 0..=JOBS {
        // Each user may ask a few times only.
        let user = service.user(Token::of(format!("u{number}")));
        monitor.commands().await;
        let gate = model.holds(says("done"));
        let id = user.job_for("work").await;
        model.was_asked(number + 1).await;
        let job = match look {
            Look::Afterwards => {
                gate.open();
                is_completed(&service, &id).await;
                user.job(&id).await.json()
            }
            Look::Waiting => {
                let path = format!("{id}?wait=60");
                let waiting = Task::begin(async move { user.job(&path).await.json() });
                gate.open();
                waiting.ended().await
            }
        };
        assert_eq!(job["status"], "completed", "{job:#}");
        let commands = monitor.commands().await.of_clients;
        // The first one loads the scripts.
        if number > 0 {
            counts.push(commands.len());
        }
    }
    counts.sort_unstable();
    let median = counts[JOBS / 2];
    assert!(median <= MOST_FOR_A_JOB, "{median} commands in the median of {counts:?}, {look:?}");
}

#[tokio::test]
async fn a_lone_job_costs_redis_at_most_eight_commands() {
    check_lone_jobs(Look::Afterwards).await;
}

#[tokio::test]
async fn a_lone_job_that_somebody_waits_for_costs_redis_at_most_eight_commands() {
    check_lone_jobs(Look::Waiting).await;
}

#[tokio::test]
async fn jobs_that_follow_each_other_cost_redis_less_than_lone_ones() {
    let (redis, model) = (Redis::start().await, Model::openai().await);
    let service = service(&redis, &model).await;
    let warm = service.user(Token::of("warm")).job_for("work").await;
    is_completed(&service, &warm).await;
    let mut monitor = redis.monitor().await;
    monitor.commands().await;
    let gates: Vec<_> = (0..5).map(|_| model.holds(says("first"))).collect();
    let mut ids = Vec::new();
    for number in 0..JOBS * 2 {
        ids.push(service.user(Token::of(format!("u{number}"))).job_for("work").await);
    }
    model.was_asked(1 + 5).await;
    let submitting = monitor.commands().await.of_clients;
    gates.into_iter().for_each(Gate::open);
    for id in &ids {
        is_completed(&service, id).await;
    }
    let working = monitor.commands().await.of_clients;
    println!("submitting {} jobs: {:?}", ids.len(), tally(&submitting));
    println!("working them off: {:?}", tally(&working));
    // One ends a job and claims the next; the rest are leases that were renewed and looks for more jobs at
    // the end.
    assert!(working.len() < ids.len() * 2, "{} commands for {} jobs: {working:?}", working.len(), ids.len());
}

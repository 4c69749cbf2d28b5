//! A process that is still ending, and the next one at the same address: nobody's work is taken from them,
//! and nobody who waits holds the end up.

use std::time::Duration;

use acceptance::{Model, Signal, Stores, Task, Token, says};

use tokio::time::{Instant, sleep_until};

/// Longer than a lease may go without being renewed before a successor takes its holder for dead.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

async fn check_an_overlap(stores: Stores) {
    let model = Model::openai().await;
    let gate = model.holds(says("done"));
    let mut one = stores.service(&model).start().await;
    let (address, token) = (one.address(), Token::of("u"));
    let job = one.user(&token).job_for("work").await;
    model.was_asked(1).await;
    // `one` takes no connections from now on, and its worker finishes the step it is at.
    one.signal(Signal::TERM);
    one.refuses_connections().await;
    let other = stores.service(&model).env("PORT", address.port().to_string()).start().await;
    sleep_until(Instant::now() + LONG_ENOUGH).await;
    assert_eq!(model.calls().len(), 1, "the successor took a job from a worker that lives");
    gate.open();
    assert_eq!(one.ended().await.code, Some(0));
    other.user(&token).completed_job(&job, "done").await;
    assert_eq!(model.calls().len(), 1);
}

on_each! { check_an_overlap:
    a_successor_leaves_the_jobs_in_the_file_to_who_still_ends_there = Stores::embedded();
    a_successor_leaves_the_jobs_on_redis_to_who_still_ends_there = Stores::redis().await;
}

#[tokio::test]
async fn whoever_waits_for_a_job_is_told_how_it_stands_when_the_service_ends() {
    let (stores, model) = (Stores::embedded(), Model::openai().await);
    let gate = model.holds(says("never heard"));
    // Connections are taken a little longer, or the question could come too late to be asked.
    let mut service = stores.service(&model).env("SHUTDOWN_DRAIN_MS", "2000").start().await;
    let user = service.user(Token::of("u"));
    let job = user.job_for("work").await;
    model.was_asked(1).await;
    let waiting = Task::begin(async move { user.get(&format!("/api/agent/jobs/{job}?wait=60")).await });
    service.signal(Signal::TERM);
    let answer = waiting.ended().await;
    assert_eq!((answer.status, answer.json()["status"].take()), (200, "active".into()), "{answer}");
    gate.open();
    assert_eq!(service.ended().await.code, Some(0), "nobody who waits holds the end up");
}

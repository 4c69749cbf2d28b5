//! Streams on bad days: readers that leave and come back to another replica, killed owners, shutdowns. Two
//! processes on one store are one service.

use std::time::Duration;

use acceptance::{Model, Sent, Service, Signal, Stores, Token, User, says};
use serde_json::json;
use tokio::time::Instant;

/// Issue 12, "Streams": a run whose owner died ends its streams within this.
const DEAD_WITHIN: Duration = Duration::from_secs(10);

async fn two(stores: &Stores, model: &Model) -> (Service, Service) {
    tokio::join!(stores.service(model).start(), stores.service(model).start())
}

fn user(service: &Service) -> User {
    service.user(Token::of("u").premium())
}

fn run_of(started: &Sent) -> String {
    format!("runs/{}", started.data["runId"].as_str().expect("the id of a run"))
}

#[tokio::test]
async fn a_run_goes_on_when_its_reader_leaves_and_is_read_on_another_replica() {
    let (stores, model) = (Stores::embedded(), Model::openai().await);
    let gate = model.pauses(says("forty two"));
    let (one, other) = two(&stores, &model).await;
    let mut stream = user(&one).stream("6 * 7?").await;
    let run = run_of(&stream.next_named("run.started").await);
    let mut told = String::new();
    while told != "forty two" {
        told += stream.next_named("model.delta").await.data["text"].as_str().unwrap();
    }
    drop(stream);
    let mut elsewhere = user(&other).follow(&run, Some("0")).await;
    gate.open();
    let rest = elsewhere.rest().await;
    assert_eq!(
        rest.iter().map(|event| event.name.as_str()).collect::<Vec<_>>(),
        ["model.replied", "run.ended"]
    );
    assert_eq!(rest[1].data["output"], "forty two");
}

#[tokio::test]
async fn readers_of_a_run_are_told_within_10_s_that_its_owner_was_killed() {
    let (stores, model) = (Stores::embedded(), Model::openai().await);
    let gate = model.holds(says("never heard"));
    let (mut one, other) = two(&stores, &model).await;
    let mut stream = user(&one).stream("hi").await;
    let run = run_of(&stream.next_named("run.started").await);
    model.was_asked(1).await;
    let mut elsewhere = user(&other).follow(&run, Some("0")).await;
    one.signal(Signal::KILL);
    let killed = Instant::now();
    one.ended().await;
    assert!(stream.rest().await.is_empty());
    let failed = elsewhere.next_named("run.failed").await;
    assert!(killed.elapsed() < DEAD_WITHIN, "{:?}", killed.elapsed());
    assert_eq!(failed.data, json!({ "status": 500, "body": { "error": "Internal server error" } }));
    drop(gate);
}

#[tokio::test]
async fn a_shutdown_tells_readers_to_come_again_and_lets_the_run_end() {
    let (stores, model) = (Stores::redis_and_postgres().await, Model::openai().await);
    let gate = model.holds(says("forty two"));
    let (mut one, other) = two(&stores, &model).await;
    let mut stream = user(&one).stream("hi").await;
    let run = run_of(&stream.next_named("run.started").await);
    model.was_asked(1).await;
    one.signal(Signal::TERM);
    assert!(stream.rest().await.is_empty());
    let asides = stream.asides.join("\n");
    assert!(asides.contains("the service is stopping") && asides.ends_with("retry: 1000"), "{asides}");
    let mut again = user(&other).follow(&run, Some("0")).await;
    gate.open();
    assert_eq!(again.next_named("run.ended").await.data["output"], "forty two");
    assert_eq!(one.ended().await.code, Some(0));
}

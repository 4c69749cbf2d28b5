//! Streams on bad days: readers that leave and come back to another replica, killed owners, cut connections,
//! shutdowns. Two processes on one store are one service.

use std::time::Duration;

use acceptance::{Events, Model, Sent, Service, Signal, Stores, Token, User, asks_for, says};
use serde_json::json;
use test_servers::Proxy;
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

async fn resume_everywhere(stores: Stores) {
    let model = Model::openai().await;
    model.plays(asks_for("calculate", json!({ "expression": "6 * 7" }))).says("forty two");
    let (one, other) = two(&stores, &model).await;
    let all = user(&one).stream("6 * 7?").await.rest().await;
    let stored: Vec<_> = all.iter().filter(|event| event.id.is_some()).cloned().collect();
    assert_eq!(stored.len(), 6, "{stored:?}");
    let run = run_of(&stored[0]);
    for service in [&one, &other] {
        // Without an id, and with one that the run has not.
        for last in [None, Some("77")] {
            assert_eq!(user(service).follow(&run, last).await.rest().await, stored);
        }
        for (index, event) in stored.iter().enumerate() {
            let request = user(service).following(&run, event.id.as_deref());
            if index + 1 == stored.len() {
                assert_eq!(service.send(request).await.status, 204);
            } else {
                assert_eq!(Events::open(request).await.rest().await, stored[index + 1..], "after {index}");
            }
        }
    }
}

on_each! { resume_everywhere:
    a_reader_resumes_at_every_event_on_another_replica_of_one_file = Stores::embedded();
    a_reader_resumes_at_every_event_on_another_replica_of_one_postgres = Stores::redis_and_postgres().await;
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
async fn the_stream_of_a_job_goes_on_when_its_worker_is_killed() {
    let (stores, model) = (Stores::embedded(), Model::openai().await);
    model.plays(asks_for("calculate", json!({ "expression": "6 * 7" })));
    let gate = model.holds(says("never heard"));
    model.says("forty two");
    let mut one = stores.service(&model).start().await;
    let job = format!("jobs/{}", user(&one).job_for("6 * 7?").await);
    let mut stream = user(&one).follow(&job, None).await;
    let returned = stream.next_named("tool.returned").await;
    model.was_asked(2).await;
    let other = stores.service(&model).start().await;
    let mut elsewhere = user(&other).follow(&job, returned.id.as_deref()).await;
    one.killed().await;
    let rest = elsewhere.rest().await;
    let last = rest.last().expect("an event");
    assert_eq!((last.name.as_str(), &last.data["output"]), ("run.ended", &json!("forty two")));
    drop(gate);
}

#[tokio::test]
async fn a_run_is_cancelled_from_another_replica() {
    let (stores, model) = (Stores::embedded(), Model::openai().await);
    let gate = model.holds(says("never heard"));
    let (one, other) = two(&stores, &model).await;
    let mut stream = user(&one).stream("hi").await;
    let run = run_of(&stream.next_named("run.started").await);
    model.was_asked(1).await;
    assert_eq!(user(&other).post(&format!("/api/agent/{run}/cancel"), "").await.status, 202);
    gate.is_abandoned().await;
    assert_eq!(stream.next_named("run.ended").await.data["stopReason"], "cancelled");
    let again = user(&other).follow(&run, None).await.rest().await;
    assert_eq!(again.last().expect("an event").data["stopReason"], "cancelled");
    drop(gate);
}

#[tokio::test]
async fn a_stream_over_a_connection_that_is_cut_is_resumed() {
    let (stores, model) = (Stores::embedded(), Model::openai().await);
    let gate = model.pauses(says("forty two"));
    let service = stores.service(&model).start().await;
    let mut proxy = Proxy::before(service.address()).await;
    let far = acceptance::Caller::new(proxy.address()).user(Token::of("u").premium());
    let mut stream = far.stream("hi").await;
    let run = run_of(&stream.next_named("run.started").await);
    stream.next_named("model.delta").await;
    proxy.cut().await;
    assert_eq!(stream.rest().await.iter().filter(|event| event.id.is_some()).count(), 0);
    proxy.pass().await;
    let mut again = far.follow(&run, Some("0")).await;
    gate.open();
    assert_eq!(again.next_named("run.ended").await.data["output"], "forty two");
}

#[tokio::test]
async fn a_shutdown_tells_readers_to_come_again_and_lets_the_run_end() {
    let (stores, model) = (Stores::embedded(), Model::openai().await);
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

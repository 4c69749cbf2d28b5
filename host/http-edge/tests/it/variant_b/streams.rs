//! Runs as events: who gets them, from where on, and what is answered instead.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Epoch, JobQueue as _, Journal as _, RunStore as _};
use agent_core::testing::{EchoTools, TestQueue, TestRuns, asks_for, failed, says, task};
use agent_core::words::{Event, FailureKind, JobData, JobStatus, RunOutcome, RunRecord, Task, Usage};
use axum::body::Body;
use http::{Request, StatusCode};
use run_service::jobs::Jobs;
use run_service::layers::{Heartbeat, InvokeError};
use run_service::live::LiveRuns;
use run_service::streams::RunStores;
use run_service::testing::{ScriptedInvoke, run_stores, scripted_agent, streams_of};
use serde_json::json;
use tokio::time::timeout;

use crate::harness::{Answer, Answers, Fakes, b, bearer, request, with};

/// A Variant B whose streamed runs call a tool and then say a word, and their store.
fn streaming() -> (Fakes, Arc<TestRuns>) {
    let store = Arc::new(TestRuns::default());
    let kept = run_stores(&store);
    let script = [Ok(asks_for(&[("1", "echo", json!({}))])), Ok(says("done"))];
    let agent = scripted_agent(script, EchoTools::new(&["echo"]), kept.journal.clone());
    let streams = streams_of(Heartbeat::new(agent, store.clone()), kept);
    (Fakes::configured(Answers, |edge| b(edge).streams = Some(streams)), store)
}

fn accepting(request: Request<Body>) -> Request<Body> {
    with(request, "accept", "text/event-stream")
}

async fn stream(fakes: &Fakes) -> Answer {
    let request = accepting(request("POST", "/api/agent", r#"{"query":"hi"}"#));
    fakes.service.send(bearer("u1", request)).await
}

/// The ids and names of a stream's events.
fn events(answer: &Answer) -> Vec<(&str, &str)> {
    answer
        .body
        .split("\n\n")
        .filter(|block| block.contains("event: "))
        .map(|block| (field_of("id: ", block), field_of("event: ", block)))
        .collect()
}

fn field_of<'a>(name: &str, block: &'a str) -> &'a str {
    block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default()
}

const WHOLE: [(&str, &str); 6] = [
    ("0", "run.started"),
    ("1", "model.replied"),
    ("1.1", "tool.started"),
    ("2", "tool.returned"),
    ("3", "model.replied"),
    ("4", "run.ended"),
];

#[tokio::test(start_paused = true)]
async fn whoever_accepts_events_gets_them_and_everybody_else_the_plain_answer() {
    let (fakes, _store) = streaming();
    let anything = with(request("POST", "/api/agent", r#"{"query":"hi"}"#), "accept", "*/*");
    let silent = fakes.post("/api/agent", r#"{"query":"hi"}"#).await;
    for plain in [silent, fakes.service.send(bearer("u1", anything)).await] {
        assert_eq!(
            (plain.status, plain.header("content-type")),
            (StatusCode::OK, Some("application/json; charset=utf-8"))
        );
    }
    let streamed = stream(&fakes).await;
    assert_eq!(streamed.header("content-type"), Some("text/event-stream"));
    assert_eq!(streamed.header("cache-control"), Some("no-store"));
    assert!(streamed.header("x-ratelimit-remaining").is_some());
    assert!(streamed.body.starts_with("retry: 1000\n\n"), "{}", streamed.body);
    assert_eq!(events(&streamed), WHOLE);
    let location = streamed.header("content-location").unwrap();
    assert!(location.starts_with("/api/agent/runs/run_") && location.ends_with("/events"), "{location}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_failed_is_told_as_its_error_would_have_been_answered() {
    for (kind, status, text) in [
        (FailureKind::Internal, 500, "Internal server error"),
        (FailureKind::Unavailable, 503, "Service temporarily unavailable"),
        (FailureKind::RateLimited, 429, "Rate limit exceeded"),
    ] {
        let (fakes, store) = streaming();
        let (error, usage) = ("a secret of ours".to_owned(), Usage::default());
        let failed = RunOutcome::Failed { error, iterations: 0, usage, kind };
        let record = agent_core::testing::record_of_now("run_1", failed);
        store.save(&record).await.unwrap();
        store.append("run_1", Epoch(0), 0, &[Event::from(says("half"))]).await.unwrap();
        let answer = fakes.get("/api/agent/runs/run_1/events").await;
        assert_eq!(events(&answer), [("0", "model.replied"), ("1", "run.failed")]);
        let data = json!({ "status": status, "body": { "error": text } });
        assert!(answer.body.ends_with(&format!("data: {data}\n\n")), "{}", answer.body);
        let other = bearer("u2", request("GET", "/api/agent/runs/run_1/events", ""));
        assert_eq!(fakes.service.send(other).await.status, StatusCode::NOT_FOUND);
        assert_eq!(fakes.post("/api/agent/runs/run_1/cancel", "").await.status, StatusCode::CONFLICT);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_before_the_first_event_is_a_plain_answer() {
    let busy = ScriptedInvoke::new([Err(InvokeError::Busy { waited: Duration::ZERO })]);
    let kept = RunStores { journal: Arc::new(TestRuns::default()), records: None, live: LiveRuns::default() };
    let streams = streams_of(busy, kept);
    let fakes = Fakes::configured(Answers, |edge| b(edge).streams = Some(streams));
    let answer = stream(&fakes).await;
    answer.check(StatusCode::SERVICE_UNAVAILABLE, r#"{"error":"Service temporarily unavailable"}"#);
    assert_eq!(fakes.get("/api/agent/runs/run_1/events").await.status, StatusCode::NOT_FOUND);
    assert_eq!(fakes.get("/api/agent/jobs/1/events").await.status, StatusCode::NOT_FOUND);
    let invalid = accepting(request("POST", "/api/agent", "{}"));
    assert_eq!(fakes.service.send(bearer("u1", invalid)).await.status, StatusCode::BAD_REQUEST);
    let nobody = accepting(request("POST", "/api/agent", r#"{"query":"hi"}"#));
    assert_eq!(fakes.service.send(nobody).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn the_run_of_a_job_is_cancelled_during_its_first_attempt() {
    let (queue, store) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let jobs = Jobs::new(queue.clone());
    let streams = streams_of(ScriptedInvoke::default(), run_stores(&store)).with_jobs(jobs.clone());
    let fakes = Fakes::configured(Answers, |edge| {
        b(edge).streams = Some(streams);
        b(edge).jobs = jobs;
    });
    let job = queue.job(&queue.add(&JobData::new("hi", "u1")).await.unwrap());
    let begun = |run_id: &str| {
        [Event::Started { task: Task { id: run_id.into(), ..task("hi") }, tools: "sha256:test".into() }]
    };
    store.append(&job.run_id, Epoch(1), 0, &begun(&job.run_id)).await.unwrap();
    let path = format!("/api/agent/runs/{}/cancel", job.run_id);
    assert_eq!(fakes.post(&path, "").await.status, StatusCode::ACCEPTED);
    assert_eq!(queue.job(&job.id).status, JobStatus::Cancelled);
    // Nobody knows who carries this one.
    store.append("run_2", Epoch(1), 0, &begun("run_2")).await.unwrap();
    let refused = fakes.post("/api/agent/runs/run_2/cancel", "").await;
    let text = r#"{"error":"The run cannot be cancelled at this moment"}"#;
    assert_eq!((refused.status, &*refused.body), (StatusCode::CONFLICT, text));
}

/// The process that handed the run over died before it added the job.
#[tokio::test(start_paused = true)]
async fn a_run_whose_job_was_never_added_is_cancelled() {
    let (fakes, store) = streaming();
    let job_id = Some("9".to_owned());
    let record = agent_core::testing::record("run_1", RunOutcome::Running);
    store.save(&RunRecord { job_id, ..record }).await.unwrap();
    let begun = Event::Started { task: task("hi"), tools: "sha256:test".into() };
    store.append("run_1", Epoch::UNCLAIMED, 0, &[begun]).await.unwrap();
    let cancelled = fakes.post("/api/agent/runs/run_1/cancel", "").await;
    assert_eq!(cancelled.status, StatusCode::ACCEPTED, "{cancelled}");
    assert_eq!(store.events("run_1")[1], Event::Cancelled);
    assert!(matches!(store.records()[0].outcome, RunOutcome::Ended { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_does_not_interrupt_a_store_that_takes_its_time() {
    let (journal, records) = (Arc::<TestRuns>::default(), Arc::<TestRuns>::default());
    journal.append("run_1", Epoch(0), 0, &[Event::from(says("half"))]).await.unwrap();
    records.save(&agent_core::testing::record("run_1", failed("no"))).await.unwrap();
    // Longer than a heartbeat.
    journal.switch.pause_for(7_000);
    let kept = RunStores { journal, records: Some(records), live: LiveRuns::default() };
    let streams = streams_of(ScriptedInvoke::default(), kept);
    let fakes = Fakes::configured(Answers, |edge| b(edge).streams = Some(streams));
    let followed = timeout(Duration::from_secs(120), fakes.get("/api/agent/runs/run_1/events"));
    let answer = followed.await.unwrap();
    assert!(answer.body.contains(": heartbeat\n\n"), "{}", answer.body);
    assert_eq!(events(&answer), [("0", "model.replied"), ("1", "run.failed")]);
}

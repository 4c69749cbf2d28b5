//! Jobs: submitted, read, listed and cancelled by their owners, and by nobody else.

use std::time::{Duration, SystemTime};

use agent_core::words::JobStatus;
use axum::body::Body;
use http::StatusCode;
use insta::assert_snapshot;
use serde_json::json;
use serde_json::value::RawValue;

use crate::harness::{Answer, Answers, Fakes, as_admin, bearer, request};

const QUERY: &str = r#"{"query":"hi"}"#;

fn nothing() -> Fakes {
    Fakes::with_invoke(Answers)
}

/// Has one waiting job of `u1` with id 1.
async fn one_job() -> Fakes {
    let fakes = nothing();
    assert_eq!(fakes.post("/api/agent/async", QUERY).await.status, StatusCode::ACCEPTED);
    fakes.queue.change("1", |job| job.created_at = SystemTime::UNIX_EPOCH);
    fakes
}

/// As another user, and as an administrator.
async fn as_others(fakes: &Fakes, method: &str, path: &str) -> [Answer; 2] {
    let asked = || request(method, path, Body::empty());
    [fakes.service.send(bearer("u2", asked())).await, fakes.service.send(as_admin(asked())).await]
}

#[tokio::test]
async fn a_query_becomes_a_job_of_its_caller() {
    let fakes = nothing();
    let answer = fakes.post("/api/agent/async", QUERY).await;
    assert_snapshot!(answer, @r#"
    202 Accepted
    content-type: application/json; charset=utf-8
    location: /api/agent/jobs/1
    ratelimit-policy: 100;w=900
    ratelimit-limit: 100
    ratelimit-remaining: 99
    ratelimit-reset: 900
    x-ratelimit-limit: 10
    x-ratelimit-remaining: 9
    {"jobId":"1"}
    "#);
    assert_eq!(fakes.submitted(), [("u1".to_owned(), "hi".to_owned())]);
}

#[tokio::test]
async fn a_waiting_job_has_no_more_fields_than_it_has_values_for() {
    assert_snapshot!(one_job().await.get("/api/agent/jobs/1").await.body, @r#"{"jobId":"1","status":"waiting","attemptsMade":0,"createdAt":"1970-01-01T00:00:00.000Z"}"#);
}

#[tokio::test]
async fn a_job_that_ended_has_all_of_them() {
    let fakes = one_job().await;
    fakes.queue.change("1", |job| {
        job.status = JobStatus::Completed;
        job.result = Some(RawValue::from_string(r#"{ "output": "3" }"#.into()).unwrap());
        job.error = Some("the first time it went wrong".into());
        job.attempts_made = 2;
        job.started_at = Some(job.created_at + Duration::from_millis(1_500));
        job.finished_at = Some(job.created_at + Duration::from_millis(2_345));
    });
    assert_snapshot!(fakes.get("/api/agent/jobs/1?wait=60").await.body, @r#"{"jobId":"1","status":"completed","result":{ "output": "3" },"error":"the first time it went wrong","attemptsMade":2,"createdAt":"1970-01-01T00:00:00.000Z","startedAt":"1970-01-01T00:00:01.500Z","finishedAt":"1970-01-01T00:00:02.345Z"}"#);
}

#[tokio::test]
async fn what_is_somebody_elses_does_not_exist() {
    let fakes = one_job().await;
    let unknown = fakes.get("/api/agent/jobs/2").await;
    unknown.check(StatusCode::NOT_FOUND, r#"{"error":"Not found"}"#);
    for (method, path) in [("GET", "/api/agent/jobs/1"), ("POST", "/api/agent/jobs/1/cancel")] {
        for answer in as_others(&fakes, method, path).await {
            assert_eq!((answer.status, &answer.body), (unknown.status, &unknown.body), "{method} {path}");
        }
    }
    for listed in as_others(&fakes, "GET", "/api/agent/jobs").await {
        assert_eq!(listed.json()["data"], json!([]));
    }
    assert_eq!(fakes.get("/api/agent/jobs/1").await.json()["status"], "waiting");
}

#[tokio::test]
async fn what_cannot_be_an_id_is_unknown_without_asking() {
    let fakes = one_job().await;
    fakes.queue.switch.fail(true);
    for id in ["%00", "%FF", "a%0Ab", &"x".repeat(257)] {
        assert_eq!(fakes.get(&format!("/api/agent/jobs/{id}")).await.status, StatusCode::NOT_FOUND, "{id}");
        let cancelled = fakes.post(&format!("/api/agent/jobs/{id}/cancel"), "").await;
        assert_eq!(cancelled.status, StatusCode::NOT_FOUND, "{id}");
    }
}

#[tokio::test]
async fn a_job_that_has_not_ended_can_be_cancelled() {
    let fakes = one_job().await;
    let answer = fakes.post("/api/agent/jobs/1/cancel", "").await;
    answer.check(StatusCode::ACCEPTED, r#"{"jobId":"1"}"#);
    let again = fakes.post("/api/agent/jobs/1/cancel", "").await;
    again.check(StatusCode::CONFLICT, r#"{"error":"The job has already ended"}"#);

    fakes.queue.change("1", |job| job.status = JobStatus::Active);
    assert_eq!(fakes.post("/api/agent/jobs/1/cancel", "").await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_list_goes_on_where_its_cursor_says() {
    let fakes = nothing();
    for _ in 0..3 {
        fakes.post("/api/agent/async", QUERY).await;
    }
    fakes.service.send(bearer("u2", request("POST", "/api/agent/async", QUERY))).await;
    let ids = |answer: &Answer| -> Vec<String> {
        let jobs = answer.json()["data"].as_array().unwrap().clone();
        jobs.iter().map(|job| job["jobId"].as_str().unwrap().to_owned()).collect()
    };
    let first = fakes.get("/api/agent/jobs?limit=2").await;
    assert_eq!(
        (ids(&first), first.json()["nextCursor"].clone()),
        (vec!["3".into(), "2".into()], json!("j2"))
    );
    assert_eq!(first.json()["data"][0], fakes.get("/api/agent/jobs/3").await.json());
    let second = fakes.get("/api/agent/jobs?limit=2&cursor=j2").await;
    assert_eq!((ids(&second), second.json()["nextCursor"].clone()), (vec!["1".into()], json!(null)));
    assert!(second.body.ends_with(r#"],"nextCursor":null}"#), "{second}");

    fakes.queue.change("2", |job| job.status = JobStatus::Failed);
    assert_eq!(ids(&fakes.get("/api/agent/jobs?status=failed").await), ["2"]);
    assert_eq!(ids(&fakes.get("/api/agent/jobs").await), ["3", "2", "1"]);
}

#[tokio::test]
async fn a_queue_that_is_down_is_503() {
    let fakes = one_job().await;
    fakes.queue.switch.fail(true);
    for (method, path) in [
        ("POST", "/api/agent/async"),
        ("GET", "/api/agent/jobs"),
        ("GET", "/api/agent/jobs/1"),
        ("POST", "/api/agent/jobs/1/cancel"),
    ] {
        let answer = fakes.ask(method, path, QUERY).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{method} {path}");
        assert_eq!(answer.body, r#"{"error":"Service temporarily unavailable"}"#, "{method} {path}");
        assert_eq!(answer.header("retry-after"), Some("1"), "{method} {path}");
    }
}

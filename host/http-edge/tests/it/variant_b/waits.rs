//! What jobs wait for: shown with its digest to those who may know, and decided under it.

use agent_core::ports::{Epoch, Journal as _, ToolSet as _};
use agent_core::testing::{EchoTools, asks_for, task};
use agent_core::words::{Event, JobStatus, Principal, ToolCall, WaitKind};
use axum::body::Body;
use http::StatusCode;
use insta::assert_snapshot;
use serde_json::{Value, json};
use tokio::task::yield_now;

use crate::harness::{Answer, Answers, Fakes, as_admin, bearer, request, with};

const WAIT: &str = "/api/agent/waits/1:1.0";

/// Has a job of `u1` whose run waits for the approval of a payment, and the digest of what is shown.
async fn parked() -> (Fakes, String) {
    parked_with(json!({ "euros": 60 })).await
}

/// Has such a job whose payment has these arguments.
async fn parked_with(arguments: Value) -> (Fakes, String) {
    parked_for(WaitKind::Approval, arguments).await
}

/// Has such a job that waits for this.
async fn parked_for(kind: WaitKind, arguments: Value) -> (Fakes, String) {
    let fakes = Fakes::with_invoke(Answers);
    assert_eq!(fakes.post("/api/agent/async", r#"{"query":"hi"}"#).await.status, StatusCode::ACCEPTED);
    fakes.queue.change("1", |job| (job.status, job.run_id) = (JobStatus::Parked, "run_1".into()));
    let tools = EchoTools::new(&["pay"]).approved_by("pay", "sha256:policy");
    let call = ToolCall { id: "c".into(), name: "pay".into(), arguments: arguments.clone() };
    let terms = tools.approval(&call, Principal::nobody()).unwrap();
    let began_at = 1_795_262_400_000;
    let call = agent_core::ports::WaitingCall {
        id: "1:1.0",
        times_shown: 0,
        index: 0,
        within: None,
        usage: agent_core::words::Usage::of(200, 28),
    };
    let wait = agent_core::words::Wait { kind, expires_at: 1 << 50, ..terms.wait(call, began_at) };
    let digest = wait.shown.digest();
    let task = agent_core::words::Task { id: "run_1".into(), ..task("hi") };
    let events = [
        Event::Started { task, tools: "sha256:tools".into() },
        Event::from(asks_for(&[("c", "pay", arguments)])),
        Event::Waiting { waits: vec![wait], epoch: 1 },
    ];
    fakes.runs.append("run_1", Epoch(1), 0, &events).await.unwrap();
    (fakes, digest)
}

async fn decide(fakes: &Fakes, digest: Option<&str>, body: &str) -> Answer {
    let mut request = bearer("u1", request("POST", &format!("{WAIT}/decision"), body.to_owned()));
    if let Some(digest) = digest {
        request = with(request, "if-match", &format!("\"{digest}\""));
    }
    fakes.service.send(request).await
}

#[tokio::test]
async fn a_wait_is_shown_with_the_digest_that_a_decision_carries() {
    let (fakes, digest) = parked().await;
    let answer = fakes.get(WAIT).await;
    assert_eq!(answer.headers["etag"], format!("\"{digest}\""));
    assert_snapshot!(answer.body);
    let page = fakes.get("/api/agent/waits?limit=1").await.json();
    assert_eq!((&page["data"][0], &page["nextCursor"]), (&answer.json(), &json!(null)));
    let job = fakes.get("/api/agent/jobs/1").await.json();
    assert_eq!((&job["status"], &job["waits"][0]), (&json!("parked"), &answer.json()));
}

/// People who decide may read it in a terminal.
#[tokio::test]
async fn what_is_to_be_decided_hides_nothing_from_those_who_read_it() {
    let (fakes, digest) = parked_with(json!({ "to": "bob\u{202e}\u{9b}2J\u{200b}" })).await;
    let one = fakes.get(WAIT).await;
    let all = fakes.get("/api/agent/waits").await;
    let job = fakes.get("/api/agent/jobs/1").await;
    let decided = decide(&fakes, Some(&digest), r#"{"decision":"approve"}"#).await;
    for answer in [one, all, job, decided] {
        assert_eq!(answer.status, StatusCode::OK, "{answer}");
        assert!(answer.body.contains(r"bob\u202e\u009b2J\u200b"), "{answer}");
    }
}

#[tokio::test]
async fn the_first_decision_counts_and_the_second_is_told_whose_it_was() {
    let (fakes, digest) = parked().await;
    let first = decide(&fakes, Some(&digest), r#"{"decision":"approve"}"#).await;
    assert_eq!(first.status, StatusCode::OK, "{first}");
    let decided = first.json();
    assert_eq!((&decided["goesOn"], &decided["wait"]["decisions"][0]["by"]), (&json!(true), &json!("u1")));
    fakes.queue.change("1", |job| assert_eq!(job.status, JobStatus::Waiting));
    let second = decide(&fakes, Some(&digest), r#"{"decision":"reject","reason":"no"}"#).await;
    second.check(StatusCode::CONFLICT, r#"{"error":"It was decided by u1 already"}"#);
    assert_eq!(fakes.get("/api/agent/waits").await.json()["data"], json!([]));
}

#[tokio::test]
async fn a_decision_that_cannot_be_taken_changes_nothing() {
    let (fakes, digest) = parked().await;
    let before = fakes.runs.events("run_1");
    let other = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
    for (sent, body, status) in [
        (None, r#"{"decision":"approve"}"#, StatusCode::PRECONDITION_REQUIRED),
        (Some(other), r#"{"decision":"approve"}"#, StatusCode::PRECONDITION_FAILED),
        (Some(digest.as_str()), r#"{"decision":"maybe"}"#, StatusCode::BAD_REQUEST),
        (Some(&digest), r#"{"decision":"approve","digest":"x"}"#, StatusCode::BAD_REQUEST),
        (Some(&digest), r#"{"decision":"edit"}"#, StatusCode::BAD_REQUEST),
        (Some(&digest), r#"{"decision":"approve","arguments":{"euros":6}}"#, StatusCode::BAD_REQUEST),
        (Some(&digest), r#"{"decision":"reject","answer":"no"}"#, StatusCode::BAD_REQUEST),
        (Some(&digest), "{}", StatusCode::BAD_REQUEST),
    ] {
        let answer = decide(&fakes, sent, body).await;
        assert_eq!(answer.status, status, "{body}: {answer}");
    }
    let stranger = fakes.service.send(bearer("u2", request("GET", WAIT, Body::empty()))).await;
    stranger.check(StatusCode::NOT_FOUND, r#"{"error":"Not found"}"#);
    let admin = fakes.service.send(as_admin(request("GET", WAIT, Body::empty()))).await;
    assert_eq!(admin.status, StatusCode::OK, "nobody is named, so administrators may decide");
    assert_eq!(fakes.runs.events("run_1"), before);
}

/// Whoever delivers an event and does not wait for the answer would have it delivered to some of the runs.
#[tokio::test]
async fn what_is_decided_and_delivered_is_carried_out_although_the_client_leaves() {
    for (kind, path, body) in [
        (WaitKind::Approval, &*format!("{WAIT}/decision"), r#"{"decision":"approve"}"#),
        (WaitKind::Event, "/api/agent/events/paid", r#"{"key":"1","data":{"euros":60}}"#),
    ] {
        let (fakes, digest) = parked_for(kind, json!({ "name": "paid", "key": "1" })).await;
        let calls = fakes.queue.calls();
        let begun = async {
            while fakes.queue.calls() == calls {
                yield_now().await;
            }
        };
        let sent = bearer("u1", request("POST", path, body.to_owned()));
        tokio::select! {
            biased;
            () = begun => {}
            _ = fakes.service.send(with(sent, "if-match", &format!("\"{digest}\""))) => panic!("answered"),
        }
        for _ in 0..100 {
            yield_now().await;
        }
        assert_eq!(fakes.queue.job("1").status, JobStatus::Waiting, "{path}");
    }
}

/// A digest that is copied from the body has no double quotes.
#[tokio::test]
async fn an_if_match_that_is_no_quoted_digest_is_not_taken_for_a_missing_one() {
    let (fakes, digest) = parked().await;
    for text in [digest.as_str(), "*", "W/\"a\""] {
        let body = r#"{"decision":"approve"}"#.to_owned();
        let request = with(request("POST", &format!("{WAIT}/decision"), body), "if-match", text);
        let answer = fakes.service.send(bearer("u1", request)).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{text}: {answer}");
        assert!(answer.body.contains("in double quotes"), "{text}: {answer}");
    }
}

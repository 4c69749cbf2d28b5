//! Everybody's runs and jobs, and how the service is: who gets to them, and what they are told.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::{Epoch, JobQueue as _, Journal as _, RunStore as _};
use agent_core::testing::{TestRuns, TokioSpawn, asks_for, says, task};
use agent_core::words::{
    Event, JobData, JobStatus, RunOutcome, RunRecord, StopReason, ToolOutcome, ToolReceipt, ToolReturn, Usage,
};
use http::StatusCode;
use run_service::live::LiveRuns;
use run_service::streams::{RunStores, RunStreams};
use serde_json::{Value, json};
use tokio::task::yield_now;

use crate::harness::{Answers, Fakes, FixedProbe, Log, b};

/// Every route beside those about the tools, the methods that change something last.
const ROUTES: [(&str, &str); 10] = [
    ("GET", "/admin/runs"),
    ("GET", "/admin/runs/run_1"),
    ("GET", "/admin/runs/run_1/events"),
    ("GET", "/admin/queue"),
    ("GET", "/admin/jobs?user=u1"),
    ("GET", "/admin/jobs/1"),
    ("GET", "/admin/status"),
    ("POST", "/admin/runs/run_2/cancel"),
    ("POST", "/admin/jobs/1/cancel"),
    ("POST", "/admin/jobs/2/retry"),
];

fn record(id: &str, user: &str, second: u64, outcome: RunOutcome) -> RunRecord {
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    RunRecord {
        request_id: "order-1".into(),
        user_id: Some(user.into()),
        started_at: at(second),
        finished_at: at(second + 1),
        ..agent_core::testing::record(id, outcome)
    }
}

fn ended() -> RunOutcome {
    let usage = Usage::of(20, 10);
    let model = "test/scripted".to_owned();
    RunOutcome::Ended { stop_reason: StopReason::Completed, iterations: 2, usage, model }
}

fn started() -> Event {
    Event::Started { task: task("hi"), tools: "sha256:test".into() }
}

/// Two runs, one of which goes on somewhere, and two jobs, one of which has failed.
async fn service() -> (Fakes, Arc<TestRuns>) {
    let store = Arc::<TestRuns>::default();
    let kept = RunStores { journal: store.clone(), records: Some(store.clone()), live: LiveRuns::default() };
    let streams = RunStreams::new(Arc::new(Answers), kept, Arc::new(TokioSpawn));
    let runs = store.clone();
    let fakes = Fakes::configured(Answers, move |edge| {
        b(edge).streams = Some(streams);
        b(edge).runs = runs;
    });
    let receipt = ToolReceipt {
        component: Some("calculator@sha256:1".into()),
        detail: Some(Box::default()),
        ..ToolReceipt::new("echo", ToolOutcome::Ok)
    };
    let content = "\u{1b}[31m\u{202e}<b>".to_owned();
    let events = [
        started(),
        Event::from(asks_for(&[("c1", "echo", json!({ "text": "\u{202e}" }))])),
        Event::ToolReturned { index: 0, answer: ToolReturn { content, receipt } },
        Event::from(says("done")),
    ];
    store.append("run_1", Epoch(0), 0, &events).await.unwrap();
    store.save(&record("run_1", "u1", 100, ended())).await.unwrap();
    store.append("run_2", Epoch(0), 0, &[started()]).await.unwrap();
    store.save(&record("run_2", "u2", 200, RunOutcome::Running)).await.unwrap();
    for user in ["u1", "u2"] {
        fakes.queue.add(&JobData::new("2+2", user)).await.unwrap();
    }
    fakes.queue.change("2", |job| {
        job.status = JobStatus::Failed;
        (job.error, job.run_id) = (Some("it broke".into()), "run_2".into());
        job.created_at = SystemTime::UNIX_EPOCH;
    });
    (fakes, store)
}

#[tokio::test]
async fn every_change_leaves_a_line_and_reading_leaves_none() {
    let (fakes, _store) = service().await;
    for (method, path) in ROUTES {
        let log = Log::collect();
        let answer = fakes.administer(method, path, "").await;
        assert!(answer.status.is_success(), "{method} {path}: {answer}");
        let lines: Vec<_> = log
            .audit()
            .iter()
            .map(|line| {
                json!([line["action"], line["run_id"], line["job_id"], line["component"], line["outcome"]])
            })
            .collect();
        let expected: &[Value] = match path {
            "/admin/runs/run_2/cancel" => &[json!(["cancel", "run_2", null, null, "done"])],
            "/admin/jobs/1/cancel" => &[json!(["cancel", null, "1", null, "done"])],
            "/admin/jobs/2/retry" => &[json!(["retry", null, "2", null, "done"])],
            _ => &[],
        };
        assert_eq!(lines, expected, "{method} {path}");
        fakes.windows.fill("user:a1", 0);
    }
    let log = Log::collect();
    fakes.administer("POST", "/admin/jobs/nope/retry", "").await;
    assert_eq!(log.audit()[0]["outcome"], "refused");
}

#[tokio::test]
async fn runs_of_everybody_are_listed_page_by_page() {
    let (fakes, _store) = service().await;
    let all = fakes.administer("GET", "/admin/runs", "").await.json();
    assert_eq!((&all["data"][0]["runId"], &all["nextCursor"]), (&json!("run_2"), &Value::Null));
    assert_eq!(
        all["data"][1],
        json!({
            "runId": "run_1", "requestId": "order-1", "userId": "u1", "startedAt": "1970-01-01T00:01:40.000Z",
            "finishedAt": "1970-01-01T00:01:41.000Z", "outcome": "ended", "stopReason": "completed",
            "model": "test/scripted", "modelCalls": 2,
            "usage": { "inputTokens": 20, "outputTokens": 10, "totalTokens": 30, "cachedTokens": 0, "keptTokens": 0,
                "reasoningTokens": 0 },
        })
    );
    let first = fakes.administer("GET", "/admin/runs?limit=1", "").await.json();
    assert_eq!((first["data"].as_array().unwrap().len(), &first["nextCursor"]), (1, &json!("201000:run_2")));
    let next = fakes.administer("GET", "/admin/runs?limit=1&cursor=201000:run_2", "").await.json();
    assert_eq!((&next["data"][0]["runId"], &next["nextCursor"]), (&json!("run_1"), &Value::Null));
    let of_u1 = fakes.administer("GET", "/admin/runs?user=u1", "").await.json();
    assert_eq!(of_u1["data"].as_array().unwrap().len(), 1);
    let unknown = fakes.administer("GET", "/admin/runs?cursor=run_9", "").await;
    assert_eq!(
        (unknown.status, &unknown.json()["error"][0]["path"]),
        (StatusCode::BAD_REQUEST, &json!(["cursor"]))
    );
}

/// One that waited stands where its wait would have expired, until it has ended.
#[tokio::test]
async fn a_page_leaves_nothing_out_although_the_last_run_before_it_stands_elsewhere_by_now() {
    let (fakes, store) = service().await;
    let first = fakes.administer("GET", "/admin/runs?limit=1", "").await.json();
    store.save(&record("run_2", "u2", 50, ended())).await.unwrap();
    let path = format!("/admin/runs?cursor={}", first["nextCursor"].as_str().unwrap());
    let next = fakes.administer("GET", &path, "").await.json();
    assert_eq!((&next["data"][0]["runId"], &next["data"][1]["runId"]), (&json!("run_1"), &json!("run_2")));
}

#[tokio::test]
async fn a_run_is_told_event_by_event_with_what_only_operators_see() {
    let (fakes, store) = service().await;
    let answer = fakes.administer("GET", "/admin/runs/run_1", "").await;
    assert!(answer.body.contains(r"\u001b[31m\u202e<b>"), "what cannot be seen is escaped: {answer}");
    let run = answer.json();
    assert_eq!((&run["run"]["runId"], &run["nextFrom"]), (&json!("run_1"), &Value::Null));
    let kinds: Vec<_> = run["data"].as_array().unwrap().iter().map(|entry| entry["kind"].clone()).collect();
    assert_eq!(kinds, ["started", "model_replied", "tool_returned", "model_replied"]);
    assert_eq!(run["data"][1]["calls"][0]["name"], "echo");
    assert_eq!(run["data"][2]["receipt"]["component"], "calculator@sha256:1");
    assert!(run["data"][2]["receipt"]["detail"].is_object(), "{run}");
    let rest = fakes.administer("GET", "/admin/runs/run_1?from=3", "").await.json();
    assert_eq!((rest["data"].as_array().unwrap().len(), &rest["data"][0]["number"]), (1, &json!(3)));
    for (path, status) in [
        ("/admin/runs/run_9", StatusCode::NOT_FOUND),
        ("/admin/runs/%00", StatusCode::NOT_FOUND),
        ("/admin/runs/run_9/events", StatusCode::NOT_FOUND),
        ("/admin/runs/run_1?from=x", StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(fakes.administer("GET", path, "").await.status, status, "{path}");
    }
    fakes.windows.fill("user:a1", 0);
    let stream = fakes.administer("GET", "/admin/runs/run_1/events", "").await;
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    assert_eq!(stream.header("content-location"), Some("/admin/runs/run_1/events"));
    let names: Vec<_> = stream.body.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let whole =
        ["run.started", "model.replied", "tool.started", "tool.returned", "model.replied", "run.ended"];
    assert_eq!(names, whole, "{stream}");
    let had_ended = fakes.administer("POST", "/admin/runs/run_1/cancel", "").await;
    assert_eq!(had_ended.status, StatusCode::CONFLICT);
    store.switch.fail(true);
    assert_eq!(fakes.administer("GET", "/admin/runs", "").await.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn jobs_of_everybody_are_counted_listed_cancelled_and_tried_again() {
    let (fakes, _store) = service().await;
    let depth = async || fakes.administer("GET", "/admin/queue", "").await.json();
    let mut found = depth().await;
    let oldest = found.as_object_mut().unwrap().remove("oldestWaitingSeconds").unwrap();
    assert!((0.0..60.0).contains(&oldest.as_f64().unwrap()), "{oldest}");
    assert_eq!(found, json!({ "waiting": 1, "active": 0, "delayed": 0, "parked": 0 }));
    let of_u2 = fakes.administer("GET", "/admin/jobs?user=u2", "").await.json();
    let job = json!({
        "jobId": "2", "status": "failed", "error": "it broke", "attemptsMade": 0,
        "createdAt": "1970-01-01T00:00:00.000Z", "userId": "u2", "runId": "run_2",
    });
    assert_eq!(of_u2, json!({ "data": [job], "nextCursor": null }));
    assert_eq!(fakes.administer("GET", "/admin/jobs", "").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(fakes.administer("GET", "/admin/jobs/9", "").await.status, StatusCode::NOT_FOUND);
    let retried = fakes.administer("POST", "/admin/jobs/2/retry", "").await;
    assert_eq!((retried.status, retried.json()), (StatusCode::ACCEPTED, json!({ "jobId": "2" })));
    let again = fakes.administer("POST", "/admin/jobs/2/retry", "").await;
    assert_eq!(
        (again.status, again.json()),
        (StatusCode::CONFLICT, json!({ "error": "Only a job that failed can be tried again" }))
    );
    let parent = Some("2:37ddff8e-1.0".to_owned());
    let child = fakes.queue.add(&JobData { parent, ..JobData::new("2+2", "u2") }).await.unwrap();
    fakes.queue.change(&child, |job| job.status = JobStatus::Failed);
    let of_child = fakes.administer("POST", &format!("/admin/jobs/{child}/retry"), "").await;
    let refused = "The job is a run that job 2 began: retry that one, if it failed";
    assert_eq!((of_child.status, of_child.json()), (StatusCode::CONFLICT, json!({ "error": refused })));
    assert_eq!(fakes.queue.job(&child).status, JobStatus::Failed);
    assert_eq!(fakes.administer("POST", "/admin/jobs/1/cancel", "").await.status, StatusCode::ACCEPTED);
    assert_eq!(fakes.administer("GET", "/admin/jobs/1", "").await.json()["status"], "cancelled");
    fakes.windows.fill("user:a1", 0);
    assert_eq!(depth().await["waiting"], 1, "the one that is tried again");
    fakes.queue.switch.fail(true);
    assert_eq!(fakes.administer("GET", "/admin/queue", "").await.status, StatusCode::SERVICE_UNAVAILABLE);
}

/// Left between its writes, it would have the failure sent once more and the job not tried again.
#[tokio::test]
async fn a_job_is_tried_again_although_whoever_asks_for_that_leaves() {
    let (fakes, _store) = service().await;
    let calls = fakes.queue.calls();
    let asked = async {
        while fakes.queue.calls() == calls {
            yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = asked => {}
        _ = fakes.administer("POST", "/admin/jobs/2/retry", "") => panic!("it was answered before"),
    }
    for _ in 0..100 {
        yield_now().await;
    }
    assert_eq!(fakes.queue.job("2").status, JobStatus::Waiting);
}

#[tokio::test]
async fn the_status_says_what_is_wrong_and_what_the_limits_are() {
    let fakes = Fakes::configured(Answers, |edge| b(edge).llm = FixedProbe::fails("llm", "no \u{1b} answer"));
    let answer = fakes.administer("GET", "/admin/status", "").await;
    assert_eq!(answer.status, StatusCode::OK, "it is an answer, also when something is wrong");
    let status = answer.json();
    assert_eq!(status["checks"][0]["status"], "ok");
    assert_eq!(
        status["checks"][2],
        json!({ "name": "llm", "status": "error", "reason": "no \u{1b} answer" })
    );
    assert_eq!(status["limits"]["user"], json!({ "requests": 10, "seconds": 60 }));
    assert_eq!(status["features"]["toolAdmin"], true);
}

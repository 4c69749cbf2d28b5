//! Jobs: submitted, read, waited for, cancelled, and gone on with (host/docs/interface/decisions-http.md,
//! host/docs/interface/decisions-runs.md#durability). What is said holds on every queue, so every test runs
//! on each. Lists of jobs are in `job_list.rs`.

use acceptance::{Builder, Model, Play, Redis, Service, Signal, Task, Token, asks_for, says};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Where jobs are kept, so that more than one process can have them.
pub(super) struct Queue {
    redis: Option<Redis>,
    folder: TempDir,
}

impl Queue {
    /// One of each kind.
    pub(super) async fn every() -> [Self; 2] {
        let folder = || tempfile::tempdir().unwrap();
        [Self { redis: None, folder: folder() }, Self { redis: Some(Redis::start().await), folder: folder() }]
    }

    /// A service that uses it.
    pub(super) fn service(&self, model: &Model) -> Builder {
        let builder = Service::variant_b().model(model).sqlite_in(self.folder.path());
        match &self.redis {
            Some(redis) => builder.redis(redis),
            None => builder,
        }
    }
}

/// Whether it is a time as ISO 8601 or in milliseconds since 1970, of these days.
fn is_time(value: &Value) -> bool {
    let iso = |text: &str| text.starts_with("20") && text.contains('T') && text.ends_with('Z');
    value.as_str().is_some_and(iso) || value.as_u64().is_some_and(|time| time > 1_600_000_000_000)
}

#[tokio::test]
async fn a_job_is_accepted_at_once_and_its_result_can_be_waited_for() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        let gate = model.holds(says("done"));
        let service = queue.service(&model).start().await;
        let user = service.user(Token::of("u"));
        let accepted = user.submit("work").await;
        assert_eq!(accepted.status, 202, "{accepted}");
        let body = accepted.json();
        let id = body["jobId"].as_str().unwrap_or_else(|| panic!("an id: {accepted}"));
        assert_eq!(body, json!({ "jobId": id }));
        assert_eq!(accepted.header("location"), format!("/api/agent/jobs/{id}"));

        model.was_asked(1).await;
        let active = user.get(accepted.header("location")).await.json();
        assert_eq!((&active["jobId"], &active["status"]), (&json!(id), &json!("active")), "{active:#}");
        assert!(is_time(&active["createdAt"]) && is_time(&active["startedAt"]), "{active:#}");
        for absent in ["result", "error", "finishedAt"] {
            assert_eq!(active.get(absent), None, "{active:#}");
        }

        let waiting = {
            let (user, id) = (user.clone(), id.to_owned());
            Task::begin(async move { user.job(&format!("{id}?wait=60")).await })
        };
        gate.open();
        let job = waiting.ended().await.json();
        assert_eq!(job["status"], "completed", "{job:#}");
        let result = &job["result"];
        assert_eq!((&result["output"], &result["stopReason"]), (&json!("done"), &json!("completed")));
        assert!(result["id"].as_str().unwrap().starts_with("run_"), "{job:#}");
        assert_eq!(result.get("cached"), None, "a job's result is the agent's");
        assert_eq!(job["attemptsMade"], 1, "{job:#}");
        assert!(is_time(&job["finishedAt"]) && job.get("error").is_none(), "{job:#}");
        // Read again, it is the same.
        assert_eq!(user.job(id).await.json(), job);
    }
}

#[tokio::test]
async fn a_query_that_is_no_text_or_empty_is_no_job() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        let service = queue.service(&model).start().await;
        let user = service.user(Token::of("u").premium());
        for body in ["{}", r#"{"query":""}"#, r#"{"query":5}"#, r#"{"query":null}"#, "[]", "{", ""] {
            let answer = user.post("/api/agent/async", body).await;
            assert_eq!(answer.status, 400, "{body}: {answer}");
            assert!(answer.json().get("error").is_some(), "{body}: {answer}");
        }
        assert_eq!(user.jobs("").await.json()["data"], json!([]));
    }
}

#[tokio::test]
async fn a_job_may_be_longer_than_a_question() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        model.says("read");
        let service = queue.service(&model).start().await;
        let user = service.user(Token::of("u"));
        let job = user.job_for(&"x".repeat(5_000)).await;
        assert_eq!(user.ended_job(&job).await["status"], "completed");
    }
}

#[tokio::test]
async fn nobody_sees_or_touches_a_job_of_somebody_else() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        let gate = model.holds(says("private"));
        let service = queue.service(&model).start().await;
        let (owner, other) = (service.user(Token::of("owner")), service.user(Token::of("other").admin()));
        let job = owner.job_for("secret work").await;
        model.was_asked(1).await;
        // Exactly as if it did not exist.
        let unknown = other.job("987654321").await;
        assert_eq!(unknown.status, 404);
        assert_eq!(other.job(&job).await.body, unknown.body);
        assert_eq!(other.job(&format!("{job}?wait=60")).await.status, 404);
        assert_eq!(other.cancel(&job).await.status, 404);
        assert_eq!(other.jobs("").await.json()["data"], json!([]));
        gate.open();
        assert_eq!(owner.ended_job(&job).await["status"], "completed");
        assert_eq!(other.job(&job).await.status, 404);
    }
}

#[tokio::test]
async fn a_numeric_id_and_its_text_are_one_user() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        model.says("done");
        let service = queue.service(&model).start().await;
        let job = service.user(Token::of(42)).job_for("work").await;
        assert_eq!(service.user(Token::of("42")).ended_job(&job).await["status"], "completed");
    }
}

#[tokio::test]
async fn ids_that_no_queue_gave_are_unknown() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        let service = queue.service(&model).start().await;
        let user = service.user(Token::of("u").premium());
        for id in [
            "0",
            "-1",
            "1.0",
            "none",
            "id",
            "wait",
            "meta",
            "%2e%2e",
            "a%00b",
            &"9".repeat(300),
            "%F0%9F%A6%80",
        ] {
            let answer = user.job(id).await;
            assert_eq!(answer.status, 404, "{id}: {answer}");
            assert_eq!(user.cancel(id).await.status, 404, "{id}");
        }
    }
}

#[tokio::test]
async fn a_job_whose_model_refuses_has_failed_and_says_so_without_a_secret() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        let body = format!("wrong key {}", model.key());
        model.always(move |_| Play::Whole { status: 401, headers: Vec::new(), body: body.clone() });
        let service = queue.service(&model).start().await;
        let user = service.user(Token::of("u"));
        let job = user.job_for("work").await;
        let failed = user.ended_job(&job).await;
        assert_eq!(failed["status"], "failed", "{failed:#}");
        let error = failed["error"].as_str().unwrap_or_else(|| panic!("an error: {failed:#}"));
        assert!(!error.is_empty() && !error.contains(model.key()), "{error}");
        assert!(failed.get("result").is_none() && failed["attemptsMade"].as_u64() >= Some(1), "{failed:#}");
    }
}

#[tokio::test]
async fn cancelling_a_job_drops_its_model_call_before_it_says_cancelled() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        let gate = model.holds(says("too late"));
        let service = queue.service(&model).start().await;
        let user = service.user(Token::of("u"));
        let job = user.job_for("work").await;
        model.was_asked(1).await;
        let answer = user.cancel(&job).await;
        assert_eq!(answer.status, 202, "{answer}");
        gate.is_abandoned().await;
        let cancelled = user.ended_job(&job).await;
        assert_eq!(cancelled["status"], "cancelled", "{cancelled:#}");
        assert!(cancelled.get("result").is_none(), "{cancelled:#}");
        assert_eq!(user.cancel(&job).await.status, 409);
        let requested = [("outcome", "cancelled"), ("reason", "requested")];
        assert_eq!(service.metrics().await.value("agent_runs_total", &requested), Some(1.0));
        drop(gate);
    }
}

#[tokio::test]
async fn a_job_that_waits_is_cancelled_without_ever_being_begun() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        // As many as the worker works on at once (host/docs/interface/errors-and-limits.md#limits).
        let gates: Vec<_> = (0..5).map(|_| model.holds(says("done"))).collect();
        let service = queue.service(&model).start().await;
        let user = service.user(Token::of("u").premium());
        let mut held = Vec::new();
        for n in 0..5 {
            held.push(user.job_for(&format!("held {n}")).await);
        }
        model.was_asked(5).await;
        let waits = user.job_for("never to be begun").await;
        assert_eq!(user.job(&waits).await.json()["status"], "waiting");
        assert_eq!(user.cancel(&waits).await.status, 202);
        assert_eq!(user.ended_job(&waits).await["status"], "cancelled");
        gates.into_iter().for_each(acceptance::Gate::open);
        for job in held {
            assert_eq!(user.ended_job(&job).await["status"], "completed");
            assert_eq!(user.cancel(&job).await.status, 409);
        }
        assert_eq!(model.calls().len(), 5);
    }
}

#[tokio::test]
async fn a_process_works_on_as_many_jobs_at_once_as_it_is_told_to() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        let gates: Vec<_> = (0..7).map(|_| model.holds(says("done"))).collect();
        let service = queue.service(&model).env("JOB_WORKERS", "7").start().await;
        let user = service.user(Token::of("u").premium());
        for n in 0..7 {
            user.job_for(&format!("held {n}")).await;
        }
        model.was_asked(7).await;
        let waits = user.job_for("one too many").await;
        assert_eq!(user.job(&waits).await.json()["status"], "waiting");
        model.says("done");
        gates.into_iter().for_each(acceptance::Gate::open);
        assert_eq!(user.ended_job(&waits).await["status"], "completed");
    }
}

/// host/docs/interface/decisions-runs.md#durability.
#[tokio::test]
async fn a_service_that_was_killed_goes_on_where_its_journal_ends() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        model.asks_for("calculate", json!({ "expression": "6 * 7" }));
        let gate = model.holds(says("never heard"));
        model.says("42");
        let mut service = queue.service(&model).start().await;
        let job = service.user(Token::of("u")).job_for("What is 6 * 7?").await;
        model.was_asked(2).await;
        service.signal(Signal::KILL);
        service.ended().await;
        gate.open();

        let service = queue.service(&model).start().await;
        let user = service.user(Token::of("u"));
        let done = user.ended_job(&job).await;
        assert_eq!(
            (&done["status"], &done["result"]["output"]),
            (&json!("completed"), &json!("42")),
            "{done:#}"
        );
        assert_eq!(done["result"]["iterations"], 2, "{done:#}");
        // The first call was answered before the kill, and is not paid for again.
        let calls = model.calls();
        assert_eq!((calls.len(), calls[2].tool_results().len()), (3, 1));
    }
}

#[tokio::test]
async fn a_service_that_stops_hands_its_jobs_back() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        let gate = model.holds(asks_for("calculate", json!({ "expression": "6 * 7" })));
        model.says("42");
        let mut service = queue.service(&model).start().await;
        let job = service.user(Token::of("u")).job_for("What is 6 * 7?").await;
        model.was_asked(1).await;
        service.signal(Signal::TERM);
        service.log().line_with(&["stop"]).await;
        gate.open();
        assert_eq!(service.ended().await.code, Some(0));

        let service = queue.service(&model).start().await;
        let done = service.user(Token::of("u")).ended_job(&job).await;
        assert_eq!(
            (&done["status"], &done["result"]["output"]),
            (&json!("completed"), &json!("42")),
            "{done:#}"
        );
    }
}

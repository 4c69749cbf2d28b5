//! Jobs: submitted, read and waited for (host/docs/interface/decisions-http.md), on the embedded queue and on
//! Redis. What a queue promises is in the contract suite of `host/backends`, what a request about jobs may be
//! in `host/http-edge`, that a job runs with its options and ends when it is cancelled in `host/run-service`,
//! what becomes of jobs whose worker is killed or stopped in `bad_days/`.

use acceptance::{Model, Stores, Task, Token, says};
use serde_json::{Value, json};

/// Whether it is a time as ISO 8601 or in milliseconds since 1970, of these days.
fn is_time(value: &Value) -> bool {
    let iso = |text: &str| text.starts_with("20") && text.contains('T') && text.ends_with('Z');
    value.as_str().is_some_and(iso) || value.as_u64().is_some_and(|time| time > 1_600_000_000_000)
}

#[tokio::test]
async fn a_job_is_accepted_at_once_and_its_result_can_be_waited_for() {
    for stores in Stores::of_each_queue().await {
        let model = Model::openai().await;
        let gate = model.holds(says("done"));
        let service = stores.service(&model).start().await;
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
async fn a_process_works_on_as_many_jobs_at_once_as_it_is_told_to() {
    for stores in Stores::of_each_queue().await {
        let model = Model::openai().await;
        let gates: Vec<_> = (0..7).map(|_| model.holds(says("done"))).collect();
        let service = stores.service(&model).env("JOB_WORKERS", "7").start().await;
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

/// A Node worker would work the query of such a job off without its options.
#[tokio::test]
async fn a_redis_that_node_workers_may_share_has_none_of_them() {
    let model = Model::openai().await;
    let service = Stores::redis().await.service(&model).start().await;
    let user = service.user(Token::of("u"));
    let job = json!({ "query": "hi", "options": { "maxTokens": 100 } });
    let refused = user.post("/api/agent/async", job.to_string()).await;
    assert_eq!(refused.status, 400, "{refused}");
    assert!(refused.body.contains("NODE_WORKERS"), "{refused}");
    let response = json!({ "model": "agent", "input": "hi", "background": true });
    let refused = user.post("/v1/responses", response.to_string()).await;
    assert_eq!(refused.status, 400, "{refused}");
    assert!(refused.body.contains("NODE_WORKERS"), "{refused}");
}

//! Whoever calls Variant B with a token: a method per endpoint.

use std::ops::Deref;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::caller::{Answer, Caller};
use crate::events::Events;

/// How long one question for a job is held back, in seconds: well below what a client waits for any answer.
const HOLD_SECONDS: u32 = 20;

/// How often a job is asked for, each time for [`HOLD_SECONDS`], before the test gives it up.
const QUESTIONS: u32 = 5;

/// A client with a token. Clones share their connections.
#[derive(Debug, Clone)]
pub struct User(Caller);

impl Deref for User {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.0
    }
}

impl User {
    pub(crate) fn new(caller: Caller) -> Self {
        Self(caller)
    }

    /// The token, as it is sent.
    pub fn token(&self) -> &str {
        self.token.as_deref().unwrap_or_default()
    }

    /// `POST /api/agent` with that query and no options.
    pub async fn agent(&self, query: &str) -> Answer {
        self.agent_with(json!({ "query": query })).await
    }

    /// `POST /api/agent` with that body.
    pub async fn agent_with(&self, body: Value) -> Answer {
        self.post("/api/agent", body.to_string()).await
    }

    /// `POST /api/agent`, which must succeed: the agent's result.
    pub async fn result_of(&self, query: &str) -> Value {
        let answer = self.agent(query).await;
        assert_eq!(answer.status, 200, "{answer}");
        answer.json()
    }

    /// `POST /api/agent` with that query, as a stream.
    pub async fn stream(&self, query: &str) -> Events {
        let request = self.request(Method::POST, "/api/agent").header("accept", "text/event-stream");
        Events::open(request.body(json!({ "query": query }).to_string())).await
    }

    /// The request for the events of `runs/{id}` or `jobs/{id}`, after that one if there is one.
    pub fn following(&self, what: &str, after: Option<&str>) -> RequestBuilder {
        let request = self.request(Method::GET, &format!("/api/agent/{what}/events"));
        match after {
            Some(id) => request.header("last-event-id", id),
            None => request,
        }
    }

    /// The events of `runs/{id}` or `jobs/{id}`, after that one if there is one.
    pub async fn follow(&self, what: &str, after: Option<&str>) -> Events {
        Events::open(self.following(what, after)).await
    }

    /// `POST /api/agent/async` with that query.
    pub async fn submit(&self, query: &str) -> Answer {
        self.post("/api/agent/async", json!({ "query": query }).to_string()).await
    }

    /// `POST /api/agent/async`, which must be accepted: the id of the job.
    pub async fn job_for(&self, query: &str) -> String {
        let answer = self.submit(query).await;
        assert_eq!(answer.status, 202, "{answer}");
        let id = answer.json()["jobId"].take();
        id.as_str().unwrap_or_else(|| panic!("the id of a job is text: {answer}")).to_owned()
    }

    /// `GET /api/agent/jobs/{id}`.
    pub async fn job(&self, id: &str) -> Answer {
        self.get(&format!("/api/agent/jobs/{id}")).await
    }

    /// `GET /api/agent/jobs/{id}?wait=…`, again and again until the job has ended: the job.
    pub async fn ended_job(&self, id: &str) -> Value {
        for _ in 0..QUESTIONS {
            let answer = self.job(&format!("{id}?wait={HOLD_SECONDS}")).await;
            assert_eq!(answer.status, 200, "{answer}");
            let job = answer.json();
            let status = job["status"].as_str().unwrap_or_else(|| panic!("a job has a status: {answer}"));
            if ["completed", "failed", "cancelled"].contains(&status) {
                return job;
            }
        }
        panic!("waited {} s in vain for the job {id} to end", HOLD_SECONDS * QUESTIONS);
    }

    /// The job once it has [ended](Self::ended_job), which has to be well and with that output.
    pub async fn completed_job(&self, id: &str, output: &str) -> Value {
        let job = self.ended_job(id).await;
        let ended = (&job["status"], &job["result"]["output"]);
        assert_eq!(ended, (&json!("completed"), &json!(output)), "{job:#}");
        job
    }

    /// `GET /api/agent/jobs` with those parameters, such as `?limit=2`.
    pub async fn jobs(&self, parameters: &str) -> Answer {
        self.get(&format!("/api/agent/jobs{parameters}")).await
    }

    /// `POST /api/agent/jobs/{id}/cancel`.
    pub async fn cancel(&self, id: &str) -> Answer {
        self.send(self.request(Method::POST, &format!("/api/agent/jobs/{id}/cancel"))).await
    }

    /// The request that decides about a wait as it was shown, to be [sent](Caller::send).
    pub fn deciding(&self, wait: &Value, decision: &Value) -> RequestBuilder {
        let shown = |field: &str| wait[field].as_str().unwrap_or_else(|| panic!("{field}: {wait:#}"));
        let request = self.request(Method::POST, &format!("/api/agent/waits/{}/decision", shown("waitId")));
        let request = request.header(CONTENT_TYPE, "application/json");
        request.header("if-match", format!("\"{}\"", shown("digest"))).body(decision.to_string())
    }

    /// `DELETE /api/agent/cache?pattern=…`. The pattern may hold no `#`, `&`, `%` or `+`.
    pub async fn invalidate(&self, pattern: &str) -> Answer {
        self.send(self.request(Method::DELETE, &format!("/api/agent/cache?pattern={pattern}"))).await
    }

    /// `POST /api/gateway` with that body.
    pub async fn gateway(&self, body: Value) -> Answer {
        self.post("/api/gateway", body.to_string()).await
    }
}

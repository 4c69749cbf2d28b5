//! Jobs that are submitted over HTTP under an idempotency key, sometimes on two replicas at once.

use agent_core::words::Principal;
use http::StatusCode;
use serde_json::{Value, json};

use super::http::ClientRequest;
use super::jobs::{HOOK, NOT_LOST};
use super::{Client, TRIES};
use crate::judge::promises::PromisedJob;
use crate::plan::Plan;
use crate::replica::edge::Answer;

const ONE_ANSWER: &str = "a key has one answer";

impl Client {
    pub(super) async fn submit_over_http(&mut self) {
        let user = self.user().user_id.unwrap_or_default();
        let number = self.world.promises.lock().next_plan();
        let plan = Plan::of(self.world.seed, number);
        let key = format!("key-{number}");
        let (has_webhook, mut body) = (self.random.bool(), json!({ "query": plan.input() }));
        if has_webhook {
            body["webhookUrl"] = json!(HOOK);
        }
        let mut first = None::<Answer>;
        for tries in 0..TRIES {
            let answers = if self.random.u32(0..4) == 0 {
                let (one, other) = (self.replica(), self.replica());
                let both = (self.post(one, &user, &body, &key), self.post(other, &user, &body, &key));
                let (one, other) = tokio::join!(both.0, both.1);
                vec![one, other]
            } else {
                let replica = self.replica();
                vec![self.post(replica, &user, &body, &key).await]
            };
            for answer in answers.into_iter().flatten().filter(|answer| answer.status == StatusCode::ACCEPTED)
            {
                let before = first.get_or_insert_with(|| answer.clone());
                // The key of that moment may be forgotten with its job.
                let is_same = *before == answer || self.world.has_forgotten();
                self.world.holds(is_same, ONE_ANSWER, || format!("{key}: {before:?}, then {answer:?}"));
            }
            // Once more, although it was answered: the client has lost it.
            if first.is_some() && (tries > 1 || self.random.bool()) {
                break;
            }
            self.pause(4_000).await;
        }
        let body = first.and_then(|answer| serde_json::from_str::<Value>(&answer.body).ok());
        let Some(job_id) = body.and_then(|body| body["jobId"].as_str().map(str::to_owned)) else { return };
        let promised = PromisedJob { has_webhook, ..PromisedJob::of(user.clone(), Some(plan)) };
        self.world.promises.lock().jobs.entry(job_id.clone()).or_insert(promised);
        self.world.reached("a job was submitted over HTTP");
        self.read_over_http(&user, &job_id).await;
        self.read_to_its_end(&Principal::user(user), &job_id).await;
    }

    /// Reads the job until it has ended.
    async fn read_over_http(&mut self, user: &str, job_id: &str) {
        loop {
            let (replica, path) = (self.replica(), format!("/api/agent/jobs/{job_id}?wait=5"));
            let read = self.send(replica, "client get", ClientRequest::get(path, user)).await;
            let status = read.as_ref().map(|answer| answer.status);
            let is_lost = status == Some(StatusCode::NOT_FOUND);
            self.world.holds(!is_lost || self.world.is_undone(job_id), NOT_LOST, || job_id.to_owned());
            let job = read.and_then(|answer| serde_json::from_str::<Value>(&answer.body).ok());
            let has_ended = job.is_some_and(|job| {
                ["completed", "failed", "cancelled"].iter().any(|ended| job["status"] == *ended)
            });
            if has_ended || is_lost {
                return;
            }
            self.pause(3_000).await;
        }
    }

    /// Submits the job on that replica.
    async fn post(&self, replica: usize, user: &str, body: &Value, key: &str) -> Option<Answer> {
        let headers = [("idempotency-key", key), ("x-request-id", key)];
        let path = "/api/agent/async".to_owned();
        let asked = ClientRequest { headers: &headers, ..ClientRequest::post(path, user, body.clone()) };
        let answer = self.send(replica, "client post", asked).await;
        let status = answer.as_ref().map_or("no answer", |answer| match answer.status {
            StatusCode::ACCEPTED => "accepted",
            StatusCode::CONFLICT => "in flight",
            _ => "refused",
        });
        self.world.note(&self.name, "client post", key, status);
        if status == "in flight" {
            self.world.reached("a key was in flight");
        }
        answer
    }
}

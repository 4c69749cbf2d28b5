//! Jobs that are submitted over HTTP under an idempotency key, sometimes on two replicas at once.

use agent_core::words::Principal;
use futures::FutureExt as _;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use super::{Client, TRIES};
use crate::edge::{Answer, token};
use crate::plan::Plan;
use crate::promises::PromisedJob;

const ONE_ANSWER: &str = "a key has one answer";

impl Client {
    pub(super) async fn submit_over_http(&mut self) {
        let user = self.user().user_id.unwrap_or_default();
        let number = self.world.promises.lock().next_plan();
        let plan = Plan::of(self.world.seed, number);
        let key = format!("key-{number}");
        let mut first = None::<Answer>;
        for tries in 0..TRIES {
            let answers = if self.random.u32(0..4) == 0 {
                let (one, other) = (self.replica(), self.replica());
                let both = (self.post(one, &user, &plan, &key), self.post(other, &user, &plan, &key));
                let (one, other) = tokio::join!(both.0, both.1);
                vec![one, other]
            } else {
                let replica = self.replica();
                vec![self.post(replica, &user, &plan, &key).await]
            };
            for answer in answers.into_iter().flatten().filter(|answer| answer.status == StatusCode::ACCEPTED)
            {
                let before = first.get_or_insert_with(|| answer.clone());
                let is_same = *before == answer;
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
        let promised = PromisedJob {
            user: user.clone(),
            plan: number,
            has_webhook: false,
            conversation: None,
            is_unwanted: false,
            is_cancelled: false,
        };
        self.world.promises.lock().jobs.entry(job_id.clone()).or_insert(promised);
        self.world.reached("a job was submitted over HTTP");
        self.read_to_its_end(&Principal::user(user), &job_id).await;
    }

    fn replica(&mut self) -> usize {
        self.random.usize(0..self.replicas.count())
    }

    /// Submits the job on that replica.
    async fn post(&self, replica: usize, user: &str, plan: &Plan, key: &str) -> Option<Answer> {
        let request = Request::builder()
            .method(Method::POST)
            .uri("/api/agent/async")
            .header("authorization", format!("Bearer {}", token(user)))
            .header("content-type", "application/json")
            .header("idempotency-key", key)
            .header("x-request-id", key)
            .body(json!({ "query": plan.input() }).to_string());
        let request = request.ok()?;
        let posted = self.replicas.ask(&self.world, replica, "client post", |service| {
            async move { service.edge.serve(request).await }.boxed()
        });
        let answer = posted.await.flatten();
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

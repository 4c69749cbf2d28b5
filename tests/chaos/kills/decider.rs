//! Decides about the waits of a job: each is approved by its owner and by an administrator at the same time,
//! and counted how often that was a decision.

use std::collections::BTreeMap;
use std::time::Duration;

use acceptance::{Service, Token, User};
use futures::future::{join, join_all};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

/// How often it is looked at what a job waits for.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Two who decide about a job, at one service.
pub(super) struct Decider<'a> {
    pub(super) service: &'a Service,
    pub(super) user: &'a str,
    pub(super) job: &'a str,
}

/// How often somebody was told that a wait was decided by them, by the wait.
pub(super) type Taken = BTreeMap<String, usize>;

impl Decider<'_> {
    /// Decides about whatever the job waits for, over and over.
    pub(super) async fn decide_all(&self, taken: &mut Taken) {
        loop {
            let waits = self.waits().await;
            self.decide(&waits, taken).await;
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Decides until the job waits for a call of that step, and says what for.
    pub(super) async fn decide_until(&self, step: usize, taken: &mut Taken) -> Vec<Value> {
        loop {
            let waits = self.waits().await;
            if waits.iter().any(|wait| step_of(wait) == Some(step)) {
                return waits;
            }
            self.decide(&waits, taken).await;
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Decides about these waits, each by two at once.
    pub(super) async fn decide(&self, waits: &[Value], taken: &mut Taken) {
        let owner = self.service.user(Token::of(self.user).premium());
        let boss = self.service.user(Token::of("boss").admin().premium());
        let decisions = waits.iter().map(|wait| async {
            let (one, other) = join(self.approve(&owner, wait), self.approve(&boss, wait)).await;
            (id_of(wait).to_owned(), usize::from(one) + usize::from(other))
        });
        for (id, times) in join_all(decisions).await {
            *taken.entry(id).or_default() += times;
        }
    }

    /// What is undecided. Nothing while there is no answer.
    async fn waits(&self) -> Vec<Value> {
        let owner = self.service.user(Token::of(self.user).premium());
        let request = owner.request(Method::GET, &format!("/api/agent/jobs/{}", self.job));
        let Ok(answer) = self.service.caller().try_send(request).await else { return Vec::new() };
        if answer.status != 200 {
            return Vec::new();
        }
        let job = answer.json();
        let waits = job["waits"].as_array().into_iter().flatten();
        waits.filter(|wait| wait["decisions"] == json!([])).cloned().collect()
    }

    async fn approve(&self, by: &User, wait: &Value) -> bool {
        let path = format!("/api/agent/waits/{}/decision", id_of(wait));
        let request = by.request(Method::POST, &path).header("content-type", "application/json");
        let request =
            request.header("if-match", format!("\"{}\"", wait["digest"].as_str().unwrap_or_default()));
        let request = request.body(json!({ "decision": "approve" }).to_string());
        self.service.caller().try_send(request).await.is_ok_and(|answer| answer.status == 200)
    }
}

fn id_of(wait: &Value) -> &str {
    wait["waitId"].as_str().unwrap_or_default()
}

/// The step whose call waits: `<job>:<model call>.<index>`.
fn step_of(wait: &Value) -> Option<usize> {
    step_and_index(id_of(wait)).map(|(step, _)| step)
}

/// Step and index of the call that a wait of that id is about.
pub(super) fn step_and_index(id: &str) -> Option<(usize, usize)> {
    let (_, call) = id.rsplit_once(':')?;
    let (iteration, index) = call.split('~').next()?.split_once('.')?;
    Some((iteration.parse::<usize>().ok()?.checked_sub(1)?, index.parse().ok()?))
}

//! Decides about what a job and its child runs wait for: each wait is decided by its owner and by an
//! administrator at the same time, in the same way, and counted how often that was a decision.

use std::collections::BTreeMap;
use std::time::Duration;

use acceptance::{Service, Token, User};
use futures::future::{join, join_all};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::plan::CallAt;
use super::scene::colour_of;

/// What the second question of the tool that asks is answered with.
pub(super) const COUNT: u64 = 3;

/// How often it is looked at what a job waits for.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Two who decide about a job, at one service.
pub(super) struct Decider<'a> {
    pub(super) service: &'a Service,
    pub(super) user: &'a str,
    /// The number of the kill, by which answers are known.
    pub(super) number: usize,
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
            let (one, other) = join(self.decide_as(&owner, wait), self.decide_as(&boss, wait)).await;
            (id_of(wait).to_owned(), usize::from(one) + usize::from(other))
        });
        for (id, times) in join_all(decisions).await {
            *taken.entry(id).or_default() += times;
        }
    }

    /// What is undecided of all that the owner's jobs wait for, child runs apart, whose ends nobody decides.
    /// Nothing while there is no answer.
    async fn waits(&self) -> Vec<Value> {
        let owner = self.service.user(Token::of(self.user).premium());
        let request = owner.request(Method::GET, "/api/agent/waits?limit=100");
        let Ok(answer) = self.service.caller().try_send(request).await else { return Vec::new() };
        if answer.status != 200 {
            return Vec::new();
        }
        let page = answer.json();
        let waits = page["data"].as_array().into_iter().flatten();
        waits.filter(|wait| wait["decisions"] == json!([]) && wait["kind"] != "child").cloned().collect()
    }

    /// Approves a call; a question is answered with what its step is known by, or with a number.
    fn decision(&self, wait: &Value) -> Value {
        if wait["kind"] != "question" {
            return json!({ "decision": "approve" });
        }
        let answer = match wait["answerSchema"]["type"] == "string" {
            true => json!(colour_of(self.number, step_of(wait).unwrap_or_default())),
            false => json!(COUNT),
        };
        json!({ "decision": "answer", "answer": answer })
    }

    async fn decide_as(&self, by: &User, wait: &Value) -> bool {
        let request = by.deciding(wait, &self.decision(wait));
        by.try_send(request).await.is_ok_and(|answer| answer.status == 200)
    }
}

fn id_of(wait: &Value) -> &str {
    wait["waitId"].as_str().unwrap_or_default()
}

/// The step whose call waits, or has begun the child run whose call does.
fn step_of(wait: &Value) -> Option<usize> {
    let id = wait["parent"]["waitId"].as_str().unwrap_or_else(|| id_of(wait));
    call_of(id).map(|call| call.step)
}

/// The call that a wait of that id is about: `<job>:<run>-<model call>.<index>`, behind another `.` the
/// number of a nested one. Ids from before the run stood in them have no `<run>-`.
pub(super) fn call_of(id: &str) -> Option<CallAt> {
    let (_, call) = id.rsplit_once(':')?;
    let call = call.split_once('-').map_or(call, |(_run, call)| call);
    let mut parts = call.split('~').next()?.split('.').map(|part| part.parse::<usize>().ok());
    let (iteration, index) = (parts.next()??, parts.next()??);
    Some(CallAt { step: iteration.checked_sub(1)?, index, nested: parts.next().flatten() })
}

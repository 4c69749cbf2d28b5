//! Requests that are answered when their run has ended, some of them as part of a conversation.

use agent_core::words::{CancelOutcome, Principal, StopReason};
use futures::FutureExt as _;
use run_service::conversations::{InConversation, is_kept};
use run_service::direct_calls::{Called, DirectCall};
use run_service::layers::{Ask, InvokeError};
use serde_json::{Map, json};

use super::Client;
use crate::judge::promises::{PromisedJob, PromisedTurn};
use crate::plan::Plan;

const REFUSED_FIRST: &str = "a run that a stopping process refuses has asked for nothing";
const RIGHT_ANSWER: &str = "an answer is that of its own question";

impl Client {
    pub(super) async fn ask_and_wait(&mut self) {
        let user = self.user();
        let number = self.world.promises.lock().next_plan();
        let plan = Plan::of(self.world.seed, number);
        let conversation = self.conversation();
        let mut ask = Ask::new(String::new(), plan.input());
        ask.request_id.clone_from(&ask.run_id);
        ask.principal = user.clone();
        ask.conversation = conversation.clone().map(|id| InConversation { id, turn_id: None, seen: None });
        let run_id = ask.run_id.clone();
        let invoked = self
            .ask("client invoke", |service| async move { service.invoke.invoke(ask).await }.boxed())
            .await;
        let user = user.user_id.unwrap_or_default();
        match invoked {
            Some(Ok(answer)) => {
                let is_right = answer.result.stop_reason != StopReason::Completed
                    || answer.result.output.starts_with(&plan.answer());
                self.world.holds(is_right, RIGHT_ANSWER, || format!("{run_id}: {}", answer.result.output));
                if let Some(conversation) = conversation
                    && is_kept(answer.result.stop_reason)
                    && !answer.is_turn_lost
                {
                    let turn = PromisedTurn { user, conversation, id: run_id };
                    self.world.promises.lock().turns.push(turn);
                }
            }
            // The run goes on as a job, which is promised with that.
            Some(Err(InvokeError::Waits { job_id })) => self.goes_on(user, Some(plan), job_id).await,
            Some(Err(InvokeError::Stopping)) => {
                self.world.reached("a run was refused as its process stopped");
                let is_asked = self.world.promises.lock().acts.contains_key(&format!("model {run_id} 0"));
                self.world.holds(!is_asked, REFUSED_FIRST, || run_id);
            }
            _ => {}
        }
    }

    pub(super) async fn goes_on(&mut self, user: String, plan: Option<Plan>, job_id: String) {
        self.world.reached("a request goes on as a job");
        let promised = PromisedJob::of(user.clone(), plan);
        self.world.promises.lock().jobs.entry(job_id.clone()).or_insert(promised);
        self.read_to_its_end(&Principal::user(user), &job_id).await;
    }

    /// Calls a tool directly that somebody has to approve.
    pub(super) async fn call_directly(&mut self) {
        let user = self.user();
        let number = self.world.promises.lock().next_plan();
        let (caller, arguments) = (user.clone(), Map::from_iter([("direct".to_owned(), json!(number))]));
        let called = self.ask("client call", |service| {
            async move {
                let (request_id, name, progress) = ("direct", "pay", None);
                let call = DirectCall { request_id, caller: &caller, name, arguments: &arguments, progress };
                service.calls.call(call).await
            }
            .boxed()
        });
        if let Some(Called::Waits { job_id }) = called.await {
            self.world.reached("a direct call waits");
            self.goes_on(user.user_id.unwrap_or_default(), None, job_id).await;
        }
    }

    /// Has a run cancelled that is no job's.
    pub(super) async fn cancel_run(&mut self, run_id: String) {
        let cancelled = self
            .ask("client cancel run", |service| async move { service.streams.cancel(&run_id).await }.boxed())
            .await;
        if let Some(Ok(CancelOutcome::Done)) = cancelled {
            self.world.reached("a run of another replica was cancelled in its journal");
        }
    }
}

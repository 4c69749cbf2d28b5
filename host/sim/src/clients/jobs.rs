//! Jobs: submitted, perhaps under an id that the client chose, and followed to their end.

use std::time::Duration;

use agent_core::ports::webhooks::NewWebhook;
use agent_core::words::{CancelOutcome, Job, JobData, JobStatus, Principal};
use futures::FutureExt as _;
use http::StatusCode;
use serde_json::json;
use tokio::time::sleep;

use super::http::ClientRequest;
use super::{Client, TRIES};
use crate::judge::promises::{PromisedJob, told};
use crate::plan::Plan;

pub(super) const HOOK: &str = "https://hook.test";
pub(super) const NOT_LOST: &str = "no acknowledged job is lost";
const ONE_END_SEEN: &str = "whoever reads a job that has ended reads one end";

/// How long a read of a job is held back.
const WAIT: Duration = Duration::from_secs(5);

impl Client {
    pub(super) async fn submit_a_job(&mut self) {
        let user = self.user();
        let number = self.world.promises.lock().next_plan();
        let plan = Plan::of(self.world.seed, number);
        let conversation = self.conversation();
        let chosen = self.random.bool().then(|| format!("{:032x}", self.random.u128(..)));
        let has_webhook = chosen.is_some() && self.random.bool();
        let mut data = JobData::submitted_by(user.clone(), plan.input());
        data.conversation_id.clone_from(&conversation);
        data.id.clone_from(&chosen);
        if has_webhook && !self.put_webhook(&data).await {
            return;
        }
        let Some(job_id) = self.submit(data).await else { return };
        let (owner, does) = (user.user_id.clone().unwrap_or_default(), Some(plan.clone()));
        let promised = PromisedJob { has_webhook, conversation, ..PromisedJob::of(owner, does) };
        self.world.promises.lock().jobs.entry(job_id.clone()).or_insert(promised);
        self.world.note(&self.name, "acknowledged", &job_id, &plan.input());
        match self.random.u32(0..8) {
            0 => {}
            1 => self.cancel(&user, &job_id).await,
            2 | 3 => self.follow_job(&user, &job_id).await,
            _ => self.read_to_its_end(&user, &job_id).await,
        }
    }

    async fn put_webhook(&mut self, data: &JobData) -> bool {
        for _ in 0..TRIES {
            let (job_id, user_id) = (data.id.clone().unwrap_or_default(), data.user_id.clone());
            let put = self.ask("client put webhook", move |service| {
                async move {
                    let webhook = NewWebhook { job_id: &job_id, user_id: &user_id, url: HOOK };
                    service.webhooks.put(&webhook).await
                }
                .boxed()
            });
            if let Some(Ok(())) = put.await {
                return true;
            }
            self.pause(1_000).await;
        }
        false
    }

    /// The id of the job, once that is acknowledged. Without an id of its own a client does not try twice.
    async fn submit(&mut self, data: JobData) -> Option<String> {
        for _ in 0..TRIES {
            let job = data.clone();
            let submitted =
                self.ask("client submit", |service| async move { service.jobs.submit(&job).await }.boxed());
            match submitted.await {
                Some(Ok(id)) => return Some(id),
                _ if data.id.is_none() => return None,
                _ => self.pause(1_000).await,
            }
        }
        None
    }

    async fn cancel(&mut self, user: &Principal, job_id: &str) {
        self.pause(2_000).await;
        if let Some(job) = self.world.promises.lock().jobs.get_mut(job_id) {
            job.is_unwanted = true;
        }
        let (user_id, id) = (user.user_id.clone().unwrap_or_default(), job_id.to_owned());
        let cancelled = self
            .ask("client cancel", |service| async move { service.jobs.cancel(&user_id, &id).await }.boxed());
        if let Some(Ok(CancelOutcome::Done)) = cancelled.await
            && let Some(job) = self.world.promises.lock().jobs.get_mut(job_id)
        {
            job.is_cancelled = true;
        }
        self.read_to_its_end(user, job_id).await;
    }

    pub(super) async fn read_to_its_end(&mut self, user: &Principal, job_id: &str) {
        loop {
            let (user_id, id) = (user.user_id.clone().unwrap_or_default(), job_id.to_owned());
            let wait = if self.random.bool() { WAIT } else { Duration::ZERO };
            let read = self.ask("client read", move |service| {
                async move { service.jobs.read(&user_id, &id, wait).await }.boxed()
            });
            match read.await {
                Some(Ok(Some(job))) if job.status.has_ended() => return self.saw_end(&job),
                Some(Ok(Some(job))) if job.status == JobStatus::Parked => sleep(WAIT).await,
                Some(Ok(None)) => {
                    let is_forgotten = self.world.is_undone(job_id);
                    return self.world.holds(is_forgotten, NOT_LOST, || job_id.to_owned());
                }
                _ => self.pause(1_000).await,
            }
        }
    }

    /// Has a job tried again that has failed, as an administrator does.
    pub(super) async fn retry_a_job(&mut self) {
        let failed = self.world.queue.look(|job, _| (job.status == JobStatus::Failed).then(|| job.clone()));
        let promised = self.world.promises.lock().jobs.clone();
        let failed =
            failed.into_iter().find(|job| promised.get(&job.id).is_some_and(|job| job.plan.is_some()));
        let Some(Job { id, user_id, .. }) = failed else { return };
        let (replica, name, path) = (self.replica(), self.name.clone(), format!("/admin/jobs/{id}/retry"));
        let asked = ClientRequest { role: Some("admin"), ..ClientRequest::post(path, &name, json!({})) };
        let answer = self.send(replica, "client retry", asked).await;
        if answer.is_some_and(|answer| answer.status == StatusCode::ACCEPTED) {
            self.world.reached("a failed job was tried again");
            self.read_to_its_end(&Principal::user(user_id), &id).await;
        }
    }

    fn saw_end(&mut self, job: &Job) {
        let end = told(job);
        let mut promises = self.world.promises.lock();
        let first = promises.ends.entry(job.id.clone()).or_insert_with(|| end.clone()).clone();
        drop(promises);
        let is_same = first == end || self.world.has_begun_anew(&job.id);
        self.world.holds(is_same, ONE_END_SEEN, || format!("job {}: {first:?}, then {end:?}", job.id));
    }
}

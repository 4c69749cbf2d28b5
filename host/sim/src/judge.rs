//! What must be true when all is quiet: what was promised has come to pass, and nothing is held any more.

use std::collections::BTreeSet;

use agent_core::agent_loop::{Run, recorded_end};
use agent_core::ports::ConversationStore as _;
use agent_core::words::{
    AgentResult, ConversationKey, Event, Job, JobStatus, StopReason, Wait, WebhookState,
};
use run_service::invariants::{self, Broken};

use crate::promises::{PromisedJob, SeenEnd};
use crate::replica::{Living, Replicas};
use crate::world::World;

pub const NOT_LOST: &str = "no acknowledged job is lost";
pub const NO_UNJUST_FAILURE: &str = "a job fails for a reason that there was";
pub const RESULT: &str = "a job's result is that of its own run";
pub const DECISION_KEPT: &str = "a decision that was acknowledged is in the journal";
pub const TURN_KEPT: &str = "a turn that was acknowledged is in its conversation";
pub const WEBHOOK: &str = "the end of a job reaches its receiver";
pub const LAST_EVENTS: &str = "the last events of a run are lost with their process only";
pub const ONE_JOB: &str = "what was submitted once is one job";
pub const GOES_ON: &str = "a job goes on soon after it was decided about";
pub const NO_LEAK: &str = "what was held is given back";

/// Whether everything has come to its end that has one.
pub fn is_settled(world: &World) -> bool {
    let jobs = world.queue.jobs();
    let promises = world.promises.lock();
    let is_sent = |state| matches!(state, WebhookState::Delivered | WebhookState::Failed);
    jobs.iter().all(|job| job.status.has_ended())
        && world
            .outbox
            .all()
            .iter()
            .all(|webhook| is_sent(webhook.state) || !promises.jobs.contains_key(&webhook.job_id))
}

/// Whether no replica holds anything any more.
pub fn is_free(replicas: &Replicas) -> bool {
    let holds = |living: Living| living.service.held().iter().any(|(_, count)| *count > 0);
    !replicas.living().into_iter().any(holds)
}

/// Parked jobs whose waits are all decided.
pub fn decided(world: &World) -> BTreeSet<String> {
    let parked = world.queue.jobs().into_iter().filter(|job| job.status == JobStatus::Parked);
    let is_decided = |job: &Job| {
        Run::waiting(world.events(&job.run_id))
            .is_ok_and(|run| run.waits().all(|wait| wait.decided().is_some()))
    };
    parked.filter(is_decided).map(|job| job.id).collect()
}

/// Judges what has come of everything.
pub async fn judge(world: &World, replicas: &Replicas) {
    let promised: Vec<(String, PromisedJob)> =
        world.promises.lock().jobs.iter().map(|(id, job)| (id.clone(), job.clone())).collect();
    for (job_id, promised) in &promised {
        match world.queue.job(job_id) {
            Some(job) => judge_job(world, promised, &job),
            None => world.holds(false, NOT_LOST, || job_id.clone()),
        }
    }
    let mut queries = BTreeSet::new();
    for query in world.queue.queries() {
        world.holds(queries.insert(query.clone()), ONE_JOB, || query);
    }
    judge_streams(world);
    judge_decisions(world);
    judge_turns(world, &promised).await;
    for living in replicas.living() {
        for (what, count) in living.service.held() {
            world.holds(count == 0, NO_LEAK, || format!("{}: {count} {what}", living.process.name));
        }
    }
}

fn judge_job(world: &World, promised: &PromisedJob, job: &Job) {
    let Job { id, run_id, status, .. } = job;
    world.holds(status.has_ended(), NOT_LOST, || format!("job {id} is {}", status.as_str()));
    let seen = world.promises.lock().ends.get(id).cloned();
    let is_same = seen.is_none() || seen == SeenEnd::of(job);
    world.holds(is_same, invariants::ONE_END, || format!("job {id}: {seen:?}, and now {job:?}"));
    world.holds(!promised.is_cancelled || *status == JobStatus::Cancelled, invariants::ONE_END, || {
        format!("job {id} was cancelled and is {}", status.as_str())
    });
    match status {
        JobStatus::Completed => judge_result(world, promised, job),
        JobStatus::Failed => {
            let error = job.error.as_deref().unwrap_or_default();
            world.holds(is_just(world, job, error), NO_UNJUST_FAILURE, || {
                format!("job {id} ({run_id}): {error}")
            });
        }
        JobStatus::Cancelled => {
            world.holds(promised.is_unwanted, NO_UNJUST_FAILURE, || {
                format!("job {id} was cancelled by nobody")
            });
        }
        _ => {}
    }
    if promised.has_webhook {
        let promises = world.promises.lock();
        let received = promises.delivered.get(id).cloned().unwrap_or_default();
        drop(promises);
        let is_right = received.iter().any(|body| body.starts_with(status.as_str()));
        world.holds(is_right, WEBHOOK, || {
            format!("job {id} is {} and was told as {received:?}", status.as_str())
        });
    }
}

fn is_just(world: &World, job: &Job, error: &str) -> bool {
    let promises = world.promises.lock();
    match error {
        // A run that was kept waiting may have taken longer than it may.
        "Service temporarily unavailable" => promises.troubled.contains(&job.run_id) || world.was_slow(),
        "Rate limit exceeded" => promises.troubled.contains(&job.run_id),
        "Internal server error" => promises.refused.contains(&job.run_id),
        _ => error.starts_with("the run stopped its worker") && world.queue.lost_claims(&job.id) > 0,
    }
}

fn judge_result(world: &World, promised: &PromisedJob, job: &Job) {
    let result =
        job.result.as_ref().and_then(|result| serde_json::from_str::<AgentResult>(result.get()).ok());
    let Some(result) = result else {
        return world.holds(false, RESULT, || format!("job {} has no result", job.id));
    };
    let answer = format!("done {}.", promised.plan);
    let is_right = result.stop_reason != StopReason::Completed || result.output.starts_with(&answer);
    world.holds(is_right && result.id == job.run_id, RESULT, || format!("job {}: {}", job.id, result.output));
    match recorded_end(world.events(&job.run_id), None) {
        Ok(Some(recorded)) => {
            world.holds(recorded.output == result.output, invariants::ONE_END, || {
                format!("job {}: {} and in its journal {}", job.id, result.output, recorded.output)
            });
        }
        Ok(None) => {
            let by = world.promises.lock().completed_by.get(&job.id).cloned().unwrap_or_default();
            world.holds(world.has_died(&by), LAST_EVENTS, || format!("job {} by {by}, which lives", job.id));
            world.reached("a job ended whose last events were lost");
        }
        Err(error) => world.holds(false, invariants::ONE_END, || format!("job {}: {error}", job.id)),
    }
}

fn judge_streams(world: &World) {
    for stream in &world.promises.lock().streams {
        let journal = world.events(&stream.run_id);
        let seen = stream.events.iter().map(|(number, event)| (*number, event));
        let run = |broken: Broken| Broken { what: format!("{}: {}", stream.run_id, broken.what), ..broken };
        world.check(invariants::shown(seen, &journal).map_err(run));
    }
}

fn judge_decisions(world: &World) {
    for (wait_id, verdict) in world.promises.lock().decisions.clone() {
        let job = Wait::job_of(&wait_id).and_then(|job_id| world.queue.job(job_id));
        let events = job.map(|job| world.events(&job.run_id)).unwrap_or_default();
        let is_it = |event: &Event| matches!(event, Event::Decided { wait, decision } if *wait == wait_id && decision.verdict == verdict);
        world.holds(events.iter().any(is_it), DECISION_KEPT, || format!("{wait_id}: {verdict:?}"));
    }
}

async fn judge_turns(world: &World, promised: &[(String, PromisedJob)]) {
    let mut turns = world.promises.lock().turns.clone();
    for (job_id, promised) in promised {
        let Some(job) = world.queue.job(job_id).filter(|job| job.status == JobStatus::Completed) else {
            continue;
        };
        if let Some(conversation) = promised.conversation.clone() {
            let user = promised.user.clone();
            turns.push(crate::promises::PromisedTurn { user, conversation, id: job.run_id });
        }
    }
    for turn in turns {
        let key = ConversationKey::conversation(&turn.user, &turn.conversation);
        let kept = world.conversations.read(key).await.ok().flatten();
        let (is_busy, turns) = kept.map(|kept| (kept.is_busy, kept.turns)).unwrap_or_default();
        world.check(invariants::turns(&turns));
        world.holds(turns.iter().any(|kept| kept.id == turn.id), TURN_KEPT, || format!("{turn:?}"));
        world.holds(!is_busy, NO_LEAK, || {
            format!("conversation {} of {} is held", turn.conversation, turn.user)
        });
    }
}

//! What must be true when all is quiet: what was promised has come to pass, and nothing is held any more.

pub mod promises;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agent_core::agent_loop::{OpenWait, Run, recorded_end};
use agent_core::ports::ConversationStore as _;
use agent_core::ports::queue::MOST_LOSSES;
use agent_core::ports::webhooks::WebhookMessage;
use agent_core::words::{
    AgentResult, ConversationKey, Event, Job, JobData, JobStatus, RunOutcome, StopReason, ToolOutcome,
    ToolReceipt, Wait, WebhookState, short_run,
};
use run_service::conversations::is_kept;
use run_service::invariants::{self, Broken};

use crate::judge::promises::{PromisedJob, Promises, ShownEvent, ShownStream, ToldEnd, told};
use crate::plan::{CALL, Plan};
use crate::replica::Replicas;
use crate::replica::service::Service;
use crate::world::World;

pub const NOT_LOST: &str = "no acknowledged job is lost";
pub const NO_UNJUST_FAILURE: &str = "a job fails for a reason that there was";
pub const RESULT: &str = "a job's result is that of its own run";
pub const DECISION_KEPT: &str = "a decision that was acknowledged is in the journal";
pub const TURN_KEPT: &str = "a turn that was acknowledged is in its conversation";
pub const WEBHOOK: &str = "the end of a job reaches its receiver";
pub const TOLD: &str = "a webhook tells what has happened, each end under an id of its own";
pub const END_TOLD: &str = "a reader is told the end that its run has come to";
pub const LAST_EVENTS: &str = "the last events of a run are lost with their process only";
pub const ONE_JOB: &str = "what was submitted once is one job";
pub const RECORD_KEPT: &str = "a record of how a run ended stays";
pub const NOT_DENIED: &str = "nobody is told of a call that acted that it did not run";
pub const GOES_ON: &str = "a job goes on soon after it was decided about";
pub const NO_LEAK: &str = "what was held is given back";

/// Whether everything has come to its end that has one.
pub fn is_settled(world: &World) -> bool {
    let open = world.queue.look(|job, _| (!job.status.has_ended()).then_some(()));
    let promises = world.promises.lock();
    let is_sent = |state| matches!(state, WebhookState::Delivered | WebhookState::Failed);
    // Of a job that was forgotten nobody is told anything for ten minutes.
    let is_there = |job_id: &str| promises.jobs.contains_key(job_id) && world.queue.find(job_id).is_some();
    open.is_empty()
        && world.outbox.all().iter().all(|webhook| is_sent(webhook.state) || !is_there(&webhook.job_id))
}

/// Whether no replica holds anything any more, and no conversation is held by one that died.
pub async fn is_free(world: &World, replicas: &Replicas) -> bool {
    let holds = |living: Arc<Service>| living.held().iter().any(|(_, count)| *count > 0);
    if replicas.living().into_iter().any(holds) {
        return false;
    }
    let conversations: BTreeSet<_> = {
        let promises = world.promises.lock();
        let of_jobs =
            promises.jobs.values().filter_map(|job| Some((job.user.clone(), job.conversation.clone()?)));
        let of_turns = promises.turns.iter().map(|turn| (turn.user.clone(), turn.conversation.clone()));
        of_jobs.chain(of_turns).collect()
    };
    for (user, id) in conversations {
        let kept = world.conversations.read(ConversationKey::conversation(&user, &id)).await;
        if kept.ok().flatten().is_some_and(|kept| kept.is_busy) {
            return false;
        }
    }
    true
}

/// Parked jobs of which something is decided that is not carried out, whatever else they wait for: nobody has
/// forgotten that they are to go on.
pub fn decided(world: &World) -> BTreeSet<String> {
    let parked = world
        .queue
        .look(|job, _| (job.status == JobStatus::Parked).then(|| (job.id.clone(), job.run_id.clone())));
    let is_decided = |run_id: &str| {
        let events = world.events(run_id);
        let of_reply = events.iter().rev().take_while(|event| !matches!(event, Event::ModelReplied { .. }));
        let returned = of_reply.filter_map(|event| match event {
            Event::ToolReturned { index, .. } => Some(*index),
            _ => None,
        });
        let returned: BTreeSet<_> = returned.collect();
        let is_open = |open: &OpenWait| open.decided().is_some() && !returned.contains(&open.wait.index);
        Run::waiting(events).is_ok_and(|run| run.waits().any(is_open))
    };
    let decided = parked.into_iter().filter(|(_, run_id)| is_decided(run_id));
    decided.map(|(job_id, _)| job_id).filter(|job_id| !world.is_undone(job_id)).collect()
}

/// Judges what has come of everything.
pub async fn judge(world: &World, replicas: &Replicas) {
    let promised: Vec<(String, PromisedJob)> =
        world.promises.lock().jobs.iter().map(|(id, job)| (id.clone(), job.clone())).collect();
    for (job_id, promised) in &promised {
        match world.queue.find(job_id) {
            Some(job) => judge_job(world, promised, &job),
            None if world.is_undone(job_id) => world.reached("an acknowledged job was forgotten"),
            None => world.holds(false, NOT_LOST, || job_id.clone()),
        }
    }
    let mut queries = BTreeSet::new();
    // Calls have no query of their own.
    let query = |data: Option<&JobData>| {
        let data = data.filter(|data| data.query != CALL)?;
        // A parent that is tried again begins its child runs anew, in another run.
        Some((data.query.clone(), data.parent.clone()))
    };
    for query in world.queue.look(|_, data| query(data)) {
        let is_first = queries.insert(query.clone());
        // The key of one that was forgotten is new again.
        world.holds(is_first || world.has_forgotten(), ONE_JOB, || query.0);
    }
    judge_webhooks(world);
    judge_streams(world);
    judge_shown(world);
    judge_records(world);
    judge_receipts(world);
    judge_ends(world);
    judge_families(world);
    judge_decisions(world);
    judge_turns(world, &promised).await;
    for living in replicas.living() {
        for (what, count) in living.held() {
            world.holds(count == 0, NO_LEAK, || format!("{}: {count} {what}", living.process.name));
        }
    }
}

fn judge_job(world: &World, promised: &PromisedJob, job: &Job) {
    let Job { id, run_id, status, .. } = job;
    world.holds(status.has_ended(), NOT_LOST, || format!("job {id} is {}", status.as_str()));
    let seen = world.promises.lock().ends.get(id).cloned();
    // An end that was forgotten is come to again; what has no journal by then, with another result. A job
    // that was tried again has the end of its last run.
    let is_undone = world.has_begun_anew(id);
    let is_same = seen.is_none() || is_undone || seen == Some(told(job));
    world.holds(is_same, invariants::ONE_END, || format!("job {id}: {seen:?}, and now {job:?}"));
    let is_cancelled = !promised.is_cancelled || is_undone || *status == JobStatus::Cancelled;
    world.holds(is_cancelled, invariants::ONE_END, || {
        format!("job {id} was cancelled and is {}", status.as_str())
    });
    match status {
        JobStatus::Completed => judge_result(world, promised, job),
        JobStatus::Failed => {
            let error = job.error.as_deref().unwrap_or_default();
            world.holds(is_just(world, promised, job, error), NO_UNJUST_FAILURE, || {
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
        let received = world.promises.lock().delivered.get(id).cloned().unwrap_or_default();
        // An end that was forgotten may have been told, and then the one that is come to again is not.
        let is_it = |message: &WebhookMessage| message.body == told(job) || world.is_undone(id);
        world.holds(received.iter().any(is_it), WEBHOOK, || format!("{}: {received:?}", told(job)));
    }
}

/// Every message that came to a receiver. A failure that was not told before its job was tried again is not
/// told any more.
fn judge_webhooks(world: &World) {
    let promises = world.promises.lock();
    let of_jobs = promises.delivered.iter();
    for (job_id, message) in of_jobs.flat_map(|(id, received)| received.iter().map(move |one| (id, one))) {
        world.holds(is_told_rightly(world, &promises, job_id, message), TOLD, || format!("{message:?}"));
    }
}

fn is_told_rightly(world: &World, promises: &Promises, job_id: &str, message: &WebhookMessage) -> bool {
    let WebhookMessage { id, body } = message;
    if id.contains(':') {
        // What a run waits for.
        return promises.happened.contains(id);
    }
    let mut words = body.split(' ');
    let (status, run) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let has_happened = promises.happened.contains(&format!("{status} {run}"));
    if world.is_undone(job_id) {
        // Of a job that the queue has forgotten the record of its run is told.
        return has_happened || promises.recorded.contains_key(run);
    }
    let (of_job, is_retry) = (format!("msg_{job_id}"), promises.retries.contains(run));
    if is_retry {
        world.reached("a webhook told of a job that was tried again");
    }
    let is_of_run = *id == format!("{of_job}_{}", short_run(run));
    has_happened && ((is_of_run && promises.armed.contains(job_id)) || (*id == of_job && !is_retry))
}

fn is_just(world: &World, promised: &PromisedJob, job: &Job, error: &str) -> bool {
    let promises = world.promises.lock();
    match error {
        // A run that was kept waiting may have taken longer than it may.
        "Service temporarily unavailable" => {
            let conversation = promised.conversation.as_deref();
            promises.troubled.contains(&job.run_id) || world.was_slow(job, conversation)
        }
        "Rate limit exceeded" => promises.troubled.contains(&job.run_id),
        "Internal server error" => promises.refused.contains(&job.run_id),
        _ => {
            let has_lost = world.queue.lost_claims(&job.id) > 0 || world.is_undone(&job.id);
            error.starts_with("the run stopped its worker") && has_lost
        }
    }
}

fn judge_result(world: &World, promised: &PromisedJob, job: &Job) {
    let Some(result) = result_of(job) else {
        return world.holds(false, RESULT, || format!("job {} has no result", job.id));
    };
    let answer = promised.plan.as_ref().map(Plan::answer).unwrap_or_default();
    let is_right = result.stop_reason != StopReason::Completed || result.output.starts_with(&answer);
    world.holds(is_right && result.id == job.run_id, RESULT, || format!("job {}: {}", job.id, result.output));
    world.reached(result.stop_reason.as_str());
    let limit = by_limit(result.stop_reason);
    match recorded_end(world.events(&job.run_id), limit) {
        Ok(Some(recorded)) if limit.is_none() || recorded.iterations == result.iterations => {
            world.holds(recorded.output == result.output, invariants::ONE_END, || {
                format!("job {}: {} and in its journal {}", job.id, result.output, recorded.output)
            });
            let (told, bill) = (result.usage.total(), invariants::bill(&world.events(&job.run_id)));
            world.holds(told == bill, invariants::BILL, || format!("job {}: {told} of {bill}", job.id));
        }
        Ok(_) => {
            let by = world.promises.lock().ended_by.get(&job.id).cloned().unwrap_or_default();
            let may_be = world.has_died(&by) || world.is_undone(&job.id);
            world.holds(may_be, LAST_EVENTS, || format!("job {} by {by}, which lives", job.id));
            world.reached("a job ended whose last events were lost");
        }
        Err(error) => world.holds(false, invariants::ONE_END, || format!("job {}: {error}", job.id)),
    }
}

fn result_of(job: &Job) -> Option<AgentResult> {
    serde_json::from_str(job.result.as_ref()?.get()).ok()
}

/// The reason of an end that may be no event: that of a limit, when the model is not asked once more.
fn by_limit(reason: StopReason) -> Option<StopReason> {
    matches!(reason, StopReason::TokenBudget | StopReason::MaxIterations).then_some(reason)
}

fn judge_streams(world: &World) {
    let promises = world.promises.lock();
    for stream in &promises.streams {
        let journal = world.events(&stream.run_id);
        let seen = stream.events.iter().map(|(number, event)| (*number, event));
        let first = stream.events.first().map_or(0, |(number, _)| *number);
        // Behind an end by a limit, which is no event, somebody may cancel the run who knows nothing of it.
        let later = journal.get(stream.events.len()..).unwrap_or_default();
        let is_whole = !stream.is_answered || matches!(later, [] | [Event::Cancelled]);
        world.holds(first == 0 && is_whole, invariants::PREFIX, || {
            format!("{} was shown {} of {} events", stream.run_id, stream.events.len(), journal.len())
        });
        let run = |broken: Broken| Broken { what: format!("{}: {}", stream.run_id, broken.what), ..broken };
        world.check(invariants::shown(seen, &journal).map_err(run));
        judge_told(world, &promises, &stream.run_id, stream.told.as_ref());
    }
}

/// What a reader was told at the end, beside the journal. What was slow may be written behind a failure that
/// was told, as the limit of a run comes while its answer is on the way; and an end that a server forgot is
/// come to again. The job that has the run may have been tried again, with another one.
fn judge_told(world: &World, promises: &Promises, run_id: &str, told: Option<&ToldEnd>) {
    let job = world.job_of(run_id);
    let is_undone = job.as_ref().map_or_else(|| world.has_forgotten(), |job| world.is_undone(&job.id));
    let Some(told) = told.filter(|_| !is_undone && !promises.retried.contains(run_id)) else { return };
    let is_right = match told {
        ToldEnd::Answer { output, is_completed } => match recorded_end(world.events(run_id), None) {
            Ok(Some(kept)) => kept.output == *output,
            // Of an end by a limit there is no event, and a job's last events may be lost with its process.
            Ok(None) => !is_completed || job.is_some(),
            Err(_) => false,
        },
        ToldEnd::Failed => {
            // Of so many dead workers the journal is not read any more, whatever it says.
            let is_given_up = job.is_some_and(|job| world.queue.lost_claims(&job.id) >= MOST_LOSSES);
            !world.has_answer(run_id) || world.was_run_slow(run_id) || is_given_up
        }
        ToldEnd::Dead(had_answer) => !had_answer || world.was_run_slow(run_id),
    };
    world.holds(is_right, END_TOLD, || format!("{run_id} was told as {told:?}"));
}

/// What readers were shown over HTTP, whose events are written by the edge.
fn judge_shown(world: &World) {
    let promises = world.promises.lock();
    for ShownStream { run_id, events, end, told } in &promises.shown {
        let journal = world.events(run_id);
        let mut last = None;
        for shown in events {
            let kept = journal.get(shown.number);
            let is_kept = kept.is_some_and(|kept| shown.is_of(kept));
            let place = (shown.number, shown.part);
            let is_next = last < Some(place) && (last.is_some() || place == (0, 0));
            world.holds(is_kept && is_next, invariants::PREFIX, || {
                format!("{run_id}: {shown:?} behind {last:?}, and kept is {kept:?}")
            });
            last = Some(place);
        }
        let numbers: BTreeSet<_> = events.iter().map(|shown| shown.number).collect();
        let is_missing = |(number, event): &(usize, &Event)| {
            ShownEvent::name_of(event).is_some() && !numbers.contains(number)
        };
        let until = end.unwrap_or(0);
        let missing = journal.iter().enumerate().take(until).find(is_missing);
        world.holds(missing.is_none(), invariants::PREFIX, || format!("{run_id} was not shown {missing:?}"));
        judge_told(world, &promises, run_id, told.as_ref());
    }
}

/// What lists and readers on other replicas go by. Nothing removes a record: retention does not run here.
fn judge_records(world: &World) {
    let recorded = world.promises.lock().recorded.clone();
    let outcomes = world.runs.records().into_iter().map(|record| (record.id, record.outcome));
    let outcomes: BTreeMap<_, _> = outcomes.collect();
    for (run_id, had_result) in recorded {
        let outcome = outcomes.get(&run_id);
        let is_kept = match outcome {
            Some(RunOutcome::Ended { .. }) => true,
            // Another attempt may have come to a result behind a failure, never the other way round.
            Some(RunOutcome::Failed { .. }) => !had_result,
            Some(RunOutcome::Running) | None => false,
        };
        world.holds(is_kept, RECORD_KEPT, || format!("{run_id}: {outcome:?}"));
    }
}

/// What the ends of runs say of calls that must not be repeated and have acted. Their beginnings are in the
/// journal by then.
fn judge_receipts(world: &World) {
    let acts = world.promises.lock().acts.clone();
    for record in world.runs.records() {
        let events = world.events(&record.id);
        let asked = calls_of(&record.id, &events);
        let limit = match record.outcome {
            RunOutcome::Ended { stop_reason, .. } => by_limit(stop_reason),
            _ => None,
        };
        let Ok(Some(end)) = recorded_end(events, limit) else { continue };
        for ((id, tool), receipt) in asked.into_iter().zip(&end.tool_calls) {
            if receipt.outcome == ToolOutcome::InvalidArguments {
                world.reached("a call with torn arguments was refused");
            }
            let is_told_so = receipt.outcome == ToolOutcome::NotRun;
            let has_acted = tool != "look" && acts.contains_key(&id);
            world.holds(!(is_told_so && has_acted), NOT_DENIED, || id);
        }
    }
}

/// The calls that a run asked for, by the ids under which they are made, with their tools.
fn calls_of(run_id: &str, events: &[Event]) -> Vec<(String, String)> {
    let (mut calls, mut replies) = (Vec::new(), 0);
    for event in events {
        let asked = match event {
            Event::Started { task, .. } => task.options.call.as_slice(),
            Event::ModelReplied { reply, .. } => {
                replies += 1;
                reply.tool_calls.as_slice()
            }
            _ => continue,
        };
        let id = |index| format!("{run_id}.{replies}.{index}");
        calls.extend(asked.iter().enumerate().map(|(index, call)| (id(index), call.name.clone())));
    }
    calls
}

/// What is kept of the runs of jobs that have ended. It is written behind the end, so that whoever ended the
/// job may have died before, or have had no answer of the store; and who cancels a job without being told
/// that it is cancelled has to do so again.
fn judge_ends(world: &World) {
    let records = world.runs.records().into_iter().map(|record| (record.id.clone(), record));
    let records: BTreeMap<_, _> = records.collect();
    let ended_by = world.promises.lock().ended_by.clone();
    for job in world.queue.look(|job, _| job.status.has_ended().then(|| job.clone())) {
        let Job { id, run_id, status, .. } = &job;
        let has_died = ended_by.get(id).is_none_or(|by| world.has_died(by));
        if has_died || world.is_undone(id) || world.was_slow(&job, None) {
            continue;
        }
        let events = world.events(run_id);
        if *status == JobStatus::Cancelled && !events.is_empty() {
            world.reached("a cancelled job was held to the end of its run");
        }
        let run =
            |broken: Broken| Broken { what: format!("{run_id} of job {id}: {}", broken.what), ..broken };
        world.check(invariants::ended(*status, &events, records.get(run_id)).map_err(run));
    }
}

/// Runs that other runs began.
fn judge_families(world: &World) {
    let mut calls = BTreeSet::new();
    for child in world.queue.look(|job, _| job.parent.is_some().then(|| job.clone())) {
        let wait = child.parent.clone().unwrap_or_default();
        let parent = Wait::job_of(&wait).and_then(|job_id| world.queue.find(job_id));
        let is_undone = |job: &Job| world.has_begun_anew(&job.id);
        let Some(parent) = parent.filter(|parent| !is_undone(parent) && !is_undone(&child)) else { continue };
        world.reached("a run began a run");
        let is_first = calls.insert(wait.clone());
        world.holds(is_first, invariants::ONE_CHILD, || format!("{wait} began {} as well", child.id));
        let (of_parent, of_child) = (world.events(&parent.run_id), world.events(&child.run_id));
        world.check(invariants::child(&of_parent, &of_child, child.status));
        let limit = result_of(&parent).and_then(|result| by_limit(result.stop_reason));
        if let Ok(Some(end)) = recorded_end(of_parent, limit) {
            let of = |receipt: &ToolReceipt| receipt.detail.as_ref()?.child.clone();
            let is_named = end.tool_calls.iter().filter_map(of).any(|job_id| job_id == child.id);
            world.holds(is_named, NOT_DENIED, || format!("{} of {wait}", child.id));
        }
        if child.status == JobStatus::Cancelled && parent.status == JobStatus::Cancelled {
            world.reached("a run was cancelled with the one that began it");
        }
    }
}

fn judge_decisions(world: &World) {
    let decisions = world.promises.lock().decisions.clone();
    for (wait_id, verdict) in decisions {
        let job_id = Wait::job_of(&wait_id).unwrap_or_default();
        let job = world.queue.find(job_id);
        // Decisions may be in the journal of a run that was forgotten with its job, or that failed.
        if world.has_begun_anew(job_id) {
            continue;
        }
        let events = job.map(|job| world.events(&job.run_id)).unwrap_or_default();
        let is_it = |event: &Event| matches!(event, Event::Decided { wait, decision } if *wait == wait_id && decision.verdict == verdict);
        world.holds(events.iter().any(is_it), DECISION_KEPT, || format!("{wait_id}: {verdict:?}"));
    }
}

async fn judge_turns(world: &World, promised: &[(String, PromisedJob)]) {
    let mut turns = world.promises.lock().turns.clone();
    for (job_id, promised) in promised {
        let Some(job) = world.queue.find(job_id).filter(|job| job.status == JobStatus::Completed) else {
            continue;
        };
        let is_turn = result_of(&job).is_some_and(|result| is_kept(result.stop_reason));
        if let Some(conversation) = promised.conversation.clone().filter(|_| is_turn) {
            let user = promised.user.clone();
            turns.push(crate::judge::promises::PromisedTurn { user, conversation, id: job.run_id });
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

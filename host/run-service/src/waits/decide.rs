//! One decision about one wait.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use agent_core::agent_loop::Run;
use agent_core::ports::{Epoch, JournalError, JournalResult, ToolSet, Versions, WaitDecided, WaitingCall};
use agent_core::words::{
    CallPlace, Decision, Event, Job, JobStatus, Principal, ToolCall, Verdict, Wait, WaitKind,
    may_be_journaled,
};
use json_schema::{Fuel, Misfit, Schema, SchemaBudget};
use serde_json::Value;

use agent_core::ports::queue::LEASE;
use tokio::time::{Instant, sleep};

use super::{JobWait, WaitError, Waits, waits_of};
use crate::clock;
use crate::invariants::Followed;

/// Within which a job goes on whose decision is about to be written: longer than writing it takes, and soon
/// enough for whoever waits for a job whose decider was killed in between.
pub(crate) const ARMED: Duration = Duration::from_secs(5);

/// How often a decision is tried whose journal grew meanwhile. Each time somebody else decided something.
const TRIES: u32 = 16;

/// How long a decision waits for a job whose attempt has not ended yet.
const LET_GO_WITHIN: Duration = Duration::from_secs(10);

/// How often it is looked at whether a job is let go of that was claimed too early.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How large the schema may be that something is held against, and how long reading it may take: that is done
/// on the thread that serves. The check itself has the few steps of such a thread.
const MOST_SCHEMA_BYTES: usize = 64 << 10;
const CHECK_TIME: Duration = Duration::from_millis(20);

/// What somebody wants to decide.
#[derive(Debug, Clone)]
pub struct ProposedDecision {
    /// Who decides, as their token says.
    pub by: Principal,
    /// [`ShownCall::digest`](agent_core::words::ShownCall::digest) of what they were shown.
    pub shown: String,
    pub verdict: Verdict,
}

/// A wait, and what is to be decided about it.
#[derive(Debug, Clone, Copy)]
pub struct Proposal<'a> {
    /// [`Wait::id`] of what is decided.
    pub wait: &'a str,
    pub decision: &'a ProposedDecision,
}

/// What became of a decision that was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// The wait with the decision.
    pub wait: JobWait,
    /// Whether the run goes on with that: nobody else has to agree.
    pub goes_on: bool,
}

/// Why a decision was not taken. Nothing is changed then, except that [`Void`](Self::Void) is shown anew.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotDecided {
    #[error("there is no such wait")]
    Unknown,
    #[error("this is for others to decide")]
    NotYours,
    /// Somebody was first, or it expired.
    #[error("it has been decided already")]
    Already(Box<Decision>),
    #[error("you have decided already: others have to agree")]
    Twice,
    /// The run does not wait: it was cancelled, has ended, or is just being taken up.
    #[error("the run does not wait at this moment")]
    NotWaiting,
    /// Something else is shown than what they saw.
    #[error("what you were shown is not what is to be decided")]
    Outdated(Box<JobWait>),
    /// The call would be another one by now. This is what is to be decided instead.
    #[error("the call would be another one by now, and is to be decided anew")]
    Void(Box<JobWait>),
    #[error("what was given {0}")]
    BadArguments(String),
    #[error("several have to agree on one call: reject it and say what to change")]
    NotEditable,
    /// A question cannot be approved, nor an approval answered.
    #[error("this wait is decided by {0}")]
    OtherDecision(&'static str),
    #[error(transparent)]
    Failed(#[from] WaitError),
}

impl From<JournalError> for NotDecided {
    fn from(error: JournalError) -> Self {
        Self::Failed(error.into())
    }
}

/// Waits as they are found, with the run they are of.
struct Found {
    run: Run,
    /// How many events the journal has.
    next: u64,
    /// In the order in which they were asked for.
    waits: Vec<JobWait>,
    versions: Versions,
    followed: Followed,
}

impl Waits {
    /// Takes a decision, if it is the caller's to take and nobody was first.
    ///
    /// Not cancellation-safe: dropped, it may have been taken or not.
    pub async fn decide(&self, id: &str, proposed: &ProposedDecision) -> Result<Decided, NotDecided> {
        let decided = self.decide_all(&[Proposal { wait: id, decision: proposed }]).await?;
        decided.into_iter().next().ok_or(NotDecided::Unknown)
    }

    /// Takes decisions about waits of one run, in the order of `proposals`: all of them or none. Written as
    /// one, they are carried out by one attempt.
    ///
    /// Not cancellation-safe: dropped, they may have been taken or not.
    pub async fn decide_all(&self, proposals: &[Proposal<'_>]) -> Result<Vec<Decided>, NotDecided> {
        let job_id = job_of_all(proposals)?;
        let until = Instant::now() + LET_GO_WITHIN;
        let (mut tries, mut has_looked) = (0, false);
        while tries < TRIES {
            let job = self.queue.read(job_id).await.map_err(WaitError::from)?.ok_or(NotDecided::Unknown)?;
            // While somebody has it, or is to have it soon, only the queue is asked: a journal may be long.
            let is_taken = !job.status.has_ended() && job.status != JobStatus::Parked;
            if has_looked && is_taken && Instant::now() < until {
                sleep(LOOK_AGAIN).await;
                continue;
            }
            has_looked = true;
            let mut found = self.find(&job, proposals).await?;
            let mut proposed = found.waits.iter().zip(proposals);
            let checked = proposed.try_for_each(|(wait, of)| check(wait, of.decision, clock::millis()));
            let goes_on = found.run.waits().any(|open| open.decided().is_some());
            if goes_on && job.status == JobStatus::Parked && matches!(checked, Err(NotDecided::Already(_))) {
                // Whoever decided may have been told that it failed, or have died before the job was resumed.
                self.go_on(job_id).await?;
            }
            checked?;
            let epoch = match (job.status, found.run.waits_epoch()) {
                (JobStatus::Parked, Some(epoch)) => epoch,
                // Other calls of the reply are made first, it was claimed too early, or is tried again soon.
                (status, _) if !status.has_ended() && Instant::now() < until => {
                    sleep(LOOK_AGAIN).await;
                    continue;
                }
                _ => return Err(NotDecided::NotWaiting),
            };
            tries += 1;
            let events = self.events(&found, epoch, proposals).await?;
            if !self.queue.resume(job_id, ARMED).await.map_err(WaitError::from)? {
                // Somebody else has it go on, cancelled it or ended it. Which of these is found out anew.
                continue;
            }
            match self.append_armed(&job, Epoch(epoch), found.next, &events).await {
                Ok(()) => {
                    events.iter().for_each(|event| found.followed.on(event));
                    return self.decided(&job, found, events).await;
                }
                // Somebody else decided something. Whether it was this is what the journal says.
                Err(JournalError::Conflict { .. } | JournalError::Fenced { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(NotDecided::NotWaiting)
    }

    /// Appends to the journal of a job that goes on soon, and has it go on soon for as long as that takes.
    async fn append_armed(&self, job: &Job, epoch: Epoch, next: u64, events: &[Event]) -> JournalResult {
        let mut append = pin!(self.journal.append(&job.run_id, epoch, next, events));
        loop {
            tokio::select! {
                biased;
                appended = &mut append => return appended,
                () = sleep(ARMED / 2) => {
                    // silent-ok: what was armed before may still hold, and the decision has the job claimed
                    // behind it.
                    let _ = self.queue.resume(&job.id, ARMED).await;
                }
            }
        }
    }

    async fn find(&self, job: &Job, proposals: &[Proposal<'_>]) -> Result<Found, NotDecided> {
        let events = self.journal.read(&job.run_id, 0).await?;
        let Some(Event::Started { task, .. }) = events.first() else { return Err(NotDecided::Unknown) };
        let (versions, next) = (task.versions.clone(), events.len() as u64);
        let followed = Followed::from(&events);
        let ids = proposals.iter().map(|proposal| proposal.wait);
        let (run, waits) = waits_of(job, events, ids)?;
        let waits = waits.into_iter().collect::<Option<Vec<_>>>().ok_or(NotDecided::Unknown)?;
        Ok(Found { run, next, waits, versions, followed })
    }

    /// What is to be journaled: the decisions, or the waits anew whose calls would be others by now.
    async fn events(
        &self,
        found: &Found,
        epoch: u64,
        proposals: &[Proposal<'_>],
    ) -> Result<Vec<Event>, NotDecided> {
        let (mut decided, mut anew) = (Vec::new(), Vec::new());
        for (wait, proposal) in found.waits.iter().zip(proposals) {
            match self.event(found, wait, proposal.decision).await? {
                Judged::Decided(event) => decided.push(event),
                Judged::Void(wait) => anew.push(wait),
            }
        }
        Ok(if anew.is_empty() { decided } else { vec![Event::Waiting { waits: anew, epoch }] })
    }

    async fn event(
        &self,
        found: &Found,
        wait: &JobWait,
        proposed: &ProposedDecision,
    ) -> Result<Judged, NotDecided> {
        let Wait { id, shown, index, within, .. } = &wait.open.wait;
        let decided = |verdict: &Verdict| {
            let (by, at) = (proposed.by.user_id.clone(), clock::millis());
            let (shown, verdict, nonce) = (proposed.shown.clone(), verdict.clone(), clock::new_id());
            let decision = Decision { by, at, shown, verdict, nonce };
            Judged::Decided(Event::Decided { wait: id.clone(), decision })
        };
        // A call that is not made may be any.
        if matches!(proposed.verdict, Verdict::Reject { .. } | Verdict::Answer { .. }) {
            return Ok(decided(&proposed.verdict));
        }
        let Some(toolbox) = &self.toolbox else {
            return match proposed.verdict {
                Verdict::Edit { .. } => Err(NotDecided::NotEditable),
                _ => Ok(decided(&proposed.verdict)),
            };
        };
        let tools = toolbox.pinned(found.run.principal(), found.run.id(), &found.versions).await;
        let call =
            ToolCall { id: String::new(), name: shown.tool.clone(), arguments: shown.arguments.clone() };
        if let Some(terms) = tools.approval(&call, found.run.principal())
            && terms.shown.digest() != proposed.shown
        {
            let call = WaitingCall {
                id: Wait::first_id(id),
                times_shown: found.run.times_shown(wait.open.wait.place()),
                index: *index,
                within: within.as_ref(),
                usage: found.run.usage(),
            };
            return Ok(Judged::Void(terms.wait(call, clock::millis())));
        }
        if let Verdict::Edit { arguments } = &proposed.verdict {
            fits(&*tools, &shown.tool, arguments)?;
        }
        Ok(decided(&proposed.verdict))
    }

    /// Has the job claimed. One that was claimed too early is let go of again first.
    async fn go_on(&self, job_id: &str) -> Result<(), NotDecided> {
        let until = Instant::now() + LEASE;
        while !self.queue.resume(job_id, Duration::ZERO).await.map_err(WaitError::from)? {
            let job = self.queue.read(job_id).await.map_err(WaitError::from)?;
            let is_held = job.is_some_and(|job| job.status == JobStatus::Active);
            if !is_held || Instant::now() >= until {
                break;
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Lets the run go on if any wait is decided, and says how they stand.
    async fn decided(&self, job: &Job, found: Found, events: Vec<Event>) -> Result<Vec<Decided>, NotDecided> {
        let Found { mut run, waits, .. } = found;
        for event in &events {
            run.take_note(event.clone()).map_err(WaitError::from)?;
        }
        let now = |place: CallPlace| run.waits().find(|open| open.wait.place() == place);
        let now = |wait: &Wait| Some(JobWait::of(job, &run, now(wait.place())?));
        if let Some(Event::Waiting { waits, .. }) = events.first() {
            let void = waits.first().and_then(now).ok_or(NotDecided::NotWaiting)?;
            return Err(NotDecided::Void(Box::new(void)));
        }
        let waits = waits.iter().map(|wait| now(&wait.open.wait).ok_or(NotDecided::NotWaiting));
        let waits = waits.collect::<Result<Vec<_>, _>>()?;
        // A call that is decided is made, or told of, whatever else the run waits for.
        if waits.iter().any(|wait| wait.decided().is_some()) {
            self.go_on(&job.id).await?;
        }
        for wait in &waits {
            self.approved.keep(&wait.owner, &wait.open).await;
        }
        let decided = waits.into_iter().zip(&events).map(|(wait, event)| {
            if let Event::Decided { decision, .. } = event {
                self.observer.wait_decided(WaitDecided { wait: &wait.open.wait, decision });
            }
            Decided { goes_on: wait.decided().is_some(), wait }
        });
        Ok(decided.collect())
    }
}

/// What a proposal comes to.
enum Judged {
    Decided(Event),
    /// The call would be another one by now: this is to be decided instead.
    Void(Wait),
}

/// The job that all of these are about, each of them once.
fn job_of_all<'a>(proposals: &[Proposal<'a>]) -> Result<&'a str, NotDecided> {
    let mut seen = BTreeSet::new();
    if !proposals.iter().all(|proposal| seen.insert(proposal.wait)) {
        return Err(NotDecided::Twice);
    }
    let mut jobs = proposals.iter().map(|proposal| Wait::job_of(proposal.wait));
    let job_id = jobs.next().flatten().ok_or(NotDecided::Unknown)?;
    if jobs.all(|other| other == Some(job_id)) { Ok(job_id) } else { Err(NotDecided::Unknown) }
}

/// Whether that can be a decision, by what stands in the journal.
fn check(wait: &JobWait, proposed: &ProposedDecision, now: u64) -> Result<(), NotDecided> {
    if !wait.is_visible_to(&proposed.by) {
        return Err(NotDecided::Unknown);
    }
    if !wait.may_be_decided_by(&proposed.by) {
        return Err(NotDecided::NotYours);
    }
    if let Some(decision) = wait.decided() {
        return Err(NotDecided::Already(Box::new(decision.clone())));
    }
    if wait.open.wait.expires_at <= now {
        return Err(NotDecided::NotWaiting);
    }
    if proposed.by.user_id.as_deref().is_some_and(|user| wait.open.has_decided(user)) {
        return Err(NotDecided::Twice);
    }
    if wait.open.wait.shown.digest() != proposed.shown {
        return Err(NotDecided::Outdated(Box::new(wait.clone())));
    }
    let Wait { kind, answer, .. } = &wait.open.wait;
    match (kind, &proposed.verdict) {
        // A child's end is its run's own; cancelling that is another wish.
        (WaitKind::Child, _) => {
            return Err(NotDecided::OtherDecision("the end of its run: cancel its job instead"));
        }
        (_, Verdict::Reject { .. }) | (WaitKind::Approval, Verdict::Approve | Verdict::Edit { .. }) => {}
        (WaitKind::Question | WaitKind::Event, Verdict::Answer { answer: given }) => {
            if let Some(schema) = answer {
                meets(schema, given, "the answer")?;
            }
        }
        (WaitKind::Approval, _) => return Err(NotDecided::OtherDecision("approve, edit or reject")),
        (WaitKind::Question | WaitKind::Event, _) => {
            return Err(NotDecided::OtherDecision("answer or reject"));
        }
        (WaitKind::Timer, _) => return Err(NotDecided::OtherDecision("its time, or reject")),
    }
    if matches!(proposed.verdict, Verdict::Edit { .. }) && wait.open.wait.deciders.count > 1 {
        return Err(NotDecided::NotEditable);
    }
    match &proposed.verdict {
        Verdict::Edit { arguments: given } | Verdict::Answer { answer: given }
            if !may_be_journaled(given) =>
        {
            let why = "is nested too deeply, or has a name that is not read";
            Err(NotDecided::BadArguments(why.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Whether the tool's schema allows these arguments.
fn fits(tools: &dyn ToolSet, tool: &str, arguments: &Value) -> Result<(), NotDecided> {
    let Some(tool) = tools.catalog().get(tool) else {
        let why = "cannot be checked: the tool is not there by now";
        return Err(NotDecided::BadArguments(why.to_owned()));
    };
    meets(&tool.input_schema, arguments, "the arguments")
}

/// Whether a schema allows what somebody gave, called `what`. Both are strangers': the check has a budget.
fn meets(schema: &Value, given: &Value, what: &str) -> Result<(), NotDecided> {
    let text = schema.to_string();
    if text.len() > MOST_SCHEMA_BYTES {
        return Err(NotDecided::BadArguments("cannot be checked: the schema is too large".to_owned()));
    }
    let schema = Schema::read(&text, &mut SchemaBudget::until((Instant::now() + CHECK_TIME).into_std()));
    let schema =
        schema.map_err(|why| NotDecided::BadArguments(format!("cannot be checked: the schema {why}")))?;
    schema.check(given, what, &mut Fuel::inline()).map_err(|misfit| {
        NotDecided::BadArguments(match misfit {
            Misfit::Wrong(why) => format!("does not fit the schema: {why}"),
            Misfit::TooCostly => "costs too much to check".to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_misfit_is_told_in_a_sentence() {
        let schema = json!({ "type": "object", "required": ["colour"] });
        for (given, what, said) in [
            (json!({}), "the arguments", "the arguments: \"colour\" is a required property"),
            (json!("blue"), "the answer", "the answer: \"blue\" is not of type \"object\""),
        ] {
            let refused = meets(&schema, &given, what).unwrap_err();
            assert_eq!(refused.to_string(), format!("what was given does not fit the schema: {said}"));
        }
        let refused = meets(&json!(["no schema"]), &json!({}), "the answer").unwrap_err().to_string();
        assert!(refused.starts_with("what was given cannot be checked: the schema is not an object"));
    }
}

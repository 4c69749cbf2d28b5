//! A response that goes on from an answered approval request: the decision is taken as by
//! `POST /api/agent/waits/{waitId}/decision`, and what the run comes to behind it is the output.
//!
//! A job goes on with the run, which is followed as its stream is. Whoever leaves meanwhile changes nothing
//! about it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agent_core::agent_loop::{MOST_DEPTH, Run};
use agent_core::ports::QueueError;
use agent_core::words::{Event, Job, Message, Options, Principal, Wait, is_conversation_id};
use axum::response::Response;
use http::StatusCode;
use run_service::conversations::said;
use run_service::streams::Following;
use run_service::waits::{NotDecided, Proposal, ProposedDecision};

use super::super::head::Head;
use super::super::input::approvals::{ApprovalAnswer, ApprovalId, refuse_twice, requests};
use super::super::input::parameters::Fields;
use super::super::input::rules;
use super::super::run::continued::{Continued, ContinuedTurn};
use super::super::run::conversation_state::Place;
use super::super::run::kept::{Keep, SaidBefore};
use super::super::run::paused;
use super::super::run::stream::{InProtocol, WriteRun};
use super::current_response::turns_before;
use super::references::output_of;
use super::request;
use super::request::Echo;
use super::response::{Frame, ResponseEvents};
use super::whole::Whole;
use http_edge::server_sent_events::EventStream;
use http_edge::variant_b::asking::Asking;
use http_edge::variant_b::conversations::unavailable;
use http_edge::variant_b::error::{Error, Problem, WaitRefusal};
use http_edge::variant_b::events::{location, permit};
use http_edge::variant_b::state::Shared;
use run_service::streams::StreamPermit;

/// A request whose input answers approval requests.
pub(crate) struct GoOn<'a> {
    pub(crate) edge: &'a Shared,
    pub(crate) asking: &'a Asking,
    pub(crate) place: &'a Place,
    /// What it answers; at least one.
    pub(crate) answers: Vec<ApprovalAnswer>,
}

/// What was said before the rest of a run.
struct Before {
    said: SaidBefore,
    /// The events that the response before has shown.
    shown: Vec<Event>,
}

/// A run that goes on, its decisions being taken.
struct Decided {
    job: Job,
    before: Before,
    /// Counts the stream among those of its user, if there is one.
    permit: Option<StreamPermit>,
    following: Following,
}

impl GoOn<'_> {
    /// Takes the decisions and answers with the rest of the run.
    pub(crate) async fn respond(self, mut fields: Fields) -> Result<Response, Error> {
        // The run has its conversation: of the request the rest counts, for the form of the answer.
        fields.insert("input".to_owned(), "".into());
        let request = request::read(fields, self.place, &[])?;
        let ask = self.asking.ask(request.input, request.options);
        let Decided { job, before, permit, following } = self.begin(request.stream).await?;
        let Before { said, shown } = before;
        let of_run = options_of(&shown);
        let Options { functions, rules, .. } = of_run;
        let options = Options { functions, rules, ..ask.options };
        let echo = Echo { format: rules::repeated(&options.rules, true), ..request.echo };
        let frame = Frame::new(&Head::new(&ask.run_id), &options, echo);
        let keep = Keep::of(self.edge, self.asking, self.place, said, frame.response_id());
        let keep = Some(keep.continuing(self.continued(&job, &shown)));
        let writer = self.writer(frame, &shown);
        if permit.is_some() {
            let by = self.asking.caller.principal();
            let writer = InProtocol::behind(self.edge, by, keep, writer, shown.len());
            return Ok(self.streamed(&job, following, permit, writer));
        }
        let (edge, by, seen) = (self.edge, self.asking.caller.principal(), shown.len());
        Ok(Whole { edge, by, job, writer, keep, seen }.collect(following).await)
    }

    /// The conversation that is named for the run, which may have been begun in none or in another.
    fn continued(&self, job: &Job, shown: &[Event]) -> Option<Continued> {
        Some(Continued::new(ContinuedTurn {
            conversation_id: self.place.conversation.clone()?,
            edge: self.edge.clone(),
            by: self.asking.caller.principal(),
            job: job.clone(),
            seen: shown.len() as u64,
            own: history_of(shown),
        }))
    }

    /// Takes the decisions and streams the rest of the run in another protocol. `writer` writes what comes
    /// behind the events that were shown.
    pub(crate) async fn stream<W: WriteRun>(
        self,
        writer: impl FnOnce(&[Event]) -> W,
    ) -> Result<Response, Error> {
        let Decided { job, before: Before { shown, .. }, permit, following } = self.begin(true).await?;
        let (by, writer) = (self.asking.caller.principal(), writer(&shown));
        let writer = InProtocol::behind(self.edge, by, None, writer, shown.len());
        Ok(self.streamed(&job, following, permit, writer))
    }

    /// Takes the decisions. Whatever else could be refused comes before that, which cannot be taken back.
    async fn begin(&self, is_streamed: bool) -> Result<Decided, Error> {
        self.asking.check_limits().await?;
        let job = self.job().await?;
        let before = self.before(&job).await?;
        let permit = is_streamed.then(|| permit(self.edge, self.asking.caller.id())).transpose()?;
        let streams = self.edge.variant.streams.as_ref().ok_or_else(not_followed)?;
        self.decide().await?;
        let following = streams.follow_job_without_resuming(&job, before.shown.len() as u64);
        let following = following.ok_or_else(not_followed)?;
        let (waits, by) = (&self.edge.variant.waits, self.asking.caller.principal());
        let following = streams.through_children(following, waits, &by);
        Ok(Decided { job, before, permit, following })
    }

    fn streamed<W: WriteRun>(
        &self,
        job: &Job,
        following: Following,
        permit: Option<StreamPermit>,
        writer: InProtocol<W>,
    ) -> Response {
        let location = location(&job.run_id);
        let stream = EventStream { run: following.into(), writer, location, permit };
        stream.into_response_with(&self.edge.settings)
    }

    fn first(&self) -> Result<&ApprovalAnswer, Error> {
        self.answers.first().ok_or_else(|| Problem::missing("input").into())
    }

    /// The job of the caller that all answers are about, or whose run began those that they are about. Those
    /// of others are none.
    async fn job(&self) -> Result<Job, Error> {
        let first = self.first()?;
        refuse_twice(&self.answers)?;
        let root = self.root_of(first).await?;
        let mut known = BTreeSet::from([Wait::job_of(&first.id.wait)]);
        for answer in &self.answers {
            // A body has room for hundreds of answers about one job, which is read once.
            if known.insert(Wait::job_of(&answer.id.wait)) && self.root_of(answer).await?.id != root.id {
                return Err(Problem::unknown_approval(&answer.text).into());
            }
        }
        Ok(root)
    }

    /// The job that no other run began, above the one that an answer is about.
    async fn root_of(&self, answer: &ApprovalAnswer) -> Result<Job, Error> {
        let mut job_id = Wait::job_of(&answer.id.wait).map(str::to_owned);
        for _depth in 0..=MOST_DEPTH {
            let Some(id) = &job_id else { break };
            let job = self.own_job(id, answer).await?;
            match &job.parent {
                Some(parent) => job_id = Wait::job_of(parent).map(str::to_owned),
                None => return Ok(job),
            }
        }
        Err(Problem::unknown_approval(&answer.text).into())
    }

    async fn own_job(&self, job_id: &str, answer: &ApprovalAnswer) -> Result<Job, Error> {
        let (jobs, caller) = (&self.edge.variant.jobs, self.asking.caller.id());
        let job = jobs.read(caller, job_id, Duration::ZERO).await?;
        job.ok_or_else(|| Problem::unknown_approval(&answer.text).into())
    }

    async fn before(&self, job: &Job) -> Result<Before, Error> {
        let events = paused::events(self.edge, &job.run_id, None).await?;
        let answered = self.answers.iter().map(|answer| answer.id.events).max().unwrap_or_default();
        let shown = |seen: usize| events.iter().take(seen.max(answered)).cloned().collect();
        let conversations = &self.edge.variant.conversations;
        let caller = self.asking.caller.id();
        if let Some(id) = &self.place.previous {
            if !is_conversation_id(id) {
                return Err(Problem::unknown_previous_response(id).into());
            }
            let (mut turns, shown_before) = match self.place.remembered() {
                Some(last) => (last.turns.clone(), Some(last.shown.clone())),
                None => {
                    let kept = conversations.response(caller, id).await.map_err(unavailable)?;
                    let kept = kept.ok_or_else(|| Problem::unknown_previous_response(id))?;
                    (kept.turns, kept.shown)
                }
            };
            let seen = seen_in(shown_before.as_deref().unwrap_or_default());
            let last = turns.pop().filter(|turn| turn.run_id == job.run_id);
            let Some(mut last) = last else {
                return Err(Problem::unknown_approval(&self.first()?.text).into());
            };
            let of_run = events.iter().take(seen.unwrap_or(answered)).cloned();
            let of_run = Run::waiting(of_run).ok().and_then(Run::so_far);
            // As they are kept, without replies that were corrected.
            let of_run = of_run.map_or(0, |so_far| said(&[], &so_far.messages).messages.len());
            last.messages.truncate(last.messages.len().saturating_sub(of_run));
            let said = SaidBefore { turns, own: last.messages };
            return Ok(Before { said, shown: shown(seen.unwrap_or_default()) });
        }
        if self.place.conversation.is_some() {
            let mut turns = turns_before(self.place, &self.edge.variant, &self.asking.caller).await?;
            turns.retain(|turn| turn.run_id != job.run_id);
            let said = SaidBefore { turns, own: Vec::new() };
            return Ok(Before { said, shown: shown(0) });
        }
        let said = SaidBefore { turns: Vec::new(), own: history_of(&events) };
        Ok(Before { said, shown: shown(0) })
    }

    /// Takes all decisions: those about one run, or none of them, before those about the next.
    async fn decide(&self) -> Result<(), Error> {
        let mut of_jobs: BTreeMap<&str, Vec<&ApprovalAnswer>> = BTreeMap::new();
        for answer in &self.answers {
            of_jobs.entry(Wait::job_of(&answer.id.wait).unwrap_or_default()).or_default().push(answer);
        }
        for (job_id, answers) in of_jobs {
            if let Some(first) = answers.first() {
                let job = self.own_job(job_id, first).await?;
                self.decide_of(&job, &answers).await?;
            }
        }
        Ok(())
    }

    /// Takes the decisions about one run.
    async fn decide_of(&self, job: &Job, answers: &[&ApprovalAnswer]) -> Result<(), Error> {
        let by = self.asking.caller.principal();
        let decisions: Vec<_> = answers.iter().map(|answer| proposed(answer, &by)).collect();
        let proposals: Vec<_> = answers
            .iter()
            .zip(&decisions)
            .map(|(answer, decision)| Proposal { wait: &answer.id.wait, decision })
            .collect();
        let refused = match self.edge.variant.waits.decide_all(&proposals).await {
            Ok(_decided) => return Ok(()),
            // A client that does not know whether its answers arrived sends them again.
            Err(_) if self.are_taken(job, answers).await? => return Ok(()),
            Err(refused) => refused,
        };
        let Some(ApprovalAnswer { id, text, param, .. }) = answers.first() else { return Ok(()) };
        let anew = match &refused {
            NotDecided::Void(wait) => Some(ApprovalId::of(&wait.open.wait, id.events).to_string()),
            _ => None,
        };
        Err(match (Error::from(refused), anew) {
            (Error::Wait(WaitRefusal::Unknown), _) => Problem::unknown_approval(text).into(),
            (Error::Wait(_), Some(id)) => not_taken(&WaitRefusal::Void { id }, param).into(),
            (Error::Wait(refusal), None) => not_taken(&refusal, param).into(),
            (error, _) => error,
        })
    }

    /// Whether the caller has decided all of this before, in the same way and about the same calls.
    async fn are_taken(&self, job: &Job, answers: &[&ApprovalAnswer]) -> Result<bool, Error> {
        let events = paused::events(self.edge, &job.run_id, None).await?;
        let caller = self.asking.caller.id();
        let is_taken = |answer: &ApprovalAnswer| {
            events.iter().any(|event| match event {
                Event::Decided { wait, decision } => {
                    *wait == answer.id.wait
                        && decision.by.as_deref() == Some(caller)
                        && decision.shown == answer.id.digest
                        && decision.verdict == answer.verdict
                }
                _ => false,
            })
        };
        Ok(answers.iter().all(|answer| is_taken(answer)))
    }

    /// Writes what comes behind these events.
    fn writer(&self, frame: Frame, shown: &[Event]) -> ResponseEvents {
        let run = Run::waiting(shown.iter().cloned()).ok();
        let used = run.as_ref().map(Run::usage).unwrap_or_default();
        let answer = |wait: &str| self.answers.iter().find(|answer| answer.id.wait == wait);
        let approved: BTreeMap<_, _> = run
            .iter()
            .flat_map(Run::waits)
            .filter(|open| open.wait.within.is_none())
            .filter_map(|open| Some((open.wait.index, answer(&open.wait.id)?.text.clone())))
            .collect();
        ResponseEvents::behind(frame, shown, used, approved)
    }
}

/// A refusal of an answer, for the document.
pub(crate) fn already_decided() -> Problem {
    not_taken(&WaitRefusal::Already { by: "ada".to_owned() }, "input[0].approval_request_id")
}

/// Why an answer was not taken, in OpenAI's form.
fn not_taken(refusal: &WaitRefusal, param: &str) -> Problem {
    let code = match refusal {
        WaitRefusal::Already { .. } | WaitRefusal::Expired | WaitRefusal::Twice => "approval_already_decided",
        WaitRefusal::Void { .. } | WaitRefusal::Outdated { .. } => "approval_void",
        _ => "approval_not_taken",
    };
    // A digest is part of a request's id, and no condition.
    let status = match refusal.status() {
        StatusCode::PRECONDITION_FAILED => StatusCode::CONFLICT,
        status => status,
    };
    Problem::approval_not_taken(status, code, param, refusal.to_string())
}

/// Without streams there are no runs of jobs that could be followed.
fn not_followed() -> Error {
    QueueError::Store { detail: "runs of jobs cannot be followed here".to_owned() }.into()
}

fn proposed(answer: &ApprovalAnswer, by: &Principal) -> ProposedDecision {
    ProposedDecision { by: by.clone(), shown: answer.id.digest.clone(), verdict: answer.verdict.clone() }
}

/// What was said before the newest message of a run.
fn history_of(events: &[Event]) -> Vec<Message> {
    match events.first() {
        Some(Event::Started { task, .. }) => task.options.history.clone(),
        _ => Vec::new(),
    }
}

/// The functions that the client carries out for the run.
fn options_of(events: &[Event]) -> Options {
    match events.first() {
        Some(Event::Started { task, .. }) => Options { history: Vec::new(), ..task.options.clone() },
        _ => Options::default(),
    }
}

/// How many events of its run a kept response has shown, if it ends in approval requests.
fn seen_in(shown: &str) -> Option<usize> {
    requests(&output_of(shown)).map(|id| id.events).max()
}

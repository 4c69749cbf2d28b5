//! A response that goes on from an answered approval request: the decision is taken as by
//! `POST /api/agent/waits/{waitId}/decision`, and what the run comes to behind it is the output.
//!
//! A job goes on with the run, which is followed as its stream is. Whoever leaves meanwhile changes nothing
//! about it.

use std::collections::BTreeMap;
use std::time::Duration;

use agent_core::agent_loop::Run;
use agent_core::ports::QueueError;
use agent_core::words::{Event, Job, Options, Principal, Usage, Wait, is_conversation_id};
use axum::response::Response;
use http::StatusCode;
use run_service::layers::RunAnswer;
use run_service::streams::{Followed, Following, Interruption, RunEnd};
use run_service::waits::{NotDecided, Proposal, ProposedDecision};
use tokio::time::{Instant, timeout_at};

use super::super::asking::Asking;
use super::super::conversations::unavailable;
use super::super::error::{Error, Problem, WaitRefusal};
use super::super::events::{location, permit, unreadable};
use super::super::state::Shared;
use super::approvals::{ApprovalAnswer, ApprovalId, refuse_twice, requests};
use super::head::Head;
use super::kept::{Keep, SaidBefore};
use super::parameters::Fields;
use super::paused::{self, Paused};
use super::place::Place;
use super::references::output_of;
use super::response::{Frame, ResponseEvents};
use super::responses_request::Echo;
use super::stream::{self, InProtocol, WriteRun};
use super::{responses_request, rules, waiting};
use crate::answer;
use crate::server_sent_events::{self, EventStream, StreamPermit};

/// A request whose input answers approval requests.
pub(super) struct GoOn<'a> {
    pub(super) edge: &'a Shared,
    pub(super) asking: &'a Asking,
    pub(super) place: &'a Place,
    /// What it answers; at least one.
    pub(super) answers: Vec<ApprovalAnswer>,
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
    pub(super) async fn respond(self, mut fields: Fields) -> Result<Response, Error> {
        // The run has its conversation: of the request the rest counts, for the form of the answer.
        fields.insert("input".to_owned(), "".into());
        let request = responses_request::read(fields, self.place, &[])?;
        let ask = self.asking.ask(request.input, request.options);
        let Decided { job, before, permit, following } = self.begin(request.stream).await?;
        let Before { said, shown } = before;
        let of_run = options_of(&shown);
        let Options { functions, rules, .. } = of_run;
        let options = Options { functions, rules, ..ask.options };
        let echo = Echo { format: rules::repeated(&options.rules, true), ..request.echo };
        let frame = Frame::new(&Head::new(&ask.run_id), &options, echo);
        let keep = Keep::of(self.edge, self.asking, self.place, said, frame.response_id());
        let writer = self.writer(frame, &shown);
        if permit.is_some() {
            let by = self.asking.caller.principal();
            let writer = InProtocol::behind(self.edge, by, keep, writer, shown.len());
            return Ok(self.streamed(&job, following, permit, writer));
        }
        let whole = Whole { request: &self, job: &job, writer, keep, seen: shown.len() };
        whole.collect(following).await
    }

    /// Takes the decisions and streams the rest of the run in another protocol. `writer` writes what comes
    /// behind the events that were shown.
    pub(super) async fn stream<W: WriteRun>(
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
        self.decide(&job).await?;
        let following = streams.follow_job(&job, before.shown.len() as u64).ok_or_else(not_followed)?;
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

    /// The job of the caller that all answers are about. Those of others are none.
    async fn job(&self) -> Result<Job, Error> {
        let first = self.first()?;
        refuse_twice(&self.answers)?;
        let unknown = || Error::from(Problem::unknown_approval(&first.text));
        let job_id = Wait::job_of(&first.id.wait).ok_or_else(unknown)?;
        let (jobs, caller) = (&self.edge.variant.jobs, self.asking.caller.id());
        let job = jobs.read(caller, job_id, Duration::ZERO).await?;
        job.ok_or_else(unknown)
    }

    async fn before(&self, job: &Job) -> Result<Before, Error> {
        let events = paused::events(self.edge, &job.run_id, None).await.map_err(unreadable)?;
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
            let of_run = of_run.map_or(0, |so_far| so_far.messages.len());
            last.messages.truncate(last.messages.len().saturating_sub(of_run));
            let said = SaidBefore { turns, own: last.messages };
            return Ok(Before { said, shown: shown(seen.unwrap_or_default()) });
        }
        if let Some(id) = &self.place.conversation {
            let kept = conversations.read(caller, id).await.map_err(unavailable)?;
            let mut turns = kept.map(|kept| kept.turns).unwrap_or_default();
            turns.retain(|turn| turn.run_id != job.run_id);
            let said = SaidBefore { turns, own: Vec::new() };
            return Ok(Before { said, shown: shown(0) });
        }
        let own = match events.first() {
            Some(Event::Started { task, .. }) => task.options.history.clone(),
            _ => Vec::new(),
        };
        Ok(Before { said: SaidBefore { turns: Vec::new(), own }, shown: shown(0) })
    }

    /// Takes all decisions, or none.
    async fn decide(&self, job: &Job) -> Result<(), Error> {
        let by = self.asking.caller.principal();
        let decisions: Vec<_> = self.answers.iter().map(|answer| proposed(answer, &by)).collect();
        let proposals: Vec<_> = self
            .answers
            .iter()
            .zip(&decisions)
            .map(|(answer, decision)| Proposal { wait: &answer.id.wait, decision })
            .collect();
        let refused = match self.edge.variant.waits.decide_all(&proposals).await {
            Ok(_decided) => return Ok(()),
            // The run has gone on to another reply, perhaps because somebody decided.
            // A client that does not know whether its answers arrived sends them again.
            Err(_) if self.are_taken(job).await? => return Ok(()),
            Err(NotDecided::Unknown) => self.earlier(job).await?.unwrap_or(NotDecided::Unknown),
            Err(refused) => refused,
        };
        let ApprovalAnswer { id, text, param, .. } = self.first()?;
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
    async fn are_taken(&self, job: &Job) -> Result<bool, Error> {
        let events = paused::events(self.edge, &job.run_id, None).await.map_err(unreadable)?;
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
        Ok(self.answers.iter().all(is_taken))
    }

    /// Who has decided about one of the waits, by the run's journal.
    async fn earlier(&self, job: &Job) -> Result<Option<NotDecided>, Error> {
        let events = paused::events(self.edge, &job.run_id, None).await.map_err(unreadable)?;
        let is_asked = |wait: &str| self.answers.iter().any(|answer| answer.id.wait == wait);
        Ok(events.into_iter().rev().find_map(|event| match event {
            Event::Decided { wait, decision } if is_asked(&wait) => {
                Some(NotDecided::Already(Box::new(decision)))
            }
            _ => None,
        }))
    }

    /// Writes what comes behind these events.
    fn writer(&self, frame: Frame, shown: &[Event]) -> ResponseEvents {
        let run = Run::waiting(shown.iter().cloned()).ok();
        let used = run.as_ref().map(Run::usage).unwrap_or_default();
        let answer = |wait: &str| self.answers.iter().find(|answer| answer.id.wait == wait);
        let approved: BTreeMap<_, _> = run
            .iter()
            .flat_map(Run::waits)
            .filter_map(|open| Some((open.wait.index, answer(&open.wait.id)?.text.clone())))
            .collect();
        ResponseEvents::behind(frame, shown, used, approved)
    }
}

/// The response of a run that waits, if its client can decide about that. It is kept, to be gone on from.
pub(super) async fn paused_response(
    edge: &Shared,
    by: &Principal,
    job_id: &str,
    frame: &Frame,
    keep: Option<&Keep>,
) -> Option<Response> {
    let job = edge.variant.jobs.read(by.user_id.as_deref()?, job_id, Duration::ZERO).await.ok()??;
    let events = paused::events_if_any(edge, &job.run_id, None).await;
    let (mut writer, mut nobody_reads_it) = (ResponseEvents::new(frame.clone()), String::new());
    events.iter().for_each(|event| writer.event(&mut nobody_reads_it, event));
    let paused = Paused::of(events, by)?;
    let shown = writer.pause(&mut nobody_reads_it, &paused)?;
    stream::keep_shown(keep, &paused.so_far.result, &shown, &mut writer).await;
    Some(answer::json(StatusCode::OK, &writer.response()))
}

/// A refusal of an answer, for the document.
pub(super) fn already_decided() -> Problem {
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

/// The rest of a run as one answer.
struct Whole<'a> {
    request: &'a GoOn<'a>,
    job: &'a Job,
    writer: ResponseEvents,
    keep: Option<Keep>,
    /// How many events were read.
    seen: usize,
}

impl Whole<'_> {
    async fn collect(mut self, mut following: Following) -> Result<Response, Error> {
        let edge = self.request.edge;
        let until = Instant::now() + edge.variant.run_timeout;
        let mut nobody_reads_it = String::new();
        while let Ok(followed) = timeout_at(until, following.next()).await {
            nobody_reads_it.clear();
            match followed {
                Some(Followed::Stored { event, number }) => {
                    self.seen = usize::try_from(number).unwrap_or(usize::MAX).saturating_add(1);
                    self.writer.event(&mut nobody_reads_it, &event);
                }
                Some(Followed::Delta(_) | Followed::Progress(_)) => {}
                Some(Followed::Ended { end: RunEnd::Answer(answer), .. }) => {
                    let keep = self.keep.as_ref();
                    stream::keep_end(keep, &answer, &mut self.writer, &mut nobody_reads_it).await;
                    return Ok(self.answer());
                }
                Some(Followed::Ended { end, .. }) => {
                    let (status, error, log) = stream::failure(&end, edge.variant.production);
                    server_sent_events::log_failure(&self.job.run_id, status, &log);
                    return Ok(answer::json(status, &error));
                }
                Some(Followed::Interrupted(Interruption::Waiting)) => return Ok(self.pause().await),
                Some(Followed::Interrupted(why)) => {
                    let error = stream::interruption(&why);
                    return Ok(answer::json(StatusCode::SERVICE_UNAVAILABLE, &error));
                }
                None => break,
            }
        }
        // The decision was taken: an error would have clients repeat it.
        let sentence = format!(
            "This takes longer than a request may. Its result will be at /api/agent/jobs/{}.",
            self.job.id
        );
        let said = waiting::ending(&self.job.run_id, sentence, Usage::default());
        Ok(self.say(&said))
    }

    /// The run waits once more.
    async fn pause(mut self) -> Response {
        let edge = self.request.edge;
        let events = paused::events_if_any(edge, &self.job.run_id, Some(self.seen)).await;
        let waits = paused::undecided(&events);
        let Some(paused) = Paused::of(events, &self.request.asking.caller.principal()) else {
            let said = waiting::said(&self.job.run_id, &waits);
            return self.say(&said);
        };
        let Some(shown) = self.writer.pause(&mut String::new(), &paused) else { return self.answer() };
        stream::keep_shown(self.keep.as_ref(), &paused.so_far.result, &shown, &mut self.writer).await;
        self.answer()
    }

    /// Ends in a sentence, which nothing goes on from.
    fn say(mut self, said: &RunAnswer) -> Response {
        let mut nobody_reads_it = String::new();
        self.writer.event(&mut nobody_reads_it, &waiting::reply(said));
        self.writer.not_kept();
        let _shown = self.writer.conclude(&mut nobody_reads_it, said);
        self.answer()
    }

    fn answer(&self) -> Response {
        answer::json(StatusCode::OK, &self.writer.response())
    }
}

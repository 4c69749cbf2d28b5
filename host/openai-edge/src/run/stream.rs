//! A run as a stream of one of OpenAI's protocols: the same run, events and words as in the service's own
//! streams (`http_edge::server_sent_events`), written by a [`WriteRun`].
//!
//! Such a stream cannot be resumed by clients of OpenAI, so its run ends with its reader, unless
//! `Agent-On-Disconnect: continue` asks for more, and a shutdown lets it go on for as long as other requests
//! under way. `Content-Location` says where the service's own clients find it.

use std::time::Duration;

use agent_core::agent_loop::Run;
use agent_core::error_chain::ErrorChain;
use agent_core::words::{AgentResult, Event, FailureKind, Principal, Wait};
use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use run_service::layers::{Ask, InvokeError, RunAnswer};
use run_service::live::Delta;
use run_service::streams::{Followed, Interruption, RunEnd, RunFailure};
use serde_json::Value;

use super::kept::Keep;
use super::paused::{self, Paused, WaitingRun};
use super::waiting;
use http_edge::answer;
use http_edge::server_sent_events::{self, EventStream, WriteStream};
use http_edge::variant_b::error::openai_problem as problem;
use http_edge::variant_b::error::{Error, RATE_LIMITED, UNAVAILABLE};
use http_edge::variant_b::events::{location, permit};
use http_edge::variant_b::state::Shared;

/// Writes a run in a protocol. Pure: what happened in, text out.
pub(crate) trait WriteRun: Send + 'static {
    /// The run has begun.
    fn begin(&mut self, out: &mut String);

    /// A part of a reply that is being written.
    fn delta(&mut self, out: &mut String, delta: &Delta);

    /// An event of its journal.
    fn event(&mut self, out: &mut String, event: &Event);

    /// The run's output is whole. An output that no event came before was kept from an earlier run. Returns
    /// what the client will have been shown, if the protocol can keep that.
    fn conclude(&mut self, _out: &mut String, _answer: &RunAnswer) -> Option<Value> {
        None
    }

    /// The run has ended with a result, which was concluded.
    fn ended(&mut self, out: &mut String, answer: &RunAnswer);

    /// Nothing more is known of the run at this moment than what was told.
    fn settle(&mut self, _out: &mut String) {}

    /// The run waits for something that the client can decide. Returns what the client will have been shown,
    /// if the protocol has words for that.
    fn pause(&mut self, _out: &mut String, _paused: &Paused) -> Option<Value> {
        None
    }

    /// What was to be kept of it cannot be. Told before the end.
    fn not_kept(&mut self) {}

    /// Whether its client can come again for the rest, which is then not told of what interrupts a stream.
    fn is_resumable(&self) -> bool {
        false
    }

    /// The run was cancelled before it began. Only runs that can be resumed are.
    fn never_began(&mut self, _out: &mut String) {}

    /// The run has no result: `error` is in OpenAI's form.
    fn failed(&mut self, out: &mut String, error: &Value);
}

/// Begins a run and answers with its stream. What is wrong before its first event is answered plainly.
pub(crate) async fn begin(
    edge: &Shared,
    headers: &HeaderMap,
    ask: Ask,
    keep: Option<Keep>,
    mut writer: impl WriteRun,
) -> Result<Response, Error> {
    let Some(streams) = &edge.variant.streams else {
        // All at once is a stream as well.
        let run_id = ask.run_id.clone();
        let outcome = edge.variant.invoke.invoke(ask).await;
        let waits = matches!(outcome, Err(InvokeError::Waits { .. }));
        let answer = waiting::or_said(edge, &run_id, outcome).await?;
        let mut text = String::new();
        writer.begin(&mut text);
        keep_end(keep.as_ref().filter(|_| !waits), &answer, &mut writer, &mut text).await;
        writer.ended(&mut text, &answer);
        return Ok(server_sent_events::respond(Body::from(text)));
    };
    let by = ask.principal.clone();
    let permit = permit(edge, ask.principal.user_id.as_deref().unwrap_or_default())?;
    let reader = server_sent_events::leaving_reader(headers);
    let mut run = server_sent_events::begin(streams, ask, reader).await?;
    run.following = streams.through_children(run.following, &edge.variant.waits, &by);
    let location = location(run.following.run_id());
    let writer = InProtocol::behind(edge, by, keep, writer, 0);
    Ok(EventStream { run, writer, location, permit: Some(permit) }.into_response())
}

/// Writes a run that nothing is to be kept of, for a reader who decides nothing about it.
pub(crate) fn writer<W: WriteRun>(edge: &Shared, writer: W) -> InProtocol<W> {
    InProtocol::behind(edge, Principal::default(), None, writer, 0)
}

/// Writes the output as whole, and keeps it.
pub(crate) async fn keep_end(
    keep: Option<&Keep>,
    answer: &RunAnswer,
    writer: &mut impl WriteRun,
    out: &mut String,
) {
    let is_turn_lost = match keep {
        Some(keep) => !keep.append_turn(&answer.result).await,
        None => false,
    };
    let answer = RunAnswer { is_turn_lost: answer.is_turn_lost || is_turn_lost, ..answer.clone() };
    if let Some(shown) = writer.conclude(out, &answer) {
        keep_shown(keep, &answer.result, &shown, writer).await;
    }
}

/// Keeps what is shown of a run, or says that it is not kept.
pub(crate) async fn keep_shown(
    keep: Option<&Keep>,
    result: &AgentResult,
    shown: &Value,
    writer: &mut impl WriteRun,
) {
    if let Some(keep) = keep
        && !keep.keep(result, shown).await
    {
        writer.not_kept();
    }
}

/// Writes a run for a reader of one of the protocols.
pub(crate) struct InProtocol<W> {
    edge: Shared,
    /// On whose behalf it is read.
    by: Principal,
    writer: W,
    keep: Option<Keep>,
    out: String,
    /// How many events the reader has been shown, here or before.
    seen: usize,
}

impl<W: WriteRun> InProtocol<W> {
    /// Writes what comes behind so many events.
    pub(crate) fn behind(edge: &Shared, by: Principal, keep: Option<Keep>, writer: W, seen: usize) -> Self {
        Self { edge: edge.clone(), by, writer, keep, out: String::new(), seen }
    }

    /// The stream ends while its run waits: with what the client is to decide, or else with a sentence that
    /// says where.
    async fn pause(&mut self, run_id: &str) {
        self.keep.iter().for_each(Keep::waits_again);
        let waiting = waiting_run(&self.edge, &self.by, run_id, self.seen).await;
        let (writer, out) = (&mut self.writer, &mut self.out);
        if let Some(paused) = waiting.as_ref().and_then(|run| run.paused(&self.by))
            && let Some(shown) = writer.pause(out, &paused)
        {
            keep_shown(self.keep.as_ref(), &paused.so_far.result, &shown, writer).await;
            return writer.ended(out, &paused.so_far);
        }
        let answer = waiting::said(run_id, &waiting.map(|run| run.all()).unwrap_or_default());
        writer.event(out, &waiting::reply(&answer));
        // A job goes on with it, and it is no end that another request could go on from.
        writer.not_kept();
        let _shown = writer.conclude(out, &answer);
        writer.ended(out, &answer);
    }
}

/// The run of that id, which waits and of which so many events were shown, with the job that goes on with it:
/// its waits name that.
async fn waiting_run(edge: &Shared, by: &Principal, run_id: &str, seen: usize) -> Option<WaitingRun> {
    let events = paused::events(edge, run_id, None).await.ok()?;
    let run = Run::waiting(events).ok()?;
    let job_id = run.waits().find_map(|open| Wait::job_of(&open.wait.id))?.to_owned();
    let user_id = by.user_id.as_deref().unwrap_or_default();
    let job = edge.variant.jobs.read(user_id, &job_id, Duration::ZERO).await.ok()??;
    Some(WaitingRun::read(edge, job, Some(seen)).await)
}

impl<W: WriteRun> WriteStream for InProtocol<W> {
    fn begin(&mut self) {
        self.writer.begin(&mut self.out);
    }

    async fn write(&mut self, run_id: &str, followed: &Followed) {
        let (writer, out) = (&mut self.writer, &mut self.out);
        match followed {
            Followed::Stored { event, number } => {
                self.seen = usize::try_from(*number).unwrap_or(usize::MAX).saturating_add(1);
                writer.event(out, event);
            }
            Followed::Delta(delta) => writer.delta(out, delta),
            // Neither of the protocols has words for it.
            Followed::Progress(_) => {}
            Followed::Ended { end: RunEnd::Answer(answer), .. } => {
                // Before the client hears of the end, after which it may go on from it.
                keep_end(self.keep.as_ref(), answer, writer, out).await;
                writer.ended(out, answer);
            }
            Followed::Ended { end: RunEnd::NeverBegan, .. } if writer.is_resumable() => {
                writer.never_began(out)
            }
            Followed::Ended { end, .. } => {
                let (status, error, log) = failure(end, self.edge.variant.production);
                server_sent_events::log_failure(run_id, status, &log);
                writer.failed(out, &error);
            }
            Followed::Interrupted(why) if writer.is_resumable() => {
                server_sent_events::log_interruption(run_id, why);
                out.push_str(": the response goes on: resume with starting_after\n\n");
            }
            Followed::Interrupted(Interruption::Waiting) => self.pause(run_id).await,
            Followed::Interrupted(why) => {
                server_sent_events::log_interruption(run_id, why);
                writer.failed(out, &interruption(why));
            }
        }
    }

    fn settle(&mut self) {
        self.writer.settle(&mut self.out);
    }

    fn text(&mut self) -> &mut String {
        &mut self.out
    }
}

/// Status and error as the plain answer would have them, and what the log says.
pub(crate) fn failure(end: &RunEnd, production: bool) -> (StatusCode, Value, String) {
    match end {
        RunEnd::Failed(error) => {
            let log = ErrorChain(error).to_string();
            let (status, body) = Error::from(error.clone()).openai(production);
            (status, body, log)
        }
        RunEnd::Recorded(RunFailure { kind, error, is_public, is_final: _ }) => {
            let (status, text): (_, &str) = match kind {
                FailureKind::RateLimited => (StatusCode::TOO_MANY_REQUESTS, RATE_LIMITED),
                FailureKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE),
                FailureKind::Internal if *is_public || !production => {
                    (StatusCode::INTERNAL_SERVER_ERROR, error.as_str())
                }
                FailureKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, answer::INTERNAL_ERROR),
            };
            (status, problem::body(status, text, None, problem::code_of(status)), error.clone())
        }
        // A run that is begun here is no job's, and an answer is no failure.
        RunEnd::NeverBegan | RunEnd::Answer(_) => {
            let (status, text) = (StatusCode::INTERNAL_SERVER_ERROR, answer::INTERNAL_ERROR);
            (status, problem::body(status, text, None, problem::code_of(status)), text.to_owned())
        }
    }
}

/// When a client is to come back after such a failure, where the failure says so.
pub(crate) fn retry_after(end: &RunEnd) -> Option<Duration> {
    match end {
        RunEnd::Failed(error) => Error::from(error.clone()).retry_after(),
        RunEnd::Recorded(_) | RunEnd::NeverBegan | RunEnd::Answer(_) => None,
    }
}

/// What a client is told of a reader that was interrupted.
pub(crate) fn interruption(why: &Interruption) -> Value {
    let text = match why {
        Interruption::TooSlow => "This reader was too slow",
        Interruption::Stopping => "The service is stopping",
        // The run says so in its own words where it waits.
        Interruption::Store(_) | Interruption::Unknown | Interruption::Waiting => UNAVAILABLE,
    };
    let status = StatusCode::SERVICE_UNAVAILABLE;
    problem::body(status, text, None, problem::code_of(status))
}

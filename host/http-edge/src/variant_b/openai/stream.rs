//! A run as a stream of one of OpenAI's protocols: the same run, events and words as in the service's own streams
//! (`crate::server_sent_events`), written by a [`WriteRun`].
//!
//! Such a stream cannot be resumed by clients of OpenAI, so its run ends with its reader, unless `Agent-On-Disconnect:
//! continue` asks for more, and a shutdown lets it go on for as long as other requests under way.
//! `Content-Location` says where the service's own clients find it.

use std::time::Duration;

use agent_core::error_chain::ErrorChain;
use agent_core::layers::{Answer, Ask};
use agent_core::live::Delta;
use agent_core::streams::{Followed, Following, Interruption, RunEnd, RunFailure};
use agent_core::words::{Event, FailureKind};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream::unfold;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::time::timeout;

use super::super::error::{Error, RATE_LIMITED, UNAVAILABLE};
use super::super::events::{location, permit};
use super::super::state::Shared;
use super::kept::Keep;
use super::problem;
use crate::answer;
use crate::server_sent_events::{self, StreamPermit};

/// How long a stream is silent at most: proxies take a connection for dead after half a minute or so.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How much is put into one write at most, about.
const MOST_BYTES: usize = 64 << 10;

/// Writes a run in a protocol. Pure: what happened in, text out.
pub(super) trait WriteRun: Send + 'static {
    /// The run has begun.
    fn begin(&mut self, out: &mut String);

    /// A part of a reply that is being written.
    fn delta(&mut self, out: &mut String, delta: &Delta);

    /// An event of its journal.
    fn event(&mut self, out: &mut String, event: &Event);

    /// Its output is whole. One that no event came before was kept from an earlier run. What the client will
    /// have been shown, if the protocol can keep that.
    fn conclude(&mut self, _out: &mut String, _answer: &Answer) -> Option<Value> {
        None
    }

    /// It has ended with a result, which was concluded.
    fn ended(&mut self, out: &mut String, answer: &Answer);

    /// What was to be kept of it cannot be. Told before the end.
    fn not_kept(&mut self) {}

    /// It has none: the error in OpenAI's form.
    fn failed(&mut self, out: &mut String, error: &Value);
}

/// Begins a run and answers with its stream. What is wrong before its first event is answered plainly.
pub(super) async fn begin(
    edge: &Shared,
    headers: &HeaderMap,
    ask: Ask,
    keep: Option<Keep>,
    mut writer: impl WriteRun,
) -> Result<Response, Error> {
    let Some(streams) = &edge.variant.streams else {
        // All at once is a stream as well.
        let answer = edge.variant.invoke.invoke(ask).await?;
        let mut text = String::new();
        writer.begin(&mut text);
        keep_end(keep.as_ref(), &answer, &mut writer, &mut text).await;
        writer.ended(&mut text, &answer);
        return Ok(server_sent_events::respond(Body::from(text)));
    };
    let permit = permit(edge, ask.principal.user_id.as_deref().unwrap_or_default())?;
    let mut following = streams.start(ask, server_sent_events::leaving_reader(headers));
    let first = following.next().await;
    if let Some(Followed::Ended { events: 0, end: RunEnd::Failed(error) }) = first {
        return Err(error.into());
    }
    let location = location(following.run_id());
    let (out, production) = (String::new(), edge.variant.production);
    let state =
        Streaming { following, first, writer, keep, out, is_begun: false, production, _permit: permit };
    let chunks = unfold(state, async |mut state| {
        let chunk = state.next_chunk().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), state))
    });
    let mut response = server_sent_events::respond(Body::from_stream(chunks));
    server_sent_events::locate(&mut response, &location);
    Ok(response)
}

async fn keep_end(keep: Option<&Keep>, answer: &Answer, writer: &mut impl WriteRun, out: &mut String) {
    if let Some(shown) = writer.conclude(out, answer)
        && let Some(keep) = keep
        && !keep.keep(&answer.result, &shown).await
    {
        writer.not_kept();
    }
}

struct Streaming<W> {
    following: Following,
    first: Option<Followed>,
    writer: W,
    keep: Option<Keep>,
    out: String,
    is_begun: bool,
    production: bool,
    _permit: StreamPermit,
}

impl<W: WriteRun> Streaming<W> {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        if !self.is_begun {
            self.is_begun = true;
            self.writer.begin(&mut self.out);
        }
        let mut next = match self.first.take() {
            Some(first) => Some(first),
            None if !self.out.is_empty() => None,
            None => self.wait().await?,
        };
        // Many events are none of the protocol's.
        loop {
            while let Some(followed) = next {
                if let Followed::Ended { end: RunEnd::Answer(answer), .. } = &followed {
                    // Before the client hears of the end, after which it may go on from it.
                    keep_end(self.keep.as_ref(), answer, &mut self.writer, &mut self.out).await;
                }
                self.write(&followed);
                next = if self.out.len() < MOST_BYTES { self.following.next_ready() } else { None };
            }
            if !self.out.is_empty() {
                return Some(Bytes::from(std::mem::take(&mut self.out)));
            }
            next = self.wait().await?;
        }
    }

    /// What comes next, or nothing but a sign of life; nothing at all at the end.
    async fn wait(&mut self) -> Option<Option<Followed>> {
        match timeout(HEARTBEAT, self.following.next()).await {
            Ok(next) => Some(Some(next?)),
            Err(_elapsed) => {
                // A comment, which every reader of events skips.
                self.out.push_str(": heartbeat\n\n");
                Some(None)
            }
        }
    }

    fn write(&mut self, followed: &Followed) {
        let (writer, out) = (&mut self.writer, &mut self.out);
        match followed {
            Followed::Stored { event, .. } => writer.event(out, event),
            Followed::Delta(delta) => writer.delta(out, delta),
            // Neither of the protocols has words for it.
            Followed::Progress(_) => {}
            Followed::Ended { end: RunEnd::Answer(answer), .. } => writer.ended(out, answer),
            Followed::Ended { end, .. } => {
                let (status, error, log) = failure(end, self.production);
                server_sent_events::log_failure(self.following.run_id(), status, &log);
                writer.failed(out, &error);
            }
            Followed::Interrupted(why) => writer.failed(out, &interruption(why)),
        }
    }
}

/// Status and error as the plain answer would have them, and what the log says.
fn failure(end: &RunEnd, production: bool) -> (StatusCode, Value, String) {
    match end {
        RunEnd::Failed(error) => {
            let log = ErrorChain(error).to_string();
            let (status, body) = Error::from(error.clone()).openai(production);
            (status, body, log)
        }
        RunEnd::Recorded(RunFailure { kind, error, .. }) => {
            let (status, text) = match kind {
                FailureKind::RateLimited => (StatusCode::TOO_MANY_REQUESTS, RATE_LIMITED),
                FailureKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE),
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

fn interruption(why: &Interruption) -> Value {
    let text = match why {
        Interruption::TooSlow => "This reader was too slow",
        Interruption::Stopping => "The service is stopping",
        Interruption::Store(_) | Interruption::Unknown => UNAVAILABLE,
    };
    let status = StatusCode::SERVICE_UNAVAILABLE;
    problem::body(status, text, None, problem::code_of(status))
}

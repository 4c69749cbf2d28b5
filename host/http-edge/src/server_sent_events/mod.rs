//! Runs as server-sent events (WHATWG HTML, section 9.2). host/docs/api/streams.md specifies them for
//! clients; `frames.rs` writes them.
//!
//! The id of an event is the number of its entry in the run's journal. Where one entry stands for several
//! events the further ones are `n.1`, `n.2` and so on. What is in no journal has no id.

mod accept;
mod frames;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::JournalResult;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::unfold;
use http::header::{CACHE_CONTROL, CONTENT_LOCATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use run_service::layers::{Ask, InvokeError};
use run_service::streams::{
    FirstReader, Followed, Following, FoundRun, Interruption, OnDisconnect, RunEnd, RunStreams, StreamPermit,
};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};
use utoipa::ToSchema;

pub(crate) use accept::accepts_events;
pub use frames::Position;

use crate::dependencies::Settings;
use frames::{Frames, comment};

/// How long a stream is silent at most: proxies take a connection for dead after half a minute or so.
pub const HEARTBEAT: Duration = Duration::from_secs(5);

/// How long a run is followed at most where answers are passed on whole: nobody reads them before their end.
const WHOLE_LIFE: Duration = Duration::from_secs(5);

/// How much is put into one write at most, about.
const MOST_BYTES: usize = 64 << 10;

/// The header of a request that says what becomes of its run when the reader leaves: `cancel` or `continue`.
pub const ON_DISCONNECT: HeaderName = HeaderName::from_static("agent-on-disconnect");

/// Where the last event stands that a client has read.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// nginx passes events on one by one when it reads this.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NO: HeaderValue = HeaderValue::from_static("no");

/// What a variant says of the end of a run.
pub enum ShownEnd {
    /// The result as the plain answer has it, in JSON.
    Ended(String),
    /// Status and body of the plain answer, and what the log says.
    Failed { status: StatusCode, body: Value, log: String },
}

/// Shows the end of a run as the variant's plain answers do.
pub type ShowEnd = Arc<dyn Fn(&RunEnd) -> ShownEnd + Send + Sync>;

/// A reader that resumes after its last event. Its run goes on when it leaves, unless the request says
/// otherwise.
pub fn resuming_reader(headers: &HeaderMap) -> FirstReader {
    FirstReader { on_disconnect: on_disconnect(headers, OnDisconnect::Continue), can_resume: true }
}

/// A reader that cannot resume. Its run ends when it leaves, unless the request says otherwise.
pub fn leaving_reader(headers: &HeaderMap) -> FirstReader {
    FirstReader { on_disconnect: on_disconnect(headers, OnDisconnect::Cancel), can_resume: false }
}

fn on_disconnect(headers: &HeaderMap, otherwise: OnDisconnect) -> OnDisconnect {
    match headers.get(ON_DISCONNECT).map(HeaderValue::as_bytes) {
        Some(value) if value.eq_ignore_ascii_case(b"cancel") => OnDisconnect::Cancel,
        Some(value) if value.eq_ignore_ascii_case(b"continue") => OnDisconnect::Continue,
        Some(_) | None => otherwise,
    }
}

/// The last event of a run that the client has read, if it says so. What we have not written is nothing, and
/// neither is what we have not written of this run: its reader would wait for an event that lies behind
/// others.
pub async fn last_event(
    headers: &HeaderMap,
    streams: &RunStreams,
    run: &FoundRun,
) -> JournalResult<Option<Position>> {
    let last = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok()).and_then(Position::parse);
    match last {
        Some(last) if streams.has_given(run, last.number).await? => Ok(Some(last)),
        _ => Ok(None),
    }
}

/// The answer to a request to cancel a run.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelledRun<'a> {
    /// The run.
    #[schema(example = "run_01a204ec6206715fbb305322b42db99d")]
    pub run_id: &'a str,
}

/// How a protocol writes a run as events.
pub trait WriteStream: Send + 'static {
    /// The stream has begun. Sent at once, so that the client knows that it is connected.
    fn begin(&mut self);

    /// What happened. `run_id` is for the log.
    fn write(&mut self, run_id: &str, followed: &Followed) -> impl Future<Output = ()> + Send;

    /// What was written is sent: nothing that happened is at hand beside it.
    fn settle(&mut self) {}

    /// The stream ends although the run may go on.
    fn cut(&mut self) {}

    /// What was written and not sent yet.
    fn text(&mut self) -> &mut String;
}

/// A run that is followed.
pub struct Begun {
    pub following: Following,
    /// What was read of it already.
    first: Option<Followed>,
}

impl From<Following> for Begun {
    fn from(following: Following) -> Self {
        Self { following, first: None }
    }
}

/// Begins a run. What is wrong before its first event is an error.
pub async fn begin(streams: &RunStreams, ask: Ask, reader: FirstReader) -> Result<Begun, InvokeError> {
    let mut following = streams.start(ask, reader);
    match following.next().await {
        Some(Followed::Ended { events: 0, end: RunEnd::Failed(error) }) => Err(error),
        first => Ok(Begun { following, first }),
    }
}

/// A stream to be answered.
pub struct EventStream<W> {
    pub run: Begun,
    pub writer: W,
    /// Where the stream can be resumed.
    pub location: String,
    /// Held as long as the stream lasts.
    pub permit: Option<StreamPermit>,
}

impl<W: WriteStream> EventStream<W> {
    /// The response, whose body ends with the run.
    pub fn into_response(self) -> Response {
        self.respond_until(None)
    }

    /// The same for a run that may go on for long, which where answers are passed on whole is followed for a
    /// while only.
    pub fn into_response_with(self, settings: &Settings) -> Response {
        self.respond_until(settings.whole_answers.then(|| Instant::now() + WHOLE_LIFE))
    }

    fn respond_until(self, until: Option<Instant>) -> Response {
        let Self { run: Begun { following, first }, writer, location, permit } = self;
        let streaming =
            Streaming { _permit: permit, following, first, writer, is_begun: false, until, is_cut: false };
        let chunks = unfold(streaming.next(), async |mut next| {
            let (chunk, next) = match timeout(HEARTBEAT, &mut next).await {
                Ok((chunk, streaming)) => (chunk?, streaming.next()),
                Err(_elapsed) => (Bytes::from_static(b": heartbeat\n\n"), next),
            };
            Some((Ok::<_, Infallible>(chunk), next))
        });
        let mut response = respond(Body::from_stream(chunks));
        // Ids are plain; one that no header could carry is in the first event all the same.
        if let Ok(location) = HeaderValue::try_from(location) {
            response.headers_mut().insert(CONTENT_LOCATION, location);
        }
        response
    }
}

/// The one line about a run that failed while it was streamed.
pub fn log_failure(run_id: &str, status: StatusCode, error: &str) {
    let status = status.as_u16();
    if status >= 500 {
        tracing::error!(run_id, status, error, "a streamed run failed");
    } else {
        tracing::info!(run_id, status, error, "a streamed run failed");
    }
}

/// The one line about a run that could not be followed to its end.
pub fn log_interruption(run_id: &str, why: &Interruption) {
    if let Interruption::Store(error) = why {
        tracing::warn!(run_id, %error, "a stream ended early");
    }
}

/// The response whose body is events.
pub fn respond(events: Body) -> Response {
    let mut response = events.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, EVENT_STREAM);
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert(ACCEL_BUFFERING, NO);
    response
}

/// What is sent next, with what comes behind it. It goes on over heartbeats: a store that takes longer than
/// one would otherwise be asked anew at each, and never answer.
type NextChunk<W> = BoxFuture<'static, (Option<Bytes>, Streaming<W>)>;

struct Streaming<W> {
    /// The permit goes before the writer, which may need one to read on when the reader has left.
    _permit: Option<StreamPermit>,
    following: Following,
    first: Option<Followed>,
    writer: W,
    is_begun: bool,
    /// When the stream ends although the run may go on.
    until: Option<Instant>,
    /// Whether it has ended so.
    is_cut: bool,
}

impl<W: WriteStream> Streaming<W> {
    fn next(mut self) -> NextChunk<W> {
        Box::pin(async move { (self.next_chunk().await, self) })
    }

    async fn next_chunk(&mut self) -> Option<Bytes> {
        if self.is_cut {
            return None;
        }
        if !self.is_begun {
            self.is_begun = true;
            self.writer.begin();
        }
        let mut next = self.first.take();
        // Many events are none of the protocol's.
        loop {
            while let Some(followed) = next {
                self.writer.write(self.following.run_id(), &followed).await;
                let is_small = self.writer.text().len() < MOST_BYTES;
                next = if is_small { self.following.next_ready() } else { None };
                if is_small && next.is_none() {
                    self.writer.settle();
                }
            }
            if !self.writer.text().is_empty() {
                return Some(Bytes::from(std::mem::take(self.writer.text())));
            }
            next = self.wait().await?;
        }
    }

    /// What comes next, or nothing where the stream is cut; nothing at all at the end.
    async fn wait(&mut self) -> Option<Option<Followed>> {
        let next = match self.until {
            None => Ok(self.following.next().await),
            Some(until) if until <= Instant::now() => Err(()),
            Some(until) => timeout_at(until, self.following.next()).await.map_err(|_elapsed| ()),
        };
        if let Ok(next) = next {
            return Some(Some(next?));
        }
        self.is_cut = true;
        comment(self.writer.text(), "answers are passed on whole here: resume from the last event");
        self.writer.cut();
        Some(None)
    }
}

/// The service's own events.
pub struct OwnEvents {
    frames: Frames,
    show_end: ShowEnd,
}

impl OwnEvents {
    /// Those after the last event that the client has.
    pub fn after(after: Option<Position>, show_end: ShowEnd) -> Self {
        Self { frames: Frames::after(after), show_end }
    }

    fn ended(&mut self, run_id: &str, events: u64, end: &RunEnd) {
        match (self.show_end)(end) {
            ShownEnd::Ended(result) => {
                let answer = if let RunEnd::Answer(answer) = end { Some(&*answer.result) } else { None };
                self.frames.ended(events, &result, answer);
            }
            ShownEnd::Failed { status, body, log } => {
                log_failure(run_id, status, &log);
                // The number of an event that may follow after all is not given away.
                self.frames.failed(end.is_final().then_some(events), status, &body);
            }
        }
    }

    fn interrupted(&mut self, run_id: &str, why: &Interruption) {
        log_interruption(run_id, why);
        let why = match why {
            Interruption::TooSlow => "this reader is too slow: resume from the last event",
            Interruption::Stopping => "the service is stopping: resume from the last event",
            Interruption::Store(_) => "the store does not answer: resume from the last event",
            Interruption::Unknown => "it is not known what became of the run: resume from the last event",
            Interruption::Waiting => {
                comment(self.frames.text(), "the run waits for somebody: resume from the last event");
                return self.frames.say_waiting();
            }
        };
        comment(self.frames.text(), why);
        self.frames.say_retry();
    }
}

impl WriteStream for OwnEvents {
    fn begin(&mut self) {
        self.frames.say_retry();
    }

    async fn write(&mut self, run_id: &str, followed: &Followed) {
        match followed {
            Followed::Stored { number, event } => self.frames.event(*number, event),
            Followed::Delta(delta) => self.frames.delta(delta),
            Followed::Progress(progress) => self.frames.progress(progress),
            Followed::Ended { events, end } => self.ended(run_id, *events, end),
            Followed::Interrupted(why) => self.interrupted(run_id, why),
        }
    }

    fn cut(&mut self) {
        self.frames.say_retry();
    }

    fn text(&mut self) -> &mut String {
        self.frames.text()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use run_service::testing::{ScriptedInvoke, run_stores, streams_of};
    use tokio::time::sleep;

    use run_service::streams::StreamPermits;

    use super::*;

    /// Takes two heartbeats to keep the end.
    #[derive(Default)]
    struct Slow(String);

    impl WriteStream for Slow {
        fn begin(&mut self) {}

        async fn write(&mut self, _run_id: &str, followed: &Followed) {
            if let Followed::Ended { .. } = followed {
                sleep(HEARTBEAT * 2 + Duration::from_secs(1)).await;
                self.0.push_str("data: the end\n\n");
            }
        }

        fn text(&mut self) -> &mut String {
            &mut self.0
        }
    }

    /// Takes a permit of its user when the reader has left.
    struct ReadsOn {
        permits: StreamPermits,
        has_permit: Arc<AtomicBool>,
        text: String,
    }

    impl WriteStream for ReadsOn {
        fn begin(&mut self) {}

        async fn write(&mut self, _run_id: &str, _followed: &Followed) {}

        fn text(&mut self) -> &mut String {
            &mut self.text
        }
    }

    impl Drop for ReadsOn {
        fn drop(&mut self) {
            self.has_permit.store(self.permits.acquire("u1").is_some(), Ordering::Relaxed);
        }
    }

    fn streams() -> RunStreams {
        streams_of(ScriptedInvoke::answering("hi"), run_stores(&Arc::default()))
    }

    /// The stream of a run that says hi.
    fn stream<W: WriteStream>(
        streams: &RunStreams,
        writer: W,
        permit: Option<StreamPermit>,
    ) -> EventStream<W> {
        let run = streams.start(Ask::new("1".into(), "hi".into()), resuming_reader(&HeaderMap::new())).into();
        EventStream { run, writer, location: String::new(), permit }
    }

    #[tokio::test]
    async fn who_reads_on_for_a_reader_that_has_left_can_have_its_permit() {
        let (permits, has_permit) = (StreamPermits::new(1, 1), Arc::<AtomicBool>::default());
        let permit = permits.acquire("u1");
        let writer = ReadsOn { permits, has_permit: has_permit.clone(), text: String::new() };
        drop(stream(&streams(), writer, permit).into_response());
        assert!(has_permit.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_are_sent_while_the_end_is_kept() {
        let streams = streams();
        let stream = stream(&streams, Slow::default(), None);
        let sent = axum::body::to_bytes(stream.into_response().into_body(), usize::MAX).await.unwrap();
        assert_eq!(sent, ": heartbeat\n\n: heartbeat\n\ndata: the end\n\n");
    }
}

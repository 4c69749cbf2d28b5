//! What becomes of a request body that its answer did not wait for: a missing token, a full rate window, an
//! unknown path.
//!
//! hyper closes a connection whose body was not read to its end, and does not say so: a client that sends
//! head and body in two packets then finds its kept-alive connection reset. So the rest of the body is read
//! and thrown away *after* the answer was sent, as nginx does with its lingering close:
//!
//! | rest of the body | the answer says | then |
//! |---|---|---|
//! | declared by `Content-Length`, within the limit | nothing | read away, and the next request is served |
//! | larger, or chunked, or its client waits for `100 Continue` | `Connection: close` | our side is shut, the rest is read away so that the client can finish writing and read the answer, and the connection ends |
//! | its time is over (408) | `Connection: close` | the connection ends |
//! | any, over HTTP/2 | nothing | read away for [`OF_STREAM`], then its stream is reset; others go on |
//!
//! Over HTTP/2 a body that nobody wants could be reset right behind its answer (RFC 9113, section 8.1). Some
//! clients lose the answer by that: curl 7.88 says that the stream broke, and no more. So a body that comes a
//! moment later than its head is read.

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, EXPECT, HeaderValue};
use hyper::{Request, Response, StatusCode, Version};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

/// What is read away of a body whose connection ends, at most: a client that goes on sending has had its
/// chance.
const MOST_READ_AWAY: usize = 64 << 20;

/// For how long a body is read away over HTTP/2: as long as a client that is told no may take to notice. Its
/// stream counts among those of its connection meanwhile, which may be a proxy's for many clients.
const OF_STREAM: Duration = Duration::from_secs(2);

/// How much longer bodies are read away when the service stops.
const AT_STOP: Duration = Duration::from_secs(1);

/// Bounds on request bodies, the same as those of whoever reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Most bytes (`MAX_BODY_BYTES`).
    pub bytes: usize,
    /// How long a client may take to send one (`BODY_TIMEOUT_MS`).
    pub time: Duration,
}

/// The body of a request that is being answered.
pub(super) struct Lent {
    rest: Option<Arc<Mutex<Option<Incoming>>>>,
    declared: Option<u64>,
    waits_for_continue: bool,
    /// Whether the body is that of a stream of its own (HTTP/2).
    is_stream: bool,
}

/// Gives the body to whoever answers. What they leave of it comes back to the [`Lent`].
pub(super) fn lend(request: Request<Incoming>) -> (Request<LentBody>, Lent) {
    let waits_for_continue = request.headers().contains_key(EXPECT);
    let declared = request.body().size_hint().exact();
    let is_stream = request.version() >= Version::HTTP_2;
    // Most requests have no body, and then there is nothing to be kept track of.
    let rest = (!request.body().is_end_stream()).then(Arc::default);
    let request = request.map(|body| LentBody { body: Some(body), rest: rest.clone() });
    (request, Lent { rest, declared, waits_for_continue, is_stream })
}

impl Lent {
    /// Decides what becomes of the rest, now that the answer is known: a task that reads it away if there is
    /// something to read, and `Connection: close` on the answer if no other request can follow.
    pub(super) fn settle<B>(self, answer: &mut Response<B>, limits: BodyLimits) -> Option<Rest> {
        let rest = self.rest?;
        let body = rest.lock().take()?;
        let fits = self.declared.is_some_and(|length| length <= limits.bytes as u64);
        let timed_out = answer.status() == StatusCode::REQUEST_TIMEOUT;
        let goes_on = self.is_stream || (fits && !self.waits_for_continue && !timed_out);
        if !goes_on {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        // To a client that waits for `100 Continue` the reset says that nobody wants the body.
        let time = if timed_out || (self.is_stream && self.waits_for_continue) {
            Duration::ZERO
        } else if self.is_stream {
            limits.time.min(OF_STREAM)
        } else {
            limits.time
        };
        Some(Rest { body, deadline: Instant::now() + time, goes_on })
    }
}

/// A body to be read away.
pub(super) struct Rest {
    body: Incoming,
    deadline: Instant,
    /// Whether the connection is to serve another request.
    pub(super) goes_on: bool,
}

impl Rest {
    async fn read_away(mut self, stop: CancellationToken) {
        let mut left = MOST_READ_AWAY;
        let reading = async {
            while let Some(Ok(frame)) = next_frame(&mut self.body).await {
                let read = frame.data_ref().map_or(0, Bytes::len);
                let Some(less) = left.checked_sub(read) else { return };
                left = less;
            }
        };
        let hurried = async {
            stop.cancelled().await;
            sleep(AT_STOP).await;
        };
        // A body that is dropped before its end ends the connection, or its stream.
        tokio::select! {
            _too_slow = timeout_at(self.deadline, reading) => {}
            () = hurried => {}
        }
    }
}

async fn next_frame(body: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
    std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

/// Reads bodies away, those of several streams at the same time; never ends. It has to be polled by the task
/// of the connection and after the connection itself: a body that is asked for before its answer is written
/// would be called for with `100 Continue`.
pub(super) async fn read_away(mut rests: mpsc::UnboundedReceiver<Rest>, stop: CancellationToken) {
    let mut reading = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(rest) = rests.recv() => reading.push(rest.read_away(stop.clone())),
            Some(()) = reading.next() => {}
            else => return pending().await,
        }
    }
}

/// A request body that comes back to its [`Lent`] when it is dropped before its end.
pub(super) struct LentBody {
    /// Absent once it has ended.
    body: Option<Incoming>,
    rest: Option<Arc<Mutex<Option<Incoming>>>>,
}

impl Body for LentBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for LentBody {
    fn drop(&mut self) {
        let body = self.body.take().filter(|body| !body.is_end_stream());
        if let (Some(body), Some(rest)) = (body, &self.rest) {
            *rest.lock() = Some(body);
        }
    }
}

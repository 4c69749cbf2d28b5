//! Notices when the answers of a connection have reached its socket, which hyper does not tell. Until then
//! the connection is busy; and after the last answer our side of it is shut while the client's side stays
//! open: the client sees the end of the answer, and what it is still sending is read instead of being
//! answered with a reset.
//!
//! hyper drops an answer's body as soon as it has taken the last of it into its buffer, and flushes the
//! socket once that buffer is empty. So an answer has reached the socket with the first flush after its body
//! was dropped. The next request may have begun before that: then the connection stays busy until its answer
//! is flushed too.
//!
//! Over HTTP/2 several answers are under way at once, and a request may be given up before its answer: a
//! connection that does little else takes no other requests ([`Answers::given_up_often`]), and is cut off if
//! that goes on ([`Answers::flooded`]). An answer is handed over in small parts there, so that hyper asks for
//! the next one when the client has room for it: whoever does not ask for long has stalled ([`Taking`]).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::connection_limit::Activity;
use super::http2::Taking;

/// How many requests of a connection may be given up before their answers within a [`PERIOD`], beyond those
/// that were answered (CVE-2023-44487), before it takes no other. Through a proxy it may be one client of
/// many, so those under way go on.
const MANY_GIVEN_UP: u32 = 100;

/// Requests given up, counted as for [`MANY_GIVEN_UP`], before the connection is cut off, with all that is
/// under way.
const MOST_GIVEN_UP: u32 = 1_000;

/// What was given up is counted anew after so long.
const PERIOD: Duration = Duration::from_secs(60);

/// Largest part of an answer that is handed over at once where the client says how much it takes.
const PART_BYTES: usize = 16 << 10;

/// How far the answers of a connection have got. Clones are of the same connection, whose task alone uses
/// them.
#[derive(Clone)]
pub(super) struct Answers(Arc<Progress>);

struct Progress {
    activity: Activity,
    /// Requests whose answer hyper has not taken whole.
    under_way: AtomicU32,
    /// Whether an answer was taken since the socket was last flushed.
    unflushed: AtomicBool,
    /// Whether no other answer follows the one that is under way.
    last: AtomicBool,
    /// When the connection began.
    began: Instant,
    /// The [`PERIOD`] of the last request that was given up, counted from then.
    period: AtomicU64,
    /// Since the first request that was given up in that period.
    answered: AtomicU32,
    given_up: AtomicU32,
    given_up_often: Notify,
    flooded: Notify,
}

impl Answers {
    /// Of a connection that has asked for nothing yet.
    pub(super) fn new(activity: Activity) -> Self {
        Self(Arc::new(Progress {
            activity,
            under_way: AtomicU32::new(0),
            unflushed: AtomicBool::new(false),
            last: AtomicBool::new(false),
            began: Instant::now(),
            period: AtomicU64::new(0),
            answered: AtomicU32::new(0),
            given_up: AtomicU32::new(0),
            given_up_often: Notify::new(),
            flooded: Notify::new(),
        }))
    }

    /// A request has come. What is returned becomes part of its [`AnswerBody`], or is dropped when there will
    /// be none.
    pub(super) fn begin(&self) -> Answering {
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        self.0.activity.becomes_busy();
        Answering { answers: self.clone(), is_answered: false }
    }

    /// Resolves when the connection gives up many requests before their answers: it should take no other.
    pub(super) async fn given_up_often(&self) {
        self.0.given_up_often.notified().await;
    }

    /// Resolves when that goes on: the connection should be cut off.
    pub(super) async fn flooded(&self) {
        self.0.flooded.notified().await;
    }

    /// The answer that is being given is the last one, and something of its request is still to be read.
    pub(super) fn end_with_this(&self) {
        self.0.last.store(true, Ordering::Relaxed);
    }

    fn given_up(&self) {
        let period = self.0.began.elapsed().as_secs() / PERIOD.as_secs();
        if self.0.period.swap(period, Ordering::Relaxed) != period {
            self.0.given_up.store(0, Ordering::Relaxed);
            self.0.answered.store(0, Ordering::Relaxed);
        }
        let given_up = self.0.given_up.fetch_add(1, Ordering::Relaxed) + 1;
        let beyond = given_up.saturating_sub(self.0.answered.load(Ordering::Relaxed));
        if beyond > MANY_GIVEN_UP {
            self.0.given_up_often.notify_one();
        }
        if beyond > MOST_GIVEN_UP {
            self.0.flooded.notify_one();
        }
    }

    fn taken(&self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
        self.0.unflushed.store(true, Ordering::Relaxed);
    }

    /// The socket was flushed. Returns whether it is to be shut to writing.
    fn flushed(&self) -> bool {
        if self.0.under_way.load(Ordering::Relaxed) > 0 {
            return false;
        }
        if self.0.unflushed.load(Ordering::Relaxed) {
            self.0.unflushed.store(false, Ordering::Relaxed);
            self.0.activity.becomes_idle();
        }
        self.0.last.load(Ordering::Relaxed)
    }
}

/// A socket that tells [`Answers`] when it was flushed, and is shut to writing after the last of them.
pub(super) struct AnswerSocket<S> {
    socket: S,
    answers: Answers,
}

impl<S> AnswerSocket<S> {
    pub(super) fn new(socket: S, answers: Answers) -> Self {
        Self { socket, answers }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AnswerSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AnswerSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.socket).poll_flush(cx))?;
        if self.answers.flushed() {
            return Pin::new(&mut self.socket).poll_shutdown(cx);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// A request that is being answered, until hyper has taken the whole answer or nobody wants it any more.
pub(super) struct Answering {
    answers: Answers,
    is_answered: bool,
}

impl Drop for Answering {
    fn drop(&mut self) {
        if !self.is_answered {
            self.answers.given_up();
        }
        self.answers.taken();
    }
}

/// An answer's body, whose drop says that hyper has taken the whole answer.
pub(super) struct AnswerBody<B> {
    body: B,
    /// What is left of a part that was too large.
    rest: Bytes,
    /// Present where the client says how much it takes.
    taking: Option<Taking>,
    _answering: Answering,
}

impl<B> AnswerBody<B> {
    pub(super) fn new(body: B, mut answering: Answering, taking: Option<Taking>) -> Self {
        answering.is_answered = true;
        answering.answers.0.answered.fetch_add(1, Ordering::Relaxed);
        Self { body, rest: Bytes::new(), taking, _answering: answering }
    }
}

impl<B: Body<Data = Bytes> + Unpin> AnswerBody<B> {
    /// The next part, none of which is too large.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                ended => return Poll::Ready(ended),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let part = self.rest.split_to(self.rest.len().min(PART_BYTES));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let Some(taking) = self.taking.clone() else { return Pin::new(&mut self.body).poll_frame(cx) };
        taking.asked();
        let part = ready!(self.poll_part(cx));
        taking.given();
        Poll::Ready(part)
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        // The upper bound first: it may not be below the lower one.
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(hint.lower().saturating_add(rest));
        hint
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::super::connection_limit::Connections;
    use super::*;
    use crate::metrics::HttpMetrics;

    #[tokio::test]
    async fn a_connection_is_busy_until_the_last_of_its_answers_is_flushed() {
        let metrics = HttpMetrics::register(&prometheus::Registry::new()).unwrap();
        let open = Connections::new(1, 1, Arc::new(metrics)).admit().await;
        let answers = Answers::new(open.activity());
        let first = AnswerBody::new((), answers.begin(), None);
        assert!(!answers.flushed() && open.is_busy(), "what was flushed is a part of the answer");
        drop(first);
        assert!(open.is_busy(), "not flushed yet");
        // hyper may read the next request while it still writes.
        let second = AnswerBody::new((), answers.begin(), None);
        assert!(!answers.flushed() && open.is_busy(), "the second one is still to be answered");
        answers.end_with_this();
        assert!(!answers.flushed(), "the last answer is not written");
        drop(second);
        assert!(answers.flushed() && !open.is_busy());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_gives_up_its_requests_is_told_to_go_and_then_cut_off() {
        let metrics = HttpMetrics::register(&prometheus::Registry::new()).unwrap();
        let open = Connections::new(1, 1, Arc::new(metrics)).admit().await;
        let answers = Answers::new(open.activity());
        let give_up = |times| (0..times).for_each(|_| drop(answers.begin()));
        let is_to_go = || answers.given_up_often().now_or_never().is_some();
        let is_cut_off = || answers.flooded().now_or_never().is_some();
        for _ in 0..2 * MOST_GIVEN_UP {
            give_up(1);
            drop(AnswerBody::new((), answers.begin(), None));
        }
        assert!(!is_to_go(), "as many were answered");
        for _ in 0..3 {
            tokio::time::advance(PERIOD).await;
            give_up(MANY_GIVEN_UP);
            assert!(!is_to_go(), "that is long ago");
        }
        give_up(1);
        assert!(is_to_go() && !is_cut_off(), "others may have requests under way");
        give_up(MOST_GIVEN_UP - MANY_GIVEN_UP - 1);
        assert!(!is_cut_off());
        give_up(1);
        assert!(is_cut_off());
        assert!(!answers.flushed() && !open.is_busy(), "none of them is under way");
    }

    #[tokio::test]
    async fn an_answer_that_is_taken_by_parts_is_the_whole_answer() {
        let metrics = HttpMetrics::register(&prometheus::Registry::new()).unwrap();
        let open = Connections::new(1, 1, Arc::new(metrics)).admit().await;
        let answers = Answers::new(open.activity());
        let text: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        let body = axum::body::Body::from(text.clone());
        let mut answer = AnswerBody::new(body, answers.begin(), Some(Taking::default()));
        let mut taken = Vec::new();
        while !answer.is_end_stream() {
            assert_eq!(answer.size_hint().exact(), Some((text.len() - taken.len()) as u64));
            let frame = std::future::poll_fn(|cx| Pin::new(&mut answer).poll_frame(cx)).await;
            let part = frame.unwrap().unwrap().into_data().unwrap();
            assert!(part.len() <= PART_BYTES);
            taken.extend_from_slice(&part);
        }
        assert_eq!(taken, text);
    }
}

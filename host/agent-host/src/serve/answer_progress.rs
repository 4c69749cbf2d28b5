//! Notices when the answers of a connection have reached its socket, which hyper does not tell. Until then the
//! connection is busy; and after the last answer our side of it is shut while the client's side stays open: the client
//! sees the end of the answer, and what it is still sending is read instead of being answered with a reset.
//!
//! hyper drops an answer's body as soon as it has taken the last of it into its buffer, and flushes the socket once that
//! buffer is empty. So an answer has reached the socket with the first flush after its body was dropped. The next
//! request may have begun before that: then the connection stays busy until its answer is flushed too.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connections::Activity;

/// How far the answers of a connection have got. Clones are of the same connection, whose task alone uses them.
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
}

impl Answers {
    /// Of a connection that has asked for nothing yet.
    pub(super) fn new(activity: Activity) -> Self {
        Self(Arc::new(Progress {
            activity,
            under_way: AtomicU32::new(0),
            unflushed: AtomicBool::new(false),
            last: AtomicBool::new(false),
        }))
    }

    /// A request has come. It is answered with an [`AnswerBody`], or the connection ends.
    pub(super) fn begin(&self) {
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        self.0.activity.becomes_busy();
    }

    /// The answer that is being given is the last one, and something of its request is still to be read.
    pub(super) fn end_with_this(&self) {
        self.0.last.store(true, Ordering::Relaxed);
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

/// An answer's body, whose drop says that hyper has taken the whole answer.
pub(super) struct AnswerBody<B> {
    body: B,
    answers: Answers,
}

impl<B> AnswerBody<B> {
    pub(super) fn new(body: B, answers: Answers) -> Self {
        Self { body, answers }
    }
}

impl<B: Body + Unpin> Body for AnswerBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for AnswerBody<B> {
    fn drop(&mut self) {
        self.answers.taken();
    }
}

#[cfg(test)]
mod tests {
    use super::super::connections::Connections;
    use super::*;
    use crate::metrics::HttpMetrics;

    #[tokio::test]
    async fn a_connection_is_busy_until_the_last_of_its_answers_is_flushed() {
        let metrics = HttpMetrics::register(&prometheus::Registry::new()).unwrap();
        let open = Connections::new(1, Arc::new(metrics)).admit().await;
        let answers = Answers::new(open.activity());
        answers.begin();
        let first = AnswerBody::new((), answers.clone());
        assert!(!answers.flushed() && open.is_busy(), "what was flushed is a part of the answer");
        drop(first);
        assert!(open.is_busy(), "not flushed yet");
        // hyper may read the next request while it still writes.
        answers.begin();
        let second = AnswerBody::new((), answers.clone());
        assert!(!answers.flushed() && open.is_busy(), "the second one is still to be answered");
        answers.end_with_this();
        assert!(!answers.flushed(), "the last answer is not written");
        drop(second);
        assert!(answers.flushed() && !open.is_busy());
    }
}

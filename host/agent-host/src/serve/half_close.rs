//! Shuts our side of a connection after its last answer while the client's side stays open, which hyper cannot do:
//! the client sees the end of the answer, and what it is still sending is read instead of being answered with a reset.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Where a connection stands on the way to its half close. Clones are of the same connection.
#[derive(Debug, Clone, Default)]
pub(super) struct HalfClose(Arc<AtomicU8>);

/// The answer that is being given is the last one.
const LAST_ANSWER: u8 = 1;
/// The whole of it was given to the connection: once it is flushed, our side is shut.
const WRITTEN: u8 = 2;

impl HalfClose {
    /// The answer that is being given is the last one, and something of its request is still to be read.
    pub(super) fn after_this_answer(&self) {
        self.0.store(LAST_ANSWER, Ordering::Relaxed);
    }

    fn written(&self) {
        let _other_answers_follow =
            self.0.compare_exchange(LAST_ANSWER, WRITTEN, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn is_due(&self) -> bool {
        self.0.load(Ordering::Relaxed) == WRITTEN
    }
}

/// A socket that is shut to writing when that is due.
#[derive(Debug)]
pub(super) struct HalfClosing<S> {
    socket: S,
    state: HalfClose,
}

impl<S> HalfClosing<S> {
    pub(super) fn new(socket: S, state: HalfClose) -> Self {
        Self { socket, state }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HalfClosing<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HalfClosing<S> {
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
        if self.state.is_due() {
            return Pin::new(&mut self.socket).poll_shutdown(cx);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// An answer's body. hyper drops it as soon as it has taken the last of it.
pub(super) struct AnswerBody<B, G> {
    body: B,
    state: HalfClose,
    /// Held until then.
    _guard: G,
}

impl<B, G> AnswerBody<B, G> {
    pub(super) fn new(body: B, state: HalfClose, guard: G) -> Self {
        Self { body, state, _guard: guard }
    }
}

impl<B: Body + Unpin, G: Unpin> Body for AnswerBody<B, G> {
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

impl<B, G> Drop for AnswerBody<B, G> {
    fn drop(&mut self) {
        self.state.written();
    }
}

//! How many bytes may still be read on a connection.
//!
//! Readers of bodies count the data that they get. They never see the framing: interim responses (1xx), chunk
//! sizes and trailers, of which a server may send any number.

use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many bytes may still be read. Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct ReadBound(Arc<AtomicU64>);

/// A stream on which nothing is read beyond a bound.
pub(crate) struct BoundedStream<T> {
    pub(crate) inner: T,
    pub(crate) bound: ReadBound,
}

/// More came than may be read.
#[derive(Debug, thiserror::Error)]
#[error("more came on the connection than may be read")]
struct BeyondBound;

/// Whether it is the error of a connection on which more came than may be read.
pub fn is_beyond_bound(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    cause.and_then(io::Error::get_ref).is_some_and(|cause| cause.is::<BeyondBound>())
}

impl ReadBound {
    /// No bound that anybody would reach.
    pub(crate) fn none() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }

    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Takes bytes that were read from what may be read.
    fn take(&self, bytes: usize) -> io::Result<()> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let fewer = |left: u64| left.checked_sub(bytes);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        taken.map(drop).map_err(|_left| io::Error::other(BeyondBound))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for BoundedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        Poll::Ready(self.bound.take(buffer.filled().len().saturating_sub(before)))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for BoundedStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

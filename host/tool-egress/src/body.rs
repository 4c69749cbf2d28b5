//! The bodies of a request and of a response on their way through the host.
//!
//! [`RequestBody`] is scanned, counted and checked against its length as it is sent. A [`ResponseBody`] comes
//! through a channel from the task that reads it; a body that ends is whole, and anything else is an error.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use outbound::OwnedTask;
use tokio::sync::{mpsc, oneshot};

use crate::answers::recording::BoundedBody;
use crate::budget::CallBudget;
use crate::error::{EgressError, Place};
use crate::receipt::{HostRow, Ledger};
use crate::secret_scan::ScanStream;

/// What a guest sends. Its trailers are not sent.
#[derive(Debug)]
pub(super) struct RequestBody {
    /// None once it ended.
    inner: Option<UnsyncBoxBody<Bytes, ()>>,
    scan: ScanStream,
    /// What is missing of the length that the guest gave.
    missing: Option<u64>,
    accounts: Accounts,
    failure: Arc<OnceLock<EgressError>>,
    /// Gets what is sent, if it is recorded.
    recorded: Option<BoundedBody>,
    /// Dropped with this, when the request is sent.
    _unsent: oneshot::Sender<()>,
}

/// What is to be known of a request's body while it is being sent.
#[derive(Debug)]
pub(super) struct BodyWatch {
    /// Resolves, with an error, when the body is sent.
    pub(super) sent: oneshot::Receiver<()>,
    /// Why it was cut off.
    pub(super) failure: Arc<OnceLock<EgressError>>,
}

/// Who pays for bytes.
#[derive(Debug, Clone)]
pub(super) struct Accounts {
    pub(super) budget: Arc<CallBudget>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) row: HostRow,
}

/// What a guest receives. Dropping it before its end closes the connection.
#[derive(Debug)]
pub struct ResponseBody {
    chunks: mpsc::Receiver<Result<Bytes, EgressError>>,
    whole: Arc<AtomicBool>,
    ended: bool,
    _exchange: Option<OwnedTask>,
}

impl Accounts {
    /// Counts values of secrets where they are not used.
    pub(super) fn meet_secrets(&self, matches: u64) -> Result<(), EgressError> {
        self.ledger.met(matches);
        self.budget.meet_secrets(matches)
    }

    /// Counts bytes before they are sent.
    pub(super) fn spend_sent(&self, bytes: usize) -> Result<(), EgressError> {
        self.budget.spend(bytes)?;
        self.ledger.sent(self.row, bytes);
        Ok(())
    }

    /// Counts bytes that were received.
    pub(super) fn spend_received(&self, bytes: usize) -> Result<(), EgressError> {
        self.ledger.received(self.row, bytes);
        self.budget.spend(bytes)
    }
}

impl RequestBody {
    pub(super) fn new<B>(
        body: B,
        length: Option<u64>,
        scan: ScanStream,
        accounts: Accounts,
    ) -> (Self, BodyWatch)
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let inner = Some(body.map_err(|_| ()).boxed_unsync());
        let ((unsent, sent), failure) = (oneshot::channel(), Arc::new(OnceLock::new()));
        let watch = BodyWatch { sent, failure: failure.clone() };
        let body = Self { inner, scan, missing: length, accounts, failure, recorded: None, _unsent: unsent };
        (body, watch)
    }

    pub(super) fn record(&mut self, into: BoundedBody) {
        self.recorded = Some(into);
    }

    fn record_next(&self, next: Option<&Result<Bytes, EgressError>>) {
        let Some(recorded) = &self.recorded else { return };
        if let Some(Ok(chunk)) = next {
            recorded.push(chunk);
        }
        // Nobody polls for the end when all of the length was sent.
        let is_all_sent = self.missing == Some(0) && self.scan.held_bytes() == 0;
        if next.is_none() || is_all_sent && next.is_some_and(Result::is_ok) {
            recorded.end();
        }
    }

    fn chunk(&mut self, chunk: Bytes) -> Result<Bytes, EgressError> {
        if let Some(missing) = &mut self.missing {
            let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            *missing = missing.checked_sub(length).ok_or(EgressError::BodyLength)?;
        }
        self.accounts.spend_sent(chunk.len())?;
        let scanned = self.scan.push(chunk);
        self.refuse_secret()?;
        Ok(scanned)
    }

    fn end(&mut self) -> Result<Bytes, EgressError> {
        if self.missing.is_some_and(|missing| missing > 0) {
            return Err(EgressError::BodyLength);
        }
        let scanned = self.scan.finish();
        self.refuse_secret()?;
        Ok(scanned)
    }

    fn refuse_secret(&self) -> Result<(), EgressError> {
        match self.scan.first_match() {
            Some(name) => {
                // silent-ok: it is refused already, and the next request for the number of secrets.
                let _ = self.accounts.meet_secrets(1);
                Err(EgressError::SecretInRequest { name: name.to_owned(), place: Place::Body })
            }
            None => Ok(()),
        }
    }

    /// What is sent next; none at the end.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, EgressError>>> {
        while let Some(inner) = &mut self.inner {
            let next = match ready!(Pin::new(inner).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.chunk(data),
                    Err(_trailers) => continue,
                },
                Some(Err(())) => Err(EgressError::BodyAborted),
                None => {
                    self.inner = None;
                    self.end()
                }
            };
            match next {
                // All of it is held back.
                Ok(chunk) if chunk.is_empty() => {}
                other => return Poll::Ready(Some(other)),
            }
        }
        Poll::Ready(None)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = EgressError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, EgressError>>> {
        let next = ready!(self.poll_chunk(context));
        self.record_next(next.as_ref());
        Poll::Ready(next.map(|chunk| match chunk {
            Ok(chunk) => Ok(Frame::data(chunk)),
            Err(error) => {
                self.inner = None;
                // silent-ok: only the first failure is told.
                let _ = self.failure.set(error.clone());
                Err(error)
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        let nothing_missing = self.missing.is_none_or(|missing| missing == 0);
        let ended = self.inner.as_ref().is_none_or(Body::is_end_stream);
        let is_end = ended && nothing_missing && self.scan.held_bytes() == 0 && self.failure.get().is_none();
        // Whoever hears that does not poll for the end.
        if let (true, Some(recorded)) = (is_end, &self.recorded) {
            recorded.end();
        }
        is_end
    }

    fn size_hint(&self) -> SizeHint {
        let Some(inner) = &self.inner else { return SizeHint::with_exact(0) };
        let held = u64::try_from(self.scan.held_bytes()).unwrap_or(u64::MAX);
        let (hint, mut own) = (inner.size_hint(), SizeHint::new());
        own.set_lower(hint.lower().saturating_add(held));
        if let Some(upper) = hint.upper() {
            own.set_upper(upper.saturating_add(held));
        }
        own
    }
}

impl ResponseBody {
    /// `whole` is set before the last sender is dropped, if nothing is missing. Without a task, what waits in
    /// the channel is all of it.
    pub(super) fn new(
        chunks: mpsc::Receiver<Result<Bytes, EgressError>>,
        whole: Arc<AtomicBool>,
        exchange: Option<OwnedTask>,
    ) -> Self {
        Self { chunks, whole, ended: false, _exchange: exchange }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = EgressError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, EgressError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = match ready!(self.chunks.poll_recv(context)) {
            Some(Ok(chunk)) => return Poll::Ready(Some(Ok(Frame::data(chunk)))),
            Some(Err(error)) => Some(Err(error)),
            None if self.whole.load(Ordering::Acquire) => None,
            None => Some(Err(EgressError::CallEnded)),
        };
        self.ended = true;
        Poll::Ready(next)
    }
}

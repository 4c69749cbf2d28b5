//! What one call of a tool may still use up over HTTP: shared by all its requests.
//!
//! Requests beyond the limit of concurrent ones wait, within the call's deadline; those beyond the limit of
//! requests are refused. Bytes are counted as they are sent and received, so that many small requests cost
//! what one large one does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::allowed_hosts::RequestLimits;
use crate::error::EgressError;

/// How often the values of secrets may be met where they are not used, in one call. A guest that sends
/// guesses to a server of its own sees which of them comes back replaced, or which request is refused.
const SECRETS_MET: u32 = 16;

/// Bytes of framing (interim responses, chunk sizes, trailers) that the response to one request may have
/// beside as many as the call has left.
const FRAMING_BYTES: u64 = 64 * 1024;

/// What one call may still use up.
#[derive(Debug)]
pub(crate) struct CallBudget {
    limits: RequestLimits,
    deadline: Instant,
    requests_left: AtomicU32,
    bytes_left: AtomicU64,
    secrets_left: AtomicU32,
    concurrent: Arc<Semaphore>,
}

impl CallBudget {
    pub(crate) fn new(limits: RequestLimits, deadline: Instant) -> Self {
        let most = usize::try_from(limits.concurrent_requests).unwrap_or(usize::MAX);
        Self {
            limits,
            deadline,
            requests_left: AtomicU32::new(limits.requests),
            bytes_left: AtomicU64::new(limits.bytes),
            secrets_left: AtomicU32::new(SECRETS_MET),
            concurrent: Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS))),
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Counts a request, whatever becomes of it.
    pub(crate) fn count_request(&self) -> Result<(), EgressError> {
        self.meet_secrets(0)?;
        let one_less = |left: u32| left.checked_sub(1);
        match self.requests_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
            Ok(_) => Ok(()),
            Err(_) => Err(EgressError::TooManyRequests(self.limits.requests)),
        }
    }

    /// Waits until fewer requests are under way than may be.
    pub(crate) async fn concurrency_permit(&self, host: &str) -> Result<OwnedSemaphorePermit, EgressError> {
        match tokio::time::timeout_at(self.deadline, self.concurrent.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_closed)) => Err(EgressError::CallEnded),
            Err(_elapsed) => Err(EgressError::Deadline(host.to_owned())),
        }
    }

    /// Counts bytes. Those beyond the limit are not counted, and must not be sent or handed on.
    pub(crate) fn spend(&self, bytes: usize) -> Result<(), EgressError> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        match self
            .bytes_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes))
        {
            Ok(_) => Ok(()),
            Err(_) => Err(self.bytes_spent()),
        }
    }

    /// Refuses early what announces itself as larger than what is left.
    pub(crate) fn expect(&self, bytes: u64) -> Result<(), EgressError> {
        if bytes > self.bytes_left.load(Ordering::Relaxed) { Err(self.bytes_spent()) } else { Ok(()) }
    }

    /// Bytes that may be read on the connection of a request that begins now, framing included.
    pub(crate) fn most_on_connection(&self) -> u64 {
        self.bytes_left.load(Ordering::Relaxed).saturating_mul(2).saturating_add(FRAMING_BYTES)
    }

    /// Counts values of secrets in what the guest wrote, or in an answer to a request that did not have that
    /// secret. After too many of them the call makes no more requests.
    pub(crate) fn meet_secrets(&self, matches: u64) -> Result<(), EgressError> {
        let matches = u32::try_from(matches).unwrap_or(u32::MAX);
        let fewer = |left: u32| Some(left.saturating_sub(matches));
        let before = self.secrets_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        if before.unwrap_or_default() > matches {
            Ok(())
        } else {
            Err(EgressError::TooManySecretsMet(SECRETS_MET))
        }
    }

    pub(crate) fn bytes_spent(&self) -> EgressError {
        EgressError::BytesSpent(self.limits.bytes)
    }
}

//! Idempotency keys: who carries out the request of a key, and the answer that the same request gets again.
//!
//! A key is claimed under a [lease](super::lease) by the process that carries its request out, and settled
//! with the answer, which is kept. What every claim of a key has in common is its [`KeyClaim::Claimed`] id:
//! whatever is made under that id (a job) is made once, however often the key is claimed.

use std::time::Duration;

use boxed_async::boxed_async;

use super::lease::Renewal;

/// How long a key and its answer are kept, counted from the first request (interface of the field: a day).
pub const KEPT: Duration = Duration::from_hours(24);

/// How long a key stays claimed without being renewed: what a retry waits at most for a process that died.
pub const LEASE: Duration = Duration::from_secs(15);

/// Most bytes of one answer. A larger one is not kept.
pub const MOST_BYTES_OF_AN_ANSWER: usize = 1 << 20;

/// Keeps idempotency keys, for all replicas that share the store.
#[boxed_async]
pub trait IdempotencyStore: Send + Sync {
    /// Claims a key for a request, in one atomic step. `owner` is new for every call: it proves the claim.
    async fn claim(&self, key: IdempotencyKey<'_>, owner: &str, terms: KeyTerms) -> KeyResult<KeyClaim>;

    /// Makes the lease last that long from now.
    async fn renew(&self, key: IdempotencyKey<'_>, owner: &str, lease: Duration) -> KeyResult<Renewal>;

    /// Keeps the answer for as long as the key is kept, and ends the claim. False when the claim was lost:
    /// then nothing is changed.
    async fn settle(&self, key: IdempotencyKey<'_>, owner: &str, answer: &[u8]) -> KeyResult<bool>;

    /// Ends the claim without an answer: the same request may be tried again at once. Nothing when the claim
    /// was lost.
    async fn release(&self, key: IdempotencyKey<'_>, owner: &str) -> KeyResult;
}

/// A key with the request that it came with. All three are short texts without control characters, such as
/// digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyKey<'a> {
    /// Whose key it is: keys of different callers are different keys.
    pub caller: &'a str,
    pub key: &'a str,
    /// What the request is: equal for equal requests only.
    pub request: &'a str,
}

/// For how long a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyTerms {
    /// How long the claim lasts without being renewed; usually [`LEASE`].
    pub lease: Duration,
    /// How long the key is kept when it is new; usually [`KEPT`].
    pub kept: Duration,
}

impl Default for KeyTerms {
    fn default() -> Self {
        Self { lease: LEASE, kept: KEPT }
    }
}

/// What one caller may keep. Beyond it their oldest keys are forgotten, except those in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyBounds {
    /// Most keys.
    pub keys: u32,
    /// Most bytes of all answers.
    pub bytes: u64,
}

impl Default for KeyBounds {
    fn default() -> Self {
        Self { keys: 10_000, bytes: 32 << 20 }
    }
}

/// What a claim finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyClaim {
    /// The caller is to carry the request out.
    Claimed {
        /// Every claim of this key gets this id, as long as the key is kept: the owner of the first claim.
        id: String,
    },
    /// Somebody carries the request out at this moment.
    InFlight,
    /// The request has been carried out.
    Answered(Vec<u8>),
    /// The key came with another request before.
    OtherRequest,
}

/// The result of an operation on a store of idempotency keys.
pub type KeyResult<T = ()> = Result<T, IdempotencyError>;

/// Why the store could not do it. It holds no address and no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store of idempotency keys failed: {0}")]
pub struct IdempotencyError(pub String);

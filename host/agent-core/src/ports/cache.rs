//! Results that are kept and given again to the same question.

use std::time::Duration;

use boxed_async::boxed_async;
use bytes::Bytes;

/// Keeps results, each as the bytes of its JSON, under keys.
#[boxed_async]
pub trait ResultCache: Send + Sync {
    /// The bytes that are kept under that key. Others may have written them: nothing is known of what they
    /// are.
    async fn get(&self, key: &str) -> Result<Option<Bytes>, CacheError>;

    /// Keeps the JSON of a result for that long.
    async fn put(&self, key: &str, json: Bytes, time_to_live: Duration) -> Result<(), CacheError>;

    /// Deletes every key that matches a pattern in the glob style of Redis (`*`, `?`, `[…]`, `\` before a
    /// character that is meant literally) and says how many they were. Keys of others that live in the same
    /// store are never touched: only those that begin with [`NAMESPACE`] are looked at.
    async fn delete_matching(&self, pattern: &str) -> Result<u64, CacheError>;
}

/// What every key begins with (host/docs/interface/endpoints.md#variant-b,
/// host/docs/interface/decisions-http.md#the-cache).
pub const NAMESPACE: &str = "agent:";

/// Why a cache could not do it. It holds no address and no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the result cache failed: {0}")]
pub struct CacheError(pub String);

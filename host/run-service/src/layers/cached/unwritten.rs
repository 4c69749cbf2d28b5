//! A cache whose results are written behind the answers. Those that are on their way are remembered, so that
//! who asks again meanwhile is answered all the same, and so that deleting waits for them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{CacheError, ResultCache, Spawn};
use agent_core::words::AgentResult;
use boxed_async::boxed_async;
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::PATIENCE;

/// A cache, and what is on its way to it. Clones are the same.
#[derive(Clone)]
pub struct WriteBehindCache {
    pub(super) cache: Arc<dyn ResultCache>,
    pub(super) spawn: Arc<dyn Spawn>,
    pub(super) unwritten: Arc<Unwritten>,
}

impl WriteBehindCache {
    /// Writes to `cache` in tasks of `spawn`.
    pub fn new(cache: Arc<dyn ResultCache>, spawn: Arc<dyn Spawn>) -> Self {
        Self { cache, spawn, unwritten: Arc::default() }
    }
}

#[boxed_async]
impl ResultCache for WriteBehindCache {
    async fn get(&self, key: &str) -> Result<Option<Bytes>, CacheError> {
        self.cache.get(key).await
    }

    async fn put(&self, key: &str, json: Bytes, time_to_live: Duration) -> Result<(), CacheError> {
        self.cache.put(key, json, time_to_live).await
    }

    /// What was answered before is deleted, also what is on its way.
    async fn delete_matching(&self, pattern: &str) -> Result<u64, CacheError> {
        // Each is written or given up in that time.
        let _written = timeout(PATIENCE * 2, self.unwritten.settled()).await;
        self.cache.delete_matching(pattern).await
    }
}

/// Most results that are on their way at once. They are held in memory, and a cache that does not answer is
/// given up after [`PATIENCE`] each.
const MOST: usize = 1_000;

/// The results, by key.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    entries: Mutex<Entries>,
    removed: Notify,
}

#[derive(Debug, Default)]
struct Entries {
    results: HashMap<String, (u64, Arc<AgentResult>)>,
    added: u64,
}

/// A result that is on its way until this is dropped: when it is written or given up, or with its task.
pub(super) struct OnItsWay {
    unwritten: Arc<Unwritten>,
    key: String,
    /// Tells it from a later one under the same key.
    number: u64,
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let mut entries = self.unwritten.entries.lock();
        if entries.results.get(&self.key).is_some_and(|(newest, _)| *newest == self.number) {
            entries.results.remove(&self.key);
        }
        drop(entries);
        self.unwritten.removed.notify_waiters();
    }
}

impl Unwritten {
    /// The result under that key.
    pub(super) fn get(&self, key: &str) -> Option<Arc<AgentResult>> {
        self.entries.lock().results.get(key).map(|(_, result)| result.clone())
    }

    /// Adds a result, unless there are too many.
    pub(super) fn add(self: &Arc<Self>, key: &str, result: &Arc<AgentResult>) -> Option<OnItsWay> {
        let mut entries = self.entries.lock();
        if entries.results.len() >= MOST {
            return None;
        }
        entries.added += 1;
        let number = entries.added;
        entries.results.insert(key.to_owned(), (number, result.clone()));
        Some(OnItsWay { unwritten: self.clone(), key: key.to_owned(), number })
    }

    /// Waits until nothing is on its way.
    async fn settled(&self) {
        loop {
            let removed = self.removed.notified();
            if self.entries.lock().results.is_empty() {
                return;
            }
            removed.await;
        }
    }
}

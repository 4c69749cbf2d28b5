//! A cache that can only forget, and says what.

use parking_lot::Mutex;
use std::time::Duration;

use agent_core::ports::{CacheError, ResultCache};
use async_trait::async_trait;
use bytes::Bytes;

#[derive(Default)]
pub(crate) struct Cache {
    deleted: Mutex<Vec<String>>,
    broken: Mutex<bool>,
}

impl Cache {
    /// The patterns that were deleted.
    pub(crate) fn deleted(&self) -> Vec<String> {
        self.deleted.lock().clone()
    }

    /// From now on nothing can be deleted.
    pub(crate) fn break_down(&self) {
        *self.broken.lock() = true;
    }
}

#[async_trait]
impl ResultCache for Cache {
    async fn get(&self, _key: &str) -> Result<Option<Bytes>, CacheError> {
        panic!("the edge does not read results")
    }

    async fn put(&self, _: &str, _: Bytes, _: Duration) -> Result<(), CacheError> {
        panic!("the edge does not keep results")
    }

    async fn delete_matching(&self, pattern: &str) -> Result<u64, CacheError> {
        if *self.broken.lock() {
            return Err(CacheError("the store is gone".into()));
        }
        self.deleted.lock().push(pattern.into());
        Ok(3)
    }
}

//! A key-value store for one component under test: in memory, and it counts what is done with it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_core::ports::{KeyValueError, KeyValueStore, Space, key_value};
use boxed_async::boxed_async;

/// Values by their keys. There is one space: one component is tested, on behalf of nobody.
#[derive(Debug, Default)]
pub(crate) struct CountedValues {
    values: Mutex<BTreeMap<String, Vec<u8>>>,
    reads: AtomicUsize,
    writes: AtomicUsize,
}

impl CountedValues {
    /// How often was read and written since it was asked last.
    pub(crate) fn take_counts(&self) -> (usize, usize) {
        (self.reads.swap(0, Ordering::Relaxed), self.writes.swap(0, Ordering::Relaxed))
    }

    /// All that is kept now.
    pub(crate) fn kept(&self) -> BTreeMap<String, Vec<u8>> {
        self.values.lock().clone()
    }

    fn read(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.values.lock()
    }

    fn write(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.values.lock()
    }
}

/// Puts a value under a key if the space has room for it.
fn put(
    values: &mut BTreeMap<String, Vec<u8>>,
    key: &str,
    value: &[u8],
    quota: u64,
) -> Result<(), KeyValueError> {
    key_value::check_key(key)?;
    key_value::check_value(value)?;
    let others = values.iter().filter(|(other, _)| *other != key);
    let bytes: usize = others.map(|(key, value)| key.len() + value.len()).sum();
    if (bytes + key.len() + value.len()) as u64 > quota {
        return Err(KeyValueError::QuotaExceeded { quota });
    }
    values.insert(key.to_owned(), value.to_vec());
    Ok(())
}

#[boxed_async]
impl KeyValueStore for CountedValues {
    async fn get(&self, _space: Space<'_>, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        key_value::check_key(key)?;
        Ok(self.read().get(key).cloned())
    }

    async fn set(
        &self,
        space: Space<'_>,
        key: &str,
        value: &[u8],
        time_to_live: Option<Duration>,
    ) -> Result<(), KeyValueError> {
        let mut values = self.write();
        put(&mut values, key, value, space.quota)?;
        if time_to_live == Some(Duration::ZERO) {
            values.remove(key);
        }
        Ok(())
    }

    async fn swap(
        &self,
        space: Space<'_>,
        key: &str,
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<bool, KeyValueError> {
        let mut values = self.write();
        if values.get(key).map(Vec::as_slice) != expected {
            return Ok(false);
        }
        put(&mut values, key, value, space.quota).map(|()| true)
    }

    async fn add(&self, space: Space<'_>, key: &str, delta: i64) -> Result<i64, KeyValueError> {
        let mut values = self.write();
        let sum = key_value::add_to(values.get(key).map(Vec::as_slice), delta)?;
        put(&mut values, key, sum.to_string().as_bytes(), space.quota).map(|()| sum)
    }

    async fn delete(&self, _space: Space<'_>, key: &str) -> Result<bool, KeyValueError> {
        key_value::check_key(key)?;
        Ok(self.write().remove(key).is_some())
    }

    async fn list_keys(
        &self,
        _space: Space<'_>,
        prefix: &str,
        after: Option<&str>,
        most: u32,
    ) -> Result<Vec<String>, KeyValueError> {
        let most = usize::try_from(most.min(key_value::MOST_KEYS_LISTED)).unwrap_or(usize::MAX);
        let values = self.read();
        let keys = values
            .keys()
            .filter(|key| key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after));
        Ok(keys.take(most).cloned().collect())
    }
}

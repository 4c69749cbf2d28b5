//! A key-value store that keeps everything in memory, and fails on demand. Its time is tokio's, so that a
//! test may pause and advance it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use boxed_async::boxed_async;
use tokio::time::Instant;

use super::Switch;
use crate::ports::key_value::{
    KeyValueError, KeyValueStore, LONGEST_TIME_TO_LIVE, MOST_KEYS_LISTED, Space, add_to, check_key,
    check_value, range_of_keys,
};

/// Values in memory.
#[derive(Debug, Default)]
pub struct TestKeyValues {
    /// Breaks it.
    pub switch: Switch,
    spaces: Mutex<HashMap<Name, Values>>,
}

/// A component and a user.
type Name = (String, Option<String>);

/// By their keys.
type Values = BTreeMap<Vec<u8>, StoredValue>;

#[derive(Debug, Clone)]
struct StoredValue {
    value: Vec<u8>,
    expires_at: Option<Instant>,
}

impl TestKeyValues {
    /// The values of a space, without those that have expired.
    async fn open(&self, space: Space<'_>) -> Result<Opened<'_>, KeyValueError> {
        self.switch.check().await.map_err(KeyValueError::Unavailable)?;
        let name = (space.component.to_owned(), space.user.map(ToOwned::to_owned));
        let mut spaces = self.spaces.lock();
        let now = Instant::now();
        spaces
            .entry(name.clone())
            .or_default()
            .retain(|_, kept| kept.expires_at.is_none_or(|expires_at| expires_at > now));
        Ok(Opened { spaces, name, quota: space.quota })
    }
}

/// A space in which nobody else reads or writes.
struct Opened<'a> {
    spaces: MutexGuard<'a, HashMap<Name, Values>>,
    name: Name,
    quota: u64,
}

impl Opened<'_> {
    fn values(&mut self) -> &mut Values {
        self.spaces.entry(self.name.clone()).or_default()
    }

    fn put(&mut self, key: &str, kept: StoredValue) -> Result<(), KeyValueError> {
        let quota = self.quota;
        let values = self.values();
        let before = size(values);
        let replaced = values.insert(key.into(), kept);
        let after = size(values);
        if after <= before || after <= quota {
            return Ok(());
        }
        match replaced {
            Some(replaced) => drop(values.insert(key.into(), replaced)),
            None => drop(values.remove(key.as_bytes())),
        }
        Err(KeyValueError::QuotaExceeded { quota })
    }
}

fn size(values: &Values) -> u64 {
    values.iter().map(|(key, kept)| (key.len() + kept.value.len()) as u64).sum()
}

#[boxed_async]
impl KeyValueStore for TestKeyValues {
    async fn get(&self, space: Space<'_>, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        check_key(key)?;
        Ok(self.open(space).await?.values().get(key.as_bytes()).map(|kept| kept.value.clone()))
    }

    async fn set(
        &self,
        space: Space<'_>,
        key: &str,
        value: &[u8],
        time_to_live: Option<Duration>,
    ) -> Result<(), KeyValueError> {
        check_key(key)?;
        check_value(value)?;
        let now = Instant::now();
        // A time that the clock does not reach is as good as none.
        let expires_at = time_to_live.and_then(|time| now.checked_add(time.min(LONGEST_TIME_TO_LIVE)));
        self.open(space).await?.put(key, StoredValue { value: value.into(), expires_at })
    }

    async fn swap(
        &self,
        space: Space<'_>,
        key: &str,
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<bool, KeyValueError> {
        check_key(key)?;
        check_value(value)?;
        let mut space = self.open(space).await?;
        if space.values().get(key.as_bytes()).map(|kept| &*kept.value) != expected {
            return Ok(false);
        }
        space.put(key, StoredValue { value: value.into(), expires_at: None }).map(|()| true)
    }

    async fn add(&self, space: Space<'_>, key: &str, delta: i64) -> Result<i64, KeyValueError> {
        check_key(key)?;
        let mut space = self.open(space).await?;
        let kept = space.values().get(key.as_bytes());
        let sum = add_to(kept.map(|kept| &*kept.value), delta)?;
        let expires_at = kept.and_then(|kept| kept.expires_at);
        space.put(key, StoredValue { value: sum.to_string().into(), expires_at })?;
        Ok(sum)
    }

    async fn delete(&self, space: Space<'_>, key: &str) -> Result<bool, KeyValueError> {
        check_key(key)?;
        Ok(self.open(space).await?.values().remove(key.as_bytes()).is_some())
    }

    async fn list_keys(
        &self,
        space: Space<'_>,
        prefix: &str,
        after: Option<&str>,
        most: u32,
    ) -> Result<Vec<String>, KeyValueError> {
        let mut space = self.open(space).await?;
        let Some(range) = range_of_keys(prefix, after) else { return Ok(vec![]) };
        let keys = space.values().range(range).take(most.min(MOST_KEYS_LISTED) as usize);
        Ok(keys.map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect())
    }
}

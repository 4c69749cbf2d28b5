//! The values that the calls of a shadow see: those of the store, and over them what the call itself wrote,
//! which nobody else ever sees.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::key_value::{MOST_KEYS_LISTED, add_to, check_key, check_value};
use agent_core::ports::{KeyValueError, KeyValueStore, Space};
use boxed_async::boxed_async;

/// A store whose writes stay in it. Made for one call, which has one space.
pub(crate) struct Overlay {
    below: Arc<dyn KeyValueStore>,
    /// What was written; `None` under keys that were removed.
    written: Mutex<BTreeMap<String, Option<Vec<u8>>>>,
}

impl Overlay {
    pub(crate) fn new(below: Arc<dyn KeyValueStore>) -> Self {
        Self { below, written: Mutex::default() }
    }

    /// Takes a write in, if what was written until now fits into the quota.
    fn write(&self, space: Space<'_>, key: &str, value: Option<Vec<u8>>) -> Result<(), KeyValueError> {
        check_key(key)?;
        check_value(value.as_deref().unwrap_or_default())?;
        let mut written = self.written.lock();
        let before = written.insert(key.to_owned(), value);
        let bytes: usize =
            written.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum();
        if bytes as u64 > space.quota {
            match before {
                Some(before) => written.insert(key.to_owned(), before),
                None => written.remove(key),
            };
            return Err(KeyValueError::QuotaExceeded { quota: space.quota });
        }
        Ok(())
    }
}

#[boxed_async]
impl KeyValueStore for Overlay {
    async fn get(&self, space: Space<'_>, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        let own = self.written.lock().get(key).cloned();
        match own {
            Some(value) => Ok(value),
            None => self.below.get(space, key).await,
        }
    }

    async fn set(
        &self,
        space: Space<'_>,
        key: &str,
        value: &[u8],
        time_to_live: Option<Duration>,
    ) -> Result<(), KeyValueError> {
        // No call lives long enough to see anything but zero end.
        let value = (time_to_live != Some(Duration::ZERO)).then(|| value.to_vec());
        self.write(space, key, value)
    }

    async fn swap(
        &self,
        space: Space<'_>,
        key: &str,
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<bool, KeyValueError> {
        if self.get(space, key).await?.as_deref() != expected {
            return Ok(false);
        }
        self.write(space, key, Some(value.to_vec()))?;
        Ok(true)
    }

    async fn add(&self, space: Space<'_>, key: &str, delta: i64) -> Result<i64, KeyValueError> {
        let sum = add_to(self.get(space, key).await?.as_deref(), delta)?;
        self.write(space, key, Some(sum.to_string().into_bytes()))?;
        Ok(sum)
    }

    async fn delete(&self, space: Space<'_>, key: &str) -> Result<bool, KeyValueError> {
        let was_there = self.get(space, key).await?.is_some();
        self.write(space, key, None)?;
        Ok(was_there)
    }

    async fn list_keys(
        &self,
        space: Space<'_>,
        prefix: &str,
        after: Option<&str>,
        most: u32,
    ) -> Result<Vec<String>, KeyValueError> {
        let most = most.min(MOST_KEYS_LISTED);
        let (mut keys, mut last) = (BTreeSet::<String>::new(), after.map(str::to_owned));
        // Keys that the call removed are left out, so more may have to be asked for.
        while keys.len() < most as usize {
            let page = self.below.list_keys(space, prefix, last.as_deref(), most).await?;
            let is_last = page.len() < most as usize;
            last = page.last().cloned().or(last);
            let written = self.written.lock();
            keys.extend(page.into_iter().filter(|key| !written.contains_key(key)));
            if is_last {
                break;
            }
        }
        let written = self.written.lock();
        let is_listed =
            |key: &&String| key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after);
        keys.extend(
            written
                .iter()
                .filter(|(_, value)| value.is_some())
                .map(|(key, _)| key)
                .filter(is_listed)
                .cloned(),
        );
        Ok(keys.into_iter().take(most as usize).collect())
    }
}

#[cfg(test)]
mod tests {
    use agent_core::testing::TestKeyValues;

    use super::*;

    const SPACE: Space<'_> = Space { component: "notes", user: Some("u"), quota: 100 };

    /// A store with these keys, each with its own name as the value, and an overlay over it.
    async fn overlay(keys: &[&str]) -> (Arc<TestKeyValues>, Overlay) {
        let below = Arc::new(TestKeyValues::default());
        for key in keys {
            below.set(SPACE, key, key.as_bytes(), None).await.unwrap();
        }
        (below.clone(), Overlay::new(below))
    }

    #[tokio::test]
    async fn what_a_call_writes_is_seen_by_it_and_by_nobody_else() {
        let (below, overlay) = overlay(&["a", "n"]).await;
        overlay.set(SPACE, "a", b"new", None).await.unwrap();
        assert!(overlay.swap(SPACE, "b", None, b"there").await.unwrap());
        assert!(!overlay.swap(SPACE, "b", None, b"again").await.unwrap());
        assert_eq!(overlay.add(SPACE, "count", 2).await.unwrap(), 2);
        assert_eq!(overlay.add(SPACE, "n", 1).await, Err(KeyValueError::NotANumber));
        assert!(overlay.delete(SPACE, "n").await.unwrap());
        assert!(!overlay.delete(SPACE, "n").await.unwrap());
        assert_eq!(overlay.get(SPACE, "a").await.unwrap().as_deref(), Some(b"new".as_slice()));
        assert_eq!(overlay.get(SPACE, "n").await.unwrap(), None);
        assert_eq!(overlay.list_keys(SPACE, "", None, 10).await.unwrap(), ["a", "b", "count"]);
        assert_eq!(below.list_keys(SPACE, "", None, 10).await.unwrap(), ["a", "n"]);
        assert_eq!(below.get(SPACE, "a").await.unwrap().as_deref(), Some(b"a".as_slice()));
    }

    #[tokio::test]
    async fn a_listing_is_full_although_keys_were_removed() {
        let (_below, overlay) = overlay(&["a", "b", "c", "d", "e"]).await;
        for key in ["a", "b", "d"] {
            overlay.delete(SPACE, key).await.unwrap();
        }
        overlay.set(SPACE, "cc", b"", None).await.unwrap();
        assert_eq!(overlay.list_keys(SPACE, "", None, 2).await.unwrap(), ["c", "cc"]);
        assert_eq!(overlay.list_keys(SPACE, "", Some("cc"), 2).await.unwrap(), ["e"]);
        assert_eq!(overlay.list_keys(SPACE, "c", None, 2).await.unwrap(), ["c", "cc"]);
    }

    #[tokio::test]
    async fn what_no_store_takes_is_refused() {
        let (_below, overlay) = overlay(&[]).await;
        let long = "x".repeat(300);
        for (key, bytes) in [("", 1), (long.as_str(), 1), ("a", 70_000)] {
            let refused = overlay.set(SPACE, key, &vec![0; bytes], None).await;
            assert!(matches!(refused, Err(KeyValueError::TooLarge { .. })), "{key}: {refused:?}");
        }
        overlay.set(SPACE, "a", &[0; 99], None).await.unwrap();
        assert_eq!(
            overlay.set(SPACE, "b", b"", None).await,
            Err(KeyValueError::QuotaExceeded { quota: 100 })
        );
        let refused = overlay.set(SPACE, "a", &[1; 100], None).await;
        assert_eq!(refused, Err(KeyValueError::QuotaExceeded { quota: 100 }));
        assert_eq!(overlay.get(SPACE, "a").await.unwrap(), Some(vec![0; 99]), "as it was");
    }
}

//! Values that tools keep between calls: a small key-value store per component, or per component and user.
//!
//! Keys and values are bytes to the store: two keys are one only when their bytes are, and keys are ordered
//! by their bytes. Times to live count by the store's own clock, so that replicas whose clocks differ agree
//! on what has expired. What has expired is as good as absent: nothing reads it, and it does not count
//! against a quota.
//!
//! The quota of a space holds whoever writes at once: a store checks and writes in one step. Removing what
//! has expired is the business of writes, in bounded batches, so that nobody waits for the garbage of others.

use std::ops::Range;
use std::time::Duration;

use boxed_async::boxed_async;

/// Longest key, in bytes.
pub const MOST_KEY_BYTES: usize = 256;

/// Longest value, in bytes: what one step of a store may take from the time of others.
pub const MOST_VALUE_BYTES: usize = 64 << 10;

/// Most keys of one listing.
pub const MOST_KEYS_LISTED: u32 = 1000;

/// Longest time to live; a longer one counts as this one, some 140,000 years. Redis computes with
/// floating-point numbers, which hold whole milliseconds up to twice that.
pub const LONGEST_TIME_TO_LIVE: Duration = Duration::from_millis(1 << 52);

/// Keeps values under keys, each in a space.
///
/// A key has 1 to [`MOST_KEY_BYTES`] bytes and a value up to [`MOST_VALUE_BYTES`]; anything else is
/// [`KeyValueError::TooLarge`], before the store is asked. Every operation fails within a time limit of the
/// store when that does not answer.
///
/// Writes are not cancellation-safe: dropped, or failed with [`KeyValueError::Unavailable`], one may have
/// been carried out or not, but never in part and never twice.
#[boxed_async]
pub trait KeyValueStore: Send + Sync {
    /// The value under a key.
    async fn get(&self, space: Space<'_>, key: &str) -> Result<Option<Vec<u8>>, KeyValueError>;

    /// Puts a value under a key, whatever was there: for that long, or for good. After a time to live of zero
    /// nothing is there.
    async fn set(
        &self,
        space: Space<'_>,
        key: &str,
        value: &[u8],
        time_to_live: Option<Duration>,
    ) -> Result<(), KeyValueError>;

    /// Puts a value under a key, for good, if what is there is `expected`, where `None` means that nothing
    /// is. False, and nothing changed, if it is something else.
    async fn swap(
        &self,
        space: Space<'_>,
        key: &str,
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<bool, KeyValueError>;

    /// Adds to the number under a key and says the sum, which is kept as decimal text.
    /// What is not there counts as 0 and stays for good; what is there keeps its time to live.
    /// [`KeyValueError::NotANumber`], and nothing changed, if the value is no such text or the sum does not
    /// fit.
    async fn add(&self, space: Space<'_>, key: &str, delta: i64) -> Result<i64, KeyValueError>;

    /// Removes a key. False if nothing was there.
    async fn delete(&self, space: Space<'_>, key: &str) -> Result<bool, KeyValueError>;

    /// Keys that begin with `prefix` and come after `after`, in the order of their bytes: at most `most`, and
    /// at most [`MOST_KEYS_LISTED`]. Neither text has to be a key.
    async fn list_keys(
        &self,
        space: Space<'_>,
        prefix: &str,
        after: Option<&str>,
        most: u32,
    ) -> Result<Vec<String>, KeyValueError>;
}

/// Whose values they are. Different names are different spaces, whatever characters they have.
#[derive(Debug, Clone, Copy)]
pub struct Space<'a> {
    /// The component that keeps them.
    pub component: &'a str,
    /// The user whose they are; without one, all callers of the component share them.
    pub user: Option<&'a str>,
    /// How many bytes the keys and values of the space may have together. It is no part of the space's name
    /// and is not stored: a write obeys the quota that comes with it, and one that leaves the space no larger
    /// is never refused, so that a space whose quota was narrowed can be tidied up. Reading and deleting do
    /// not look at it.
    pub quota: u64,
}

/// Why a store did not do it. It holds no address, no secret, no key and no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyValueError {
    /// A key is empty or too long, or a value is too long.
    #[error("a {part} has {least} to {most} bytes, and this one has {bytes}")]
    TooLarge {
        /// `key` or `value`.
        part: &'static str,
        /// How many bytes it has at least.
        least: usize,
        /// How many bytes it may have.
        most: usize,
        /// How many it has.
        bytes: usize,
    },
    /// The space would become larger than it may be. Nothing was written.
    #[error(
        "keys and values may have {quota} bytes together, and would have more: delete some, or keep less in them"
    )]
    QuotaExceeded {
        /// Most bytes of the space.
        quota: u64,
    },
    /// There is something else than a number under the key, or the sum is none that 64 bits hold. Nothing was
    /// written.
    #[error("the value is not a whole number as text, or the sum does not fit in 64 bits")]
    NotANumber,
    /// The store failed or did not answer in time. Whether a write was done is not known.
    #[error("the key-value store failed: {0}")]
    Unavailable(String),
}

/// Refuses a key that no store keeps.
pub fn check_key(key: &str) -> Result<(), KeyValueError> {
    check("key", 1, MOST_KEY_BYTES, key.len())
}

/// Refuses a value that no store keeps.
pub fn check_value(value: &[u8]) -> Result<(), KeyValueError> {
    check("value", 0, MOST_VALUE_BYTES, value.len())
}

fn check(part: &'static str, least: usize, most: usize, bytes: usize) -> Result<(), KeyValueError> {
    if (least..=most).contains(&bytes) {
        Ok(())
    } else {
        Err(KeyValueError::TooLarge { part, least, most, bytes })
    }
}

/// The sum of `delta` and the number that a value is, 0 when there is no value.
///
/// # Errors
/// [`KeyValueError::NotANumber`] when the value is no number, or the sum does not fit.
pub fn add_to(value: Option<&[u8]>, delta: i64) -> Result<i64, KeyValueError> {
    let number = value.map_or(Some(0), parse_number);
    number.and_then(|number| number.checked_add(delta)).ok_or(KeyValueError::NotANumber)
}

/// The number that a value is: decimal text as `i64` is written, without a plus sign, a blank or a zero too
/// many.
fn parse_number(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

/// The keys that begin with `prefix` and come after `after`, as a range of bytes; none if no key can.
pub fn range_of_keys(prefix: &str, after: Option<&str>) -> Option<Range<Vec<u8>>> {
    // No byte of UTF-8 is 0xFF, so there is always a next one.
    const BEHIND_ALL_KEYS: u8 = 0xff;
    if prefix.len() > MOST_KEY_BYTES {
        return None;
    }
    let mut end = prefix.as_bytes().to_vec();
    match end.last_mut() {
        Some(last) => *last += 1,
        None => end.push(BEHIND_ALL_KEYS),
    }
    // What is cut off is behind what makes a difference to any key.
    let after = after.map(|after| after.as_bytes().iter().take(MOST_KEY_BYTES).copied());
    let start = match after {
        // What comes next after some bytes are the same with a zero behind them.
        Some(after) => after.chain([0]).collect::<Vec<_>>().max(prefix.as_bytes().to_vec()),
        None => prefix.as_bytes().to_vec(),
    };
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_is_written_in_one_way() {
        for number in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(parse_number(number.to_string().as_bytes()), Some(number));
        }
        for text in [
            "",
            "-",
            "-0",
            "+1",
            "01",
            " 1",
            "1 ",
            "1\n",
            "1.0",
            "1e3",
            "0x1",
            "١",
            "\0",
            "9223372036854775808",
        ] {
            assert_eq!(parse_number(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_number(b"\xff1"), None);
    }

    #[test]
    fn a_refusal_says_what_is_allowed() {
        let error = check_key("").unwrap_err().to_string();
        assert_eq!(error, "a key has 1 to 256 bytes, and this one has 0");
        check_key(&"k".repeat(MOST_KEY_BYTES)).unwrap();
        check_key(&"k".repeat(MOST_KEY_BYTES + 1)).unwrap_err();
        check_value(&vec![0; MOST_VALUE_BYTES]).unwrap();
        check_value(&vec![0; MOST_VALUE_BYTES + 1]).unwrap_err();
    }

    #[test]
    fn texts_that_no_key_reaches_are_compared_all_the_same() {
        let longest = "k".repeat(MOST_KEY_BYTES);
        assert_eq!(range_of_keys(&format!("{longest}k"), None), None);
        let range = range_of_keys("", Some(&format!("{longest}a"))).unwrap();
        assert!(!range.contains(&longest.clone().into_bytes()), "it comes before");
        assert!(range.contains(&b"l".to_vec()));
        assert_eq!(range_of_keys("a", Some("b")), None);
    }

    proptest! {
        #[test]
        fn a_range_has_the_keys_that_it_should(
            prefix in "[\0aé🦀\u{10ffff}%_]{0,2}",
            after in proptest::option::of("[\0aé🦀\u{10ffff}%_]{0,3}"),
            key in "[\0aé🦀\u{10ffff}%_]{1,3}",
        ) {
            let is_meant = key.starts_with(&prefix) && after.as_ref().is_none_or(|after| key > *after);
            let range = range_of_keys(&prefix, after.as_deref());
            prop_assert_eq!(range.is_some_and(|range| range.contains(&key.into_bytes())), is_meant);
        }
    }
}

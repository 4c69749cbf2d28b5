//! Values that outlive the call, for components that the operator's policy grants it (`key-value = { … }`).
//! Who shares them is the policy's to say: all callers of the component, or each user has their own.
//!
//! Calls run at the same time, in several replicas too: what reads, changes and writes goes through
//! [`update`] or [`swap`], never through [`get`] and [`set`].

use std::time::Duration;

use crate::Failure;
use crate::bindings::agent::tool::types::Fault;
use crate::code::UNAVAILABLE;

#[cfg(target_arch = "wasm32")]
use crate::bindings::agent::tool::key_value as host;
#[cfg(not(target_arch = "wasm32"))]
use double as host;

/// The longest key, in bytes; the shortest has one.
pub const LONGEST_KEY: usize = 256;

/// The longest value, in bytes.
pub const LONGEST_VALUE: usize = 64 << 10;

/// The most keys that [`list_keys`] returns at once.
pub const MOST_KEYS: u32 = 1_000;

/// How often [`update`] tries against others who write.
const MOST_ATTEMPTS: usize = 16;

/// The codes of failures that the contract names for this interface, beside `denied` and `unavailable`.
pub mod code {
    /// A key or a value is too long.
    pub const TOO_LARGE: &str = "too-large";
    /// There is no room for what was to be written, and nothing was written.
    pub const QUOTA_EXCEEDED: &str = "quota-exceeded";
    /// The value to be added to is no number, or the sum does not fit.
    pub const NOT_A_NUMBER: &str = "not-a-number";
}

/// The value under a key.
///
/// # Errors
/// `denied` without a grant, or without a user where each has their own; `unavailable` when the store is
/// away.
pub fn get(key: &str) -> Result<Option<Vec<u8>>, Failure> {
    Ok(host::get(key)?)
}

/// Puts a value under a key, whatever was there, for good or for a time.
///
/// # Errors
/// As [`get`], and `too-large` or `quota-exceeded`.
pub fn set(key: &str, value: &[u8], keep_for: Option<Duration>) -> Result<(), Failure> {
    let ttl_ms = keep_for.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    Ok(host::set(key, value, ttl_ms)?)
}

/// Puts a value under a key if what is there is `expected`, where none means that nothing is there. False,
/// and nothing done, if it is something else.
///
/// # Errors
/// As [`set`].
pub fn swap(key: &str, expected: Option<&[u8]>, value: &[u8]) -> Result<bool, Failure> {
    Ok(host::swap(key, expected, value)?)
}

/// Changes the value under a key, whoever else changes it at the same time: `change` gets what is there and
/// returns what is to be there, and is asked again when somebody else was faster. Returns what was written.
///
/// # Errors
/// As [`set`], what `change` fails with, and `unavailable` when others were faster every time.
pub fn update(
    key: &str,
    mut change: impl FnMut(Option<&[u8]>) -> Result<Vec<u8>, Failure>,
) -> Result<Vec<u8>, Failure> {
    for _ in 0..MOST_ATTEMPTS {
        let present = get(key)?;
        let value = change(present.as_deref())?;
        if swap(key, present.as_deref(), &value)? {
            return Ok(value);
        }
    }
    Err(Failure::new(UNAVAILABLE, "others kept changing the same value at the same time: try again"))
}

/// Adds to the number under a key and returns the sum; what is not there counts as 0.
///
/// # Errors
/// As [`set`], and `not-a-number`.
pub fn add(key: &str, delta: i64) -> Result<i64, Failure> {
    Ok(host::add(key, delta)?)
}

/// Removes a key. False if nothing was there.
///
/// # Errors
/// As [`get`].
pub fn delete(key: &str) -> Result<bool, Failure> {
    Ok(host::delete(key)?)
}

/// Keys that begin with `prefix` and come after `after`, in the order of their bytes: at most `most`, and at
/// most [`MOST_KEYS`].
///
/// # Errors
/// As [`get`].
pub fn list_keys(prefix: &str, after: Option<&str>, most: u32) -> Result<Vec<String>, Failure> {
    Ok(host::list_keys(prefix, after, most)?)
}

impl From<Fault> for Failure {
    fn from(Fault { code, message }: Fault) -> Self {
        Self::new(code, message)
    }
}

/// A native test's store: in memory, each test thread's own, empty at first. It keeps the contract's rules.
#[cfg(not(target_arch = "wasm32"))]
pub mod double {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::ops::Bound;

    use super::code::{NOT_A_NUMBER, QUOTA_EXCEEDED, TOO_LARGE};
    use super::{Fault, LONGEST_KEY, LONGEST_VALUE, MOST_KEYS};
    use crate::clock;

    /// Bytes of keys and values unless the test says otherwise: the policy's default.
    const BYTES: usize = 64 << 10;

    struct Entry {
        value: Vec<u8>,
        until_ms: Option<u64>,
    }

    struct Store {
        entries: BTreeMap<String, Entry>,
        bytes: usize,
        refusal: Option<&'static str>,
        rival: Option<Box<dyn FnMut()>>,
    }

    thread_local! {
        static STORE: RefCell<Store> =
            const { RefCell::new(Store { entries: BTreeMap::new(), bytes: BYTES, refusal: None, rival: None }) };
    }

    /// Bounds the bytes of all keys and values together.
    pub fn limit_bytes(bytes: usize) {
        STORE.with_borrow_mut(|store| store.bytes = bytes);
    }

    /// Has every operation fail with that code from now on, or none.
    pub fn refuse(code: Option<&'static str>) {
        STORE.with_borrow_mut(|store| store.refusal = code);
    }

    /// Has somebody else act just before every [`swap`](super::swap) of the tool.
    pub fn act_before_swaps(rival: impl FnMut() + 'static) {
        STORE.with_borrow_mut(|store| store.rival = Some(Box::new(rival)));
    }

    fn fault(code: &str, message: impl Into<String>) -> Fault {
        Fault { code: code.to_owned(), message: message.into() }
    }

    impl Store {
        fn check(&mut self, key: &str) -> Result<(), Fault> {
            if let Some(code) = self.refusal {
                return Err(fault(code, format!("the test has it {code}")));
            }
            if key.len() > LONGEST_KEY || key.is_empty() {
                return Err(fault(TOO_LARGE, format!("a key has 1 to {LONGEST_KEY} bytes")));
            }
            let now = clock::now_ms();
            self.entries.retain(|_, entry| entry.until_ms.is_none_or(|until| until > now));
            Ok(())
        }

        fn put(&mut self, key: &str, value: &[u8], until_ms: Option<u64>) -> Result<(), Fault> {
            if value.len() > LONGEST_VALUE {
                return Err(fault(TOO_LARGE, format!("a value has up to {LONGEST_VALUE} bytes")));
            }
            let others = self.entries.iter().filter(|(other, _)| *other != key);
            let used: usize = others.map(|(key, entry)| key.len() + entry.value.len()).sum();
            if used + key.len() + value.len() > self.bytes {
                return Err(fault(QUOTA_EXCEEDED, format!("there is no room beyond {} bytes", self.bytes)));
            }
            self.entries.insert(key.to_owned(), Entry { value: value.to_vec(), until_ms });
            Ok(())
        }
    }

    fn with<T>(key: &str, act: impl FnOnce(&mut Store) -> Result<T, Fault>) -> Result<T, Fault> {
        STORE.with_borrow_mut(|store| {
            store.check(key)?;
            act(store)
        })
    }

    pub(super) fn get(key: &str) -> Result<Option<Vec<u8>>, Fault> {
        with(key, |store| Ok(store.entries.get(key).map(|entry| entry.value.clone())))
    }

    pub(super) fn set(key: &str, value: &[u8], ttl_ms: Option<u64>) -> Result<(), Fault> {
        with(key, |store| store.put(key, value, ttl_ms.map(|ttl| clock::now_ms().saturating_add(ttl))))
    }

    pub(super) fn swap(key: &str, expected: Option<&[u8]>, value: &[u8]) -> Result<bool, Fault> {
        // Taken out while it acts: it may call the store itself.
        let rival = STORE.with_borrow_mut(|store| store.rival.take());
        if let Some(mut rival) = rival {
            rival();
            STORE.with_borrow_mut(|store| store.rival = Some(rival));
        }
        with(key, |store| {
            if store.entries.get(key).map(|entry| entry.value.as_slice()) != expected {
                return Ok(false);
            }
            store.put(key, value, None).map(|()| true)
        })
    }

    pub(super) fn add(key: &str, delta: i64) -> Result<i64, Fault> {
        with(key, |store| {
            let (present, until_ms) = store
                .entries
                .get(key)
                .map_or((Some(0), None), |entry| (read_number(&entry.value), entry.until_ms));
            let sum = present
                .and_then(|number| number.checked_add(delta))
                .ok_or_else(|| fault(NOT_A_NUMBER, "the value is no number, or the sum does not fit"))?;
            store.put(key, sum.to_string().as_bytes(), until_ms).map(|()| sum)
        })
    }

    fn read_number(value: &[u8]) -> Option<i64> {
        let text = std::str::from_utf8(value).ok()?;
        // Neither `+1` nor `01`, which `parse` takes.
        text.parse().ok().filter(|number: &i64| number.to_string() == text)
    }

    pub(super) fn delete(key: &str) -> Result<bool, Fault> {
        with(key, |store| Ok(store.entries.remove(key).is_some()))
    }

    pub(super) fn list_keys(prefix: &str, after: Option<&str>, most: u32) -> Result<Vec<String>, Fault> {
        with("any", |store| {
            let from = after.map_or(Bound::Included(prefix), |after| {
                if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) }
            });
            let keys = store.entries.range::<str, _>((from, Bound::Unbounded)).map(|(key, _)| key);
            let most = usize::try_from(most.min(MOST_KEYS)).unwrap_or(usize::MAX);
            Ok(keys.take_while(|key| key.starts_with(prefix)).take(most).cloned().collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{add, delete, double, get, list_keys, set, swap, update};

    #[test]
    fn values_are_kept_swapped_counted_and_removed() {
        assert_eq!(get("a"), Ok(None));
        set("a", b"1", None).unwrap();
        assert_eq!(swap("a", Some(b"2"), b"3"), Ok(false));
        assert_eq!(swap("a", Some(b"1"), b"3"), Ok(true));
        assert_eq!(swap("a", None, b"4"), Ok(false));
        assert_eq!(add("a", 4), Ok(7));
        assert_eq!(add("new", -1), Ok(-1));
        set("gone", b"", Some(Duration::ZERO)).unwrap();
        assert_eq!(get("gone"), Ok(None));
        assert_eq!((delete("a"), delete("a")), (Ok(true), Ok(false)));
        set("word", b"x", None).unwrap();
        assert_eq!(add("word", 1).unwrap_err().code, "not-a-number");
        set("odd", b"01", None).unwrap();
        assert_eq!(add("odd", 1).unwrap_err().code, "not-a-number");
    }

    #[test]
    fn keys_are_listed_by_prefix_in_pages() {
        for key in ["b", "note/2", "note/1", "note/3", "z"] {
            set(key, b"", None).unwrap();
        }
        assert_eq!(list_keys("note/", None, 2).unwrap(), ["note/1", "note/2"]);
        assert_eq!(list_keys("note/", Some("note/2"), 2).unwrap(), ["note/3"]);
        assert_eq!(list_keys("note/", Some("a"), 1).unwrap(), ["note/1"]);
    }

    #[test]
    fn what_the_host_refuses_is_a_failure_with_its_code() {
        double::limit_bytes(4);
        assert_eq!(set("key", b"12", None).unwrap_err().code, "quota-exceeded");
        assert_eq!(set("", b"", None).unwrap_err().code, "too-large");
        assert_eq!(set(&"k".repeat(257), b"", None).unwrap_err().code, "too-large");
        double::limit_bytes(1 << 20);
        let long = "v".repeat((64 << 10) + 1);
        assert_eq!(set("key", &long.as_bytes()[1..], None), Ok(()));
        assert_eq!(set("key", long.as_bytes(), None).unwrap_err().code, "too-large");
        double::refuse(Some("denied"));
        assert_eq!(list_keys("", None, 1).unwrap_err().code, "denied");
    }

    #[test]
    fn an_update_is_tried_again_when_somebody_was_faster_and_not_for_ever() {
        let mut left = 3;
        double::act_before_swaps(move || {
            if left > 0 {
                left -= 1;
                add("count", 10).unwrap();
            }
        });
        let increment = |present: Option<&[u8]>| {
            let present = present.map_or("0", |text| std::str::from_utf8(text).unwrap());
            Ok((present.parse::<i64>().unwrap() + 1).to_string().into_bytes())
        };
        assert_eq!(update("count", increment).unwrap(), b"31");
        double::act_before_swaps(|| drop(add("count", 10)));
        assert_eq!(update("count", increment).unwrap_err().code, "unavailable");
    }
}

//! Deserializing what a reply can do without.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::Value;

/// A value, or `None` when it is of another type: a reply that was paid for is not thrown away because a
/// server counts its tokens in words.
pub(crate) fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(T::deserialize(Value::deserialize(deserializer)?).ok())
}

/// A count, or `None` when it is no whole number from 0 on: some servers count in floats (`900.0`), and some
/// write null for what they did not count. For fields that may be missing it needs `default` beside it.
pub(crate) fn lenient_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    // The cast is of a whole number that is not negative; one beyond the range becomes its end.
    let from_float =
        || value.as_f64().filter(|count| count.fract() == 0.0 && *count >= 0.0).map(|count| count as u64);
    Ok(value.as_u64().or_else(from_float))
}

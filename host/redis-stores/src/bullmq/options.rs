//! What the producer of a job asked for: BullMQ's options as they are stored, in JSON and with its short
//! names (`de`, `fpof`, …). Node writes them, so nothing is certain about any of it; what cannot be read is
//! as if it had not been asked for.

use std::time::Duration;

use agent_core::backoff::exponential;
use agent_core::ports::queue::{ATTEMPTS, FIRST_BACKOFF};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::time::millis;

/// What older versions asked to keep of their own jobs: seconds, and how many of each set.
const OLD_BOUNDS: (u64, u64) = (7 * 24 * 60 * 60, 10_000);

/// How many of a user's jobs are listed. Older ones can still be read by their ids.
pub(super) const MOST_LISTED: isize = 1000;

/// Longest wait for the next attempt, whatever was asked for.
const LONGEST_BACKOFF: Duration = Duration::from_secs(24 * 60 * 60);

/// The options of one job.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Options(Map<String, Value>);

/// What follows a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Retry {
    pub(super) delay: Duration,
    /// The name of a strategy that is a function in somebody's Node worker, and is not known here.
    pub(super) unknown: Option<String>,
}

impl Options {
    pub(super) fn parse(text: Option<&str>) -> Self {
        let value = text.and_then(|text| serde_json::from_str(text).ok());
        Self(if let Some(Value::Object(map)) = value { map } else { Map::new() })
    }

    /// How often the job may be tried. Node writes 0 when nothing was asked for.
    pub(super) fn attempts(&self) -> Option<u64> {
        self.number("attempts").filter(|attempts| *attempts > 0)
    }

    /// What comes after an attempt that failed; nothing when there is to be no other.
    pub(super) fn retry(&self, attempts_made: u32) -> Option<Retry> {
        let failed = u64::from(attempts_made) + 1;
        if failed >= self.attempts().unwrap_or(u64::from(ATTEMPTS)) {
            return None;
        }
        let (delay, unknown) = self.backoff(failed);
        Some(Retry { delay: delay.min(LONGEST_BACKOFF), unknown })
    }

    /// BullMQ's own strategies, jitter included, and ours for what is none of them.
    fn backoff(&self, failed: u64) -> (Duration, Option<String>) {
        let further = u32::try_from(failed - 1).unwrap_or(u32::MAX).min(32);
        let doubled = |first: u64| millis(exponential(Duration::from_millis(first), further));
        let ours = doubled(millis(FIRST_BACKOFF));
        let (delay, unknown) = match self.0.get("backoff") {
            Some(Value::Object(asked)) => {
                let delay = asked.get("delay").and_then(whole).unwrap_or(0);
                let jitter = asked.get("jitter").and_then(Value::as_f64).unwrap_or(0.0).clamp(0.0, 1.0);
                match asked.get("type").and_then(Value::as_str) {
                    Some("fixed") => (spread(delay, jitter), None),
                    Some("exponential") => (spread(doubled(delay), jitter), None),
                    other => (ours, Some(other.unwrap_or("without a type").to_owned())),
                }
            }
            Some(number) if whole(number).is_some() => (whole(number).unwrap_or(0), None),
            // With attempts that were asked for and no wait between them there is none.
            _ if self.attempts().is_some() => (0, None),
            _ => (ours, None),
        };
        (Duration::from_millis(delay), unknown)
    }

    /// Whether the producer said what is to be kept of the job: `removeOnComplete` or `removeOnFail`. Older
    /// versions of ours said so of every job.
    pub(super) fn asks_for(&self, name: &str) -> bool {
        match self.0.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Object(keep)) => {
                let bounds = (keep.get("age").and_then(whole), keep.get("count").and_then(whole));
                bounds != (Some(OLD_BOUNDS.0), Some(OLD_BOUNDS.1))
            }
            Some(_) => true,
        }
    }

    /// Which ended jobs stay, as `moveToFinished` wants to hear it: what was asked for, else all. A bound
    /// would hold for every job of the set, those included that somebody asked to keep; `retention.rs`
    /// removes the others.
    pub(super) fn keep(&self, name: &str) -> Value {
        match self.0.get(name).filter(|_| self.asks_for(name)) {
            Some(Value::Bool(true)) => json!({ "count": 0 }),
            Some(Value::Bool(false)) => json!({ "count": -1 }),
            Some(Value::Object(keep)) => {
                let known = ["age", "count", "limit"].into_iter();
                let known = known.filter_map(|name| Some((name.to_owned(), rounded(keep.get(name)?)?)));
                Value::Object(known.collect())
            }
            Some(count) if rounded(count).is_some() => json!({ "count": rounded(count) }),
            _ => json!({ "count": -1 }),
        }
    }

    /// Whether one of BullMQ's switches is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The list of failures with one more, as long as was asked for. Where Node puts a stack stands what the
    /// owner of the job may read.
    pub(super) fn stacktrace(&self, before: Option<&str>, error: &str) -> String {
        let mut traces: Vec<Value> =
            before.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        traces.push(error.into());
        // None is asked for with 0, and all are kept without a limit.
        let kept = self
            .number("stackTraceLimit")
            .map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        traces.drain(..traces.len().saturating_sub(kept));
        Value::from(traces).to_string()
    }

    /// The schedule of a job that a job scheduler added.
    pub(super) fn repeat(&self) -> Option<&Map<String, Value>> {
        self.0.get("repeat").and_then(Value::as_object)
    }

    /// When this iteration was due, of a job that a scheduler added.
    pub(super) fn previous(&self) -> u64 {
        self.number("prevMillis").unwrap_or(0)
    }

    /// Replaces these options and keeps the others.
    pub(super) fn with(&self, others: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
        let mut map = self.0.clone();
        map.extend(others.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Value::Object(map)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(whole)
    }
}

/// A number that JavaScript wrote, who knows no whole ones.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
pub(super) fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|float| *float >= 0.0).map(|float| float as u64))
}

/// A value as a whole number with its sign: -1 keeps all.
fn rounded(value: &Value) -> Option<Value> {
    whole(value).map(Value::from).or_else(|| value.is_number().then(|| Value::from(-1)))
}

/// So much of a delay is left to chance, in the way BullMQ does.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of a delay fits where it came from"
)]
fn spread(delay: u64, jitter: f64) -> u64 {
    let delay = delay as f64;
    // The last bits of an id are drawn anew for each.
    let chance = (Uuid::now_v7().as_u128() & 0xffff_ffff) as f64 / f64::from(u32::MAX);
    (chance * delay * jitter + delay * (1.0 - jitter)).floor() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Options {
        Options::parse(Some(text))
    }

    #[test]
    fn attempts_and_backoff_are_as_asked_for_else_ours() {
        let delays = |text: &str| -> Vec<u64> {
            let options = options(text);
            (0..).map_while(|made| options.retry(made)).map(|retry| millis(retry.delay)).collect()
        };
        for (asked, expected) in [
            (r#"{"attempts": 0}"#, vec![2000, 4000]),
            (r#"{"attempts": 1}"#, vec![]),
            (r#"{"attempts": 3}"#, vec![0, 0]),
            (r#"{"attempts": 3, "backoff": 7}"#, vec![7, 7]),
            (r#"{"attempts": 3, "backoff": {"type": "fixed", "delay": 5}}"#, vec![5, 5]),
            (r#"{"attempts": 4.0, "backoff": {"type": "exponential", "delay": 10}}"#, vec![10, 20, 40]),
            (r#"{"attempts": 3, "backoff": {"type": "theirs"}}"#, vec![2000, 4000]),
            ("no JSON", vec![2000, 4000]),
        ] {
            assert_eq!(delays(asked), expected, "{asked}");
        }
        let theirs = options(r#"{"attempts": 2, "backoff": {"type": "theirs"}}"#).retry(0).unwrap();
        assert_eq!(theirs.unknown.as_deref(), Some("theirs"));
        let days = options(r#"{"attempts": 60, "backoff": {"type": "exponential", "delay": 1000}}"#);
        assert_eq!(days.retry(50).unwrap().delay, LONGEST_BACKOFF);
    }

    #[test]
    fn jitter_leaves_as_much_to_chance_as_was_asked_for() {
        let jittered = r#"{"attempts": 3, "backoff": {"type": "fixed", "delay": 1000, "jitter": 0.25}}"#;
        let delays: Vec<_> = (0..100).map(|_| millis(options(jittered).retry(0).unwrap().delay)).collect();
        assert!(delays.iter().all(|delay| (750..=1000).contains(delay)), "{delays:?}");
        assert!(delays.iter().any(|delay| *delay != delays[0]), "{delays:?}");
    }

    #[test]
    fn what_is_kept_is_as_asked_for_else_everything_until_it_is_swept() {
        for (asked, kept) in [
            (r#"{"removeOnComplete": true}"#, json!({ "count": 0 })),
            (r#"{"removeOnComplete": false}"#, json!({ "count": -1 })),
            (r#"{"removeOnComplete": 5}"#, json!({ "count": 5 })),
            (r#"{"removeOnComplete": {"age": 60.0, "x": 1}}"#, json!({ "age": 60 })),
            (r#"{"removeOnComplete": {"count": -1}}"#, json!({ "count": -1 })),
            ("{}", json!({ "count": -1 })),
            (r#"{"removeOnComplete": null}"#, json!({ "count": -1 })),
            (r#"{"removeOnComplete": {"age": 604800, "count": 10000}}"#, json!({ "count": -1 })),
        ] {
            assert_eq!(options(asked).keep("removeOnComplete"), kept, "{asked}");
        }
    }

    #[test]
    fn jobs_of_older_versions_of_ours_did_not_ask_to_be_kept() {
        for (asked, asks) in [
            ("{}", false),
            ("no JSON", false),
            (r#"{"removeOnComplete": null}"#, false),
            (r#"{"removeOnComplete": {"age": 604800, "count": 10000}}"#, false),
            (r#"{"removeOnComplete": {"age": 604800}}"#, true),
            (r#"{"removeOnComplete": {}}"#, true),
            (r#"{"removeOnComplete": false}"#, true),
            (r#"{"removeOnComplete": 5}"#, true),
        ] {
            assert_eq!(options(asked).asks_for("removeOnComplete"), asks, "{asked}");
            assert!(!options(asked).asks_for("removeOnFail"), "{asked}");
        }
    }

    #[test]
    fn failures_are_listed_up_to_the_limit() {
        for (asked, before, after) in [
            ("{}", None, r#"["third"]"#),
            ("{}", Some(r#"["first","second"]"#), r#"["first","second","third"]"#),
            ("{}", Some("no JSON"), r#"["third"]"#),
            (r#"{"stackTraceLimit": 2}"#, Some(r#"["first","second"]"#), r#"["second","third"]"#),
            (r#"{"stackTraceLimit": 0}"#, Some(r#"["first"]"#), "[]"),
        ] {
            assert_eq!(options(asked).stacktrace(before, "third"), after, "{asked}");
        }
    }
}

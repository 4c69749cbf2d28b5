//! What is promised of hashes and cursors that others write, for `host/fuzz`: functions that panic when it is
//! broken.

use std::collections::HashMap;

use tokio::time::Instant;

use super::job_hash::{FIELDS, read_claim, text};
use super::listing::Position;
use super::options::Options;
use super::retention::Place;
use super::schedule;

/// Attempts of a job that is retried without end.
const MOST_ATTEMPTS: u32 = 100;

/// A day, which no pause between two attempts is longer than.
const LONGEST_PAUSE_SECONDS: u64 = 24 * 60 * 60;

/// The fields of a hash. Any job of them is read, claimed and retried within bounds.
///
/// # Panics
/// When it is not.
pub fn read_job(fields: &HashMap<String, Vec<u8>>) {
    let field = |name: &str| fields.get(name).map(|bytes| text(bytes));
    let stored = FIELDS.iter().map(|name| fields.get(*name).cloned()).collect();
    let state = field("state").unwrap_or_else(|| "waiting".to_owned());
    if let Some(job) = super::job_hash::read_job("7", (state, stored)) {
        assert!(job.run_id.starts_with("run_"), "{job:?}");
        assert!(job.result.is_none_or(|result| is_json(result.get())), "a result is JSON");
    }
    let hash = fields.iter().map(|(name, bytes)| (name.clone(), text(bytes))).collect();
    let claim = read_claim("7".to_owned(), "token".to_owned(), &hash, Instant::now());
    assert!(claim.run_id.starts_with("run_"));
    let options = Options::parse(field("opts").as_deref());
    for made in 0..MOST_ATTEMPTS {
        let Some(retry) = options.retry(made) else { break };
        assert!(retry.delay.as_secs() <= LONGEST_PAUSE_SECONDS, "{retry:?}");
    }
    let traces = options.stacktrace(field("stacktrace").as_deref(), "failed");
    assert!(is_json(&traces), "{traces}");
    for name in ["removeOnComplete", "removeOnFail"] {
        let _ = (options.asks_for(name), options.keep(name));
    }
    schedule::read(&options);
    read_cursor(&field("cursor").unwrap_or_default());
}

/// By its grammar, which allows half of a surrogate pair: clients get what Node wrote.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// A cursor of a list is the one that was given out, and a place in a sweep is written as it was read.
fn read_cursor(cursor: &str) {
    for shards in [1, 3] {
        if let Ok(position) = Position::parse(cursor, shards) {
            assert_eq!(position.cursor(shards), cursor);
        }
    }
    if let Some(place) = Place::parse(cursor) {
        let again = Place::parse(&place.to_string());
        assert_eq!(again.map(|again| again.to_string()), Some(place.to_string()));
    }
}

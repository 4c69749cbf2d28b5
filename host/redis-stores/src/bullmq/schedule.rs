//! Job schedulers: the worker that claims an iteration adds the next one, as Node's worker does, with
//! BullMQ's own script.
//!
//! What does not belong here: making and removing schedulers, which producers do.

use std::collections::HashMap;

use agent_core::ports::QueueError;
use bullmq::job_scheduler::next_cron_millis;
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use super::official_scripts::Iteration;
use super::options::{Options, whole};
use super::store::{Store, broken, store_error};
use super::time::now;
use crate::redis::QueryError;

/// When a scheduler runs next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// At this time, in milliseconds.
    At(u64),
    /// So long after this iteration: the script knows when that was.
    Every,
    /// Never: it has reached its limit or its end.
    Never,
}

impl Store {
    /// Adds the next iteration of the scheduler that added this job, if one did. Asked again for the same
    /// job, it does nothing: the script knows which iteration the scheduler is at.
    ///
    /// An error may pass. Nothing else is lost by it: the job is claimed again when its lease has expired, so
    /// that a schedule never ends by an outage. What Redis refuses for good is a reason to end the job with,
    /// which is returned: otherwise it would be claimed and given up for ever. Node's worker gives it up as
    /// well, until it counts as stalled too often and fails.
    pub(super) async fn schedule_next(
        &self,
        job_id: &str,
        hash: &HashMap<String, String>,
    ) -> Result<Option<String>, QueueError> {
        let Some(scheduler) = hash.get("rjk") else { return Ok(None) };
        let refused = |error| self.refused(error, job_id, scheduler);
        if has_legacy_shape(scheduler) {
            match self.is_scheduler(scheduler).await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::error!(
                        job_id,
                        scheduler,
                        "no next iteration: this is a repeatable job of BullMQ 5, make it a job scheduler"
                    );
                    return Ok(None);
                }
                Err(error) => return refused(error),
            }
        }
        let options = Options::parse(hash.get("opts").map(String::as_str));
        let now = now();
        let Some(repeat) = options.repeat() else {
            tracing::error!(job_id, scheduler, "no next iteration: the job does not say how it repeats");
            return Ok(None);
        };
        // A pattern that hardly ever comes true is looked for through thousands of years.
        let (of, previous) = (repeat.clone(), options.previous());
        let next = spawn_blocking(move || next(&of, previous, now)).await;
        let next = match next.unwrap_or_else(|_panicked| Err("its pattern cannot be read".into())) {
            Ok(Next::At(at)) => at,
            Ok(Next::Every) => 0,
            Ok(Next::Never) => return Ok(None),
            Err(error) => {
                tracing::error!(job_id, scheduler, error, "no next iteration of a job scheduler");
                return Ok(None);
            }
        };
        let options = next_options(&options, repeat, scheduler, next, now);
        let data = hash.get("data").map_or("{}", String::as_str);
        let iteration = Iteration { scheduler, job_id, data, next, options: &options };
        let update = &self.official.schedule(&iteration, now).map_err(broken)?;
        match self.redis.script(update).await {
            Ok::<Option<String>, _>(_next_id) => Ok(None),
            Err(error) => refused(error),
        }
    }

    fn refused(
        &self,
        error: QueryError,
        job_id: &str,
        scheduler: &str,
    ) -> Result<Option<String>, QueueError> {
        if !error.is_final() {
            return Err(store_error(error));
        }
        let key = self.scheduler_key(scheduler);
        tracing::error!(
            job_id,
            scheduler,
            key,
            %error,
            "a job scheduler ends here: its next iteration does not fit what is stored. Remove what is wrong (first look \
             at the key) and add the scheduler again"
        );
        Ok(Some(format!("The next iteration of its job scheduler could not be added: {error}")))
    }

    /// Schedulers may have any name, also one that looks like the key of a repeatable job of BullMQ 5. They
    /// alone count their iterations.
    async fn is_scheduler(&self, name: &str) -> Result<bool, QueryError> {
        self.redis.command(redis::cmd("HEXISTS").arg(self.scheduler_key(name)).arg("ic")).await
    }

    fn scheduler_key(&self, name: &str) -> String {
        format!("{}:{name}", self.keys.get("repeat"))
    }
}

/// When the iteration after this one is due, or why nobody knows.
fn next(repeat: &Map<String, Value>, previous: u64, now: u64) -> Result<Next, String> {
    let number = |name: &str| repeat.get(name).and_then(whole);
    let count = number("count").unwrap_or(0).saturating_add(1);
    if number("limit").is_some_and(|limit| count > limit) || number("endDate").is_some_and(|end| now > end) {
        return Ok(Next::Never);
    }
    let pattern = repeat.get("pattern").and_then(Value::as_str);
    match (pattern, number("every").filter(|every| *every > 0)) {
        (Some(_), Some(_)) => Err("it has both a pattern and an interval".into()),
        (None, None) => Err("it has neither a pattern nor an interval".into()),
        (None, Some(_)) => Ok(Next::Every),
        (Some(pattern), None) => {
            // To the library such a field is one that nothing matches, which it finds out second by second.
            // `cron-parser`, which Node's worker uses, refuses it.
            if pattern.split_whitespace().any(|field| field.split(',').any(str::is_empty)) {
                return Err(format!("a list in its pattern has an empty item: {pattern}"));
            }
            let time_zone = repeat.get("tz").and_then(Value::as_str);
            let after = previous.max(now);
            match next_cron_millis(pattern, after, time_zone, number("startDate")) {
                Ok(Some(next)) => Ok(Next::At(next.max(after))),
                Ok(None) => Ok(Next::Never),
                Err(error) => Err(error.to_string()),
            }
        }
    }
}

/// What a scheduler's options come to, without a queue.
#[cfg(feature = "testing")]
pub(super) fn read(options: &Options) {
    let Some(repeat) = options.repeat() else { return };
    // The time of a day in 2026, so that equal options come to the same.
    let now = 1_767_225_600_000;
    if let Ok(Next::At(at)) = next(repeat, options.previous(), now) {
        drop(next_options(options, repeat, "scheduler", at, now));
    }
}

/// The options of the next iteration: those of this one, and where the scheduler is by then.
fn next_options(
    options: &Options,
    repeat: &Map<String, Value>,
    scheduler: &str,
    next: u64,
    now: u64,
) -> Value {
    let mut repeat = repeat.clone();
    // Only the first iteration of a pattern may run at once.
    repeat.remove("immediately");
    let offset = repeat.get("offset").and_then(whole).filter(|_| repeat.contains_key("every")).unwrap_or(0);
    let count = repeat.get("count").and_then(whole).unwrap_or(0).saturating_add(1);
    repeat.insert("count".into(), count.into());
    options.with([
        ("repeat", repeat.into()),
        ("jobId", format!("repeat:{scheduler}:{next}").into()),
        ("delay", next.saturating_add(offset).saturating_sub(now).into()),
        ("timestamp", now.into()),
        ("prevMillis", next.into()),
        ("repeatJobKey", scheduler.into()),
    ])
}

/// `name:id:endDate:tz:<pattern or interval>`, as BullMQ 5 named its repeatable jobs.
fn has_legacy_shape(key: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = key.splitn(5, ':').skip(2);
    let (Some(end), Some(_time_zone), Some(suffix)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    digits(end) && !suffix.is_empty() && (suffix.contains(' ') || digits(suffix))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// 2026-01-01T00:00:00Z, a Thursday.
    const NOW: u64 = 1_767_225_600_000;

    fn next_of(repeat: &Value) -> Result<Next, String> {
        next(repeat.as_object().unwrap(), 0, NOW)
    }

    /// The times are those that `cron-parser` gives, which Node's worker uses.
    #[test]
    fn patterns_mean_what_they_mean_to_nodes_worker() {
        for (pattern, time_zone, expected) in [
            ("*/2 * * * * *", None, NOW + 2000),
            ("0 0 * * *", None, NOW + 86_400_000),
            ("15 10 * * *", Some("Europe/Berlin"), NOW + 33_300_000),
            ("0 9 * * 1-5", None, NOW + 32_400_000),
            ("0 0 1 * 1", None, NOW + 4 * 86_400_000),
            ("0 0 L * *", None, NOW + 30 * 86_400_000),
            ("0 12 * * 7", None, NOW + 3 * 86_400_000 + 43_200_000),
            ("@hourly", None, NOW + 3_600_000),
        ] {
            let next = next_of(&json!({ "pattern": pattern, "tz": time_zone }));
            assert_eq!(next, Ok(Next::At(expected)), "{pattern}");
        }
        let later = next_of(&json!({ "pattern": "0 0 * * *", "startDate": NOW + 1_000_000_000 }));
        assert_eq!(later, Ok(Next::At(NOW + 12 * 86_400_000)));
    }

    #[test]
    fn schedules_end_and_mistakes_are_told() {
        assert_eq!(next_of(&json!({ "every": 1000 })), Ok(Next::Every));
        assert_eq!(next_of(&json!({ "every": 1000, "limit": 3, "count": 2 })), Ok(Next::Every));
        assert_eq!(next_of(&json!({ "every": 1000, "limit": 3, "count": 3 })), Ok(Next::Never));
        assert_eq!(next_of(&json!({ "every": 1000, "endDate": NOW - 1 })), Ok(Next::Never));
        for (repeat, problem) in [
            (json!({}), "neither"),
            (json!({ "every": 5, "pattern": "* * * * *" }), "both"),
            (json!({ "pattern": "every monday" }), "every monday"),
            (json!({ "pattern": "* , * * * *" }), "empty item"),
            (json!({ "pattern": "* 1,,5 * * * *" }), "empty item"),
            (json!({ "pattern": "* * * * *", "tz": "Middle/Earth" }), "Middle/Earth"),
        ] {
            let error = next_of(&repeat).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn the_next_iteration_inherits_and_moves_on() {
        let options = Options::parse(Some(
            r#"{"attempts": 2, "fpof": true, "prevMillis": 1, "delay": 5, "repeat": {"every": 10, "count": 4, "offset": 3, "immediately": true}}"#,
        ));
        let next = next_options(&options, options.repeat().unwrap(), "daily", NOW, NOW - 7);
        assert_eq!(
            next,
            json!({
                "attempts": 2, "fpof": true, "prevMillis": NOW, "delay": 10, "timestamp": NOW - 7,
                "jobId": format!("repeat:daily:{NOW}"), "repeatJobKey": "daily",
                "repeat": {"every": 10, "count": 5, "offset": 3},
            })
        );
    }

    #[test]
    fn repeatable_jobs_of_bullmq_5_are_known_by_their_keys() {
        for (key, is_legacy) in [
            ("invoke::::*/5 * * * *", true),
            ("invoke:id:1700000000000:Europe/Berlin:60000", true),
            ("daily", false),
            ("team:a:report", false),
            ("a:b:c:d:5", false),
            ("a:b:1:d:word", false),
        ] {
            assert_eq!(has_legacy_shape(key), is_legacy, "{key}");
        }
    }
}

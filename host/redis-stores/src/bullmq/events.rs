//! Which jobs have ended, are parked or are gone, from BullMQ's stream of events: its scripts write there
//! what Node workers, operators and our own workers do.
//!
//! What the stream does not say: that a queue was drained or obliterated. Those who wait for a job look at it
//! by themselves now and then (`run_service::jobs`).

use std::time::Duration;

use agent_core::ports::{ChangedJobs, JobChanges, QueueError};
use redis::Value;

use super::job_hash::text;
use super::store::{Store, store_error};
use super::time::millis;
use crate::redis::Manner;

/// An event's id, and its fields: names and values by turns.
type Event = (String, Vec<Vec<u8>>);

/// How long Redis waits for an event.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long events may gather before they are read, so that a busy queue costs fifty reads a second and not
/// one for each event. Jobs of this process wake those who wait for them without the stream.
const GATHER: Duration = Duration::from_millis(20);

/// How many events are read at once. Some of them hold a job's result.
const MOST_READ: usize = 250;

/// Before the first event of a stream.
const BEGINNING: &str = "0-0";

impl Store {
    /// What has happened since `after`, an answer's cursor; without one the place is found from which to read
    /// on.
    pub(super) async fn changes(&self, after: Option<&str>) -> Result<JobChanges, QueueError> {
        let Some(after) = after else {
            return Ok(JobChanges { cursor: self.last_event().await?, jobs: ChangedJobs::Any });
        };
        tokio::time::sleep(GATHER).await;
        let events = self.read_events(after).await?;
        let Some((cursor, _)) = events.last() else { return self.after_silence(after).await };
        let (cursor, mut ids, mut is_any) = (cursor.clone(), Vec::new(), false);
        for (_, fields) in &events {
            match changed_by(fields) {
                Changed::Job(id) => ids.push(self.shard.public_id(&id)),
                Changed::Unknown => is_any = true,
                Changed::None => {}
            }
        }
        Ok(JobChanges { cursor, jobs: if is_any { ChangedJobs::Any } else { ChangedJobs::These(ids) } })
    }

    /// Nothing came. A stream that ends before the cursor is another one than was read before: the queue was
    /// obliterated, or the server's clock went back.
    async fn after_silence(&self, after: &str) -> Result<JobChanges, QueueError> {
        let last = self.last_event().await?;
        let jobs =
            if position(&last) < position(after) { ChangedJobs::Any } else { ChangedJobs::These(vec![]) };
        let cursor = if matches!(jobs, ChangedJobs::Any) { last } else { after.to_owned() };
        Ok(JobChanges { cursor, jobs })
    }

    async fn read_events(&self, after: &str) -> Result<Vec<Event>, QueueError> {
        let mut read = redis::cmd("XREAD");
        read.arg("COUNT").arg(MOST_READ).arg("BLOCK").arg(millis(PATIENCE));
        read.arg("STREAMS").arg(self.keys.events()).arg(after);
        let read = &read;
        let query = |mut redis| async move { read.query_async(&mut redis).await };
        let queried = self.events.send(Manner::Repeatable(PATIENCE), query).await;
        let streams: Option<Vec<(Value, Vec<Event>)>> = queried.map_err(store_error)?;
        Ok(streams.unwrap_or_default().into_iter().flat_map(|(_name, events)| events).collect())
    }

    /// The cursor after the last event there is.
    async fn last_event(&self) -> Result<String, QueueError> {
        let mut last = redis::cmd("XREVRANGE");
        last.arg(self.keys.events()).arg("+").arg("-").arg("COUNT").arg(1);
        let events: Vec<Event> = self.events.command(&last).await.map_err(store_error)?;
        Ok(events.into_iter().next().map_or_else(|| BEGINNING.to_owned(), |(id, _)| id))
    }
}

/// Which job an event is of that wakes those who wait for it.
#[derive(Debug, PartialEq, Eq)]
enum Changed {
    Job(String),
    /// Some, and it does not say which.
    Unknown,
    None,
}

/// BullMQ has no event for a parked job: `delayed` is also that of a retry, for which those who wait look in
/// vain once.
fn changed_by(fields: &[Vec<u8>]) -> Changed {
    let (pairs, _nothing_left) = fields.as_chunks::<2>();
    let field =
        |wanted: &str| pairs.iter().find(|[name, _]| name == wanted.as_bytes()).map(|[_, value]| text(value));
    match field("event").as_deref() {
        Some("completed" | "failed" | "removed" | "delayed") => {
            field("jobId").map_or(Changed::Unknown, Changed::Job)
        }
        Some("cleaned") => Changed::Unknown,
        _ => Changed::None,
    }
}

/// Where an event stands in its stream.
fn position(id: &str) -> (u64, u64) {
    let (millis, number) = id.split_once('-').unwrap_or((id, "0"));
    (millis.parse().unwrap_or(0), number.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(fields: &[(&str, &str)]) -> Vec<Vec<u8>> {
        fields
            .iter()
            .flat_map(|(name, value)| [name.as_bytes().to_vec(), value.as_bytes().to_vec()])
            .collect()
    }

    #[test]
    fn only_ends_and_delays_wake_somebody() {
        for name in ["completed", "failed", "removed", "delayed"] {
            assert_eq!(changed_by(&event(&[("event", name), ("jobId", "7")])), Changed::Job("7".into()));
        }
        assert_eq!(changed_by(&event(&[("event", "cleaned"), ("count", "2")])), Changed::Unknown);
        for name in ["added", "waiting", "active", "progress", "drained", "paused", "something"] {
            assert_eq!(changed_by(&event(&[("event", name), ("jobId", "7")])), Changed::None, "{name}");
        }
        assert_eq!(changed_by(&event(&[])), Changed::None);
    }

    #[test]
    fn events_stand_in_the_order_of_their_numbers() {
        assert!(position("999-0") < position("1000-0") && position("5-9") < position("5-10"));
        assert!(position(BEGINNING) < position("1-0"));
    }
}

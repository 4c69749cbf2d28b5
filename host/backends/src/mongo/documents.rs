//! What stands in the collections.

use agent_core::journal_format::{decode, encode};
use agent_core::ports::{Epoch, JournalError, JournalResult};
use agent_core::words::{Event, RunOutcome, RunRecord};
use mongodb::bson::{DateTime, Document, doc};
use serde::{Deserialize, Serialize};

use super::error::store_error;
use crate::group_commit::ByteSize;

/// Largest document that MongoDB takes, in bytes.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// What a document takes beside its texts, in bytes, rounded up generously.
const FRAME_BYTES: usize = 256;

/// One event of one run, in `run_events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EventDocument {
    #[serde(rename = "_id")]
    id: EventId,
    /// The claim under which it was written; absent in what older versions wrote.
    #[serde(default)]
    epoch: i64,
    /// As JSON text, which holds what documents do not: keys with any character in them, numbers of any size.
    event: String,
}

/// Documents compare field by field, so that in the order of ids the events of a run stand together, in
/// theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct EventId {
    run: String,
    sequence: i64,
}

impl ByteSize for EventDocument {
    /// At most.
    fn bytes(&self) -> usize {
        self.event.len() + self.id.run.len() + FRAME_BYTES
    }
}

/// The events that follow each other from that number on. The server inserts a batch in any order, so that
/// whoever reads meanwhile may find a gap: what lies behind it would be taken for what is missing, and is
/// read when that is there.
pub(super) fn consecutive(found: &[EventDocument], from: u64) -> JournalResult<Vec<Event>> {
    let numbered = found.iter().zip(from..);
    let in_order = numbered.take_while(|(found, number)| u64::try_from(found.id.sequence) == Ok(*number));
    in_order.map(|(found, _)| found.event()).collect()
}

impl EventDocument {
    pub(super) fn new(run_id: &str, epoch: Epoch, sequence: u64, event: &Event) -> JournalResult<Self> {
        let sequence =
            i64::try_from(sequence).map_err(|_too_big| store_error("no run has that many events"))?;
        let epoch =
            i64::try_from(epoch.0).map_err(|_too_big| store_error("the job was claimed too often"))?;
        let this = Self { id: EventId { run: run_id.to_owned(), sequence }, epoch, event: encode(event)? };
        let bytes = this.bytes();
        if bytes > MOST_BYTES {
            return Err(store_error(format!(
                "the event takes {bytes} bytes, and MongoDB keeps at most {MOST_BYTES} in one document"
            )));
        }
        Ok(this)
    }

    /// What finds this one, or another one under its key.
    pub(super) fn key(&self) -> Document {
        doc! { "_id": { "run": &self.id.run, "sequence": self.id.sequence } }
    }

    /// What finds the event before this one.
    pub(super) fn predecessor(&self) -> Option<Document> {
        let sequence = self.id.sequence.checked_sub(1).filter(|sequence| *sequence >= 0)?;
        Some(doc! { "_id": { "run": &self.id.run, "sequence": sequence } })
    }

    /// Run of the event.
    pub(super) fn run(&self) -> &str {
        &self.id.run
    }

    /// Claim and number of the event.
    pub(super) fn position(&self) -> (i64, i64) {
        (self.epoch, self.id.sequence)
    }

    /// Whether this was written under a later claim than another event.
    pub(super) fn is_later_than(&self, other: &Self) -> bool {
        self.epoch > other.epoch
    }

    pub(super) fn fenced(&self) -> JournalError {
        JournalError::Fenced { run_id: self.id.run.clone() }
    }

    pub(super) fn conflict(&self) -> JournalError {
        JournalError::Conflict { run_id: self.id.run.clone(), sequence: self.id.sequence.unsigned_abs() }
    }

    fn event(&self) -> JournalResult<Event> {
        decode(&self.id.run, self.id.sequence.unsigned_abs(), &self.event)
    }
}

/// What finds the events of a run from that number on.
pub(super) fn events_of(run_id: &str, from: u64) -> Document {
    doc! { "_id": {
        "$gte": { "run": run_id, "sequence": i64::try_from(from).unwrap_or(i64::MAX) },
        "$lte": { "run": run_id, "sequence": i64::MAX },
    } }
}

/// The record of a run, in `run_records`. Fields of its own rather than one text, for whoever looks into the
/// store; times to the millisecond.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordDocument {
    #[serde(rename = "_id")]
    id: String,
    request_id: String,
    user_id: Option<String>,
    job_id: Option<String>,
    started_at: DateTime,
    finished_at: DateTime,
    #[serde(flatten)]
    outcome: RunOutcome,
}

impl From<&RunRecord> for RecordDocument {
    fn from(record: &RunRecord) -> Self {
        let record = record.clone();
        Self {
            id: record.id,
            request_id: record.request_id,
            user_id: record.user_id,
            job_id: record.job_id,
            started_at: DateTime::from_system_time(record.started_at),
            finished_at: DateTime::from_system_time(record.finished_at),
            outcome: record.outcome,
        }
    }
}

impl From<RecordDocument> for RunRecord {
    fn from(document: RecordDocument) -> Self {
        Self {
            id: document.id,
            request_id: document.request_id,
            user_id: document.user_id,
            job_id: document.job_id,
            started_at: document.started_at.to_system_time(),
            finished_at: document.finished_at.to_system_time(),
            outcome: document.outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_a_gap_is_left_until_it_is_filled() {
        let found = [1, 2, 4, 5].map(|number| {
            let event = Event::NestedStarted { index: 0, number, name: "add".into() };
            EventDocument::new("run_1", Epoch(1), number.into(), &event).unwrap()
        });
        let numbers = |from| {
            let events = consecutive(&found, from).unwrap();
            events.into_iter().map(|event| match event {
                Event::NestedStarted { number, .. } => number,
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(numbers(1).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(numbers(0).count(), 0);
    }
}

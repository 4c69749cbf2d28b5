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

/// The events that follow each other from that number on, behind one of the epoch `before`, up to one of a
/// lower epoch. A reader may find a gap while a batch is inserted: what lies behind it would be taken for
/// what is missing, and is read when that is there. A lower epoch is of a worker that was replaced, and whose
/// event landed behind one of a later claim: the next append of the run is written over it (`writer.rs`).
pub(super) fn consecutive(found: &[EventDocument], from: u64, before: i64) -> JournalResult<Vec<Event>> {
    let mut highest = before;
    let numbered = found.iter().zip(from..);
    let in_order = numbered.take_while(|(found, number)| {
        let follows = u64::try_from(found.id.sequence) == Ok(*number) && found.epoch >= highest;
        highest = found.epoch;
        follows
    });
    in_order.map(|(found, _)| found.event()).collect()
}

/// The epoch of an event, without its text.
#[derive(Debug, Deserialize)]
pub(super) struct EpochDocument {
    #[serde(default)]
    pub(super) epoch: i64,
}

/// The query for the event before that number, which the first one has not.
pub(super) fn event_before(run_id: &str, number: u64) -> Option<Document> {
    let sequence = i64::try_from(number.checked_sub(1)?).ok()?;
    Some(key_of(run_id, sequence))
}

fn key_of(run_id: &str, sequence: i64) -> Document {
    doc! { "_id": { "run": run_id, "sequence": sequence } }
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
        key_of(&self.id.run, self.id.sequence)
    }

    /// The query for an event of an earlier claim under its key.
    pub(super) fn key_of_earlier(&self) -> Document {
        let mut earlier = self.key();
        earlier.insert("epoch", doc! { "$lt": self.epoch });
        earlier
    }

    /// The query for the events of its run from this one to `last`.
    pub(super) fn range_to(&self, last: &Self) -> Document {
        let id = |document: &Self| doc! { "run": &document.id.run, "sequence": document.id.sequence };
        doc! { "_id": { "$gte": id(self), "$lte": id(last) } }
    }

    /// What finds the event before this one.
    pub(super) fn predecessor(&self) -> Option<Document> {
        let sequence = self.id.sequence.checked_sub(1).filter(|sequence| *sequence >= 0)?;
        Some(key_of(&self.id.run, sequence))
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

    fn document(number: u32, epoch: u64) -> EventDocument {
        let event = Event::NestedStarted { index: 0, number, name: "add".into() };
        EventDocument::new("run_1", Epoch(epoch), number.into(), &event).unwrap()
    }

    fn numbers(found: &[EventDocument], from: u64, before: i64) -> Vec<u32> {
        let events = consecutive(found, from, before).unwrap().into_iter();
        let number = |event| match event {
            Event::NestedStarted { number, .. } => number,
            other => panic!("{other:?}"),
        };
        events.map(number).collect()
    }

    #[test]
    fn what_lies_behind_a_gap_is_left_until_it_is_filled() {
        let found = [1, 2, 4, 5].map(|number| document(number, 1));
        assert_eq!(numbers(&found, 1, 0), [1, 2]);
        assert!(numbers(&found, 0, 0).is_empty());
    }

    #[test]
    fn what_a_replaced_worker_wrote_behind_a_later_claim_is_not_read() {
        let found = [(1, 1), (2, 3), (3, 2), (4, 3)].map(|(number, epoch)| document(number, epoch));
        assert_eq!(numbers(&found, 1, 0), [1, 2]);
        assert!(numbers(&found[2..], 3, 3).is_empty(), "the event before is of a later claim");
        assert_eq!(numbers(&found[1..], 2, 3), [2]);
    }
}

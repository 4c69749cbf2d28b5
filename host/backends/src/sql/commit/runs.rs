//! What is written about runs: their events and their records.
//!
//! The first event of an append decides about all of it. Journals have no gaps, because no append is written
//! whose predecessor is missing, so where the first one was free the others are. Where it was written before,
//! in the same epoch and with the same text, so were they if the last one was.

use crate::sql::from_row::from_row;

/// What is written.
#[derive(Debug)]
pub(crate) enum Entry {
    Append(AppendRow),
    Record(RecordRow),
    /// Both, and the record only if the events stand there.
    End(AppendRow, RecordRow),
}

/// What says of a run that it is under way, as the column has it.
pub(super) const RUNNING: &str = r#"'{"outcome":"running"}'"#;

/// Whether a run has ended with a result, behind the column that says so.
pub(super) const HAS_RESULT: &str = r#"LIKE '{"outcome":"ended"%'"#;

/// Replaces the record of a run, unless the new one is behind it
/// ([`RunRecord::is_behind`](agent_core::words::RunRecord::is_behind)).
pub(super) fn replace_record() -> String {
    format!(
        "ON CONFLICT (run_id) DO UPDATE SET request_id = excluded.request_id, \
         user_id = excluded.user_id, job_id = excluded.job_id, started_at = excluded.started_at, \
         finished_at = excluded.finished_at, outcome = excluded.outcome \
         WHERE excluded.outcome {HAS_RESULT} \
            OR (excluded.outcome <> {RUNNING} AND run_records.outcome NOT {HAS_RESULT}) \
            OR (run_records.outcome = {RUNNING} AND run_records.finished_at <= excluded.finished_at)"
    )
}

/// What stands in the database under the key of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredUnderKey {
    /// What was written.
    Ours,
    /// An event that was there before, or none because the one before it is missing.
    Another,
    /// Events of a later claim of the run.
    Fenced,
}

/// Consecutive events of a run, at least one.
#[derive(Debug)]
pub(crate) struct AppendRow {
    pub(crate) run_id: String,
    pub(crate) epoch: i64,
    /// Number of the first one.
    pub(crate) first: i64,
    pub(crate) events: Vec<String>,
}

from_row! {
    #[derive(Debug)]
    pub(crate) struct RecordRow {
        pub(crate) run_id: String,
        pub(crate) request_id: String,
        pub(crate) user_id: Option<String>,
        pub(crate) job_id: Option<String>,
        pub(crate) started_at: i64,
        pub(crate) finished_at: i64,
        pub(crate) outcome: String,
    }

    /// Events where an append was to stand: its place in the list of appends, epoch and text of the
    /// event where it was to begin, the same of the event where it was to end, and the highest epoch of the
    /// run.
    #[derive(Debug)]
    pub(super) struct FoundRow {
        pub(super) number: i64,
        epoch: Option<i64>,
        event: Option<String>,
        last_epoch: Option<i64>,
        last_event: Option<String>,
        highest: Option<i64>,
    }
}

impl Entry {
    pub(super) fn append(&self) -> Option<&AppendRow> {
        match self {
            Self::Append(append) | Self::End(append, _) => Some(append),
            Self::Record(_) => None,
        }
    }

    /// The record, and the append without which it is not written.
    pub(super) fn record(&self) -> Option<(&RecordRow, Option<&AppendRow>)> {
        match self {
            Self::Record(record) => Some((record, None)),
            Self::End(append, record) => Some((record, Some(append))),
            Self::Append(_) => None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Append(append) => append.bytes(),
            Self::Record(record) => record.outcome.len(),
            Self::End(append, record) => append.bytes() + record.outcome.len(),
        }
    }
}

impl AppendRow {
    fn bytes(&self) -> usize {
        self.events.iter().map(String::len).sum()
    }

    /// Number of the last event.
    pub(super) fn last(&self) -> i64 {
        let events = i64::try_from(self.events.len()).unwrap_or(i64::MAX);
        self.first.saturating_add(events).saturating_sub(1)
    }

    /// What kept the append out, by what was found in its place.
    pub(super) fn compare(&self, found: Option<&FoundRow>) -> StoredUnderKey {
        let Some(found) = found else { return StoredUnderKey::Another };
        let epoch = Some(self.epoch);
        let is_first_ours = (found.epoch, found.event.as_ref()) == (epoch, self.events.first());
        let is_last_ours = (found.last_epoch, found.last_event.as_ref()) == (epoch, self.events.last());
        if is_first_ours && is_last_ours {
            StoredUnderKey::Ours
        } else if found.highest > epoch {
            StoredUnderKey::Fenced
        } else {
            StoredUnderKey::Another
        }
    }
}

#[cfg(test)]
impl RecordRow {
    /// A record of that run with something in it.
    pub(super) fn of(run_id: &str) -> Self {
        Self {
            run_id: run_id.into(),
            request_id: "req".into(),
            user_id: None,
            job_id: None,
            started_at: 1,
            finished_at: 2,
            outcome: "{}".into(),
        }
    }
}

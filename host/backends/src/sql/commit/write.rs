//! What one commit lane writes, whoever hands it in: jobs of the queue, and events and records of runs.
//!
//! What does not belong here: how it is written (`database.rs`), and when (`mod.rs`). This file knows no
//! database, so that the connections to one can hold its [`Lane`].

use std::collections::{HashMap, HashSet};

use agent_core::ports::Epoch;

use super::jobs::{AttemptRow, EndedRow, NewJob, Renewal};
use super::runs::{Entry, StoredUnderKey};
use crate::group_commit::{ByteSize, SharedChannel};

/// The way to a database's next commit, which all have in common who write by it.
pub(crate) type Lane = SharedChannel<Write, Result<Written, CommitError>>;

/// Why something was not written, or may not have been.
#[derive(Debug, Clone)]
pub(crate) struct CommitError(pub(crate) String);

/// What is written.
#[derive(Debug)]
pub(crate) enum Write {
    Add(NewJob),
    /// On SQLite. On PostgreSQL a heartbeat has a connection of its own, so that it does not wait behind a
    /// commit that hangs.
    Renew(Renewal),
    End(AttemptRow),
    Run(Entry),
}

/// What became of a write that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written {
    /// The job is there.
    Added,
    /// Whether somebody asked to cancel the job; nothing when the claim is not the job's any more.
    Renewed(Option<bool>),
    /// What the end came to; nothing when the claim is not the job's any more.
    Ended(Option<EndedRow>),
    /// What stands where the events were to stand.
    Run(StoredUnderKey),
}

/// Something that is written, and what its caller is told.
pub(crate) trait Member: Into<Write> {
    type Answer;

    /// Nothing when it is what became of something else.
    fn answer(written: Written) -> Option<Self::Answer>;
}

impl Write {
    /// Whether its caller relies on it after a power loss ([`agent_core::ports::RunStore::append_and_save`]).
    pub(super) fn is_promised(&self) -> bool {
        !matches!(self, Self::Run(Entry::End(append, _)) if append.epoch.unsigned_abs() == Epoch::UNCLAIMED.0)
    }
}

impl ByteSize for Write {
    fn bytes(&self) -> usize {
        match self {
            Self::Add(job) => job.bytes(),
            Self::Renew(_) => 0,
            Self::End(attempt) => attempt.bytes(),
            Self::Run(entry) => entry.bytes(),
        }
    }
}

/// What is written in one commit has to be told apart by what the database answers, and does not depend on
/// each other: of a job renewals and ends of one claim, of a run one append. The next one would be written
/// behind events that its statement does not see.
#[derive(Debug, Default)]
pub(super) struct Together<'a> {
    /// Tokens of the claims by job.
    renewed: HashMap<&'a str, &'a str>,
    ended: HashMap<&'a str, &'a str>,
    /// Runs that are appended to.
    appended: HashSet<&'a str>,
}

impl<'a> Together<'a> {
    /// Whether the write can go with those before it.
    pub(super) fn takes(&mut self, write: &'a Write) -> bool {
        match write {
            Write::Add(_) => true,
            Write::Renew(renewal) => is_of_claim(&mut self.renewed, &renewal.job_id, &renewal.token),
            // Handed in again, the end finds the next job that was claimed the first time.
            Write::End(attempt) if attempt.next.is_some() => {
                self.ended.insert(&attempt.job_id, &attempt.token).is_none()
            }
            Write::End(attempt) => is_of_claim(&mut self.ended, &attempt.job_id, &attempt.token),
            Write::Run(entry) => entry.append().is_none_or(|append| self.appended.insert(&append.run_id)),
        }
    }
}

/// Whether this is the only claim of the job so far.
fn is_of_claim<'a>(claims: &mut HashMap<&'a str, &'a str>, job_id: &'a str, token: &'a str) -> bool {
    *claims.entry(job_id).or_insert(token) == token
}

impl From<NewJob> for Write {
    fn from(job: NewJob) -> Self {
        Self::Add(job)
    }
}

impl Member for NewJob {
    type Answer = ();

    fn answer(written: Written) -> Option<()> {
        matches!(written, Written::Added).then_some(())
    }
}

impl From<Renewal> for Write {
    fn from(renewal: Renewal) -> Self {
        Self::Renew(renewal)
    }
}

impl Member for Renewal {
    type Answer = Option<bool>;

    fn answer(written: Written) -> Option<Option<bool>> {
        if let Written::Renewed(cancel_asked) = written { Some(cancel_asked) } else { None }
    }
}

impl From<AttemptRow> for Write {
    fn from(attempt: AttemptRow) -> Self {
        Self::End(attempt)
    }
}

impl Member for AttemptRow {
    type Answer = Option<EndedRow>;

    fn answer(written: Written) -> Option<Option<EndedRow>> {
        if let Written::Ended(ended) = written { Some(ended) } else { None }
    }
}

impl From<Entry> for Write {
    fn from(entry: Entry) -> Self {
        Self::Run(entry)
    }
}

impl Member for Entry {
    type Answer = StoredUnderKey;

    fn answer(written: Written) -> Option<StoredUnderKey> {
        if let Written::Run(stored) = written { Some(stored) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::claims::NextClaim;
    use super::super::runs::{AppendRow, RecordRow};
    use super::*;

    fn append(run_id: &str, epoch: i64, first: i64, events: usize) -> Write {
        let events = vec!["{}".into(); events];
        Entry::Append(AppendRow { run_id: run_id.into(), epoch, first, events }).into()
    }

    fn record(run_id: &str) -> Write {
        Entry::Record(RecordRow::of(run_id)).into()
    }

    fn end(job_id: &str, token: &str) -> Write {
        AttemptRow::of(job_id, token, None).into()
    }

    fn end_and_claim(job_id: &str, token: &str) -> Write {
        let next = NextClaim { worker: "w".into(), token: format!("after {token}"), lease: 1 };
        AttemptRow::of(job_id, token, Some(next)).into()
    }

    fn renew(job_id: &str, token: &str) -> Write {
        Renewal { job_id: job_id.into(), token: token.into(), lease: 1 }.into()
    }

    #[test]
    fn what_depends_on_each_other_is_not_written_together() {
        for (writes, are_together) in [
            ([append("r1", 1, 0, 2), append("r2", 2, 0, 2)], true),
            ([append("r1", 1, 0, 2), append("r1", 1, 2, 2)], false),
            ([append("r1", 1, 0, 2), append("r1", 1, 0, 2)], false),
            ([append("r1", 1, 0, 2), record("r1")], true),
            ([end("j1", "a"), end("j2", "a")], true),
            ([end("j1", "a"), end("j1", "a")], true),
            ([end("j1", "a"), end("j1", "b")], false),
            ([end_and_claim("j1", "a"), end_and_claim("j2", "b")], true),
            ([end_and_claim("j1", "a"), end_and_claim("j1", "a")], false),
            ([end("j1", "a"), end_and_claim("j1", "a")], false),
            ([renew("j1", "a"), end("j1", "a")], true),
            ([renew("j1", "a"), renew("j1", "b")], false),
        ] {
            let mut together = Together::default();
            let taken = writes.each_ref().map(|write| together.takes(write));
            assert_eq!(taken, [true, are_together], "{writes:?}");
        }
    }
}

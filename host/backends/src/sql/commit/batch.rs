//! What is written in one commit, and what the database answers to it.

use std::collections::{HashMap, HashSet};

use super::claims::{CLAIMED, ClaimRow, NextClaim};
use super::jobs::{AttemptRow, EndedRow, NewJob, Renewal};
use super::runs::{AppendRow, RecordRow, StoredUnderKey};
use super::write::{Write, Written};
use crate::sql::from_row::from_row;

/// What is written together, by the tables that it goes to.
#[derive(Debug, Default)]
pub(super) struct Batch<'a> {
    pub(super) jobs: Vec<&'a NewJob>,
    pub(super) renewals: Vec<&'a Renewal>,
    pub(super) attempts: Vec<&'a AttemptRow>,
    pub(super) appends: Vec<&'a AppendRow>,
    pub(super) records: Vec<(&'a RecordRow, Option<&'a AppendRow>)>,
    /// Whether anybody relies on it after a power loss.
    pub(super) is_promised: bool,
}

from_row! {
    /// A row that the database answers.
    #[derive(Debug)]
    pub(super) struct ChangedRow {
        kind: i64,
        id: Option<String>,
        number: Option<i64>,
        text: Option<String>,
    }
}

/// [`ChangedRow::kind`] of an event that was inserted: its run and number.
pub(super) const APPENDED: i64 = 0;
/// [`ChangedRow::kind`] of a lease that was renewed: its job, and whether somebody asked to cancel that.
pub(super) const RENEWED: i64 = 1;
/// [`ChangedRow::kind`] of an attempt that has ended: its job, and the status of that.
pub(super) const ENDED: i64 = 2;

#[derive(Debug, Default)]
pub(super) struct Changed {
    appended: HashSet<(String, i64)>,
    renewed: HashMap<String, bool>,
    ended: HashMap<String, String>,
    /// By their tokens.
    claimed: HashMap<String, ClaimRow>,
}

impl<'a> Batch<'a> {
    pub(super) fn of(writes: &'a [Write]) -> Self {
        let mut batch = Self { is_promised: writes.iter().any(Write::is_promised), ..Self::default() };
        for write in writes {
            match write {
                Write::Add(job) => batch.jobs.push(job),
                Write::Renew(renewal) => batch.renewals.push(renewal),
                Write::End(attempt) => batch.attempts.push(attempt),
                Write::Run(entry) => {
                    batch.appends.extend(entry.append());
                    batch.records.extend(entry.record());
                }
            }
        }
        batch
    }

    /// The attempts with whose ends a job is claimed.
    pub(super) fn claims(&self) -> Vec<(&'a AttemptRow, &'a NextClaim)> {
        self.attempts.iter().filter_map(|attempt| Some((*attempt, attempt.next.as_ref()?))).collect()
    }
}

impl FromIterator<ChangedRow> for Changed {
    fn from_iter<I: IntoIterator<Item = ChangedRow>>(rows: I) -> Self {
        let mut changed = Self::default();
        for ChangedRow { kind, id, number, text } in rows {
            match (kind, id, number, text) {
                (APPENDED, Some(run_id), Some(number), _) => {
                    changed.appended.insert((run_id, number));
                }
                (RENEWED, Some(job_id), Some(asked), _) => {
                    changed.renewed.insert(job_id, asked != 0);
                }
                (ENDED, Some(job_id), _, Some(status)) => {
                    changed.ended.insert(job_id, status);
                }
                (CLAIMED, Some(token), _, Some(job)) => {
                    changed.claimed.extend(ClaimRow::parse(&job).map(|job| (token, job)));
                }
                // What PostgreSQL was told beside it.
                _ => {}
            }
        }
        changed
    }
}

impl Changed {
    pub(super) fn has_appended(&self, append: &AppendRow) -> bool {
        self.appended.contains(&(append.run_id.clone(), append.first))
    }

    /// The job that was claimed.
    pub(super) fn claimed(&self, next: &NextClaim) -> Option<Box<ClaimRow>> {
        self.claimed.get(&next.token).cloned().map(Box::new)
    }

    fn ended(&self, attempt: &AttemptRow) -> Option<EndedRow> {
        let status = self.ended.get(&attempt.job_id)?.clone();
        Some(EndedRow { status, next: attempt.next.as_ref().and_then(|next| self.claimed(next)) })
    }

    /// What became of a write, an append that was kept out apart.
    pub(super) fn of(&self, write: &Write) -> Written {
        match write {
            Write::Add(_) => Written::Added,
            Write::Renew(renewal) => Written::Renewed(self.renewed.get(&renewal.job_id).copied()),
            Write::End(attempt) => Written::Ended(self.ended(attempt)),
            Write::Run(_) => Written::Run(StoredUnderKey::Ours),
        }
    }
}

//! What a seed runs: how many replicas, of which release, over which stores.

use agent_core::journal_format;
use agent_core::ports::JournalError;
use agent_core::words::{Event, JobData, RunLimits};

/// A release, as another one meets it in the stores.
#[derive(Debug)]
pub struct Release {
    /// The highest version of an event that it reads.
    journal: u32,
    /// Whether it knows jobs that make one given call, and those that another job's run began.
    pub knows_calls_and_children: bool,
    /// Whether its workers are told by a claim that the job is to be cancelled, and end its run at once.
    pub knows_cancel_requests: bool,
}

/// The release that this program is of.
static THIS: Release =
    Release { journal: journal_format::VERSION, knows_calls_and_children: true, knows_cancel_requests: true };

/// The release before, as its sources of dd993a42 have it: `journal_format::VERSION` is 6 there, and
/// `JobData` and `Options` have neither a parent nor a call, which its reader passes over. What it does with
/// an event that it does not know is what this one does: its worker hands the job back for 5 s, and its lists
/// leave the run out.
static BEFORE: Release =
    Release { journal: 6, knows_calls_and_children: false, knows_cancel_requests: false };

/// What one simulation deploys, drawn from its seed.
#[derive(Debug, Clone, Copy)]
pub struct Deployment {
    pub replicas: usize,
    /// Whether queue and keys are in a Redis that keeps them every second; else they are in the database.
    pub is_on_redis: bool,
    /// Whether journals are in a store that writes the first event of an append before the others.
    pub is_on_mongo: bool,
    /// Whether one of the replicas is of the release before.
    has_older: bool,
    /// Whether some clients speak HTTP. Not everywhere: the router of a process takes longer to make than
    /// most of its lives.
    pub is_over_http: bool,
    /// Whether models may begin runs of their own, wait for a time and ask questions: as AGENT_WAIT_TOOLS is
    /// switched on once no replica of the release before is left.
    pub has_families: bool,
    /// Whether few users have long conversations, and several are part of one at once.
    pub is_talkative: bool,
    /// Whether runs come to their limits.
    pub is_tight: bool,
}

impl Deployment {
    pub fn of(seed: u64) -> Self {
        Self {
            replicas: if seed.is_multiple_of(2) { 2 } else { 3 },
            is_on_redis: seed % 3 == 1,
            is_on_mongo: matches!(seed % 5, 2 | 3),
            has_older: seed % 4 == 2 || seed % 4 == 3,
            is_over_http: matches!(seed % 8, 1 | 6),
            is_talkative: seed % 7 == 5,
            is_tight: seed % 11 < 4,
            has_families: seed % 4 < 2 && seed % 5 < 3,
        }
    }

    /// What a run may use up. A child run gets a part of it, and reads some hundred tokens of tools.
    pub fn limits(&self) -> RunLimits {
        let tokens = if self.has_families { 6_000 } else { 2_000 };
        if self.is_tight { RunLimits { iterations: 3, tokens } } else { RunLimits::default() }
    }

    /// The release of the replica of that number. One is left that knows everything.
    pub fn release(&self, number: usize) -> &'static Release {
        if self.has_older && number == 0 { &BEFORE } else { &THIS }
    }
}

impl Release {
    /// The events from number `first` on, or that one of them is newer than it.
    pub fn read(&self, run_id: &str, first: u64, events: Vec<Event>) -> Result<Vec<Event>, JournalError> {
        let versions = events.iter().map(journal_format::version_of);
        let newer = (first..).zip(versions).find(|(_, version)| *version > self.journal);
        match newer {
            Some((sequence, version)) => {
                let (run_id, known) = (run_id.to_owned(), self.journal);
                Err(JournalError::Newer { run_id, sequence, version, known })
            }
            None => Ok(events),
        }
    }

    /// A job as it reads it.
    pub fn job(&self, mut data: JobData) -> JobData {
        if !self.knows_calls_and_children {
            data.parent = None;
            data.options.options.call = None;
        }
        data
    }
}

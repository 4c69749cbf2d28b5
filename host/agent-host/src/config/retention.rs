//! How long what has ended is kept.

use std::time::Duration;

use agent_core::ports::RetentionBounds;

use super::problem::Problems;
use super::process_env::EnvVars;
use super::reader::{self, Reader, Reported};
use super::setting::{Setting, number, settings};

/// A hundred years: more is a mistake in the unit.
const MOST_DAYS: u64 = 36_500;

/// More than a store counts in the time that it has to answer.
const MOST_COUNT: u64 = 10_000_000;

settings! {
    /// Days for which jobs that have ended are kept, with their results; 0 is for good. Jobs on Redis whose
    /// producer asked for something else (removeOnComplete, removeOnFail) are kept as asked for. A job that
    /// is gone is answered from the record of its run.
    JOBS_RETENTION_DAYS = number(0, MOST_DAYS).or_number(|| 7);
    /// How many jobs that have ended are kept at least, the newest; older ones are removed before their days
    /// are over. 0 is no bound.
    JOBS_RETENTION_COUNT = number(0, MOST_COUNT).or_number(|| 0);
    /// Days for which runs that have ended are kept: records, journals, and what tools were answered over
    /// HTTP. Also for kept conversations and lines of the audit trail of tools. 0 is for good. On PostgreSQL
    /// runs that are kept for 28 days or longer go by the month, as whole tables, so that they stay for up to
    /// a month longer, unless RUNS_RETENTION_COUNT is set.
    RUNS_RETENTION_DAYS = number(0, MOST_DAYS).or_number(|| 30);
    /// How many runs that have ended are kept at least, the newest; older ones are removed before their days
    /// are over. 0 is no bound.
    RUNS_RETENTION_COUNT = number(0, MOST_COUNT).or_number(|| 0);
}

/// How long what has ended is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub jobs: RetentionBounds,
    /// Runs, and by its age the audit trail of tools.
    pub runs: RetentionBounds,
}

impl Retention {
    /// Reads nothing but these settings, for commands that remove what is kept.
    pub fn from_vars(vars: &impl EnvVars) -> Result<Self, Problems> {
        reader::collect(vars, SETTINGS, Self::read)
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let jobs = read_bounds(reader, &JOBS_RETENTION_DAYS, &JOBS_RETENTION_COUNT);
        let runs = read_bounds(reader, &RUNS_RETENTION_DAYS, &RUNS_RETENTION_COUNT);
        Ok(Self { jobs: jobs?, runs: runs? })
    }
}

fn read_bounds(
    reader: &mut Reader<'_>,
    days: &Setting,
    count: &Setting,
) -> Result<RetentionBounds, Reported> {
    let (days, count) = (reader.number::<u64>(days), reader.number::<u64>(count));
    let age = Some(days?).filter(|days| *days > 0).map(|days| Duration::from_secs(days * 24 * 3600));
    Ok(RetentionBounds { age, count: Some(count?).filter(|count| *count > 0) })
}

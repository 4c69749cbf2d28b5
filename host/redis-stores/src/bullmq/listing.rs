//! Reading jobs: by their ids, and a user's, the newest first.

use std::fmt;
use std::sync::Arc;

use agent_core::ports::QueueError;
use agent_core::words::{Job, JobPage, JobQuery, JobStatus};
use futures::future::try_join_all;

use super::job_hash::{FIELDS, PARKED, StoredJob, read_job, read_status};
use super::options::MOST_LISTED;
use super::own_keys;
use super::shard::{Shard, locate};
use super::store::Store;

/// How many jobs of a list are looked at at once, to see where they stand.
const LOOKED_AT: usize = 100;

/// How many jobs are read as a whole at once. Some have large results and options, and while a script reads
/// them Redis answers nobody else.
pub(super) const READ_AT_ONCE: usize = 25;

/// A position in a user's list, and so a cursor of it: the newest job, which has the highest score, first.
/// Lists of several shards are merged in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    score: u64,
    /// The job's id in its shard.
    job_id: String,
    shard: usize,
}

/// A user's jobs in all shards, the newest first.
pub(super) async fn list(stores: &[Arc<Store>], wanted: &JobQuery<'_>) -> Result<JobPage, QueueError> {
    let after = wanted.cursor.map(|cursor| Position::parse(cursor, stores.len())).transpose()?;
    let listed = try_join_all(stores.iter().map(|store| store.list(wanted, after.clone()))).await?;
    let mut found: Vec<_> = listed.into_iter().flatten().collect();
    if stores.len() > 1 {
        found.sort_by(|(one, _), (other, _)| other.cmp(one));
    }
    let more = found.len() > wanted.limit;
    found.truncate(wanted.limit);
    let next_cursor = found.last().filter(|_| more).map(|(position, _)| position.cursor(stores.len()));
    Ok(JobPage { jobs: found.into_iter().map(|(_, job)| job).collect(), next_cursor })
}

/// Parked jobs of everybody: the delayed ones of a shard in the order in which they are due, one shard after
/// the other. Other delayed jobs are passed over, so that a page may have fewer.
pub(super) async fn parked(
    stores: &[Arc<Store>],
    limit: usize,
    cursor: Option<&str>,
) -> Result<JobPage, QueueError> {
    let from = cursor.map_or(Some(PlaceOfDelayed::default()), PlaceOfDelayed::parse);
    let from = from.ok_or(QueueError::BadCursor)?;
    let Some(store) = stores.get(from.shard) else { return Err(QueueError::BadCursor) };
    let delayed = store.delayed(&from, limit).await?;
    let ids: Vec<&str> = delayed.iter().map(|(id, _)| id.as_str()).collect();
    let read = store.read_all(&ids).await?;
    let jobs = read.into_iter().flatten().filter(|job| job.status == JobStatus::Parked).collect();
    let next = match delayed.last().filter(|_| delayed.len() >= limit) {
        Some(_) => Some(from.behind(delayed.iter().map(|(_, score)| *score))),
        None if from.shard + 1 < stores.len() => {
            Some(PlaceOfDelayed { shard: from.shard + 1, ..PlaceOfDelayed::default() })
        }
        None => None,
    };
    Ok(JobPage { jobs, next_cursor: next.map(|place| place.to_string()) })
}

/// Where a list of delayed jobs goes on. Several may have one score, of which some were listed already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PlaceOfDelayed {
    shard: usize,
    score: u64,
    /// How many of that score were listed.
    listed: usize,
}

impl PlaceOfDelayed {
    /// Reads a cursor, which is `<shard>-<score>-<listed>`.
    fn parse(cursor: &str) -> Option<Self> {
        let mut parts = cursor.splitn(3, '-');
        let mut part = || parts.next()?.parse::<u64>().ok();
        let (shard, score, listed) = (part()?, part()?, part()?);
        Some(Self { shard: shard.try_into().ok()?, score, listed: listed.try_into().ok()? })
    }

    /// The place behind jobs of these scores, which were listed from here.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "scores are whole, and below 2^53"
    )]
    fn behind(self, scores: impl Iterator<Item = f64>) -> Self {
        scores.map(|score| score as u64).fold(self, |place, score| {
            let listed = if score == place.score { place.listed + 1 } else { 1 };
            Self { score, listed, ..place }
        })
    }
}

impl fmt::Display for PlaceOfDelayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.shard, self.score, self.listed)
    }
}

impl Store {
    /// Ids and scores of delayed jobs.
    async fn delayed(&self, from: &PlaceOfDelayed, limit: usize) -> Result<Vec<(String, f64)>, QueueError> {
        let mut range = redis::cmd("ZRANGEBYSCORE");
        range.arg(self.keys.delayed()).arg(from.score).arg("+inf").arg("WITHSCORES");
        self.command(range.arg("LIMIT").arg(from.listed).arg(limit)).await
    }

    /// Reads jobs; there is one entry for each id.
    pub(super) async fn read_all(&self, job_ids: &[&str]) -> Result<Vec<Option<Job>>, QueueError> {
        let mut jobs = Vec::with_capacity(job_ids.len());
        for some in job_ids.chunks(READ_AT_ONCE) {
            let records: Vec<Option<StoredJob>> = self.run(&self.own.read(some, &FIELDS)).await?;
            let read = some.iter().zip(records);
            jobs.extend(read.map(|(id, record)| read_job(&self.shard.public_id(id), record?)));
        }
        Ok(jobs)
    }

    /// Puts a job into its owner's list: one that another producer added, or that was added long ago. Adding
    /// a job of ours lists it in the same step.
    pub(super) async fn list_for(&self, user_id: &str, job_id: &str, created: u64) -> Result<(), QueueError> {
        let key = self.own_keys.user(user_id);
        let mut list = redis::pipe();
        list.zadd(&key, job_id, own_keys::score(job_id, created)).ignore();
        list.zremrangebyrank(&key, 0, -MOST_LISTED - 1).ignore();
        list.add_command(own_keys::keep_at_least(&key, self.kept_for.as_secs())).ignore();
        self.pipeline(&list).await
    }

    /// A user's jobs behind a position, the newest first: one more than wanted, to know whether there are
    /// more.
    async fn list(
        &self,
        wanted: &JobQuery<'_>,
        mut after: Option<Position>,
    ) -> Result<Vec<(Position, Job)>, QueueError> {
        let key = self.own_keys.user(wanted.user_id);
        let (mut found, mut gone) = (Vec::new(), Vec::new());
        while found.len() <= wanted.limit {
            // Nothing is read of jobs that are not wanted. Behind one that is gone there may be hundreds.
            let most = (wanted.limit + 1 - found.len()).min(LOOKED_AT);
            let looks_first = wanted.status.is_some() || !gone.is_empty();
            let looked_at = if looks_first { LOOKED_AT } else { most };
            let (mut positions, mut is_last) = self.positions(&key, after.as_ref(), looked_at).await?;
            after = positions.last().cloned();
            if looks_first {
                positions = self.standing(positions, wanted.status, &mut gone).await?;
                if positions.len() > most {
                    positions.truncate(most);
                    (after, is_last) = (positions.last().cloned(), false);
                }
            }
            let ids: Vec<&str> = positions.iter().map(|position| &*position.job_id).collect();
            let jobs = self.read_all(&ids).await?;
            for (position, job) in positions.into_iter().zip(jobs) {
                match job.filter(|job| job.user_id == wanted.user_id) {
                    Some(job) if wanted.status.is_none_or(|status| status == job.status) => {
                        found.push((position, job));
                    }
                    Some(_) => {}
                    None => gone.push(position.job_id),
                }
            }
            if is_last {
                break;
            }
        }
        self.unlist(&key, &gone).await?;
        Ok(found)
    }

    /// The positions whose jobs stand there. Those that are gone are told.
    async fn standing(
        &self,
        positions: Vec<Position>,
        status: Option<JobStatus>,
        gone: &mut Vec<String>,
    ) -> Result<Vec<Position>, QueueError> {
        if positions.is_empty() {
            return Ok(positions);
        }
        let ids: Vec<&str> = positions.iter().map(|position| &*position.job_id).collect();
        let records: Vec<Option<StoredJob>> = self.run(&self.own.read(&ids, &[PARKED])).await?;
        let stands = |record: &StoredJob| status.is_none_or(|status| read_status(record) == Some(status));
        let mut standing = Vec::new();
        for (position, record) in positions.into_iter().zip(records) {
            match record {
                Some(record) if stands(&record) => standing.push(position),
                Some(_) => {}
                None => gone.push(position.job_id),
            }
        }
        Ok(standing)
    }

    /// So many positions of a list or some more, and whether there are no others behind them.
    async fn positions(
        &self,
        key: &str,
        after: Option<&Position>,
        most: usize,
    ) -> Result<(Vec<Position>, bool), QueueError> {
        // The one that the list goes on behind is found again.
        let most = most + usize::from(after.is_some());
        let mut offset = 0;
        loop {
            let mut range = redis::cmd("ZREVRANGEBYSCORE");
            range.arg(key).arg(after.map_or("+inf".to_owned(), |after| after.score.to_string())).arg("-inf");
            range.arg("WITHSCORES").arg("LIMIT").arg(offset).arg(most);
            let positions: Vec<(String, f64)> = self.command(&range).await?;
            let is_last = positions.len() < most;
            let positions = positions.into_iter().map(|member| Position::of(member, self.shard.index));
            let positions: Vec<_> =
                positions.filter(|position| after.is_none_or(|after| position < after)).collect();
            if is_last || !positions.is_empty() {
                return Ok((positions, is_last));
            }
            offset += most;
        }
    }

    /// Removes jobs from a list that are not kept any more.
    pub(super) async fn unlist(&self, key: &str, job_ids: &[String]) -> Result<(), QueueError> {
        if job_ids.is_empty() {
            return Ok(());
        }
        self.command(redis::cmd("ZREM").arg(key).arg(job_ids)).await
    }
}

impl Position {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "scores are whole and of 53 bits"
    )]
    fn of((job_id, score): (String, f64), shard: usize) -> Self {
        Self { score: score as u64, job_id, shard }
    }

    /// The score and the id that others see, in hexadecimal digits so that it stands in any URL.
    pub(super) fn cursor(&self, shards: usize) -> String {
        use std::fmt::Write as _;
        let mut cursor = format!("{:x}-", self.score);
        for byte in (Shard { index: self.shard, count: shards }).public_id(&self.job_id).bytes() {
            let _always_ok = write!(cursor, "{byte:02x}");
        }
        cursor
    }

    /// Reads a cursor.
    pub(super) fn parse(cursor: &str, shards: usize) -> Result<Self, QueueError> {
        Self::parse_hex(cursor, shards).ok_or(QueueError::BadCursor)
    }

    fn parse_hex(cursor: &str, shards: usize) -> Option<Self> {
        let (score, id) = cursor.split_once('-')?;
        let score = u64::from_str_radix(score, 16).ok()?;
        let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let id: Option<Vec<u8>> = id.as_bytes().chunks(2).map(digits).collect();
        let id = String::from_utf8(id?).ok()?;
        let (shard, job_id) = locate(&id, shards)?;
        let position = Self { score, job_id: job_id.to_owned(), shard };
        (position.cursor(shards) == cursor).then_some(position)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn jobs_of_one_millisecond_stand_in_the_order_they_were_added_in() {
        let added = |id: &str, created| Position {
            score: own_keys::score(id, created),
            job_id: id.to_owned(),
            shard: 0,
        };
        let position = |id: &str| added(id, 1_700_000_000_000);
        assert!(position("9") < position("10"));
        assert!(added("4096", 1_700_000_000_001) > position("4095"));
    }

    proptest! {
        #[test]
        fn a_cursor_is_read_as_it_was_written(score in 0u64..1 << 53, job_id in ".*", shard in 0usize..3) {
            let one = Position { score, job_id: job_id.clone(), shard: 0 };
            prop_assert_eq!(Position::parse(&one.cursor(1), 1), Ok(one));
            let several = Position { score, job_id: format!("1{job_id}"), shard };
            prop_assert_eq!(Position::parse(&several.cursor(3), 3), Ok(several));
        }
    }
}

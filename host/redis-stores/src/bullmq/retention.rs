//! Removing jobs that ended long ago, each by itself.
//!
//! BullMQ trims a whole set whenever a job ends with a bound: also the jobs of producers who asked for theirs
//! to be kept. So jobs of our own end without one (`options.rs`), and are removed here together with those of
//! producers who asked for nothing: along the sets of what has ended, which are in the order of the ends,
//! past the jobs that somebody asked to keep. BullMQ's own script removes each, if it has still ended. Shards
//! are swept one after the other, under one lease.
//!
//! BullMQ's stream of events holds results as well. BullMQ trims it by its length only, some 10,000 events,
//! so that on a quiet queue they would outlive their jobs by months: a sweep begins with those that are as
//! old as the jobs that go. A user is forgotten with the events of their jobs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::{
    ClaimTime, DropStep, EndedItem, EndedPage, LeaseError, LeaseResult, Leases, PageResult, QueueError,
    Renewal, RetainedKind, Retention, RetentionError, RetentionResult,
};
use agent_core::words::JobStatus;
use boxed_async::boxed_async;
use futures::future::try_join_all;
use redis::Script;

use super::BullQueue;
use super::job_hash::{read_user, text};
use super::listing::READ_AT_ONCE;
use super::options::Options;
use super::shard::locate;
use super::store::Store;
use super::time::{from_millis, millis, to_millis};

/// The sets of what has ended, with the option that says whether a job in it is to be kept.
const SETS: [(&str, &str); 2] = [("completed", "removeOnComplete"), ("failed", "removeOnFail")];

/// Where the page of jobs begins that were cancelled.
const CANCELLED: &str = "cancelled";

/// How many jobs are looked through for one page of a user's.
const LOOKED_THROUGH: usize = 1000;

/// How many jobs are removed side by side. Each takes four round trips: one after the other, a network would
/// let fewer go in a second than a Redis takes.
const REMOVED_AT_ONCE: usize = 16;

/// How many events are looked at by one script, which keeps everybody else waiting: some have results.
const EVENTS_AT_ONCE: usize = 200;

/// Data and options of a job. Others can store anything.
type Fields = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Redis has no key for a shorter time.
const SHORTEST: Duration = Duration::from_millis(1);

/// Jobs on Redis that have ended.
pub struct BullRetention {
    stores: Arc<[Arc<Store>]>,
    /// The first shard, where the lease of its sweeps lies.
    store: Arc<Store>,
    lease: Script,
}

impl BullRetention {
    /// Retention of that queue's jobs.
    pub fn new(queue: &BullQueue) -> Self {
        Self {
            stores: queue.stores.clone(),
            store: queue.first().clone(),
            lease: Script::new(include_str!("scripts/sweep_lease.lua")),
        }
    }

    async fn run_lease(&self, what: &str, owner: &str, time: Duration) -> LeaseResult<bool> {
        let mut run = self.lease.prepare_invoke();
        run.key(self.store.own_keys.sweeper()).key(self.store.own_keys.swept());
        run.arg(what).arg(owner).arg(millis(time));
        let answer: i64 = self.store.run(&run).await.map_err(|error| LeaseError(error.to_string()))?;
        Ok(answer == 1)
    }

    /// Ended jobs of a page that are wanted, and where the next page begins.
    async fn page(
        &self,
        from: Option<&str>,
        before: &str,
        most: usize,
        is_wanted: impl Fn(&str, &Fields) -> bool + Send + Sync,
    ) -> PageResult {
        let (shard, place) = from.map_or((0, None), parse_page);
        let Some(store) = self.stores.get(shard) else { return Ok(EndedPage::default()) };
        let mut page = store.page_of_ended(place, before, most, is_wanted).await.map_err(failed)?;
        let next_shard = Some(format!("{}/", shard + 1)).filter(|_| shard + 1 < self.stores.len());
        page.next = page.next.map(|place| format!("{shard}/{place}")).or(next_shard);
        Ok(page)
    }

    /// How many jobs have ended since then.
    async fn count_since(&self, since: u64) -> RetentionResult<u64> {
        let mut count = 0;
        for store in &*self.stores {
            count += store.count_since(since).await.map_err(failed)?;
        }
        Ok(count)
    }

    /// When the first or the last of each set ended (`ZRANGE`, `ZREVRANGE`).
    async fn first_ends(&self, range: &'static str) -> RetentionResult<Vec<u64>> {
        let mut ends = Vec::new();
        for store in &*self.stores {
            for (set, _) in SETS {
                ends.extend(store.first_end(range, set).await.map_err(failed)?);
            }
        }
        Ok(ends)
    }
}

/// The shard of a page, and the place in it.
fn parse_page(from: &str) -> (usize, Option<&str>) {
    let (shard, place) = from.split_once('/').unwrap_or((from, ""));
    (shard.parse().unwrap_or(usize::MAX), Some(place).filter(|place| !place.is_empty()))
}

/// A place in one of the sets: behind a member with that score.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Place {
    set: usize,
    score: f64,
    id: String,
}

impl Place {
    /// Members with one score are in the order of their bytes.
    fn is_before(&self, (id, score): &(String, f64)) -> bool {
        *score > self.score || (*score >= self.score && id.as_bytes() > self.id.as_bytes())
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let (set, score, id) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { set: set.parse().ok()?, score: score.parse().ok()?, id: id.to_owned() })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.set, self.score, self.id)
    }
}

/// The lease of the queue's sweeps is a key on the first shard that expires by itself, beside one that says
/// that the next sweep is not due yet. Nothing else is claimed by name here, so the keys have no name in
/// them. The lease of an idempotency key is a field of a hash instead, which outlives it: so the two have a
/// script each.
#[boxed_async]
impl Leases for BullRetention {
    async fn claim(&self, _name: &str, owner: &str, lease: Duration, time: ClaimTime) -> LeaseResult<bool> {
        let what = match time {
            ClaimTime::WhenDue => "claim",
            ClaimTime::Now => "claim now",
        };
        self.run_lease(what, owner, lease.max(SHORTEST)).await
    }

    async fn renew(&self, _name: &str, owner: &str, lease: Duration) -> LeaseResult<Renewal> {
        self.run_lease("renew", owner, lease.max(SHORTEST)).await.map(Renewal::of_holder)
    }

    async fn settle(&self, _name: &str, owner: &str, next: Duration) -> LeaseResult<bool> {
        self.run_lease("settle", owner, next).await
    }
}

#[boxed_async]
impl Retention for BullRetention {
    fn kind(&self) -> RetainedKind {
        RetainedKind::Jobs
    }

    async fn now(&self) -> RetentionResult<SystemTime> {
        self.store.now().await.map_err(failed)
    }

    /// Found by halves: the two sets are counted together.
    async fn end_of_newest(&self, count: u64) -> RetentionResult<Option<SystemTime>> {
        if self.count_since(0).await? < count {
            return Ok(None);
        }
        let (mut since, mut too_late) = (0, 0);
        for last in self.first_ends("ZREVRANGE").await? {
            too_late = too_late.max(last + 1);
        }
        while too_late > since + 1 {
            let middle = since + (too_late - since) / 2;
            if self.count_since(middle).await? >= count { since = middle } else { too_late = middle }
        }
        Ok(Some(from_millis(since)))
    }

    /// Events are what is dropped as a whole here.
    async fn drop_partitions(&self, before: SystemTime, _from: Option<&str>) -> RetentionResult<DropStep> {
        for store in &*self.stores {
            store.trim_events(before).await.map_err(failed)?;
        }
        Ok(DropStep::default())
    }

    async fn ended_before(&self, before: SystemTime, from: Option<&str>, most: u32) -> PageResult {
        let before = format!("({}", to_millis(before));
        self.page(from, &before, most as usize, |option, (_, options)| {
            !Options::parse(options.as_deref().map(text).as_deref()).asks_for(option)
        })
        .await
    }

    /// Erasing a user is rare: all jobs that have ended are looked through, also those that are to be kept.
    /// The last page is what is still known of jobs that were cancelled.
    async fn ended_of(&self, user_id: &str, from: Option<&str>, _most: u32) -> PageResult {
        if from == Some(CANCELLED) {
            let mut items = Vec::new();
            for store in &*self.stores {
                items.extend(store.cancelled_of(user_id).await.map_err(failed)?);
            }
            return Ok(EndedPage { items, next: None });
        }
        let is_theirs = |_: &str, (data, _): &Fields| owner(data.as_deref()).as_deref() == Some(user_id);
        let mut page = self.page(from, "+inf", LOOKED_THROUGH, is_theirs).await?;
        page.next.get_or_insert_with(|| CANCELLED.to_owned());
        Ok(page)
    }

    async fn erase_traces(&self, ids: &[String]) -> RetentionResult {
        for (index, store) in self.stores.iter().enumerate() {
            let located = ids.iter().filter_map(|id| locate(id, self.stores.len()));
            let jobs: HashSet<_> =
                located.filter(|(shard, _)| *shard == index).map(|(_, id)| id.as_bytes()).collect();
            if !jobs.is_empty() {
                store.erase_events(&jobs).await.map_err(failed)?;
            }
        }
        Ok(())
    }

    async fn remove(&self, ids: &[String]) -> RetentionResult<u64> {
        let mut removed = 0;
        for some in ids.chunks(REMOVED_AT_ONCE) {
            let mut removals = Vec::with_capacity(some.len());
            for id in some {
                let Some((shard, id)) = locate(id, self.stores.len()) else { continue };
                let Some(store) = self.stores.get(shard) else { continue };
                removals.push(store.remove_job(id));
            }
            let gone = try_join_all(removals).await.map_err(failed)?;
            removed += gone.into_iter().map(u64::from).sum::<u64>();
        }
        Ok(removed)
    }

    async fn oldest(&self) -> RetentionResult<Option<SystemTime>> {
        Ok(self.first_ends("ZRANGE").await?.into_iter().min().map(from_millis))
    }
}

impl Store {
    /// Forgets older events. Their ids begin with the time by the server's clock.
    async fn trim_events(&self, before: SystemTime) -> Result<(), QueueError> {
        let mut trim = redis::cmd("XTRIM");
        self.command(trim.arg(self.keys.events()).arg("MINID").arg(to_millis(before))).await
    }

    /// Erases the events of these jobs. A script says whose each is, so that no result is read.
    async fn erase_events(&self, jobs: &HashSet<&[u8]>) -> Result<(), QueueError> {
        let whose = Script::new(include_str!("scripts/event_jobs.lua"));
        let mut from = "-".to_owned();
        loop {
            let mut read = whose.prepare_invoke();
            read.key(self.keys.events()).arg(&from).arg(EVENTS_AT_ONCE);
            let events: Vec<(String, Vec<u8>)> = self.run(&read).await?;
            let Some((last, _)) = events.last() else { return Ok(()) };
            from = format!("({last}");
            let theirs = events.iter().filter(|(_, job)| jobs.contains(job.as_slice()));
            let theirs: Vec<&str> = theirs.map(|(id, _)| id.as_str()).collect();
            if theirs.is_empty() {
                continue;
            }
            let mut erase = redis::cmd("XDEL");
            erase.arg(self.keys.events()).arg(&theirs);
            self.command::<()>(&erase).await?;
        }
    }

    /// Some members of a set behind a place, with their scores, and whether there are no more.
    async fn members(
        &self,
        set: &str,
        place: &Place,
        before: &str,
        most: usize,
    ) -> Result<(Vec<(String, f64)>, bool), QueueError> {
        let mut offset = 0;
        loop {
            let mut range = redis::cmd("ZRANGEBYSCORE");
            range.arg(self.keys.get(set)).arg(place.score).arg(before).arg("WITHSCORES");
            range.arg("LIMIT").arg(offset).arg(most);
            let members: Vec<(String, f64)> = self.command(&range).await?;
            let is_last = members.len() < most;
            let behind: Vec<_> = members.into_iter().filter(|member| place.is_before(member)).collect();
            if is_last || !behind.is_empty() {
                return Ok((behind, is_last));
            }
            offset += most;
        }
    }

    /// Ended jobs among a page of a set that are wanted, and where the next page begins.
    async fn page_of_ended(
        &self,
        from: Option<&str>,
        before: &str,
        most: usize,
        is_wanted: impl Fn(&str, &Fields) -> bool + Send + Sync,
    ) -> Result<EndedPage, QueueError> {
        let place = from.and_then(Place::parse).unwrap_or_default();
        let Some((set, option)) = SETS.get(place.set) else { return Ok(EndedPage::default()) };
        let (members, is_last) = self.members(set, &place, before, most).await?;
        let next = match members.last() {
            Some((id, score)) if !is_last => Some(Place { score: *score, id: id.clone(), ..place }),
            _ => Some(Place { set: place.set + 1, ..Place::default() }).filter(|next| next.set < SETS.len()),
        };
        let mut items = Vec::new();
        for some in members.chunks(READ_AT_ONCE) {
            let mut hashes = redis::pipe();
            for (id, _) in some {
                hashes.cmd("HMGET").arg(self.keys.job_key(id)).arg("data").arg("opts");
            }
            let fields: Vec<Fields> = self.pipeline(&hashes).await?;
            let wanted = some.iter().zip(fields).filter(|(_, fields)| is_wanted(option, fields));
            items.extend(wanted.map(|((id, _), _)| EndedItem { id: self.shard.public_id(id), job_id: None }));
        }
        Ok(EndedPage { items, next: next.map(|next| next.to_string()) })
    }

    /// When the first or the last of a set ended (`ZRANGE`, `ZREVRANGE`).
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "scores are times in ms")]
    async fn first_end(&self, range: &'static str, set: &str) -> Result<Option<u64>, QueueError> {
        let mut range = redis::cmd(range);
        range.arg(self.keys.get(set)).arg(0).arg(0).arg("WITHSCORES");
        let found: Vec<(String, f64)> = self.command(&range).await?;
        Ok(found.first().map(|(_, score)| *score as u64))
    }

    /// How many jobs have ended since then.
    async fn count_since(&self, since: u64) -> Result<u64, QueueError> {
        let mut counts = redis::pipe();
        for (set, _) in SETS {
            counts.cmd("ZCOUNT").arg(self.keys.get(set)).arg(since).arg("+inf");
        }
        let counts: Vec<u64> = self.pipeline(&counts).await?;
        Ok(counts.iter().sum())
    }

    /// Jobs of a user's list of which only the record is left that they were cancelled.
    async fn cancelled_of(&self, user_id: &str) -> Result<Vec<EndedItem>, QueueError> {
        let mut list = redis::cmd("ZRANGE");
        let ids: Vec<String> = self.command(list.arg(self.own_keys.user(user_id)).arg(0).arg(-1)).await?;
        let mut items = Vec::new();
        for some in ids.chunks(READ_AT_ONCE) {
            let some: Vec<&str> = some.iter().map(String::as_str).collect();
            let jobs = self.read_all(&some).await?.into_iter().flatten();
            let cancelled = jobs.filter(|job| job.status == JobStatus::Cancelled && job.user_id == user_id);
            items.extend(cancelled.map(|job| EndedItem { id: job.id, job_id: None }));
        }
        Ok(items)
    }

    /// False if there was nothing left of the job.
    async fn remove_job(&self, id: &str) -> Result<bool, QueueError> {
        let owners = self.owners_of(id).await?;
        let answer: i64 = self.run(&self.official.remove_ended(id)).await?;
        let is_removed = answer == 1;
        let is_forgotten = self.forget_cancelled(id).await?;
        for owner in owners.into_iter().flatten().filter(|_| is_removed || is_forgotten) {
            self.unlist(&self.own_keys.user(&owner), &[id.to_owned()]).await?;
        }
        Ok(is_removed || is_forgotten)
    }

    /// Whose job it is, by its hash and by the record that it was cancelled.
    async fn owners_of(&self, job_id: &str) -> Result<[Option<String>; 2], QueueError> {
        let mut both = redis::pipe();
        both.cmd("HGET").arg(self.keys.job_key(job_id)).arg("data");
        both.cmd("HGET").arg(self.own_keys.cancelled(job_id)).arg("data");
        let (data, cancelled): Fields = self.pipeline(&both).await?;
        Ok([owner(data.as_deref()), owner(cancelled.as_deref())])
    }

    /// False if there was no record of its having been cancelled.
    async fn forget_cancelled(&self, job_id: &str) -> Result<bool, QueueError> {
        let deleted: i64 = self.command(redis::cmd("DEL").arg(self.own_keys.cancelled(job_id))).await?;
        Ok(deleted > 0)
    }
}

fn owner(data: Option<&[u8]>) -> Option<String> {
    data.map(|data| read_user(&text(data)))
}

fn failed(error: impl std::fmt::Display) -> RetentionError {
    RetentionError(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for id in ["1", "a:b:c", "", "repeat:daily:1700000000000"] {
            let place = Place { set: 1, score: 1_700_000_000_123.0, id: id.to_owned() };
            assert_eq!(Place::parse(&place.to_string()), Some(place));
        }
        assert_eq!(Place::parse("completed"), None);
    }

    #[test]
    fn jobs_that_ended_in_one_millisecond_have_an_order() {
        let place = Place { set: 0, score: 5.0, id: "10".into() };
        for (id, score, is_behind) in
            [("9", 5.0, true), ("10", 5.0, false), ("1", 5.0, false), ("1", 6.0, true), ("9", 4.0, false)]
        {
            assert_eq!(place.is_before(&(id.into(), score)), is_behind, "{id} {score}");
        }
    }
}

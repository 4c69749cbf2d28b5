//! Sweeps of a store in memory, by a clock that stands still.

use parking_lot::Mutex;
use std::collections::BTreeMap;

use agent_core::ports::lease::Lease;
use agent_core::ports::{AttemptEnd, DropStep, LeaseResult, PageResult, QueueError, RetentionResult};
use agent_core::testing::{Switch, TestQueue};
use agent_core::words::JobData;
use boxed_async::boxed_async;
use tokio::time::{Instant, timeout};

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The time by the store's clock.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + 1000 * DAY
}

#[derive(Debug, Clone)]
struct Entry {
    ended_at: SystemTime,
    user: String,
    job_id: Option<String>,
}

/// Keeps runs in memory, in pages of two, and fails on demand.
#[derive(Default)]
struct MemoryRetention {
    switch: Switch,
    entries: Mutex<BTreeMap<String, Entry>>,
    lease: Mutex<Lease>,
    due: Mutex<Option<Instant>>,
    sweeps: Mutex<u32>,
    steps: Mutex<Vec<usize>>,
    room_to_give_back: Mutex<u32>,
    /// In how many steps what has expired goes.
    expired: Mutex<u32>,
    /// How much is in each partition that may be dropped.
    partitions: Mutex<Vec<u64>>,
}

impl MemoryRetention {
    /// One that ended so many days ago.
    fn add(&self, id: &str, days: u32) {
        let entry = Entry { ended_at: now() - days * DAY, user: "u1".into(), job_id: None };
        self.entries.lock().insert(id.into(), entry);
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Entry)) {
        change(self.entries.lock().get_mut(id).unwrap());
    }

    fn ids(&self) -> Vec<String> {
        self.entries.lock().keys().cloned().collect()
    }

    async fn check(&self) -> RetentionResult {
        self.switch.check().await.map_err(RetentionError)
    }

    fn page(&self, from: Option<&str>, is_wanted: impl Fn(&Entry) -> bool) -> EndedPage {
        let entries = self.entries.lock();
        let after = from.unwrap_or_default().to_owned();
        let found: Vec<_> = entries.range(after.clone()..).filter(|(id, _)| **id > after).take(2).collect();
        let next = (found.len() == 2).then(|| found[1].0.clone());
        let items = found.into_iter().filter(|(_, entry)| is_wanted(entry));
        let item =
            |(id, entry): (&String, &Entry)| EndedItem { id: id.clone(), job_id: entry.job_id.clone() };
        EndedPage { items: items.map(item).collect(), next }
    }
}

#[boxed_async]
impl Leases for MemoryRetention {
    async fn claim(&self, name: &str, owner: &str, lease: Duration, time: ClaimTime) -> LeaseResult<bool> {
        self.switch.check().await.map_err(LeaseError)?;
        assert_eq!(name, "runs");
        let is_due = self.due.lock().is_none_or(|due| due <= Instant::now());
        let begins =
            (is_due || time == ClaimTime::Now) && self.lease.lock().claim(owner, lease, Instant::now());
        *self.sweeps.lock() += u32::from(begins);
        Ok(begins)
    }

    async fn renew(&self, _name: &str, owner: &str, lease: Duration) -> LeaseResult<Renewal> {
        self.switch.check().await.map_err(LeaseError)?;
        Ok(self.lease.lock().renew(owner, lease, Instant::now()))
    }

    async fn settle(&self, _name: &str, owner: &str, next: Duration) -> LeaseResult<bool> {
        self.switch.check().await.map_err(LeaseError)?;
        *self.due.lock() = Some(Instant::now() + next);
        Ok(self.lease.lock().end(owner))
    }
}

#[boxed_async]
impl Retention for MemoryRetention {
    fn kind(&self) -> RetainedKind {
        RetainedKind::Runs
    }

    async fn now(&self) -> RetentionResult<SystemTime> {
        self.check().await.map(|()| now())
    }

    async fn end_of_newest(&self, count: u64) -> RetentionResult<Option<SystemTime>> {
        self.check().await?;
        let mut ends: Vec<_> = self.entries.lock().values().map(|entry| entry.ended_at).collect();
        ends.sort_unstable();
        Ok(ends.into_iter().rev().nth(usize::try_from(count).unwrap() - 1))
    }

    /// One partition a step.
    async fn drop_partitions(&self, _before: SystemTime, from: Option<&str>) -> RetentionResult<DropStep> {
        self.check().await?;
        let mut partitions = self.partitions.lock();
        let step: usize = from.map_or(0, |from| from.parse().unwrap());
        assert!(step == 0 || step == 2 - partitions.len(), "it goes on where it was");
        let Some(removed) = partitions.pop() else { return Ok(DropStep::default()) };
        let next = (!partitions.is_empty()).then(|| (2 - partitions.len()).to_string());
        Ok(DropStep { removed, next })
    }

    async fn ended_before(&self, before: SystemTime, from: Option<&str>, _most: u32) -> PageResult {
        self.check().await?;
        Ok(self.page(from, |entry| entry.ended_at < before))
    }

    async fn ended_of(&self, user_id: &str, from: Option<&str>, _most: u32) -> PageResult {
        self.check().await?;
        Ok(self.page(from, |entry| entry.user == user_id))
    }

    async fn remove(&self, ids: &[String]) -> RetentionResult<u64> {
        self.check().await?;
        self.steps.lock().push(ids.len());
        let mut entries = self.entries.lock();
        Ok(ids.iter().filter(|id| entries.remove(*id).is_some()).count() as u64)
    }

    async fn oldest(&self) -> RetentionResult<Option<SystemTime>> {
        self.check().await?;
        Ok(self.entries.lock().values().map(|entry| entry.ended_at).min())
    }

    async fn remove_expired(&self) -> RetentionResult<bool> {
        let mut left = self.expired.lock();
        *left = left.saturating_sub(1);
        Ok(*left > 0)
    }

    async fn give_back_room(&self) -> RetentionResult<bool> {
        let mut left = self.room_to_give_back.lock();
        *left = left.saturating_sub(1);
        Ok(*left > 0)
    }
}

/// What a sweeper told.
#[derive(Default)]
struct RecordingObserver {
    removed: Mutex<u64>,
    failed: Mutex<u32>,
    up_to_date: Mutex<u32>,
    oldest: Mutex<Vec<Option<SystemTime>>>,
}

impl Observer for RecordingObserver {
    fn swept(&self, kind: RetainedKind, removed: u64) {
        assert_eq!(kind, RetainedKind::Runs);
        *self.removed.lock() += removed;
    }

    fn nothing_overdue(&self, _kind: RetainedKind) {
        *self.up_to_date.lock() += 1;
    }

    fn sweep_failed(&self, _kind: RetainedKind) {
        *self.failed.lock() += 1;
    }

    fn oldest_retained(&self, _kind: RetainedKind, ended_at: Option<SystemTime>) {
        self.oldest.lock().push(ended_at);
    }
}

fn sweeper(
    store: &Arc<MemoryRetention>,
    bounds: RetentionBounds,
    told: &Arc<RecordingObserver>,
    name: &str,
) -> Sweeper {
    let rule = Rule { store: store.clone(), leases: store.clone(), bounds };
    Sweeper::new(vec![rule], None, name.into(), told.clone())
}

const A_WEEK: RetentionBounds =
    RetentionBounds { age: Some(Duration::from_secs(7 * 24 * 3600)), count: None };

#[tokio::test(start_paused = true)]
async fn what_goes_by_an_age_of_its_own_goes_whatever_the_bounds() {
    for bounds in [A_WEEK, RetentionBounds::default()] {
        let store = Arc::<MemoryRetention>::default();
        let sweeper = sweeper(&store, bounds, &Arc::default(), "a");
        *store.expired.lock() = 3;
        sweeper.sweep_now().await.unwrap();
        assert_eq!(*store.expired.lock(), 0);
        *store.expired.lock() = 3;
        timeout(LOOK, sweeper.run()).await.unwrap_err();
        assert_eq!(*store.expired.lock(), 0);
    }
}

/// Lets the sweeper run for so long.
async fn run_for(sweeper: &Sweeper, time: Duration) {
    assert!(timeout(time, sweeper.run()).await.is_err(), "it never ends by itself");
}

fn kept_for(days: &[u32]) -> Arc<MemoryRetention> {
    let store = Arc::new(MemoryRetention::default());
    for (index, days) in days.iter().enumerate() {
        store.add(&format!("run_{index}"), *days);
    }
    store
}

#[tokio::test(start_paused = true)]
async fn what_is_older_goes_in_steps_and_the_rest_stays() {
    let (store, told) = (kept_for(&[30, 8, 6, 9, 0]), Arc::default());
    run_for(&sweeper(&store, A_WEEK, &told, "one"), LOOK / 2).await;
    assert_eq!(store.ids(), ["run_2", "run_4"]);
    assert_eq!(*store.steps.lock(), [2, 1]);
    assert_eq!(*told.removed.lock(), 3);
    assert_eq!(*told.oldest.lock(), [Some(now() - 6 * DAY)], "what is left");
}

#[tokio::test(start_paused = true)]
async fn the_stricter_of_age_and_count_holds_and_without_bounds_all_stays() {
    for (bounds, left) in [
        (RetentionBounds::default(), 5),
        (RetentionBounds { count: Some(2), ..RetentionBounds::default() }, 2),
        (RetentionBounds { count: Some(9), ..RetentionBounds::default() }, 5),
        (RetentionBounds { count: Some(4), ..A_WEEK }, 2),
        (RetentionBounds { count: Some(1), ..A_WEEK }, 1),
    ] {
        let (store, told) = (kept_for(&[30, 8, 6, 9, 0]), Arc::default());
        run_for(&sweeper(&store, bounds, &told, "one"), LOOK / 2).await;
        assert_eq!(store.ids().len(), left, "{bounds:?}");
    }
}

/// As processes record them whose clocks are ahead of the store's.
#[tokio::test(start_paused = true)]
async fn nothing_goes_whose_end_lies_ahead_by_the_stores_clock() {
    let (store, told) = (kept_for(&[3, 0, 0]), Arc::default());
    for (id, ahead) in [("run_1", 1), ("run_2", 2)] {
        store.change(id, |run| run.ended_at = now() + ahead * DAY);
    }
    let bounds = RetentionBounds { count: Some(1), ..RetentionBounds::default() };
    run_for(&sweeper(&store, bounds, &told, "one"), LOOK / 2).await;
    assert_eq!(store.ids(), ["run_1", "run_2"]);
}

#[tokio::test(start_paused = true)]
async fn of_many_replicas_one_sweeps_and_the_next_time_is_an_hour_later() {
    let (store, told) = (kept_for(&[30, 8]), Arc::default());
    let replicas = ["one", "two", "three"].map(|name| sweeper(&store, A_WEEK, &told, name));
    let all = futures::future::join_all(replicas.iter().map(|replica| run_for(replica, INTERVAL / 2)));
    all.await;
    assert_eq!((*store.sweeps.lock(), store.ids().len()), (1, 0));
    // Each when it begins, and whoever has swept.
    assert_eq!(*told.up_to_date.lock(), 3 + 1);
    store.add("run_9", 9);
    run_for(&replicas[1], INTERVAL).await;
    assert_eq!((*store.sweeps.lock(), store.ids().len()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_a_failed_sweep_and_is_swept_once_it_works() {
    let (store, told) = (kept_for(&[30]), Arc::default());
    store.switch.fail(true);
    let sweeper = sweeper(&store, A_WEEK, &told, "one");
    run_for(&sweeper, LOOK * 3 - LOOK / 2).await;
    assert_eq!((*told.failed.lock(), store.ids().len()), (3, 1));
    assert_eq!(*told.up_to_date.lock(), 1, "when it began");
    store.switch.fail(false);
    run_for(&sweeper, LOOK).await;
    assert_eq!((*told.failed.lock(), store.ids().len()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_sweep_ends_when_somebody_else_has_its_lease() {
    // More than are removed until the lease is renewed.
    let (store, told) = (kept_for(&[30; 1000]), Arc::default());
    let sweeper = sweeper(&store, A_WEEK, &told, "one");
    let robbed = async {
        tokio::time::sleep(PAUSE / 2).await;
        let mut lease = store.lease.lock();
        assert!(lease.end("one") && lease.claim("two", LEASE, Instant::now()));
    };
    let (swept, ()) = tokio::join!(sweeper.sweep_now(), robbed);
    assert_eq!(swept, Err(SweepError::Taken(RetainedKind::Runs)));
    assert!(!store.ids().is_empty() && store.ids().len() < 1000, "{} are left", store.ids().len());
    assert!(store.lease.lock().is_held_by("two"));
}

#[tokio::test(start_paused = true)]
async fn the_run_of_a_job_that_waits_stays() {
    let (store, told, queue) =
        (kept_for(&[30, 30, 30]), Arc::<RecordingObserver>::default(), Arc::new(TestQueue::default()));
    let waiting = queue.add(&JobData::new("waits", "u1")).await.unwrap();
    let waiting_run = queue.job(&waiting).run_id;
    store.change("run_0", |run| run.job_id = Some(waiting.clone()));
    store.add(&waiting_run, 30);
    store.change(&waiting_run, |run| run.job_id = Some(waiting.clone()));
    let ended = queue.add(&JobData::new("ends", "u1")).await.unwrap();
    let ended_run = queue.job(&ended).run_id;
    store.add(&ended_run, 30);
    store.change(&ended_run, |run| run.job_id = Some(ended));
    // The first claim is of the job that waits: it goes back.
    let claim = queue.claim("w", Duration::ZERO).await.unwrap().unwrap();
    let other = queue.claim("w", Duration::ZERO).await.unwrap().unwrap();
    queue.settle(&other, &AttemptEnd::Failed { error: "e".into(), retry: false }).await.unwrap();
    queue.settle(&claim, &AttemptEnd::HANDED_BACK).await.unwrap();
    let rule = Rule { store: store.clone(), leases: store.clone(), bounds: A_WEEK };
    let sweeper = Sweeper::new(vec![rule], Some(queue.clone()), "one".into(), told);
    assert_eq!(sweeper.count().await.unwrap(), [(RetainedKind::Runs, 4)]);
    assert_eq!(sweeper.sweep_now().await.unwrap(), [(RetainedKind::Runs, 4)]);
    assert_eq!(store.ids(), [waiting_run], "that of its next attempt, not one that it had before");
    // A queue that does not answer may have jobs that wait.
    queue.switch.fail(true);
    let failed = sweeper.sweep_now().await.unwrap_err();
    assert!(matches!(failed, SweepError::Queue(QueueError::Store { .. })), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn forgetting_a_user_removes_what_is_theirs_however_new() {
    let (store, told) = (kept_for(&[30, 0, 0]), Arc::default());
    store.change("run_1", |run| run.user = "u2".into());
    let sweeper = sweeper(&store, A_WEEK, &told, "one");
    let theirs = sweeper.owned_by("u1").await.unwrap();
    assert_eq!(theirs, [(RetainedKind::Runs, vec!["run_0".to_owned(), "run_2".to_owned()])]);
    assert_eq!(sweeper.forget("u1").await.unwrap(), [(RetainedKind::Runs, 2)]);
    assert_eq!(store.ids(), ["run_1"]);
    assert_eq!(sweeper.forget("nobody").await.unwrap(), [(RetainedKind::Runs, 0)]);
}

#[tokio::test(start_paused = true)]
async fn partitions_go_before_the_rest_and_are_counted() {
    let (store, told) = (kept_for(&[9]), Arc::default());
    *store.partitions.lock() = vec![200, 3000];
    let sweeper = sweeper(&store, A_WEEK, &told, "one");
    assert_eq!(sweeper.sweep_now().await.unwrap(), [(RetainedKind::Runs, 3201)]);
    assert!(store.partitions.lock().is_empty() && store.ids().is_empty());
}

#[tokio::test(start_paused = true)]
async fn room_is_given_back_after_a_sweep_that_removed_something() {
    let (store, told) = (kept_for(&[30]), Arc::default());
    *store.room_to_give_back.lock() = 3;
    let sweeper = sweeper(&store, A_WEEK, &told, "one");
    sweeper.sweep_now().await.unwrap();
    assert_eq!(*store.room_to_give_back.lock(), 0);
    *store.room_to_give_back.lock() = 3;
    sweeper.sweep_now().await.unwrap();
    assert_eq!(*store.room_to_give_back.lock(), 3, "nothing was removed");
}

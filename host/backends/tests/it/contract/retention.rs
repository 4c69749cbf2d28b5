//! What every store promises that keeps things for a while: `Retention`.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::{ClaimTime, EndedPage, Leases, Renewal, Retention, RunStore};
use agent_core::testing::says;
use agent_core::words::{Event, RunOutcome, RunRecord};
use boxed_async::boxed_async;
use test_servers::eventually;

pub(crate) use super::lease::*;

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
const MINUTE: Duration = Duration::from_secs(60);

/// An empty store.
pub(crate) struct Bench {
    /// As this process has it.
    pub(crate) store: Arc<dyn Retention>,
    /// As another process has it.
    pub(crate) peer: Arc<dyn Retention>,
    /// The leases of its sweeps, as the two have them.
    pub(crate) leases: [Arc<dyn Leases>; 2],
    /// What puts things there.
    pub(crate) things: Box<dyn Things>,
    /// What has to live as long as the store: its server, its folder, its tasks.
    pub(crate) _guard: Box<dyn Any + Send + Sync>,
}

/// Things of the kind that the store keeps.
#[boxed_async]
pub(crate) trait Things: Send + Sync {
    /// One of that user that ended so long ago. Says its id.
    async fn add_ended(&self, user: &str, ago: Duration) -> String;

    /// One that began so long ago and has not ended.
    async fn add_unended(&self, user: &str, ago: Duration) -> String;

    /// Some of that user that wait for somebody or are held, although the store has a time of theirs that
    /// lies ahead, or long ago. None where there is no such thing.
    async fn add_waiting(&self, _user: &str) -> Vec<String> {
        vec![]
    }

    /// One of that user that is being carried out and says so now and then, if there is such a thing.
    async fn add_under_way(&self, _user: &str) -> Option<String> {
        None
    }

    /// Whether anything is left of it.
    async fn is_kept(&self, id: &str) -> bool;
}

/// A test of every case. The argument is the path of an `async fn() -> Bench`.
macro_rules! test_all {
    ($test:ident $benches:tt) => {
        crate::contract::lease::test_leased! { $test retention, $benches:
            an_empty_store_has_nothing_to_remove,
            what_ended_before_is_found_page_by_page_and_removed,
            pages_go_on_when_nothing_of_them_is_removed,
            what_has_not_ended_is_neither_found_nor_removed,
            what_waits_or_is_under_way_has_no_end_whatever_the_bound,
            removing_what_is_gone_is_no_error,
            the_newest_are_told_by_when_they_ended,
            what_belongs_to_a_user_is_found_however_new,
            the_next_sweep_is_due_later_whoever_makes_it,
        }
    };
}
pub(crate) use test_all;

impl Bench {
    fn leases_of(&self, owner: &str) -> &dyn Leases {
        let [here, there] = &self.leases;
        if is_peer(owner) { &**there } else { &**here }
    }

    async fn claim_at(&self, owner: &str, lease: Duration, time: ClaimTime) -> bool {
        self.leases_of(owner).claim(self.store.kind().as_str(), owner, lease, time).await.unwrap()
    }

    async fn settle_until(&self, owner: &str, next: Duration) -> bool {
        self.leases_of(owner).settle(self.store.kind().as_str(), owner, next).await.unwrap()
    }
}

/// The sweeps of the store are claimed under the name of what is kept there.
#[boxed_async]
impl Leased for Bench {
    type Claim = String;

    async fn claim(&self, owner: &str, lease: Duration) -> Option<String> {
        self.claim_at(owner, lease, ClaimTime::WhenDue).await.then(|| owner.to_owned())
    }

    async fn renew(&self, owner: &String, lease: Duration) -> Option<Renewal> {
        Some(self.leases_of(owner).renew(self.store.kind().as_str(), owner, lease).await.unwrap())
    }

    async fn settle(&self, owner: &String) -> bool {
        self.settle_until(owner, LONG).await
    }

    async fn release(&self, owner: &String) {
        self.settle_until(owner, Duration::ZERO).await;
    }
}

async fn now(bench: &Bench) -> SystemTime {
    let now = bench.store.now().await.unwrap();
    let here = SystemTime::now();
    assert!(now < here + MINUTE && here < now + MINUTE, "{now:?} is not {here:?}");
    now
}

/// All pages of what ended before then, of `most` each.
pub(crate) async fn ended_before(store: &dyn Retention, before: SystemTime, most: u32) -> Vec<String> {
    let (mut from, mut ids) = (None, Vec::new());
    loop {
        let EndedPage { items, next } = store.ended_before(before, from.as_deref(), most).await.unwrap();
        assert!(items.len() <= most as usize);
        ids.extend(items.into_iter().map(|item| item.id));
        let Some(next) = next else { return ids };
        assert_ne!(from.as_ref(), Some(&next), "it does not get on");
        from = Some(next);
    }
}

pub(crate) async fn ended_of(store: &dyn Retention, user: &str) -> BTreeSet<String> {
    let (mut from, mut ids) = (None, BTreeSet::new());
    loop {
        let page = store.ended_of(user, from.as_deref(), 2).await.unwrap();
        ids.extend(page.items.into_iter().map(|item| item.id));
        let Some(next) = page.next else { return ids };
        from = Some(next);
    }
}

pub(crate) async fn an_empty_store_has_nothing_to_remove(bench: &Bench) {
    assert_eq!(ended_before(&*bench.store, now(bench).await, 10).await, [] as [&str; 0]);
    assert!(ended_of(&*bench.store, "u1").await.is_empty());
    assert_eq!(bench.store.end_of_newest(1).await.unwrap(), None);
    assert_eq!(bench.store.oldest().await.unwrap(), None);
    assert_eq!(bench.store.remove(&[]).await.unwrap(), 0);
    assert!(!bench.store.give_back_room().await.unwrap());
}

pub(crate) async fn what_ended_before_is_found_page_by_page_and_removed(bench: &Bench) {
    let mut old = BTreeSet::new();
    for _ in 0..7 {
        old.insert(bench.things.add_ended("u1", 9 * DAY).await);
    }
    let young = bench.things.add_ended("u1", DAY).await;
    let before = now(bench).await - 7 * DAY;
    let (mut from, mut removed) = (None, BTreeSet::new());
    loop {
        let page = bench.store.ended_before(before, from.as_deref(), 3).await.unwrap();
        let ids: Vec<_> = page.items.into_iter().map(|item| item.id).collect();
        assert_eq!(bench.peer.remove(&ids).await.unwrap(), ids.len() as u64);
        removed.extend(ids);
        let Some(next) = page.next else { break };
        from = Some(next);
    }
    assert_eq!(removed, old);
    for id in &old {
        assert!(!bench.things.is_kept(id).await, "{id}");
    }
    assert!(bench.things.is_kept(&young).await);
    assert_eq!(ended_before(&*bench.store, before, 3).await, [] as [&str; 0]);
    let oldest = bench.store.oldest().await.unwrap().unwrap();
    let ago = now(bench).await.duration_since(oldest).unwrap();
    assert!(ago < DAY + MINUTE && ago + MINUTE > DAY, "{ago:?}");
}

pub(crate) async fn pages_go_on_when_nothing_of_them_is_removed(bench: &Bench) {
    let mut all = BTreeSet::new();
    for days in [9, 8, 8, 8, 10] {
        all.insert(bench.things.add_ended("u1", days * DAY).await);
    }
    let before = now(bench).await - 7 * DAY;
    for most in [1, 2, 5, 10] {
        let found = ended_before(&*bench.store, before, most).await;
        assert_eq!(found.len(), all.len(), "each once: {found:?}");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), all, "{most}");
    }
}

pub(crate) async fn what_has_not_ended_is_neither_found_nor_removed(bench: &Bench) {
    let unended = bench.things.add_unended("u1", 99 * DAY).await;
    let ended = bench.things.add_ended("u1", 9 * DAY).await;
    let before = now(bench).await - DAY;
    assert_eq!(ended_before(&*bench.store, before, 10).await, [ended.as_str()]);
    assert_eq!(ended_of(&*bench.store, "u1").await, [ended.clone()].into());
    assert_eq!(bench.store.remove(&[unended.clone(), ended.clone()]).await.unwrap(), 1);
    assert!(bench.things.is_kept(&unended).await);
    assert!(!bench.things.is_kept(&ended).await);
    assert_eq!(bench.store.oldest().await.unwrap(), None, "it has no end");
}

pub(crate) async fn what_waits_or_is_under_way_has_no_end_whatever_the_bound(bench: &Bench) {
    let mut unended = bench.things.add_waiting("u1").await;
    let under_way: Vec<_> = bench.things.add_under_way("u1").await.into_iter().collect();
    unended.extend_from_slice(&under_way);
    assert_eq!(bench.store.end_of_newest(1).await.unwrap(), None);
    assert_eq!(bench.store.oldest().await.unwrap(), None);
    let mut ended = BTreeSet::new();
    for days in [3, 1, 2] {
        ended.insert(bench.things.add_ended("u1", days * DAY).await);
    }
    let now = now(bench).await;
    let end = bench.store.end_of_newest(2).await.unwrap().unwrap();
    assert!(end < now - DAY, "{:?}", end.duration_since(now));
    assert_eq!(ended_before(&*bench.store, end, 10).await.len(), 1, "two are kept");
    assert_eq!(bench.store.end_of_newest(4).await.unwrap(), None, "three have ended");
    for before in [now, now + 99 * DAY] {
        let found = ended_before(&*bench.store, before, 10).await;
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), ended);
    }
    assert_eq!(bench.store.remove(&under_way).await.unwrap(), 0);
    for id in &unended {
        assert!(bench.things.is_kept(id).await, "{id}");
    }
}

pub(crate) async fn removing_what_is_gone_is_no_error(bench: &Bench) {
    let id = bench.things.add_ended("u1", 9 * DAY).await;
    let ids = [id, "99999999999999999".to_owned()];
    assert_eq!(bench.store.remove(&ids).await.unwrap(), 1);
    assert_eq!(bench.peer.remove(&ids).await.unwrap(), 0);
}

pub(crate) async fn the_newest_are_told_by_when_they_ended(bench: &Bench) {
    for days in [5, 1, 4, 2, 3] {
        bench.things.add_ended("u1", days * DAY).await;
    }
    let now = now(bench).await;
    for count in 1..=5_u32 {
        let end = bench.store.end_of_newest(count.into()).await.unwrap().unwrap();
        // At least so many stay, and those that are older go.
        let left = 5 - ended_before(&*bench.store, end, 10).await.len();
        assert_eq!(left, count as usize, "{:?}", now.duration_since(end));
    }
    assert_eq!(bench.store.end_of_newest(6).await.unwrap(), None);
}

pub(crate) async fn what_belongs_to_a_user_is_found_however_new(bench: &Bench) {
    let mut theirs = BTreeSet::new();
    for ago in [Duration::ZERO, DAY, 99 * DAY] {
        theirs.insert(bench.things.add_ended("u1", ago).await);
        bench.things.add_ended("u2", ago).await;
    }
    assert_eq!(ended_of(&*bench.store, "u1").await, theirs);
    for nobody in ["u", "U1", "u1 ", "%", "u1' OR TRUE --"] {
        assert!(ended_of(&*bench.store, nobody).await.is_empty(), "{nobody}");
    }
    let ids: Vec<_> = theirs.into_iter().collect();
    assert_eq!(bench.store.remove(&ids).await.unwrap(), 3);
    assert!(ended_of(&*bench.store, "u1").await.is_empty());
    assert_eq!(ended_of(&*bench.store, "u2").await.len(), 3);
}

pub(crate) async fn the_next_sweep_is_due_later_whoever_makes_it(bench: &Bench) {
    assert!(bench.claim_at("one", LONG, ClaimTime::WhenDue).await);
    assert!(!bench.claim_at("peer", LONG, ClaimTime::Now).await, "it is held");
    assert!(bench.settle_until("one", LONG).await);
    for owner in ["one", "peer"] {
        assert!(!bench.claim_at(owner, LONG, ClaimTime::WhenDue).await, "{owner}");
    }
    assert!(bench.claim_at("peer", LONG, ClaimTime::Now).await, "as it was asked for");
    assert!(bench.settle_until("peer", Duration::ZERO).await);
    eventually("the next sweep to be due", async || {
        bench.claim_at("one", LONG, ClaimTime::WhenDue).await.then_some(())
    })
    .await;
}

/// Runs in any store of them.
pub(crate) struct RunThings(pub(crate) Arc<dyn RunStore>);

impl RunThings {
    async fn save_running(&self, id: &str, user: &str, job_id: Option<String>, finished_at: SystemTime) {
        let record = RunRecord {
            user_id: Some(user.into()),
            job_id,
            finished_at,
            ..agent_core::testing::record(id, RunOutcome::Running)
        };
        self.0.save(&record).await.unwrap();
    }
}

static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

#[boxed_async]
impl Things for RunThings {
    async fn add_ended(&self, user: &str, ago: Duration) -> String {
        let id = self.add_unended(user, ago).await;
        let finished_at = SystemTime::now() - ago;
        let record = RunRecord {
            user_id: Some(user.into()),
            started_at: finished_at,
            finished_at,
            ..agent_core::testing::record(&id, agent_core::testing::failed("e"))
        };
        self.0.save(&record).await.unwrap();
        id
    }

    async fn add_unended(&self, user: &str, _ago: Duration) -> String {
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // Ids that say nothing about when the run began.
        let id = format!("run_{:08x}{number}\\{user}", number.wrapping_mul(2_654_435_761));
        let events = vec![Event::from(says("one")), Event::from(says("two")), Event::Cancelled];
        self.0.append(&id, agent_core::ports::Epoch(1), 0, &events).await.unwrap();
        id
    }

    /// As a run of a request is recorded that a job goes on with: its end is when its wait expires. It stays
    /// so when the run waits again.
    async fn add_waiting(&self, user: &str) -> Vec<String> {
        let now = SystemTime::now();
        let mut ids = Vec::new();
        for expires in [now + 30 * DAY, now - 9 * DAY] {
            let id = self.add_unended(user, Duration::ZERO).await;
            self.save_running(&id, user, Some(format!("job_of_{id}")), expires).await;
            ids.push(id);
        }
        ids
    }

    /// As a run is recorded that is streamed.
    async fn add_under_way(&self, user: &str) -> Option<String> {
        let id = self.add_unended(user, Duration::ZERO).await;
        self.save_running(&id, user, None, SystemTime::now()).await;
        Some(id)
    }

    async fn is_kept(&self, id: &str) -> bool {
        let (events, record) = (self.0.read(id, 0).await.unwrap(), self.0.find(id).await.unwrap());
        !events.is_empty() || record.is_some()
    }
}

//! The stores that live in the process.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{
    IdempotencyKey, IdempotencyStore as _, KeyBounds, KeyClaim, KeyTerms, ToolVersions as _,
};
use agent_core::testing::{
    TestConversations, TestKeyValues, TestOutbox, TestQueue, TestRuns, TestToolVersions,
};
use backends::memory::{MemoryCache, MemoryIdempotency, MemoryWindows};
use boxed_async::boxed_async;

use crate::contract::cache::result;
use crate::contract::idempotency;
use crate::contract::tool_versions::{BehindTheStore, DAMAGED, component};

mod cache {
    crate::contract::cache::test_all!(test_each(super::open_cache));
}

mod rates {
    crate::contract::rates::test_all!(test_each(super::open_windows));
}

mod keys {
    crate::contract::idempotency::test_all!(test_each(super::open_keys));
}

async fn open_keys() -> idempotency::Bench {
    let keys = MemoryIdempotency::new(KeyBounds { keys: 1000, bytes: 1 << 20 });
    crate::contract::Bench::of_one(Arc::new(keys.with_bounds(idempotency::BOUNDS)))
}

#[tokio::test]
async fn keys_of_all_callers_together_are_bounded() {
    let keys = MemoryIdempotency::new(KeyBounds { keys: 10, bytes: 100 });
    let callers = ["u1", "u2", "u3", "u4"];
    let key = |caller| IdempotencyKey { caller, key: "k", request: "r" };
    for caller in callers {
        keys.claim(key(caller), "o1", KeyTerms::default()).await.unwrap();
        assert_eq!(keys.settle(key(caller), "o1", &[7; 40]).await, Ok(true));
    }
    let mut known = vec![];
    for caller in callers {
        let other = IdempotencyKey { request: "other", ..key(caller) };
        known.push(keys.claim(other, "o2", KeyTerms::default()).await == Ok(KeyClaim::OtherRequest));
    }
    assert_eq!(known, [false, false, true, true], "40 bytes each, 100 in all");
}

/// What other crates test with promises what the stores do.
mod key_value {
    crate::contract::key_value::test_all!(test_each(super::open_values));
}

mod tool_versions {
    crate::contract::tool_versions::test_all!(test_each(super::open_versions));
}

struct StoreBackdoor(Arc<TestToolVersions>);

#[boxed_async]
impl BehindTheStore for StoreBackdoor {
    async fn damage(&self) {
        self.0.damage(DAMAGED);
    }

    async fn an_hour_passes(&self) {
        self.0.put_forward(Duration::from_secs(3600));
    }
}

mod conversations {
    crate::contract::conversations::test_all!(test_each(super::open_conversations));
}

async fn open_conversations() -> crate::contract::conversations::Bench {
    let store = Arc::new(TestConversations::default());
    crate::contract::conversations::Bench {
        peer: store.clone(),
        store,
        retention: None,
        _guard: Box::new(()),
    }
}

/// What the simulation stands on (`host/sim`).
mod reference_queue {
    crate::contract::queue::test_all!(test_each(super::open_queue));
}

mod reference_runs {
    crate::contract::runs::test_all!(test_each(super::open_runs));
}

mod reference_outbox {
    crate::contract::webhooks::test_all!(test_each(super::open_outbox));
}

async fn open_queue() -> crate::contract::queue::Bench {
    let lease = Duration::from_millis(1_500);
    let queue = Arc::new(TestQueue::able(lease));
    crate::contract::queue::Bench { peer: queue.clone(), queue, lease, _guard: Box::new(()) }
}

async fn open_runs() -> crate::contract::runs::Bench {
    crate::contract::Bench::of_one(Arc::new(TestRuns::default()))
}

async fn open_outbox() -> crate::contract::webhooks::Bench {
    crate::contract::Bench::of_one(Arc::new(TestOutbox::default()))
}

async fn open_versions() -> crate::contract::tool_versions::Bench {
    let store = Arc::new(TestToolVersions::default());
    let behind = Box::new(StoreBackdoor(store.clone()));
    crate::contract::tool_versions::Bench { peer: store.clone(), store, behind }
}

#[tokio::test]
async fn the_versions_of_tests_fail_on_demand() {
    let store = TestToolVersions::default();
    store.switch.fail(true);
    crate::contract::tool_versions::check_unavailable(&store).await;
    store.switch.fail(false);
    assert_eq!(store.revision().await.unwrap(), 0);
    store.keep("echo", "sha256:a", &component(b"1", None)).await.unwrap();
    assert_eq!(store.digests().into_iter().collect::<Vec<_>>(), ["sha256:a"]);
    store.lose("sha256:a");
    assert_eq!(store.component("echo", "sha256:a").await.unwrap(), None);
}

async fn open_values() -> crate::contract::key_value::Bench {
    crate::contract::Bench::of_one(Arc::new(TestKeyValues::default()))
}

async fn open_cache() -> crate::contract::cache::Bench {
    (Box::new(MemoryCache::new(1 << 30)), Box::new(()))
}

async fn open_windows() -> crate::contract::rates::Bench {
    (Box::new(MemoryWindows::new()), Box::new(()))
}

#[tokio::test]
async fn the_cache_forgets_when_it_is_full() {
    use agent_core::ports::ResultCache as _;

    let one = result("1").len() as u64;
    let cache = MemoryCache::new(10 * one);
    let hour = std::time::Duration::from_secs(3600);
    for number in 0..1000 {
        cache.put(&format!("agent:{number}"), result("1"), hour).await.unwrap();
    }
    test_servers::eventually("the cache to be no fuller than it may", async || {
        let mut kept = 0;
        for number in 0..1000 {
            kept += u64::from(cache.get(&format!("agent:{number}")).await.unwrap().is_some());
        }
        (kept <= 10).then_some(())
    })
    .await;
}

//! The stores that live in the process.

use std::sync::Arc;

use agent_core::testing::TestKeyValues;
use backends::memory::{MemoryCache, MemoryWindows};

use crate::contract::cache::result;

mod cache {
    crate::contract::cache::test_all!(super::open_cache);
}

mod rates {
    crate::contract::rates::test_all!(super::open_windows);
}

/// What other crates test with promises what the stores do.
mod key_value {
    crate::contract::key_value::test_all!(super::open_values);
}

async fn open_values() -> crate::contract::key_value::Bench {
    let store = Arc::new(TestKeyValues::default());
    crate::contract::key_value::Bench { peer: store.clone(), store, _guard: Box::new(()) }
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

    let one = serde_json::to_vec(&*result("1")).unwrap().len() as u64;
    let cache = MemoryCache::new(10 * one);
    let hour = std::time::Duration::from_secs(3600);
    for number in 0..1000 {
        cache.put(&format!("agent:{number}"), &result("1"), hour).await.unwrap();
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

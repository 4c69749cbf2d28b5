//! Redis: cache, rate windows and probe, also while it is away.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{
    IdempotencyKey, IdempotencyStore as _, JobQueue as _, KeyClaim, KeyTerms, Probe as _, RateWindows as _,
    Renewal, ResultCache as _, Unobserved, Window, WindowKind,
};
use agent_core::words::JobData;
use backends::memory::{MemoryCache, MemoryWindows};
use proptest::test_runner::{Config, TestRunner};
use redis_stores::bullmq::BullQueue;
use redis_stores::redis::{Redis, RedisCache, RedisIdempotency, RedisKeyValues, RedisProbe, RedisWindows};
use run_service::rates::FallbackRates;
use test_servers::eventually;

use crate::bullmq::connect;
use crate::contract::cache::result;
use crate::contract::{idempotency, key_value};

mod cache {
    crate::contract::cache::test_all!(test_each(super::open_cache));
}

mod rates {
    crate::contract::rates::test_all!(test_each(super::open_windows));
}

mod keys {
    crate::contract::idempotency::test_all!(test_each(super::open_keys));
}

const HOUR: Duration = Duration::from_secs(3600);
const WINDOW: Window<'_> =
    Window { kind: WindowKind::Address, key: "ip:192.0.2.1", limit: 10, period: HOUR, cost: 1 };

async fn open_cache() -> crate::contract::cache::Bench {
    let server = test_servers::Redis::start().await;
    (Box::new(RedisCache::new(Redis::open(&server.url()).unwrap())), Box::new(server))
}

async fn open_windows() -> crate::contract::rates::Bench {
    let server = test_servers::Redis::start().await;
    (Box::new(RedisWindows::new(Redis::open(&server.url()).unwrap())), Box::new(server))
}

async fn open_keys() -> idempotency::Bench {
    let server = test_servers::Redis::start().await;
    let open = || {
        let keys = RedisIdempotency::new(Redis::open(&server.url()).unwrap());
        Arc::new(keys.with_bounds(idempotency::BOUNDS))
    };
    idempotency::Bench { store: open(), peer: open(), _guard: Box::new(server) }
}

/// The suites of what lies on Redis beside jobs, in turn on what `$start` gives and `$open` empties.
macro_rules! suites_in_turn {
    ($server:ty, $start:path, $open:path) => {
        crate::redis::suites_in_turn! { $server, $start, $open:
            cached: cache, cache_in;
            windows: rates, windows_in;
            keys: idempotency, keys_in;
            values: key_value, values_in;
        }
    };
    ($server:ty, $start:path, $open:path: $($name:ident: $suite:ident, $bench:ident;)+) => { $(
        mod $name {
            async fn open(server: &$server) -> crate::contract::$suite::Bench {
                crate::redis::$bench(&$open(server).await)
            }
            crate::contract::$suite::test_all!(test_in_turn($start, open));
        }
    )+ };
}
pub(crate) use suites_in_turn;

pub(crate) fn cache_in(redis: &Redis) -> crate::contract::cache::Bench {
    (Box::new(RedisCache::new(redis.clone())), Box::new(()))
}

pub(crate) fn windows_in(redis: &Redis) -> crate::contract::rates::Bench {
    (Box::new(RedisWindows::new(redis.clone())), Box::new(()))
}

pub(crate) fn keys_in(redis: &Redis) -> idempotency::Bench {
    let open = || Arc::new(RedisIdempotency::new(redis.clone()).with_bounds(idempotency::BOUNDS));
    idempotency::Bench { store: open(), peer: open(), _guard: Box::new(()) }
}

pub(crate) fn values_in(redis: &Redis) -> key_value::Bench {
    let open = || Arc::new(RedisKeyValues::new(redis));
    key_value::Bench { store: open(), peer: open(), _guard: Box::new(()) }
}

#[tokio::test]
async fn a_redis_that_is_away_does_not_hold_up_the_start_and_is_found_when_it_is_there() {
    let mut server = test_servers::Redis::start().await;
    server.pause().await;
    let redis = Redis::open(&server.url()).unwrap();
    let (probe, cache) = (RedisProbe(redis.clone()), RedisCache::new(redis.clone()));
    assert_eq!(probe.check().await.unwrap_err().0, "the connection to Redis failed: connection refused");
    assert!(cache.get("agent:1").await.unwrap_err().0.contains("a moment ago"));
    server.resume().await;
    eventually("the cache to work", async || cache.put("agent:1", result("1"), HOUR).await.ok()).await;
    assert_eq!(probe.check().await, Ok(None));
}

#[tokio::test]
async fn what_a_probe_finds_out_opens_the_queue_as_well() {
    let mut server = test_servers::Redis::start().await;
    let redis = Redis::open(&server.url()).unwrap();
    let (probe, queue) = (RedisProbe(redis.clone()), BullQueue::new(&redis, None));
    let job = JobData::new("q", "u");
    queue.add(&job).await.unwrap();
    for _ in 0..3 {
        server.pause().await;
        queue.add(&job).await.unwrap_err();
        assert!(queue.add(&job).await.unwrap_err().to_string().contains("a moment ago"));
        probe.check().await.unwrap_err();
        server.resume().await;
        eventually("the probe to pass", async || probe.check().await.ok()).await;
        queue.add(&job).await.unwrap();
    }
}

#[tokio::test]
async fn nobody_notices_that_redis_was_restarted() {
    let mut server = test_servers::Redis::start().await;
    let redis = Redis::open(&server.url()).unwrap();
    let windows = RedisWindows::new(redis.clone());
    windows.hit(&[WINDOW]).await.unwrap();
    server.pause().await;
    server.resume().await;
    // The old connection is dead, the script is not loaded any more, and neither is anybody's business.
    assert_eq!(windows.hit(&[WINDOW]).await.unwrap()[0].count, 2);
}

#[tokio::test]
async fn a_frozen_redis_is_waited_for_once_and_not_by_everybody() {
    let server = test_servers::Redis::start().await;
    let redis = Redis::open(&server.url()).unwrap();
    let (windows, cache) = (RedisWindows::new(redis.clone()), RedisCache::new(redis.clone()));
    windows.hit(&[WINDOW]).await.unwrap();
    server.freeze();
    let late = windows.hit(&[WINDOW]).await.unwrap_err();
    assert_eq!(late.0, "no answer from Redis within 500 ms");
    assert_eq!(cache.get("agent:1").await.unwrap_err().0, "Redis did not answer a moment ago");
    server.thaw();
    eventually("the windows to work", async || windows.hit(&[WINDOW]).await.ok()).await;
}

/// What a request waits for a store at most must not drop its query before the connection has learned of the
/// silence.
#[tokio::test]
async fn a_request_that_is_held_up_by_a_silent_redis_opens_the_circuit_for_the_next() {
    let server = test_servers::Redis::start().await;
    let redis = Redis::open(&server.url()).unwrap();
    let shared = Arc::new(RedisWindows::new(redis.clone()));
    let rates = FallbackRates::new(shared, Arc::new(MemoryWindows::new()), Arc::new(Unobserved));
    let cache = RedisCache::new(redis);
    rates.hit(&[WINDOW]).await.unwrap();
    server.freeze();
    assert_eq!(rates.hit(&[WINDOW]).await.unwrap()[0].count, 1, "counted in the process");
    assert_eq!(cache.get("agent:1").await.unwrap_err().0, "Redis did not answer a moment ago");
    server.thaw();
}

#[tokio::test]
async fn a_request_under_a_key_is_renewed_and_answered_while_the_memory_of_redis_is_full() {
    let server = test_servers::Redis::start().await;
    let keys = RedisIdempotency::new(Redis::open(&server.url()).unwrap());
    let terms = KeyTerms { lease: HOUR, kept: HOUR };
    let [answered, released] = ["k1", "k2"].map(|key| IdempotencyKey { caller: "u1", key, request: "r1" });
    for key in [answered, released] {
        assert_eq!(keys.claim(key, "a", terms).await, Ok(KeyClaim::Claimed { id: "a".into() }));
    }
    assert_eq!(server.ask(&["CONFIG", "SET", "maxmemory", "1"]).await, "OK");
    assert_eq!(keys.renew(answered, "a", HOUR).await, Ok(Renewal::Held));
    assert_eq!(keys.settle(answered, "a", b"done").await, Ok(true));
    assert_eq!(keys.claim(answered, "b", terms).await, Ok(KeyClaim::Answered(b"done".to_vec())));
    assert_eq!(keys.release(released, "a").await, Ok(()));
    assert_eq!(keys.claim(released, "b", terms).await, Ok(KeyClaim::Claimed { id: "a".into() }));
    // What is new is refused: nothing else would keep answers from taking more than there is.
    keys.claim(IdempotencyKey { key: "k3", ..answered }, "c", terms).await.unwrap_err();
}

#[tokio::test]
async fn scripts_are_loaded_again_when_redis_has_forgotten_them() {
    let server = test_servers::Redis::start().await;
    let windows = RedisWindows::new(Redis::open(&server.url()).unwrap());
    windows.hit(&[WINDOW]).await.unwrap();
    assert_eq!(server.ask(&["SCRIPT", "FLUSH"]).await, "OK");
    assert_eq!(windows.hit(&[WINDOW]).await.unwrap()[0].count, 2);
}

#[tokio::test]
async fn the_counters_are_those_of_express_rate_limit() {
    let server = test_servers::Redis::start().await;
    let windows = RedisWindows::new(Redis::open(&server.url()).unwrap());
    windows.hit(&[WINDOW]).await.unwrap();
    let left: i64 = server.ask(&["PTTL", "rl:ip:192.0.2.1"]).await.parse().unwrap();
    assert!(left > 0 && left <= 3_600_000, "{left}");
    assert_eq!(server.ask(&["INCR", "rl:ip:192.0.2.1"]).await, "2");
    assert_eq!(windows.hit(&[WINDOW]).await.unwrap()[0].count, 3);
}

#[tokio::test]
async fn an_invalidation_leaves_the_keys_of_others_alone() {
    let server = test_servers::Redis::start().await;
    let cache = RedisCache::new(Redis::open(&server.url()).unwrap());
    for key in ["bull:agent-tasks:1", "rl:ip:1", "agent-host:x", "xagent:1"] {
        assert_eq!(server.ask(&["SET", key, "1"]).await, "OK");
    }
    cache.put("agent:1", result("1"), HOUR).await.unwrap();
    assert_eq!(cache.delete_matching("*").await.unwrap(), 1);
    assert_eq!(server.ask(&["DBSIZE"]).await, "4");
}

#[tokio::test]
async fn what_others_wrote_is_handed_out_as_it_is() {
    let server = test_servers::Redis::start().await;
    let cache = RedisCache::new(Redis::open(&server.url()).unwrap());
    let mut other = connect(&server).await;
    for value in [&b"not json"[..], b"{}", b"\xff\xfe", b""] {
        let _: () = redis::cmd("SET").arg("agent:1").arg(value).query_async(&mut other).await.unwrap();
        assert_eq!(cache.get("agent:1").await.unwrap().as_deref(), Some(value));
    }
}

#[tokio::test]
async fn what_redis_refuses_does_not_make_it_count_as_down() {
    let server = test_servers::Redis::start().await;
    let redis = Redis::open(&server.url()).unwrap();
    let cache = RedisCache::new(redis.clone());
    assert_eq!(server.ask(&["RPUSH", "agent:1", "x"]).await, "1");
    assert!(cache.get("agent:1").await.unwrap_err().0.contains("WRONGTYPE"));
    assert_eq!(cache.get("agent:2").await.unwrap(), None);
}

/// Both caches are asked for the same pattern over the same key.
#[test]
fn patterns_match_in_memory_as_they_do_in_redis() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = runtime.block_on(test_servers::Redis::start());
    let real = RedisCache::new(Redis::open(&server.url()).unwrap());
    let ours = MemoryCache::new(1 << 20);
    let mut runner = TestRunner::new(Config { cases: 1000, failure_persistence: None, ..Config::default() });
    let letters = r"[a-c\-\^\]\[\\*?]{0,8}";
    runner
        .run(&(letters, letters), |(pattern, key)| {
            let (pattern, key) = (format!("agent:{pattern}"), format!("agent:{key}"));
            runtime.block_on(async {
                real.put(&key, result("1"), HOUR).await.unwrap();
                ours.put(&key, result("1"), HOUR).await.unwrap();
                let deleted = real.delete_matching(&pattern).await.unwrap();
                assert_eq!(ours.delete_matching(&pattern).await.unwrap(), deleted, "{pattern} {key}");
                real.delete_matching("*").await.unwrap();
                ours.delete_matching("*").await.unwrap();
            });
            Ok(())
        })
        .unwrap();
}

//! The suites of all that lies on Redis against Valkey, where a `valkey-server` is in `PATH`.

use std::sync::Arc;

use redis_stores::bullmq::BullQueue;
use redis_stores::redis::{Redis, RedisCache, RedisIdempotency, RedisKeyValues, RedisWindows};

use crate::bullmq::LEASE;
use crate::contract::{cache, idempotency, key_value, queue, rates};

mod cached {
    crate::contract::cache::test_all!(test_in_turn(test_servers::Redis::start_valkey, super::open_cache));
}

mod windows {
    crate::contract::rates::test_all!(test_in_turn(test_servers::Redis::start_valkey, super::open_windows));
}

mod keys {
    crate::contract::idempotency::test_all!(test_in_turn(
        test_servers::Redis::start_valkey,
        super::open_keys
    ));
}

mod values {
    crate::contract::key_value::test_all!(test_in_turn(
        test_servers::Redis::start_valkey,
        super::open_values
    ));
}

mod jobs {
    crate::contract::queue::test_all!(test_in_turn(test_servers::Redis::start_valkey, super::open_queue));
}

async fn open(server: &test_servers::Redis) -> Redis {
    assert_eq!(server.ask(&["FLUSHALL"]).await, "OK");
    Redis::open(&server.url()).unwrap()
}

async fn open_cache(server: &test_servers::Redis) -> cache::Bench {
    (Box::new(RedisCache::new(open(server).await)), Box::new(()))
}

async fn open_windows(server: &test_servers::Redis) -> rates::Bench {
    (Box::new(RedisWindows::new(open(server).await)), Box::new(()))
}

async fn open_keys(server: &test_servers::Redis) -> idempotency::Bench {
    let redis = open(server).await;
    let open = || Arc::new(RedisIdempotency::new(redis.clone()).with_bounds(idempotency::BOUNDS));
    idempotency::Bench { store: open(), peer: open(), _guard: Box::new(()) }
}

async fn open_values(server: &test_servers::Redis) -> key_value::Bench {
    let redis = open(server).await;
    let open = || Arc::new(RedisKeyValues::new(&redis));
    key_value::Bench { store: open(), peer: open(), _guard: Box::new(()) }
}

async fn open_queue(server: &test_servers::Redis) -> queue::Bench {
    open(server).await;
    let open = || Arc::new(BullQueue::open_with_lease(&server.url(), LEASE).unwrap());
    queue::Bench { queue: open(), peer: open(), lease: LEASE, _guard: Box::new(()) }
}

//! The suites of all that lies on Redis against Valkey, where a `valkey-server` is in `PATH`.

use std::sync::Arc;

use redis_stores::bullmq::BullQueue;
use redis_stores::redis::Redis;

use crate::bullmq::LEASE;
use crate::contract::queue;

crate::redis::suites_in_turn!(test_servers::Redis, test_servers::Redis::start_valkey, crate::valkey::open);

mod jobs {
    crate::contract::queue::test_all!(test_in_turn(test_servers::Redis::start_valkey, super::open_queue));
}

async fn open(server: &test_servers::Redis) -> Redis {
    assert_eq!(server.ask(&["FLUSHALL"]).await, "OK");
    Redis::open(&server.url()).unwrap()
}

async fn open_queue(server: &test_servers::Redis) -> queue::Bench {
    open(server).await;
    let open = || Arc::new(BullQueue::open_with_lease(&server.url(), LEASE).unwrap());
    queue::Bench { queue: open(), peer: open(), lease: LEASE, _guard: Box::new(()) }
}

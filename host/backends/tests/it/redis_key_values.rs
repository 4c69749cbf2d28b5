//! What tools keep in Redis: what is left of what has expired, and a Redis that is away.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{KeyValueError, KeyValueStore as _, Space};
use futures::future::join_all;
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use redis_stores::redis::{Redis, RedisKeyValues};
use test_servers::eventually;

use crate::contract::key_value::{Bench, SPACE, check_unavailable, it_does_what_the_model_does, limited};

mod key_value {
    crate::contract::key_value::test_all!(test_each(super::open_values));
}

const HOUR: Duration = Duration::from_secs(3600);

/// Names of the keys of [`SPACE`].
const VALUES: &str = "agent-host:tools:{5:notes:u1}:values";
const ORDER: &str = "agent-host:tools:{5:notes:u1}:keys";
const EXPIRIES: &str = "agent-host:tools:{5:notes:u1}:expiries";

async fn open_values() -> Bench {
    let server = test_servers::Redis::start().await;
    let (store, peer) = (Arc::new(open(&server)), Arc::new(open(&server)));
    Bench { store, peer, _guard: Box::new(server) }
}

fn open(server: &test_servers::Redis) -> RedisKeyValues {
    RedisKeyValues::new(&Redis::open(&server.url()).unwrap())
}

/// Somebody else who has the store open.
struct Other(MultiplexedConnection);

impl Other {
    async fn connect(server: &test_servers::Redis) -> Self {
        Self(crate::bullmq::connect(server).await)
    }

    async fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.0).await.unwrap()
    }

    /// As if the time of every key in the space had come.
    async fn expire_all(&mut self) {
        let keys: Vec<String> = self.ask(&["ZRANGE", EXPIRIES, "0", "-1"]).await;
        for key in keys {
            let _: u64 = self.ask(&["ZADD", EXPIRIES, "1", &key]).await;
        }
    }

    /// Bytes that are noted for the space, and those that are there.
    async fn counts(&mut self) -> (u64, u64) {
        let fields: Vec<(Vec<u8>, Vec<u8>)> = self.ask(&["HGETALL", VALUES]).await;
        let noted = fields.iter().find(|(key, _)| key.is_empty()).map(|(_, noted)| noted.clone());
        let noted = String::from_utf8(noted.unwrap_or_else(|| b"0".to_vec())).unwrap().parse().unwrap();
        let values = fields.iter().filter(|(key, _)| !key.is_empty());
        (noted, values.map(|(key, value)| (key.len() + value.len()) as u64).sum())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_much_has_expired_all_of_it_makes_room() {
    const KEYS: usize = 700; // Some batches.
    let server = test_servers::Redis::start().await;
    let (store, mut other) = (open(&server), Other::connect(&server).await);
    let keys: Vec<_> = (1000..1000 + KEYS).map(|number| format!("{number}")).collect();
    let space = limited(5 * KEYS as u64 + 2);
    store.set(space, "e", b"1", None).await.unwrap();
    let sets = keys.iter().map(|key| store.set(space, key, b"1", Some(HOUR)));
    join_all(sets).await.into_iter().for_each(Result::unwrap);
    let full = KeyValueError::QuotaExceeded { quota: space.quota };
    assert_eq!(store.set(space, "k", b"", None).await, Err(full.clone()));
    other.expire_all().await;
    assert_eq!(store.list_keys(space, "", None, 2).await.unwrap(), ["e"], "past all that have expired");
    assert_eq!(store.add(space, "e", 0).await.unwrap(), 1);
    let (noted, there) = other.counts().await;
    assert!(noted == there && there > 5 * KEYS as u64 / 2, "a batch of it is gone: {there}");
    store.set(space, "k", &vec![0; 5 * KEYS - 1], None).await.unwrap();
    assert_eq!(store.set(space, "k", &vec![0; 5 * KEYS], None).await, Err(full), "it never fits");
    assert_eq!(other.counts().await, (space.quota, space.quota));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_byte_is_counted_and_an_empty_space_leaves_nothing() {
    let server = test_servers::Redis::start().await;
    let mut other = Other::connect(&server).await;
    let bench = Bench { store: Arc::new(open(&server)), peer: Arc::new(open(&server)), _guard: Box::new(()) };
    it_does_what_the_model_does(&bench).await;
    let (noted, there) = other.counts().await;
    assert!(noted == there && there > 0, "{noted} {there}");
    for user in [None, SPACE.user] {
        let space = Space { user, ..SPACE };
        for key in bench.store.list_keys(space, "", None, 1000).await.unwrap() {
            assert!(bench.store.delete(space, &key).await.unwrap());
        }
        // Were the last one to have expired, nobody had removed it yet.
        bench.store.delete(space, "k").await.unwrap();
    }
    assert_eq!(other.ask::<u64>(&["DBSIZE"]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_for_no_time_is_never_written() {
    let server = test_servers::Redis::start().await;
    let (store, mut other) = (open(&server), Other::connect(&server).await);
    store.set(SPACE, "a", b"12", None).await.unwrap();
    // The rest of a millisecond is none to Redis.
    for no_time in [Duration::ZERO, Duration::from_micros(900)] {
        store.set(SPACE, "b", b"123", Some(no_time)).await.unwrap();
        // Asked by itself, so that no script of the store has removed it before.
        assert_eq!(other.ask::<u64>(&["HEXISTS", VALUES, "b"]).await, 0, "{no_time:?}");
        assert_eq!(other.ask::<Vec<String>>(&["ZRANGE", ORDER, "0", "-1"]).await, ["a"], "{no_time:?}");
        assert_eq!(other.ask::<u64>(&["ZCARD", EXPIRIES]).await, 0, "{no_time:?}");
        assert_eq!(other.counts().await, (3, 3), "{no_time:?}");
    }
    // A value for no time takes the place of what was there.
    store.set(SPACE, "a", b"1", Some(Duration::ZERO)).await.unwrap();
    assert_eq!(other.ask::<u64>(&["DBSIZE"]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_space_in_which_all_expires_is_gone_without_a_write() {
    let server = test_servers::Redis::start().await;
    let (store, mut other) = (open(&server), Other::connect(&server).await);
    let soon = Some(Duration::from_millis(100));
    store.set(SPACE, "a", b"1", Some(HOUR)).await.unwrap();
    assert!(other.ask::<i64>(&["PTTL", VALUES]).await > 3_000_000);
    store.set(SPACE, "b", b"1", None).await.unwrap();
    assert_eq!(other.ask::<i64>(&["PTTL", VALUES]).await, -1, "one stays for good");
    store.delete(SPACE, "b").await.unwrap();
    assert!(other.ask::<i64>(&["PTTL", VALUES]).await > 3_000_000, "the other one has a time to live");
    store.set(SPACE, "a", b"1", soon).await.unwrap();
    eventually("nothing to be left", async || (other.ask::<u64>(&["DBSIZE"]).await == 0).then_some(())).await;
    assert_eq!(store.list_keys(SPACE, "", None, 10).await.unwrap(), [""; 0]);
    store.set(limited(2), "a", b"1", None).await.unwrap();
}

#[tokio::test]
async fn a_redis_that_is_away_or_frozen_is_unavailable_and_then_back() {
    let mut server = test_servers::Redis::start().await;
    let redis = Redis::open(&server.url()).unwrap();
    let store = RedisKeyValues::new(&redis);
    store.add(SPACE, "n", 1).await.unwrap();
    server.pause().await;
    check_unavailable(&store).await;
    server.resume().await;
    eventually("the store to work", async || store.get(SPACE, "n").await.ok()).await;
    assert_eq!(store.add(SPACE, "n", 1).await.unwrap(), 2, "its data stayed");
    server.freeze();
    check_unavailable(&store).await;
    server.thaw();
    eventually("the store to work", async || store.get(SPACE, "n").await.ok()).await;
    assert_eq!(store.add(SPACE, "n", 1).await.unwrap(), 3, "a write is not sent to who is silent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_added_twice_when_connections_are_lost() {
    let server = test_servers::Redis::start().await;
    let (store, mut other) = (open(&server), Other::connect(&server).await);
    for sum in 1..=5 {
        assert_eq!(store.add(SPACE, "n", 1).await.unwrap(), sum, "over a new connection");
        assert!(store.swap(SPACE, &format!("k{sum}"), None, b"1").await.unwrap());
        let killed: u64 = other.ask(&["CLIENT", "KILL", "TYPE", "normal"]).await;
        assert_eq!(killed, 1, "the one connection of the store");
    }
}

#[tokio::test]
async fn a_redis_whose_memory_is_full_refuses_and_keeps_what_it_has() {
    let server = test_servers::Redis::start().await;
    let (store, mut other) = (open(&server), Other::connect(&server).await);
    store.set(SPACE, "n", b"1", None).await.unwrap();
    let _: () = other.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for error in [
        store.set(SPACE, "k", b"1", None).await.unwrap_err(),
        store.add(SPACE, "n", 1).await.unwrap_err(),
        store.swap(SPACE, "n", Some(b"1"), b"2").await.unwrap_err(),
    ] {
        assert!(matches!(&error, KeyValueError::Unavailable(text) if text.contains("OOM")), "{error:?}");
    }
    assert_eq!(store.get(SPACE, "n").await.unwrap().as_deref(), Some(&b"1"[..]));
    assert!(store.delete(SPACE, "n").await.unwrap(), "what makes room is carried out");
    let _: () = other.ask(&["CONFIG", "SET", "maxmemory", "0"]).await;
    store.set(limited(2), "k", b"1", None).await.unwrap();
}

#[tokio::test]
async fn what_somebody_else_put_there_is_unavailable_and_no_value() {
    let server = test_servers::Redis::start().await;
    let (store, mut other) = (open(&server), Other::connect(&server).await);
    let _: () = other.ask(&["SET", VALUES, "x"]).await;
    let error = store.set(SPACE, "k", b"1", None).await.unwrap_err();
    assert!(matches!(error, KeyValueError::Unavailable(_)), "{error:?}");
    let elsewhere = Space { component: "others", ..SPACE };
    store.set(elsewhere, "k", b"1", None).await.unwrap();
}

//! What every cache of results promises: `ResultCache`.

use std::time::Duration;

use agent_core::ports::ResultCache;
use agent_core::testing::user;
use agent_core::words::{AgentResult, StopReason};
use bytes::Bytes;
use test_servers::eventually;

use super::text::NASTY;

/// A test of every case. The argument is the path of an `async fn() -> (cache, guard)`.
macro_rules! test_all {
    ($test:ident $benches:tt) => {
        crate::contract::$test! { cache, $benches:
            a_result_is_found_as_it_was_put,
            what_was_never_put_is_a_miss,
            a_result_is_kept_no_longer_than_it_may,
            the_last_result_put_is_the_one_kept,
            a_pattern_deletes_what_it_matches,
            a_pattern_is_a_glob_of_redis,
            many_results_are_deleted_at_once,
        }
    };
}
pub(crate) use test_all;

/// A cache without results, and what has to live as long as it.
pub(crate) type Bench = (Box<dyn ResultCache>, Box<dyn std::any::Any + Send + Sync>);

const HOUR: Duration = Duration::from_secs(3600);

/// The JSON of a result.
pub(crate) fn result(output: &str) -> Bytes {
    let result = agent_core::testing::result(vec![user("q")], StopReason::Completed);
    let result = AgentResult { output: output.into(), ..result };
    serde_json::to_vec(&result).unwrap().into()
}

pub(crate) async fn a_result_is_found_as_it_was_put((cache, _guard): &Bench) {
    for text in ["3", NASTY, &super::text::long()] {
        cache.put("agent:1", result(text), HOUR).await.unwrap();
        assert_eq!(cache.get("agent:1").await.unwrap().expect("a hit"), result(text));
    }
}

pub(crate) async fn what_was_never_put_is_a_miss((cache, _guard): &Bench) {
    cache.put("agent:1", result("3"), HOUR).await.unwrap();
    for key in ["agent:2", "agent:", "", NASTY] {
        assert_eq!(cache.get(key).await.unwrap(), None);
    }
}

pub(crate) async fn a_result_is_kept_no_longer_than_it_may((cache, _guard): &Bench) {
    cache.put("agent:short", result("1"), Duration::from_millis(50)).await.unwrap();
    cache.put("agent:long", result("2"), HOUR).await.unwrap();
    eventually("the short-lived one to be gone", async || {
        cache.get("agent:short").await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(cache.get("agent:long").await.unwrap().is_some());
}

pub(crate) async fn the_last_result_put_is_the_one_kept((cache, _guard): &Bench) {
    cache.put("agent:1", result("1"), Duration::from_millis(50)).await.unwrap();
    cache.put("agent:1", result("2"), HOUR).await.unwrap();
    cache.put("agent:soon gone", result("1"), Duration::from_millis(60)).await.unwrap();
    eventually("the time of the first to be over", async || {
        cache.get("agent:soon gone").await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(cache.get("agent:1").await.unwrap().expect("kept by the second"), result("2"));
}

pub(crate) async fn a_pattern_deletes_what_it_matches((cache, _guard): &Bench) {
    for key in ["agent:a1", "agent:a2", "agent:b1"] {
        cache.put(key, result(key), HOUR).await.unwrap();
    }
    assert_eq!(cache.delete_matching("agent:a*").await.unwrap(), 2);
    assert_eq!(cache.delete_matching("agent:a*").await.unwrap(), 0);
    assert_eq!(cache.get("agent:a1").await.unwrap(), None);
    assert!(cache.get("agent:b1").await.unwrap().is_some());
    assert_eq!(cache.delete_matching("*").await.unwrap(), 1);
}

pub(crate) async fn a_pattern_is_a_glob_of_redis((cache, _guard): &Bench) {
    for (pattern, deleted) in [
        ("agent:?", 3),
        ("agent:[ab]", 2),
        ("agent:[^ab]", 1),
        ("agent:[a-b]", 2),
        (r"agent:\*", 1),
        ("agent:a", 1),
        ("a", 0),
        ("", 0),
        ("AGENT:*", 0),
    ] {
        for key in ["agent:a", "agent:b", "agent:*"] {
            cache.put(key, result(key), HOUR).await.unwrap();
        }
        assert_eq!(cache.delete_matching(pattern).await.unwrap(), deleted, "{pattern}");
    }
}

pub(crate) async fn many_results_are_deleted_at_once((cache, _guard): &Bench) {
    for number in 0..3000 {
        cache.put(&format!("agent:{number}"), result("1"), HOUR).await.unwrap();
    }
    assert_eq!(cache.delete_matching("agent:*").await.unwrap(), 3000);
    assert_eq!(cache.get("agent:2999").await.unwrap(), None);
}

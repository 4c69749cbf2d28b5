//! `DELETE /api/agent/cache` forgets results, for administrators.

use std::time::Duration;

use agent_core::ports::ResultCache as _;
use axum::body::Body;
use http::StatusCode;

use crate::harness::{Answer, Answers, Fakes, b, request, token, with_token};

async fn delete(fakes: &Fakes, query: &str, role: Option<&str>) -> Answer {
    let request = request("DELETE", &format!("/api/agent/cache{query}"), Body::empty());
    fakes.service.send(with_token(&token("u1", None, role), request)).await
}

#[tokio::test]
async fn an_administrator_deletes_what_matches() {
    let fakes = Fakes::with_invoke(Answers);
    for key in ["agent:1", "agent:2", "agent:3"] {
        fakes.cache.put(key, "{}".into(), Duration::from_secs(1)).await.unwrap();
    }
    let answer = delete(&fakes, "?pattern=agent:*", Some("admin")).await;
    answer.check(StatusCode::OK, r#"{"deleted":3}"#);
    delete(&fakes, "?pattern=agent%3Aa%3F%5Bbc%5D%5C*", Some("admin")).await;
    assert_eq!(fakes.cache.deleted(), ["agent:*", r"agent:a?[bc]\*"]);
}

#[tokio::test]
async fn without_a_cache_there_is_nothing_to_delete() {
    let fakes = Fakes::configured(Answers, |edge| b(edge).cache = None);
    assert_eq!(delete(&fakes, "?pattern=agent:*", Some("admin")).await.body, r#"{"deleted":0}"#);
}

#[tokio::test]
async fn a_cache_that_is_down_is_503() {
    let fakes = Fakes::with_invoke(Answers);
    fakes.cache.switch.fail(true);
    let answer = delete(&fakes, "?pattern=agent:*", Some("admin")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
}

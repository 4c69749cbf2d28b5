//! Every answer carries the id of its request: the caller's own if it is fit for a log, a new one otherwise.

use http::StatusCode;

use crate::harness::{Answer, Answers, Panics, Service, request, with};

async fn invoke_as(service: &Service, id: &str) -> Answer {
    service.send(with(request("POST", "/agent/invoke", r#"{"input":"hi"}"#), "x-request-id", id)).await
}

#[tokio::test]
async fn a_callers_id_is_echoed_and_reaches_the_agent() {
    let answer = invoke_as(&Service::with_invoke(Answers), "checkout-42.a_b:c").await;
    assert_eq!(answer.header("x-request-id"), Some("checkout-42.a_b:c"));
    assert_eq!(answer.json()["result"]["output"], "checkout-42.a_b:c");
}

#[tokio::test]
async fn an_id_that_is_not_fit_for_a_log_is_replaced() {
    let service = Service::with_invoke(Answers);
    for theirs in ["", "a b", "a,b", "${jndi:ldap://x}", "\"", &"x".repeat(129)] {
        let answer = invoke_as(&service, theirs).await;
        let ours = answer.header("x-request-id").unwrap();
        assert_ne!(ours, theirs);
        assert_eq!(ours.len(), 36, "{ours}");
        assert_eq!(answer.json()["result"]["output"], ours, "the agent is told the id of the answer");
    }
}

#[tokio::test]
async fn ids_we_make_are_unique_and_sort_by_time() {
    let service = Service::with_invoke(Answers);
    let mut ids = vec![];
    for _ in 0..100 {
        ids.push(service.get("/health/live").await.header("x-request-id").unwrap().to_owned());
    }
    assert!(ids.is_sorted_by(|earlier, later| earlier < later), "{ids:?}");
}

#[tokio::test]
async fn every_kind_of_answer_carries_the_id() {
    let service = Service::configured(Panics, |edge| edge.settings.max_body_bytes = 20);
    for (method, path, body, status) in [
        ("GET", "/health/live", "", StatusCode::OK),
        ("POST", "/agent/invoke", "{}", StatusCode::BAD_REQUEST),
        ("GET", "/nowhere", "", StatusCode::NOT_FOUND),
        ("GET", "/agent/invoke", "", StatusCode::METHOD_NOT_ALLOWED),
        ("POST", "/agent/invoke", "more than twenty bytes", StatusCode::PAYLOAD_TOO_LARGE),
        ("POST", "/agent/invoke", r#"{"input":"hi"}"#, StatusCode::INTERNAL_SERVER_ERROR),
    ] {
        let request = with(request(method, path, body), "x-request-id", "mine");
        let answer = service.send(request).await;
        assert_eq!((answer.status, answer.header("x-request-id")), (status, Some("mine")), "{method} {path}");
    }
}

//! Two replicas on one Redis and one PostgreSQL are one service.

use acceptance::{Gate, Model, Service, Signal, Stores, Token, asks_for, says};
use serde_json::json;

use super::crowd::Crowd;

async fn start_two(stores: &Stores, model: &Model) -> (Service, Service) {
    tokio::join!(stores.service(model).start(), stores.service(model).start())
}

async fn value(service: &Service, metric: &str, labels: &[(&str, &str)]) -> f64 {
    service.metrics().await.value(metric, labels).unwrap_or_default()
}

#[tokio::test]
async fn two_replicas_count_requests_together_and_share_their_results() {
    let (stores, model) = (Stores::redis_and_postgres().await, Model::openai().await);
    model.says("hello");
    let (one, other) = start_two(&stores, &model).await;
    let token = Token::of("u");
    let fresh = one.user(&token).result_of("hi").await;
    let kept = other.user(&token).result_of("hi").await;
    assert_eq!((&fresh["cached"], &kept["cached"]), (&json!(false), &json!(true)));
    assert_eq!(fresh["id"], kept["id"]);
    for n in 2..10 {
        let service = if n % 2 == 0 { &one } else { &other };
        assert_eq!(service.user(&token).jobs("").await.status, 200, "request {n}");
    }
    for service in [&one, &other] {
        let refused = service.user(&token).jobs("").await;
        assert_eq!((refused.status, refused.body.as_str()), (429, r#"{"error":"Rate limit exceeded"}"#));
    }
}

/// Ten jobs are as many as both work on at once, so each has to have five.
#[tokio::test]
async fn jobs_are_spread_and_a_replica_that_stops_hands_its_own_to_the_other() {
    let (stores, model) = (Stores::redis_and_postgres().await, Model::openai().await);
    let gates: Vec<_> =
        (0..10).map(|_| model.holds(asks_for("calculate", json!({ "expression": "6 * 7" })))).collect();
    model.always(|request| says(request.tool_results().last().unwrap()));
    let (mut one, other) = start_two(&stores, &model).await;
    let crowd = Crowd::of(other.caller());
    let tickets = crowd.submit_all((0..10).map(|n| format!("job {n}"))).await;
    model.was_asked(10).await;
    for service in [&one, &other] {
        let active = value(service, "agent_active_requests", &[]).await;
        assert!((active - 5.0).abs() < 0.5, "{active} of ten jobs");
    }

    one.signal(Signal::TERM);
    one.log().line_with(&["stop"]).await;
    gates.into_iter().for_each(Gate::open);
    for job in crowd.all_ended(&tickets).await {
        assert_eq!(job["status"], "completed", "{job:#}");
        assert_eq!(job["attemptsMade"], 1, "{job:#}");
    }
    assert_eq!(one.ended().await.code, Some(0));
    let log = one.log().entries();
    let handed_back = log.iter().filter(|entry| entry["message"].to_string().contains("handed back"));
    assert_eq!(handed_back.count(), 5);
    // Each job's two model calls and its tool call were made once, whoever made them.
    assert_eq!(model.calls().len(), 20);
    let tool_calls = value(&other, "agent_tool_calls_total", &[("tool", "calculate")]).await;
    assert!((tool_calls - 10.0).abs() < 0.5, "{tool_calls}");
}

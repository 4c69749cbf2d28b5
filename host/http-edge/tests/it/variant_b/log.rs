//! The line about a request under `/api/` says whose it was and what went wrong, and quotes nothing.

use serde_json::json;

use super::errors::failing;
use crate::harness::{Answers, Fakes, Log, Panics, bearer, request, token, with};

#[tokio::test]
async fn a_failed_request_is_logged_with_its_user_and_the_whole_chain() {
    let fakes = Fakes::with_invoke(failing());
    let request = with(request("POST", "/api/agent?x=zebra", r#"{"query":"zebra"}"#), "x-request-id", "r-1");
    let log = Log::collect();
    fakes.service.send(bearer("u1", request)).await;
    assert_eq!(
        log.request(),
        json!({
            "level": "ERROR",
            "target": "http_edge::request",
            "message": "POST /api/agent 500 in N ms",
            "method": "POST",
            "path": "/api/agent",
            "status": 500,
            "duration_ms": "N",
            "request_id": "r-1",
            "user_id": "u1",
            "error": "the agent run failed: the model call failed: the model provider openai/gpt refused the \
                      request: no such model",
        })
    );
    assert!(!log.text().contains("zebra") && !log.text().contains(&token("u1", None, None)[..30]));
}

#[tokio::test]
async fn a_mistake_is_logged_without_quoting_it() {
    let fakes = Fakes::with_invoke(Answers);
    for (body, error) in [
        (r#"{"query":["zebra"]}"#, "the request does not match its schema in: `query`"),
        ("zebra", "the body is not JSON at line 1, column 1"),
    ] {
        let log = Log::collect();
        fakes.post("/api/agent", body).await;
        let line = log.request();
        assert_eq!(
            (&line["level"], &line["error"], &line["user_id"]),
            (&json!("INFO"), &json!(error), &json!("u1"))
        );
        assert!(!log.text().contains("zebra"), "{}", log.text());
    }
}

#[tokio::test]
async fn whoever_is_turned_away_is_named_if_known() {
    let fakes = Fakes::with_invoke(Answers);
    let log = Log::collect();
    fakes.service.ask("POST", "/api/agent").await;
    let line = log.request();
    assert_eq!((&line["user_id"], &line["error"]), (&json!(null), &json!("there is no token")));

    fakes.windows.fill("user:u1", 10);
    let log = Log::collect();
    fakes.post("/api/agent", "").await;
    let line = log.request();
    assert_eq!(
        (&line["user_id"], &line["error"]),
        (&json!("u1"), &json!("the user has sent too many requests"))
    );
}

#[tokio::test]
async fn a_bad_token_is_logged_by_what_is_wrong_with_it() {
    let request = with(request("POST", "/api/agent", ""), "authorization", "Bearer zebra.zebra.zebra");
    let log = Log::collect();
    Fakes::with_invoke(Answers).service.send(request).await;
    assert!(!log.text().contains("zebra"), "{}", log.text());
    assert_eq!(log.request()["error"], "the token cannot be read");
}

#[tokio::test]
async fn a_panic_is_logged_with_the_user_whose_request_it_was() {
    let log = Log::collect();
    Fakes::with_invoke(Panics).post("/api/agent", r#"{"query":"why"}"#).await;
    let line = log.request();
    assert_eq!((&line["level"], &line["user_id"]), (&json!("ERROR"), &json!("u1")));
    assert_eq!(line["error"], "the handler panicked: cannot answer: why");
}

//! The order of checks under `/api/`: IP window, token, user window, body, agent
//! (host/docs/interface/decisions-http.md#order-of-checks). A request with everything wrong with it is mended
//! from the front.

use http::StatusCode;

use crate::harness::{Answers, Fakes, bearer, request, with_token};

#[tokio::test]
async fn checks_are_made_in_the_decided_order() {
    let fakes = Fakes::configured(Answers, |edge| edge.settings.max_body_bytes = 10);
    let large = || request("POST", "/api/agent", r#"{"query": 5, "more": "than ten bytes"}"#);
    let counts = || (fakes.windows.count("ip:unknown"), fakes.windows.count("user:u1"));

    fakes.windows.fill("ip:unknown", 100);
    fakes.windows.fill("user:u1", 10);
    let answer = fakes.service.send(large()).await;
    answer.check(StatusCode::TOO_MANY_REQUESTS, "Too many requests from this IP");
    let answer = fakes.service.send(bearer("u1", large())).await;
    assert_eq!(answer.body, "Too many requests from this IP", "whatever the user's window says");
    assert_eq!(counts(), (102, 10), "the user's window is left alone");

    fakes.windows.fill("ip:unknown", 0);
    assert_eq!(fakes.service.send(large()).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(fakes.service.send(with_token("x", large())).await.status, StatusCode::FORBIDDEN);
    assert_eq!(counts(), (2, 10), "401 and 403 consume the address's window only");

    let answer = fakes.service.send(bearer("u1", large())).await;
    answer.check(StatusCode::TOO_MANY_REQUESTS, r#"{"error":"Rate limit exceeded"}"#);

    fakes.windows.fill("user:u1", 0);
    assert_eq!(fakes.service.send(bearer("u1", large())).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(fakes.post("/api/agent", "{").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(fakes.post("/api/agent", "{}").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(counts(), (6, 3), "a mistake in the body consumes both");
}

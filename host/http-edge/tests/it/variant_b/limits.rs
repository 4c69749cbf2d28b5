//! Two windows, one per address and one per user, counted in one round trip and told in headers.

use std::time::{SystemTime, UNIX_EPOCH};

use http::StatusCode;
use insta::assert_snapshot;

use super::{OF_ADDRESSES, OF_USERS, window_headers};
use crate::harness::{Answers, Fakes, Log, Panics, bearer, request, token, with, with_token};

const QUERY: &str = r#"{"query":"hi"}"#;

#[tokio::test]
async fn the_101st_request_of_an_address_is_turned_away_as_by_the_node_stack() {
    let fakes = Fakes::with_invoke(Answers);
    fakes.windows.fill("ip:unknown", 99);
    assert_eq!(fakes.service.get("/api/nope").await.status, StatusCode::NOT_FOUND);
    assert_snapshot!(fakes.service.get("/api/nope").await, @r#"
    429 Too Many Requests
    content-type: text/html; charset=utf-8
    etag: W/"1e-roKLuvUqeFZ1+vMntDcNHW9otjw"
    ratelimit-policy: 100;w=900
    ratelimit-limit: 100
    ratelimit-remaining: 0
    ratelimit-reset: 900
    retry-after: 900
    Too many requests from this IP
    "#);
}

#[tokio::test]
async fn the_user_over_the_limit_gets_json_and_both_families_of_headers() {
    let fakes = Fakes::with_invoke(Answers);
    fakes.windows.fill("user:u1", 9);
    assert_eq!(fakes.post("/api/agent", QUERY).await.status, StatusCode::OK);
    assert_snapshot!(fakes.post("/api/agent", QUERY).await, @r#"
    429 Too Many Requests
    content-type: application/json; charset=utf-8
    ratelimit-policy: 100;w=900
    ratelimit-limit: 100
    ratelimit-remaining: 98
    ratelimit-reset: 900
    retry-after: 60
    x-ratelimit-limit: 10
    x-ratelimit-remaining: 0
    {"error":"Rate limit exceeded"}
    "#);
    let other = fakes.service.send(bearer("u2", request("POST", "/api/agent", QUERY))).await;
    assert_eq!(other.status, StatusCode::OK);
}

#[tokio::test]
async fn only_premium_users_have_ten_times_as_many() {
    let others = [None, Some(""), Some("Premium"), Some("free")].map(|tier| (tier, 10));
    for (tier, limit) in others.into_iter().chain([(Some("premium"), 100)]) {
        let fakes = Fakes::with_invoke(Answers);
        fakes.windows.fill("user:u1", limit - 1);
        for status in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
            let request = with_token(&token("u1", tier, None), request("POST", "/api/agent", QUERY));
            let answer = fakes.service.send(request).await;
            assert_eq!(answer.status, status, "{tier:?}");
            assert_eq!(answer.header("x-ratelimit-limit"), Some(limit.to_string().as_str()), "{tier:?}");
            assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"), "{tier:?}");
        }
    }
}

#[tokio::test]
async fn a_users_reset_is_a_time_of_day() {
    let epoch_seconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let before = epoch_seconds();
    let answer = Fakes::with_invoke(Answers).post("/api/agent", QUERY).await;
    let reset: u64 = answer.header("x-ratelimit-reset").unwrap().parse().unwrap();
    assert!((before + 60..=epoch_seconds() + 61).contains(&reset), "{reset}");
}

#[tokio::test]
async fn what_no_route_answers_counts_for_its_address_and_what_is_elsewhere_for_nobody() {
    let fakes = Fakes::with_invoke(Answers);
    for (method, path, status) in [
        ("GET", "/api/nope", StatusCode::NOT_FOUND),
        ("POST", "/api/agent//", StatusCode::NOT_FOUND),
        ("GET", "/api/agent", StatusCode::METHOD_NOT_ALLOWED),
        ("POST", "/api/agent/jobs/1", StatusCode::METHOD_NOT_ALLOWED),
        ("OPTIONS", "/api/agent", StatusCode::OK),
    ] {
        let without_token = fakes.service.ask(method, path).await;
        assert_eq!(without_token.status, status, "{method} {path}");
        assert_eq!(fakes.windows.take_trips(), [["ip:unknown"]], "{method} {path}");
    }
    let pages = ["/openapi.json", "/docs", "/docs/api", "/docs/api/streams", "/llms.txt"];
    for path in ["/health", "/ready", "/metrics", "/nowhere", "/api", "/apiary/x"].into_iter().chain(pages) {
        let answer = fakes.get(path).await;
        assert_eq!(fakes.windows.take_trips(), [[""; 0]; 0], "{path}");
        assert_eq!(window_headers(&answer, "ratelimit-"), [""; 0], "{path}");
    }
}

#[tokio::test]
async fn windows_that_cannot_be_asked_turn_nobody_away() {
    let fakes = Fakes::with_invoke(Answers);
    fakes.windows.switch.fail(true);
    let log = Log::collect();
    let answer = fakes.post("/api/agent", QUERY).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(window_headers(&answer, "ratelimit-"), [""; 0]);
    assert_eq!(window_headers(&answer, "x-ratelimit-"), [""; 0]);
    assert!(log.text().contains("the rate windows failed: the disk is full"), "{}", log.text());
    assert_eq!(fakes.service.ask("POST", "/api/agent").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(fakes.get("/api/nope").await.status, StatusCode::NOT_FOUND);
    assert_eq!(fakes.windows.take_trips().len(), 3, "nobody is counted twice for it");
}

#[tokio::test]
async fn a_panic_is_counted_and_says_so() {
    let answer = Fakes::with_invoke(Panics).post("/api/agent", QUERY).await;
    answer.check(StatusCode::INTERNAL_SERVER_ERROR, r#"{"error":"Internal server error"}"#);
    assert_eq!(window_headers(&answer, "ratelimit-"), OF_ADDRESSES);
    assert_eq!(window_headers(&answer, "x-ratelimit-"), OF_USERS);
}

#[tokio::test]
async fn a_request_that_no_route_is_to_see_counts_for_its_address_alone() {
    let fakes = Fakes::with_invoke(Answers);
    for (header, status) in
        [("sec-fetch-site", StatusCode::FORBIDDEN), ("transfer-encoding", StatusCode::NOT_IMPLEMENTED)]
    {
        let refused = with(bearer("u1", request("POST", "/api/agent", QUERY)), header, "cross-site");
        let answer = fakes.service.send(refused).await;
        assert_eq!(answer.status, status, "{header}");
        assert_eq!(fakes.windows.take_trips(), [["ip:unknown"]], "{header}");
        assert_eq!(window_headers(&answer, "ratelimit-"), OF_ADDRESSES, "{header}");
        assert_eq!(window_headers(&answer, "x-ratelimit-"), [""; 0], "{header}");
    }
}

#[tokio::test]
async fn everything_under_the_prefix_is_counted_however_the_rest_of_it_looks() {
    let fakes = Fakes::with_invoke(Answers);
    for path in
        ["/api/", "/api//", "/api//agent", "/api/agent//", "/api/%61gent", "/api/../health", "/api/?a=/b"]
    {
        let answer = fakes.ask("POST", path, QUERY).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(fakes.windows.take_trips(), [["ip:unknown"]], "{path}");
        assert_eq!(window_headers(&answer, "ratelimit-"), OF_ADDRESSES, "{path}");
    }
}

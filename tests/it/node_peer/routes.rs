//! Paths and methods that are not there (host/docs/interface/node-clients.md#rate-limit-headers,
//! host/docs/interface/node-clients.md#bodies).

use reqwest::Method;

use super::differences::Difference;
use super::pair::{Exchange, Pair};

#[tokio::test]
async fn unknown_paths_are_a_404_and_count_below_api() {
    let pair = Pair::start().await;
    for path in ["/api/nope", "/api/", "/nope", "/healthz"] {
        for method in [Method::GET, Method::POST] {
            pair.check(&Exchange::new(method, path), &[Difference::UnknownPath]).await;
        }
    }
    let (node, _) = pair.check(&Exchange::post("/api/agent"), &[]).await;
    assert_eq!(node.header("ratelimit-remaining"), "95");
}

#[tokio::test]
async fn a_slash_at_the_end_of_a_path_changes_nothing() {
    let pair = Pair::start().await;
    for path in ["/api/agent/", "/api/agent/async/", "/api/gateway/", "/api/serverless/"] {
        let (node, _) = pair.check(&Exchange::post(path), &[]).await;
        assert_eq!(node.status, 401, "{path}");
    }
}

#[tokio::test]
async fn the_front_page_says_what_this_is_here() {
    let pair = Pair::start().await;
    pair.check(&Exchange::get("/"), &[Difference::FrontPage]).await;
}

#[tokio::test]
async fn wrong_methods_are_a_404_there_and_a_405_here() {
    let pair = Pair::start().await;
    for (method, path) in [
        (Method::GET, "/api/agent"),
        (Method::PUT, "/api/agent"),
        (Method::DELETE, "/api/agent/async"),
        (Method::POST, "/health"),
        (Method::POST, "/ready"),
        (Method::POST, "/metrics"),
    ] {
        pair.check(&Exchange::new(method, path), &[Difference::WrongMethod]).await;
    }
}

#[tokio::test]
async fn options_says_what_is_allowed() {
    let pair = Pair::start().await;
    for path in ["/api/agent", "/api/agent/async"] {
        let (node, _) = pair.check(&Exchange::new(Method::OPTIONS, path), &[Difference::OptionsPage]).await;
        assert_eq!(node.header("allow"), "POST");
    }
}

//! `/` says what this is.

use http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Answers, Fakes, Service, request, with};

fn paths(page: &Value) -> Vec<&str> {
    page["endpoints"].as_array().unwrap().iter().map(|endpoint| endpoint["path"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_front_page_names_the_endpoints_of_the_variants_that_are_served() {
    let answer = Service::with_invoke(Answers).get("/").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (StatusCode::OK, Some("application/json; charset=utf-8"))
    );
    let page = answer.json();
    assert_eq!(
        (&page["service"], &page["version"]),
        (&json!("agent-host"), &json!(env!("CARGO_PKG_VERSION")))
    );
    let runs = ["/agent/runs/{runId}/events", "/agent/runs/{runId}/cancel"];
    let docs = ["/docs", "/llms.txt", "/openapi.json", "/docs/api"];
    assert_eq!(
        paths(&page),
        [&["/agent/invoke", runs[0], runs[1], "/health/live", "/health/ready", "/metrics"][..], &docs]
            .concat()
    );

    let page = Fakes::with_invoke(Answers).service.get("/").await.json();
    assert_eq!(
        page["endpoints"][0],
        json!({"method": "POST", "path": "/api/agent",
               "what": "Run the agent and wait for its result: {\"query\": \"…\"}; with a bearer token"})
    );
    assert!(paths(&page).contains(&"/admin/jobs?user="));
    assert!(!paths(&page).contains(&"/agent/invoke"));
}

#[tokio::test]
async fn a_browser_gets_a_page_of_the_same_without_anything_that_runs() {
    let service = Fakes::with_invoke(Answers).service;
    let asking = async |accept: &str| service.send(with(request("GET", "/", ""), "accept", accept)).await;
    let page = asking("text/html,application/xhtml+xml,*/*;q=0.8").await;
    assert_eq!(
        (page.status, page.header("content-type"), page.header("vary")),
        (StatusCode::OK, Some("text/html; charset=utf-8"), Some("accept"))
    );
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none';"));
    assert!(page.body.contains("<a href=\"/console\">/console</a>"), "{page}");
    assert!(page.body.contains("{&quot;query&quot;: "), "{page}");
    for accept in ["*/*", "application/json", "text/plain, text/html-like"] {
        let json = asking(accept).await;
        assert_eq!(json.header("content-type"), Some("application/json; charset=utf-8"), "{accept}");
        for endpoint in json.json()["endpoints"].as_array().unwrap() {
            let path = endpoint["path"].as_str().unwrap().replace('&', "&amp;");
            assert!(page.body.contains(&path), "{path}");
        }
    }
}

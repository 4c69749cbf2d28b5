//! `/` says what this is.

use http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Answers, Fakes, Service, request};

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
    let docs = ["/openapi.json", "/docs", "/docs/api", "/llms.txt"];
    assert_eq!(
        paths(&page),
        [&["/agent/invoke", runs[0], runs[1], "/health/live", "/health/ready", "/metrics"][..], &docs]
            .concat()
    );

    let page = Fakes::with_invoke(Answers).service.get("/").await.json();
    assert_eq!(paths(&page)[..2], ["/api/agent", "/api/agent/async"]);
    assert!(!paths(&page).contains(&"/agent/invoke"));
}

#[tokio::test]
async fn a_browser_gets_a_page_of_the_same_without_anything_that_runs() {
    let service = Fakes::with_invoke(Answers).service;
    let asking = async |accept: &str| {
        let mut request = request("GET", "/", "");
        request.headers_mut().insert("accept", accept.parse().unwrap());
        service.send(request).await
    };
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

#[tokio::test]
async fn every_endpoint_that_is_described_is_named() {
    let fakes = Fakes::with_invoke(Answers);
    for service in [&Service::with_invoke(Answers), &fakes.service] {
        let page = service.get("/").await.json();
        let is_named = |method: &str, path: &str| {
            page["endpoints"].as_array().unwrap().iter().any(|endpoint| {
                let named = endpoint["path"].as_str().unwrap();
                endpoint["method"] == method && named.split('?').next() == Some(path)
            })
        };
        let document = service.get("/openapi.json").await.json();
        for (path, methods) in document["paths"].as_object().unwrap() {
            // The page itself, the files of the console, and what the index of the documentation lists.
            if path == "/" || path == "/console/{file}" || path.starts_with("/docs/{") {
                continue;
            }
            for method in methods.as_object().unwrap().keys() {
                assert!(is_named(&method.to_uppercase(), path), "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn every_endpoint_that_is_named_is_there() {
    let fakes = Fakes::with_invoke(Answers);
    for service in [&Service::with_invoke(Answers), &fakes.service] {
        for endpoint in service.get("/").await.json()["endpoints"].as_array().unwrap() {
            let (method, path) = (endpoint["method"].as_str().unwrap(), endpoint["path"].as_str().unwrap());
            // A run that is not there is a 404 too.
            if path.starts_with("/agent/runs/") {
                continue;
            }
            let answer = service.ask(method, &path.replace(['{', '}'], "x")).await;
            assert_ne!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_ne!(answer.status, StatusCode::NOT_FOUND, "{method} {path}");
        }
    }
}

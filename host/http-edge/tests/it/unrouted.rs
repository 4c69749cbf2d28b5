//! Requests that no route answers get JSON all the same.

use axum::body::Body;
use http::{Request, StatusCode};
use insta::assert_snapshot;

use crate::harness::{Answers, Service};

#[tokio::test]
async fn an_unknown_path_is_a_404_for_every_method() {
    let service = Service::with_invoke(Answers);
    assert_snapshot!(service.get("/nowhere").await, @r#"
    404 Not Found
    content-type: application/json; charset=utf-8
    {"error":"Not found"}
    "#);
    for path in [
        "/agent",
        "/agent/invoke//",
        "//agent/invoke",
        "/Agent/Invoke",
        "/agent/invoke%20",
        "/agent/%69nvoke",
    ] {
        for method in ["GET", "POST", "OPTIONS", "FOO"] {
            let answer = service.ask(method, path).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_slash_at_the_end_of_a_path_that_clients_of_node_call_changes_nothing() {
    let service = Service::with_invoke(Answers);
    for path in ["/health/live", "/health/ready"] {
        let (plain, slashed) = (service.get(path).await, service.get(&format!("{path}/")).await);
        assert_eq!((slashed.status, slashed.body), (plain.status, plain.body), "{path}");
    }
    assert_eq!(service.get("/metrics/").await.status, StatusCode::OK);
    assert_eq!(service.ask("POST", "/agent/invoke/").await.body, r#"{"error":"Invalid input"}"#);
    let wrong = service.get("/agent/invoke/").await;
    assert_eq!((wrong.status, wrong.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, Some("POST")));
}

#[tokio::test]
async fn a_request_without_a_path_is_a_404() {
    let service = Service::with_invoke(Answers);
    for (method, target) in [("OPTIONS", "*"), ("CONNECT", "example.com:443")] {
        let request = Request::builder().method(method).uri(target).body(Body::empty()).unwrap();
        assert_eq!(service.send(request).await.status, StatusCode::NOT_FOUND, "{method} {target}");
    }
}

#[tokio::test]
async fn a_wrong_method_is_a_405_that_names_the_right_ones() {
    let service = Service::with_invoke(Answers);
    assert_snapshot!(service.get("/agent/invoke").await, @r#"
    405 Method Not Allowed
    allow: POST
    content-type: application/json; charset=utf-8
    {"error":"Method not allowed"}
    "#);
    for path in ["/health/live", "/health/ready", "/metrics"] {
        for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "FOO"] {
            let answer = service.ask(method, path).await;
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_eq!(answer.header("allow"), Some("GET,HEAD"), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn options_says_which_methods_there_are() {
    assert_snapshot!(Service::with_invoke(Answers).ask("OPTIONS", "/agent/invoke").await, @r"
    200 OK
    allow: POST
    ");
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let service = Service::with_invoke(Answers);
    for path in ["/health/live", "/health/ready", "/metrics", "/nowhere"] {
        let (get, head) = (service.get(path).await, service.ask("HEAD", path).await);
        assert_eq!((head.status, head.body.as_str()), (get.status, ""), "{path}");
        for header in ["content-type", "content-length"] {
            assert_eq!(head.header(header), get.header(header), "{path}");
        }
    }
}

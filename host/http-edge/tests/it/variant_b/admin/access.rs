//! Who gets to the admin API, and who is counted: as under `/api/`, and the role `admin` besides.

use http::StatusCode;

use super::{READING, ROUTES, body_of};
use crate::harness::{Answers, Fakes};

#[tokio::test]
async fn an_administrator_gets_to_every_route() {
    let fakes = Fakes::with_invoke(Answers);
    for (method, path) in ROUTES {
        let answer = fakes.administer(method, path, body_of(method)).await;
        assert!(answer.status.is_success(), "{method} {path}: {answer}");
        assert_eq!(answer.header("x-ratelimit-limit"), Some("10"), "{method} {path}");
        fakes.windows.fill("user:a1", 0);
    }
}

#[tokio::test]
async fn what_no_route_answers_needs_no_token_and_says_what_is_allowed() {
    let fakes = Fakes::with_invoke(Answers);
    for (method, path, status, allow) in [
        ("GET", "/admin/", StatusCode::NOT_FOUND, None),
        ("GET", "/admin/tools/", StatusCode::NOT_FOUND, None),
        ("POST", "/admin/tools/calculator/destroy", StatusCode::NOT_FOUND, None),
        ("POST", "/admin/tools", StatusCode::METHOD_NOT_ALLOWED, Some("GET,HEAD")),
        ("POST", "/admin/tools/calculator", StatusCode::METHOD_NOT_ALLOWED, Some("GET,HEAD,PUT,DELETE")),
        ("GET", "/admin/tools/calculator/rollback", StatusCode::METHOD_NOT_ALLOWED, Some("POST")),
        ("PUT", "/admin/tools/calculator/versions", StatusCode::METHOD_NOT_ALLOWED, Some("GET,HEAD")),
        ("OPTIONS", "/admin/tools/calculator", StatusCode::OK, Some("GET,HEAD,PUT,DELETE")),
        ("OPTIONS", "/admin/tools/calculator/canary", StatusCode::OK, Some("POST")),
    ] {
        let answer = fakes.service.ask(method, path).await;
        assert_eq!((answer.status, answer.header("allow")), (status, allow), "{method} {path}");
        assert_eq!(fakes.windows.take_trips(), [["ip:unknown"]], "{method} {path}");
    }
    let answer = fakes.service.get("/admin").await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert_eq!(fakes.windows.take_trips(), [[""; 0]; 0], "only what is under the prefix is counted");
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let fakes = Fakes::with_invoke(Answers);
    for (_, path) in &ROUTES[..READING] {
        let (get, head) = (fakes.administer("GET", path, "").await, fakes.administer("HEAD", path, "").await);
        assert_eq!((head.status, head.body.as_str()), (get.status, ""), "{path}");
        for header in ["content-type", "content-length", "etag"] {
            assert_eq!(head.header(header), get.header(header), "{path}");
        }
        fakes.windows.fill("user:a1", 0);
    }
}

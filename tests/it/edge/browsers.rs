//! What a page that a user visits may do with a service of their machine
//! (host/docs/interface/decisions-http.md#callers). The crate's tests have the table of headers; these see
//! that a running service asks it.

use acceptance::{Model, Service, Socket};
use reqwest::Method;

const BODY: &str = r#"{"input":"hi"}"#;

#[tokio::test]
async fn a_page_of_another_origin_spends_no_tokens() {
    let model = Model::always_saying("hello").await;
    let service = Service::variant_a().model(&model).env("CORS_ORIGINS", "https://app.example").start().await;
    let post = |origin: &'static str| {
        let request = service.request(Method::POST, "/agent/invoke").header("sec-fetch-site", "cross-site");
        // What a form or `fetch` sends without a preflight.
        service.send(request.header("origin", origin).header("content-type", "text/plain").body(BODY))
    };
    let refused = post("https://evil.example").await;
    assert_eq!((refused.status, refused.body.as_str()), (403, r#"{"error":"Forbidden"}"#));
    assert!(model.calls().is_empty());
    let allowed = post("https://app.example").await;
    assert_eq!((allowed.status, allowed.header("access-control-allow-origin")), (200, "https://app.example"));
    // Whoever is no browser notices nothing.
    assert_eq!(service.result_of("hi").await["output"], "hello");
}

#[tokio::test]
async fn a_name_that_was_pointed_at_this_machine_is_not_answered() {
    let model = Model::always_saying("hello").await;
    let service = Service::variant_a().model(&model).start().await;
    for (host, status) in [("localhost", "200"), ("127.0.0.1:80", "200"), ("rebound.example", "403")] {
        let mut socket = Socket::connect(service.address()).await;
        socket.send(format!("GET /health/live HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")).await;
        let answer = socket.read_to_end().await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
    }
    // A listener that others can reach has whatever names they have for it.
    let open = Service::variant_a().model(&model).env("HOST", "0.0.0.0").start().await;
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], open.address().port()));
    let mut socket = Socket::connect(address).await;
    socket.send("GET /health/live HTTP/1.1\r\nhost: any.example\r\nconnection: close\r\n\r\n").await;
    assert!(socket.read_to_end().await.starts_with("HTTP/1.1 200 "));
}

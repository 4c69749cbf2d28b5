//! What a browser may do here on behalf of a page (host/docs/interface/decisions-http.md#callers).

use http::{Request, StatusCode};
use http_edge::{Hosts, Origins};

use crate::harness::{Answer, Answers, Fakes, Service};

const BODY: &str = r#"{"input":"hi"}"#;

fn service(origins: &str) -> Service {
    Service::configured(Answers, |edge| edge.origins = Origins::parse(origins).unwrap())
}

async fn send(service: &Service, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    service.send(request.body(BODY.into()).unwrap()).await
}

async fn status(service: &Service, headers: &[(&str, &str)]) -> u16 {
    send(service, "POST", "/agent/invoke", headers).await.status.as_u16()
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_use_the_service() {
    let service = service("");
    for (what, headers, expected) in [
        ("no browser", &[("host", "a.example")][..], 200),
        (
            "no browser, with an odd content type",
            &[("host", "a.example"), ("content-type", "text/plain")],
            200,
        ),
        (
            "our own page",
            &[("host", "a.example"), ("sec-fetch-site", "same-origin"), ("origin", "https://a.example")],
            200,
        ),
        ("the user's doing", &[("host", "a.example"), ("sec-fetch-site", "none")], 200),
        (
            "another site",
            &[("host", "a.example"), ("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")],
            403,
        ),
        ("another site that hides", &[("host", "a.example"), ("sec-fetch-site", "cross-site")], 403),
        (
            "a neighbour",
            &[("host", "a.example"), ("sec-fetch-site", "same-site"), ("origin", "https://b.a.example")],
            403,
        ),
        ("a word of the future", &[("host", "a.example"), ("sec-fetch-site", "elsewhere")], 403),
        ("an older browser on our page", &[("host", "a.example"), ("origin", "https://a.example")], 200),
        ("the same with a port", &[("host", "localhost:3000"), ("origin", "http://localhost:3000")], 200),
        ("an older browser elsewhere", &[("host", "a.example"), ("origin", "https://evil.example")], 403),
        ("another port", &[("host", "localhost:3000"), ("origin", "http://localhost:8080")], 403),
        ("a sandboxed page", &[("host", "a.example"), ("origin", "null")], 403),
        (
            "a claim of the caller's",
            &[
                ("host", "a.example"),
                ("x-forwarded-host", "evil.example"),
                ("origin", "https://evil.example"),
            ],
            403,
        ),
        ("no host at all", &[("origin", "https://evil.example")], 403),
    ] {
        assert_eq!(status(&service, headers).await, expected, "{what}");
    }
    let evil = [("host", "a.example"), ("origin", "https://evil.example")];
    let refused = send(&service, "POST", "/agent/invoke", &evil).await;
    assert_eq!(refused.body, r#"{"error":"Forbidden"}"#);
    assert_eq!(refused.header("access-control-allow-origin"), None);
    // Reading harms nobody: a page gets no answer without a header that lets it.
    assert_eq!(send(&service, "GET", "/health/live", &evil).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_may_call_and_read() {
    let service = service("https://app.example, http://localhost:5173");
    for origin in ["https://app.example", "http://localhost:5173"] {
        let headers = [("host", "a.example"), ("sec-fetch-site", "cross-site"), ("origin", origin)];
        for (method, path, expected) in
            [("POST", "/agent/invoke", 200), ("GET", "/health/live", 200), ("POST", "/nowhere", 404)]
        {
            let answer = send(&service, method, path, &headers).await;
            assert_eq!(answer.status, expected);
            assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
            let exposed = answer.header("access-control-expose-headers").unwrap();
            for name in [
                "X-Request-Id",
                "Retry-After",
                " Location",
                "Content-Location",
                "ETag",
                "Allow",
                "RateLimit-Remaining",
            ] {
                assert!(exposed.contains(name), "{exposed}");
            }
            assert_eq!(answer.header("vary"), Some("Origin"));
            assert_eq!(answer.header("access-control-allow-credentials"), None);
        }
    }
    // Whoever else asks, caches hear that the answer depends on it.
    let plain = send(&service, "GET", "/health/live", &[]).await;
    assert_eq!((plain.header("vary"), plain.header("access-control-allow-origin")), (Some("Origin"), None));
    assert_eq!(status(&service, &[("host", "a.example"), ("origin", "https://app.example.evil")]).await, 403);
    assert_eq!(status(&service, &[("host", "a.example"), ("origin", "http://app.example")]).await, 403);
}

#[tokio::test]
async fn preflights_are_answered_for_allowed_origins_alone() {
    let service = service("https://app.example");
    let ask = |origin: &'static str| {
        [
            ("host", "a.example"),
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,content-type"),
        ]
    };
    let allowed = send(&service, "OPTIONS", "/agent/invoke", &ask("https://app.example")).await;
    allowed.check(StatusCode::NO_CONTENT, "");
    for (name, value) in [
        ("access-control-allow-origin", "https://app.example"),
        ("access-control-allow-methods", "GET, HEAD, POST, PUT, DELETE"),
        ("access-control-allow-headers", "authorization,content-type"),
        ("access-control-max-age", "7200"),
    ] {
        assert_eq!(allowed.header(name), Some(value));
    }
    let refused = send(&service, "OPTIONS", "/agent/invoke", &ask("https://evil.example")).await;
    assert_eq!((refused.status, refused.header("allow")), (StatusCode::OK, Some("POST")));
    assert_eq!(refused.header("access-control-allow-origin"), None);
    // One that is no preflight says what is allowed, as ever.
    let plain = send(&service, "OPTIONS", "/agent/invoke", &[("origin", "https://app.example")]).await;
    assert_eq!((plain.status, plain.header("allow")), (StatusCode::OK, Some("POST")));
}

#[tokio::test]
async fn what_is_refused_is_counted_and_a_429_can_be_read_by_a_page() {
    let fakes =
        Fakes::configured(Answers, |edge| edge.origins = Origins::parse("https://app.example").unwrap());
    let evil = [("host", "a.example"), ("origin", "https://evil.example")];
    for (method, path) in [("POST", "/api/agent"), ("DELETE", "/admin/tools/calculator")] {
        let refused = send(&fakes.service, method, path, &evil).await;
        refused.check(StatusCode::FORBIDDEN, r#"{"error":"Forbidden"}"#);
        assert_eq!(refused.header("ratelimit-remaining"), Some("99"), "{path}");
        fakes.windows.fill("ip:unknown", 0);
    }
    assert_eq!(fakes.tools.take_done(), [""; 0]);
    fakes.windows.fill("ip:unknown", 100);
    let app = [("host", "a.example"), ("origin", "https://app.example")];
    let limited = send(&fakes.service, "POST", "/api/agent", &app).await;
    assert_eq!(
        (limited.status, limited.header("access-control-allow-origin")),
        (StatusCode::TOO_MANY_REQUESTS, Some("https://app.example"))
    );
}

#[tokio::test]
async fn preflights_of_allowed_pages_are_neither_counted_nor_turned_away() {
    let fakes =
        Fakes::configured(Answers, |edge| edge.origins = Origins::parse("https://app.example").unwrap());
    let preflight = async |origin: &'static str, path: &str| {
        let headers = [("host", "a.example"), ("origin", origin), ("access-control-request-method", "POST")];
        send(&fakes.service, "OPTIONS", path, &headers).await
    };
    for (count, left) in [(7, "93"), (100, "0"), (250, "0")] {
        fakes.windows.fill("ip:unknown", count);
        for path in ["/api/agent", "/admin/tools/calculator", "/v1/responses", "/api/nowhere"] {
            let answer = preflight("https://app.example", path).await;
            answer.check_at(path, StatusCode::NO_CONTENT, "");
            // The headers are those of every answer under the prefix.
            for (name, value) in [
                ("ratelimit-limit", "100"),
                ("ratelimit-policy", "100;w=900"),
                ("ratelimit-remaining", left),
                ("ratelimit-reset", "900"),
            ] {
                assert_eq!(answer.header(name), Some(value), "{path}");
            }
        }
        assert_eq!(fakes.windows.count("ip:unknown"), count);
    }
    // Pages that may not call are counted like anybody else.
    let refused = preflight("https://evil.example", "/api/agent").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(fakes.windows.count("ip:unknown"), 251);
}

#[tokio::test]
async fn a_listener_on_a_loopback_address_answers_under_no_strange_name() {
    let service = Service::configured(Answers, |edge| {
        edge.hosts = Hosts::Loopback;
        edge.origins = Origins::parse("https://app.example").unwrap();
    });
    for (host, expected) in [
        ("localhost", 200),
        ("LOCALHOST:3000", 200),
        ("127.0.0.1:3000", 200),
        ("[::1]:3000", 200),
        ("192.0.2.7", 200),
        ("app.example", 200),
        ("app.example:3000", 200),
        ("rebound.example", 403),
        ("rebound.example:3000", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
        ("a b", 400),
        ("u@localhost", 400),
    ] {
        for (method, path) in [("GET", "/health/live"), ("POST", "/agent/invoke")] {
            let answer = send(&service, method, path, &[("host", host)]).await;
            assert_eq!(answer.status, expected, "{method} {host:?}");
        }
    }
    // The rebound name serves page and service from one origin, so that only the `Host` tells.
    let rebound = [
        ("host", "rebound.example"),
        ("origin", "http://rebound.example"),
        ("sec-fetch-site", "same-origin"),
    ];
    assert_eq!(status(&service, &rebound).await, 403);
}

#[tokio::test]
async fn http_1_1_names_one_host_and_http_1_0_need_not() {
    for hosts in [Hosts::Named, Hosts::Loopback] {
        let service = Service::configured(Answers, |edge| edge.hosts = hosts);
        let get = |version: http::Version, names: &[&str]| {
            let mut request = Request::get("/health/live").version(version);
            for name in names {
                request = request.header("host", *name);
            }
            service.send(request.body(axum::body::Body::empty()).unwrap())
        };
        let answer = get(http::Version::HTTP_11, &[]).await;
        answer.check(StatusCode::BAD_REQUEST, r#"{"error":"Bad request"}"#);
        for (version, names, status) in [
            (http::Version::HTTP_11, &["localhost", "localhost"][..], 400),
            (http::Version::HTTP_11, &["localhost"], 200),
            (http::Version::HTTP_10, &[], 200),
            (http::Version::HTTP_10, &["localhost", "localhost"], 400),
        ] {
            assert_eq!(get(version, names).await.status, status, "{version:?} {names:?}");
        }
    }
}

/// As HTTP/2 has it in `:authority`, and HTTP/1 in a whole URL.
#[tokio::test]
async fn a_target_that_names_a_user_is_a_400() {
    for hosts in [Hosts::Named, Hosts::Loopback, Hosts::Unchecked] {
        let service = Service::configured(Answers, |edge| edge.hosts = hosts);
        for (target, expected) in
            [("http://localhost/health/live", 200), ("http://u@localhost/health/live", 400)]
        {
            let request = Request::get(target).header("host", "localhost");
            let answer = service.send(request.body(axum::body::Body::empty()).unwrap()).await;
            assert_eq!(answer.status, expected, "{target}");
        }
    }
}

#[tokio::test]
async fn a_transfer_coding_that_is_not_understood_is_a_501_and_ends_the_connection() {
    let service = Service::with_invoke(Answers);
    for (codings, expected) in [
        (&["chunked"][..], 200),
        (&["Chunked"], 200),
        (&["gzip, chunked"], 501),
        (&["gzip", "chunked"], 501),
        (&["chunked, chunked"], 501),
    ] {
        let headers: Vec<_> = codings.iter().map(|coding| ("transfer-encoding", *coding)).collect();
        let answer = send(&service, "POST", "/agent/invoke", &headers).await;
        assert_eq!(answer.status, expected, "{codings:?}");
        assert_eq!(answer.header("connection"), (expected == 501).then_some("close"));
    }
}

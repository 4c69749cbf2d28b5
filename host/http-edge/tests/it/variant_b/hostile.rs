//! Whatever comes in, what goes out is one of the answers that there are.

use std::net::Ipv4Addr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::body::Body;
use http::{HeaderValue, StatusCode};
use proptest::prelude::*;

use crate::harness::{Answer, Answers, Fakes, bearer, request, token, with_token};

/// Sends one request to a Variant B of its own, which knows no caller yet.
fn send_to_new(trusted_proxies: usize, request: http::Request<Body>) -> Answer {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let fakes = Fakes::configured(Answers, |edge| edge.settings.trusted_proxies = trusted_proxies);
    runtime.block_on(fakes.service.send(request))
}

/// Sends one request to a Variant B that all cases of a process share, from an address that nobody has
/// counted yet.
fn send(mut request: http::Request<Body>) -> Answer {
    static SHARED: LazyLock<Fakes> =
        LazyLock::new(|| Fakes::configured(Answers, |edge| edge.settings.trusted_proxies = 1));
    let address = Ipv4Addr::from_bits(new_number());
    request.headers_mut().insert("x-forwarded-for", HeaderValue::try_from(address.to_string()).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(SHARED.service.send(request))
}

/// A user whom nobody has counted yet.
fn new_user() -> String {
    format!("u{}", new_number())
}

fn new_number() -> u32 {
    static NUMBERS: AtomicU32 = AtomicU32::new(1 << 24);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..500),
        r#"[\[\]{}",:0-9eE+\-.a-z\\ ]{0,200}"#.prop_map(String::into_bytes),
        r#"\{"query": ?("[^"]{0,20}"|[0-9]{1,9}|null|\[\])(,"(options|priority)":(\{"maxTokens":-?[0-9]{1,6}\}|"high"|5))?\}"#
            .prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn no_body_is_answered_with_anything_worse_than_400(body in bodies()) {
        for path in ["/api/agent", "/api/agent/async", "/api/serverless", "/api/gateway"] {
            let answer = send(bearer(&new_user(), request("POST", path, body.clone())));
            let expected = [StatusCode::OK, StatusCode::ACCEPTED, StatusCode::BAD_REQUEST];
            prop_assert!(expected.contains(&answer.status), "{}: {}", path, answer);
            prop_assert_eq!(answer.header("x-ratelimit-remaining"), Some("9"));
        }
    }

    #[test]
    fn no_query_string_and_no_id_is_answered_with_anything_worse_than_400(
        id in "[a-z0-9%._:~-]{1,20}", query in r"[a-z0-9%=&+.:*\-]{0,40}",
    ) {
        let admin = token(&new_user(), None, Some("admin"));
        for (method, path) in [
            ("GET", format!("/api/agent/jobs/{id}?wait={query}")),
            ("GET", format!("/api/agent/jobs?{query}")),
            ("POST", format!("/api/agent/jobs/{id}/cancel")),
            ("DELETE", format!("/api/agent/cache?pattern={query}")),
        ] {
            let answer = send(with_token(&admin, request(method, &path, Body::empty())));
            let expected = [StatusCode::OK, StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND];
            prop_assert!(expected.contains(&answer.status), "{} {}: {}", method, path, answer);
        }
    }

    #[test]
    fn no_forwarded_address_is_anything_but_counted(
        lines in prop::collection::vec(r"[0-9a-f:.,\[\] \x80-\xFF]{0,40}", 0..3), proxies in 0..4_usize,
    ) {
        let mut request = request("GET", "/api/nope", Body::empty());
        for line in lines {
            request.headers_mut().append("x-forwarded-for", HeaderValue::try_from(line).unwrap());
        }
        let answer = send_to_new(proxies, request);
        prop_assert_eq!(answer.status, StatusCode::NOT_FOUND);
        prop_assert_eq!(answer.header("ratelimit-remaining"), Some("99"));
    }

    #[test]
    fn no_authorization_but_a_signed_one_gets_in(header in prop::collection::vec(32..=255_u8, 0..200)) {
        let Ok(header) = HeaderValue::from_bytes(&header) else { return Ok(()) };
        let mut request = request("POST", "/api/agent", r#"{"query":"hi"}"#);
        request.headers_mut().insert("authorization", header);
        let answer = send(request);
        prop_assert!(matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), "{}", answer);
        prop_assert_eq!(answer.body, "");
    }
}

//! Who gets to the routes that want a token, and who is counted: of every route that the document names, in
//! the order of the checks (address, token, user, role).

use axum::body::Body;
use http::{Request, StatusCode};

use crate::harness::{Answer, Answers, Fakes, Service, as_admin, b, request, token, with_token};
use crate::openapi::{both, document, operations};
use crate::variant_b::{OF_ADDRESSES, OF_USERS, window_headers};

/// A route that wants a token.
#[derive(Debug)]
struct Route {
    method: String,
    path: String,
    is_for_administrators: bool,
}

impl Route {
    fn request(&self) -> Request<Body> {
        request(&self.method, &self.path, "{}")
    }

    fn is_of_openai(&self) -> bool {
        self.path.starts_with("/v1/")
    }

    /// Two protocols have 401 for a token that is none.
    fn status_of_bad_tokens(&self) -> StatusCode {
        if self.is_of_openai() || self.path == "/mcp" {
            StatusCode::UNAUTHORIZED
        } else {
            StatusCode::FORBIDDEN
        }
    }

    /// An error has that body, in the form of the route's protocol.
    fn check_error(&self, answer: &Answer, text: &str) {
        let place = format!("{} {}: {answer}", self.method, self.path);
        if !self.is_of_openai() {
            assert_eq!(answer.body, text, "{place}");
            return;
        }
        let error = &answer.json()["error"];
        assert!(error["message"].is_string() && error.as_object().unwrap().len() == 4, "{place}");
        let kind = match answer.status {
            StatusCode::TOO_MANY_REQUESTS => ("rate_limit_error", "rate_limit_exceeded"),
            _ => ("invalid_request_error", "invalid_api_key"),
        };
        assert_eq!((error["type"].as_str(), error["code"].as_str()), (Some(kind.0), Some(kind.1)), "{place}");
        assert!(answer.header("content-type").unwrap().starts_with("application/json"), "{place}");
    }
}

/// Both variants, and all their routes that want a token.
async fn routes() -> (Fakes, Vec<Route>) {
    let fakes = both();
    let document = document(&fakes.service).await;
    let secured = operations(&document).into_iter().filter_map(|(method, path, operation)| {
        let roles = operation["security"][0]["bearer"].as_array()?;
        let is_for_administrators = !roles.is_empty();
        Some(Route { method, path: path.replace(['{', '}'], ""), is_for_administrators })
    });
    let routes: Vec<_> = secured.collect();
    let for_administrators = routes.iter().filter(|route| route.is_for_administrators).count();
    assert!(routes.len() > 45 && for_administrators > 20, "{for_administrators} of {}", routes.len());
    (fakes, routes)
}

fn check_nothing_was_done(fakes: &Fakes) {
    assert_eq!(fakes.tools.take_done(), [""; 0]);
    assert_eq!(fakes.cache.deleted(), [""; 0]);
    assert_eq!(fakes.submitted(), []);
}

#[tokio::test]
async fn nobody_gets_in_without_a_token_or_with_one_that_cannot_be_verified() {
    let (fakes, routes) = routes().await;
    for route in routes {
        for (request, status, challenge) in [
            (route.request(), StatusCode::UNAUTHORIZED, r#"Bearer realm="agent-host""#),
            (
                with_token("x.y.z", route.request()),
                route.status_of_bad_tokens(),
                r#"Bearer realm="agent-host", error="invalid_token""#,
            ),
        ] {
            let answer = fakes.service.send(request).await;
            assert_eq!(answer.status, status, "{route:?}");
            assert_eq!(answer.header("www-authenticate"), Some(challenge), "{route:?}");
            route.check_error(&answer, "");
            assert_eq!(fakes.windows.take_trips(), [["ip:unknown"]], "{route:?}");
            assert_eq!(window_headers(&answer, "ratelimit-"), OF_ADDRESSES, "{route:?}");
            fakes.windows.fill("ip:unknown", 0);
        }
    }
    check_nothing_was_done(&fakes);
}

#[tokio::test]
async fn only_administrators_get_to_what_is_for_them() {
    let (fakes, routes) = routes().await;
    for role in [None, Some(""), Some("user"), Some("Admin"), Some("admin "), Some("admin,user")] {
        let token = token("u1", Some("premium"), role);
        for route in routes.iter().filter(|route| route.is_for_administrators) {
            let answer = fakes.service.send(with_token(&token, route.request())).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{route:?}");
            route.check_error(&answer, r#"{"error":"Forbidden"}"#);
            assert_eq!(fakes.windows.take_trips(), [["ip:unknown", "user:u1"]], "{route:?}");
            fakes.windows.fill("user:u1", 0);
            fakes.windows.fill("ip:unknown", 0);
        }
    }
    check_nothing_was_done(&fakes);
}

#[tokio::test]
async fn a_full_window_turns_away_before_anything_is_done() {
    let (fakes, routes) = routes().await;
    for route in &routes {
        fakes.windows.fill("user:a1", 10);
        let answer = fakes.service.send(as_admin(route.request())).await;
        assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{route:?}");
        assert_eq!(answer.header("retry-after"), Some("60"), "{route:?}");
        route.check_error(&answer, r#"{"error":"Rate limit exceeded"}"#);
        fakes.windows.fill("ip:unknown", 100);
        let answer = fakes.service.send(as_admin(route.request())).await;
        assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{route:?}");
        route.check_error(&answer, "Too many requests from this IP");
        assert_eq!(window_headers(&answer, "x-ratelimit-"), [""; 0], "{route:?}");
        assert_eq!(fakes.windows.count("user:a1"), 11, "the user is not charged for what the address did");
        fakes.windows.fill("ip:unknown", 0);
    }
    check_nothing_was_done(&fakes);
}

#[tokio::test]
async fn every_request_counts_once_in_both_windows_and_says_so() {
    let (fakes, routes) = routes().await;
    for route in routes {
        let answer = fakes.service.send(as_admin(route.request())).await;
        assert_eq!(fakes.windows.take_trips(), [["ip:unknown", "user:a1"]], "in one round trip: {route:?}");
        assert_eq!(window_headers(&answer, "x-ratelimit-"), OF_USERS, "{route:?}");
        assert_eq!(window_headers(&answer, "ratelimit-"), OF_ADDRESSES, "{route:?}");
        fakes.windows.fill("user:a1", 0);
        fakes.windows.fill("ip:unknown", 0);
    }
}

/// What is served by one variant does not exist where the other one alone is.
#[tokio::test]
async fn what_is_not_served_does_not_exist() {
    let both = both();
    let document = document(&both.service).await;
    let invoked = both.service.invoke(r#"{"input":"hi"}"#).await;
    assert_eq!(
        (invoked.status, invoked.header("ratelimit-limit")),
        (StatusCode::OK, None),
        "A counts nobody"
    );
    let a = Service::with_invoke(Answers);
    let bare = Fakes::configured(Answers, |edge| (b(edge).tool_admin, b(edge).openai) = (None, None));
    for (service, prefixes) in [
        (&a, &["/api/", "/admin/", "/v1/", "/mcp", "/ready", "/console"][..]),
        (&Fakes::with_invoke(Answers).service, &["/agent/", "/health/"]),
        (&bare.service, &["/admin/tools", "/v1/"]),
    ] {
        for (method, path, _) in operations(&document) {
            if prefixes.iter().any(|prefix| path.starts_with(prefix)) {
                let answer = service.send(as_admin(request(&method, &path, ""))).await;
                answer.check_at(
                    format_args!("{method} {path}"),
                    StatusCode::NOT_FOUND,
                    r#"{"error":"Not found"}"#,
                );
            }
        }
    }
    assert_eq!(a.get("/health").await.status, StatusCode::NOT_FOUND);
}

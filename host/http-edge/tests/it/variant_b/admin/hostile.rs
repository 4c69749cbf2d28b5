//! Names, texts and bodies of people who mean no good.

use axum::body::Body;
use http::StatusCode;
use proptest::prelude::*;

use super::{ROUTES, body_of};
use crate::harness::{Answers, Fakes, as_admin, request};

/// The path with another name in it.
fn named(path: &str, name: &str) -> String {
    path.replace("calculator", name)
}

#[tokio::test]
async fn a_name_that_could_be_a_path_gets_nowhere() {
    let fakes = Fakes::with_invoke(Answers);
    for name in [
        "..",
        ".",
        "%2e%2e",
        "%2E",
        "..%2f..%2fetc%2fpasswd",
        "a%2Fb",
        "a%5Cb",
        "%2Fetc",
        "a%00",
        "a%0Ab",
        "a%20b",
        "%FF",
        "a%25b",
        "a:b",
        "a*",
        "%C3%A9",
        "a%E2%80%AEb",
        &"x".repeat(65),
    ] {
        for (method, path) in ROUTES.into_iter().skip(1) {
            let answer = fakes.administer(method, &named(path, name), body_of(method)).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{method} {name}: {answer}");
            assert!(answer.body.contains("1 to 64 of A-Z, a-z, 0-9"), "{method} {name}: {answer}");
            fakes.windows.fill("user:a1", 0);
            fakes.windows.fill("ip:unknown", 0);
        }
    }
    // What a path has too many or too few parts for is no route at all.
    for path in
        ["/admin/tools/../../etc", "/admin/tools//versions", "/admin/tools/a/b/versions", "/admin/../metrics"]
    {
        let status = fakes.administer("GET", path, "").await.status;
        assert!([StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST].contains(&status), "{path}: {status}");
    }
    assert_eq!(fakes.tools.take_done(), [""; 0]);
}

#[tokio::test]
async fn names_of_files_are_names() {
    let fakes = Fakes::with_invoke(Answers);
    for name in ["a", "web-search", "Calc_2.1", ".hidden", "...", &"x".repeat(64)] {
        let answer = fakes.administer("GET", &format!("/admin/tools/{name}"), "").await;
        assert_eq!(answer.body, r#"{"error":"there is no component of that name"}"#, "{name}");
        fakes.windows.fill("user:a1", 0);
    }
}

#[tokio::test]
async fn what_strangers_wrote_is_escaped_in_every_answer() {
    let fakes = Fakes::with_invoke(Answers);
    let description = "safe\u{202e}lufmrah\u{1b}[2J<script>\"\u{200b}";
    let shown = fakes.administer("GET", "/admin/tools/search", "").await;
    assert_eq!(shown.json()["versions"][0]["facts"]["tools"][0]["description"], description);
    let listed = fakes.administer("GET", "/admin/tools", "").await;
    fakes.tools.fail_with(agent_core::ports::AdminError::Refused(description.into()));
    let refused = fakes.administer("PUT", "/admin/tools/search", "\0asm").await;
    assert_eq!(refused.json()["error"], description);
    for answer in [shown, listed, refused] {
        assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
        let hidden = |char: char| char.is_control() || "\u{202e}\u{200b}".contains(char);
        assert!(!answer.body.contains(hidden), "{}", answer.body);
    }
}

proptest! {
    #[test]
    fn no_request_is_answered_with_anything_worse_than_a_refusal(
        route in 1..ROUTES.len(), name in "[a-z.%0-9_-]{1,12}", query in r"[a-z0-9%=&+.:*\-]{0,40}",
        if_match in prop::option::of("[\"0-9W/*, ]{0,8}"),
        body in r#"(\{"(digest|share|thresholds|[a-z]{0,8})": ?("[^"]{0,20}"|-?[0-9]{1,20}|null|\{\})\})?|[\[\]{}",:0-9a-z\\ ]{0,60}"#,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (method, path) = ROUTES[route];
        let mut request = as_admin(request(method, &format!("{}?{query}", named(path, &name)), Body::from(body)));
        if let Some(if_match) = if_match {
            request.headers_mut().insert("if-match", if_match.parse().unwrap());
        }
        let answer = runtime.block_on(Fakes::with_invoke(Answers).service.send(request));
        prop_assert!(
            answer.status.is_success() || answer.status.is_client_error(), "{} {}: {}", method, path, answer
        );
    }
}

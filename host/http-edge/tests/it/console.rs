//! `/console`: who gets the page, and what it may do. What it shows is an acceptance test, in a browser.

use std::collections::BTreeSet;

use http::StatusCode;

use crate::harness::{Answers, Fakes};

/// The files that a text names as its own: `console/….css` of the page, `./….js` of a module.
fn named<'a>(text: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    let parts = text.split(prefix).skip(1);
    parts.filter_map(|rest| rest.split_once('"')).map(|(name, _)| name).collect()
}

#[tokio::test]
async fn the_page_and_all_that_it_loads_are_served_to_everybody_and_counted_nowhere() {
    let service = Fakes::with_invoke(Answers).service;
    let page = service.get("/console").await;
    assert_eq!(
        (page.status, page.header("content-type")),
        (StatusCode::OK, Some("text/html; charset=utf-8"))
    );
    assert_eq!(page.header("ratelimit-limit"), None);
    let mut missing: Vec<String> = named(&page.body, "\"console/").into_iter().map(str::to_owned).collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = missing.pop() {
        let file = service.get(&format!("/console/{name}")).await;
        assert_eq!(file.status, StatusCode::OK, "{name}");
        let media = match name.rsplit('.').next().unwrap() {
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            _ => "image/svg+xml",
        };
        assert_eq!(file.header("content-type"), Some(media), "{name}");
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"), "{name}");
        assert_eq!(file.header("ratelimit-limit"), None, "{name}");
        seen.insert(name);
        let modules = named(&file.body, " from \"./").into_iter().filter(|name| !seen.contains(*name));
        missing.extend(modules.map(str::to_owned).collect::<Vec<_>>());
    }
    assert_eq!(seen.len(), 12, "every file is needed, and there: {seen:?}");
    for name in ["mod.rs", "page.html", "..%2fmod.rs", "%00", "app.js%0A", &"x".repeat(300)] {
        let answer = service.get(&format!("/console/{name}")).await;
        answer.check_at(name, StatusCode::NOT_FOUND, r#"{"error":"Not found"}"#);
    }
}

#[tokio::test]
async fn the_page_runs_its_own_modules_only_and_makes_no_markup_of_texts() {
    let service = Fakes::with_invoke(Answers).service;
    let page = service.get("/console").await;
    assert_eq!(
        page.header("content-security-policy"),
        Some(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
             trusted-types 'none'"
        )
    );
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert!(!page.body.contains("<script>") && !page.body.contains("<style"), "nothing is inline");
    let mut size = page.body.len();
    for name in ["api", "app", "dom", "jobs", "run", "runs", "service", "tools", "try", "waits"] {
        let script = service.get(&format!("/console/{name}.js")).await;
        assert_eq!(script.status, StatusCode::OK, "{name}.js");
        let script = script.body;
        for unsafe_sink in [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "Function(",
            "localStorage",
        ] {
            assert!(!script.contains(unsafe_sink), "{name}.js has {unsafe_sink}");
        }
        assert!(
            !script.contains("https://") && !script.contains("http://"),
            "{name}.js names another server"
        );
        size += script.len();
    }
    assert!(size < 80_000, "the page is small: {size}");
}

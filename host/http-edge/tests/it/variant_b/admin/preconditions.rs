//! `If-Match`: a change is made only to the component that its caller has seen.

use agent_core::ports::AdminError;
use http::{Request, StatusCode};

use super::{READING, ROUTES, body_of};
use crate::harness::{Answer, Answers, Fakes, as_admin, request};

async fn send(fakes: &Fakes, method: &str, path: &str, if_match: &str) -> Answer {
    let request = Request::builder().method(method).uri(path).header("if-match", if_match);
    let answer = fakes.service.send(as_admin(request.body(body_of(method).into()).unwrap())).await;
    fakes.windows.fill("user:a1", 0);
    answer
}

fn is_trial(path: &str) -> bool {
    ["shadow", "canary", "promote"].iter().any(|verb| path.ends_with(verb))
}

#[tokio::test]
async fn a_change_of_another_revision_is_412_and_changes_nothing() {
    let fakes = Fakes::with_invoke(Answers);
    for (method, path) in ROUTES.into_iter().skip(5) {
        let answer = send(&fakes, method, path, "\"6\"").await;
        assert_eq!(answer.status, StatusCode::PRECONDITION_FAILED, "{method} {path}");
        assert_eq!(
            answer.body, r#"{"error":"The component is at revision 7: read it again and decide anew"}"#,
            "{method} {path}"
        );
        assert_eq!(fakes.tools.take_done(), ["get calculator"], "{method} {path}");
    }
}

#[tokio::test]
async fn a_change_of_the_revision_that_was_seen_is_made() {
    for (method, path) in ROUTES.into_iter().skip(5) {
        let fakes = Fakes::with_invoke(Answers);
        let seen = fakes.administer("GET", "/admin/tools/calculator", "").await;
        let tag = seen.header("etag").unwrap();
        let any = if method == "PUT" || is_trial(path) { "*" } else { tag };
        for if_match in [tag, any, "\"1\", \"7\", \"9\""] {
            fakes.tools.take_done();
            let answer = send(&fakes, method, path, if_match).await;
            assert!(answer.status.is_success(), "{method} {path} {if_match}: {answer}");
            assert!(fakes.tools.take_done().pop().unwrap().starts_with("a1 "), "{method} {path}");
            fakes.tools.change("calculator", |view| view.revision = 7);
        }
        fakes.tools.change("calculator", |view| view.revision = 8);
        assert_eq!(send(&fakes, method, path, tag).await.status, StatusCode::PRECONDITION_FAILED);
    }
}

#[tokio::test]
async fn a_change_that_depends_on_what_was_read_says_so() {
    let fakes = Fakes::with_invoke(Answers);
    let verbs = ["approve", "enable", "disable", "rollback"]
        .map(|verb| ("POST", format!("/admin/tools/calculator/{verb}")));
    let removal = ("DELETE", "/admin/tools/calculator".to_owned());
    for (method, path) in verbs.into_iter().chain([removal]) {
        // Before the body is read.
        for body in ["", "{", r#"{"other": 1}"#] {
            let answer = fakes.service.send(as_admin(request(method, &path, body))).await;
            assert_eq!(answer.status, StatusCode::PRECONDITION_REQUIRED, "{method} {path}");
            assert!(answer.body.contains("If-Match names no revision"), "{answer}");
            fakes.windows.fill("user:a1", 0);
        }
        // `If-Match: *` says that there is a component, and nothing of the state that was seen.
        let answer = send(&fakes, method, &path, "*").await;
        assert_eq!(answer.status, StatusCode::PRECONDITION_REQUIRED, "{method} {path}");
    }
    assert_eq!(fakes.tools.take_done(), [""; 0]);
    for (method, path) in ROUTES.into_iter().skip(READING) {
        if method == "PUT" || is_trial(path) {
            let answer = fakes.service.send(as_admin(request(method, path, body_of(method)))).await;
            assert!(answer.status.is_success(), "{method} {path}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_component_that_changes_while_it_is_uploaded_is_noticed() {
    let fakes = Fakes::with_invoke(Answers);
    let (to_body, body) = futures::channel::mpsc::unbounded::<std::io::Result<&str>>();
    let request = Request::put("/admin/tools/calculator").header("if-match", "\"7\"");
    let request = as_admin(request.body(axum::body::Body::from_stream(body)).unwrap());
    let (answer, ()) = tokio::join!(fakes.service.send(request), async {
        while fakes.tools.take_done().is_empty() {
            tokio::task::yield_now().await;
        }
        fakes.tools.change("calculator", |view| view.revision = 8);
        to_body.unbounded_send(Ok("\0asm")).unwrap();
        drop(to_body);
    });
    assert_eq!(answer.status, StatusCode::PRECONDITION_FAILED);
    assert_eq!(fakes.tools.take_done(), ["get calculator"]);
}

#[tokio::test]
async fn a_component_that_never_was_has_no_revision() {
    let fakes = Fakes::with_invoke(Answers);
    for if_match in ["*", "\"0\""] {
        let answer = send(&fakes, "PUT", "/admin/tools/new", if_match).await;
        assert_eq!(answer.status, StatusCode::PRECONDITION_FAILED, "{answer}");
        let answer = send(&fakes, "POST", "/admin/tools/new/canary", if_match).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{answer}");
    }
}

#[tokio::test]
async fn a_precondition_that_is_none_is_400() {
    let fakes = Fakes::with_invoke(Answers);
    for if_match in ["7", "", "\"7", "revision 7"] {
        let answer = send(&fakes, "POST", "/admin/tools/calculator/approve", if_match).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{if_match}");
        assert!(answer.body.contains("If-Match"), "{answer}");
    }
    // Whoever only reads may say what they like.
    assert_eq!(send(&fakes, "GET", "/admin/tools", "7").await.status, StatusCode::OK);
    fakes.tools.fail_with(AdminError::Unavailable("down".into()));
    let answer = send(&fakes, "POST", "/admin/tools/calculator/approve", "\"7\"").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
}

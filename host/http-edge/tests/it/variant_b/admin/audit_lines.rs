//! Every change leaves a line in the log, also one that was refused, or that nobody waited for.

use agent_core::ports::AdminError;
use http::Request;
use serde_json::{Value, json};

use super::{READING, ROUTES, body_of};
use crate::harness::{Answers, Fakes, Log, WAITING, as_admin, request, token, with, with_token};

#[tokio::test]
async fn a_change_is_logged_with_everything_that_is_known_of_it() {
    let fakes = Fakes::with_invoke(Answers);
    let body = format!(r#"{{"digest":"{WAITING}"}}"#);
    let request = Request::post("/admin/tools/calculator/approve")
        .header("x-request-id", "r-1")
        .header("if-match", "\"7\"");
    let log = Log::collect();
    fakes.service.send(as_admin(request.body(body.into()).unwrap())).await;
    assert_eq!(
        log.audit(),
        [json!({
            "level": "INFO",
            "target": "http_edge::audit",
            "message": "approve of calculator: done",
            "user_id": "a1",
            "action": "approve",
            "component": "calculator",
            "digest": WAITING,
            "outcome": "done",
            "status": 200,
            "request_id": "r-1",
        })]
    );
}

#[tokio::test]
async fn every_change_has_one_line_and_reading_has_none() {
    let fakes = Fakes::with_invoke(Answers);
    for (index, (method, path)) in ROUTES.into_iter().enumerate() {
        let log = Log::collect();
        fakes.administer(method, path, body_of(method)).await;
        let actions: Vec<_> = log.audit().iter().map(|line| line["action"].clone()).collect();
        let last = path.rsplit('/').next().unwrap();
        let action = match method {
            "PUT" => "upload",
            "DELETE" => "delete",
            _ => last,
        };
        assert_eq!(actions, if index < READING { vec![] } else { vec![json!(action)] }, "{method} {path}");
        fakes.windows.fill("user:a1", 0);
    }
    let log = Log::collect();
    fakes.administer("POST", "/admin/tools/calculator", "").await;
    fakes.administer("POST", "/admin/tools/calculator/made-up", "").await;
    assert_eq!(log.audit(), [json!(null); 0]);
}

/// The one line about that request: user, component, outcome, status and error.
async fn line_of(fakes: &Fakes, request: Request<axum::body::Body>) -> [Value; 5] {
    let log = Log::collect();
    fakes.service.send(request).await;
    let mut lines = log.audit();
    assert_eq!(lines.len(), 1, "{lines:?}");
    ["user_id", "component", "outcome", "status", "error"].map(|name| lines[0][name].take())
}

fn of_what_was_read(body: &'static str) -> Request<axum::body::Body> {
    with(request("POST", "/admin/tools/calculator/disable", body), "if-match", "\"7\"")
}

#[tokio::test]
async fn a_change_that_was_refused_is_logged_with_who_and_why() {
    let fakes = Fakes::with_invoke(Answers);
    let change = || of_what_was_read("");
    let user = token("u1", None, None);
    let refused = |user: Value, status: u16, error: &str| {
        [user, json!("calculator"), json!("refused"), json!(status), json!(error)]
    };
    assert_eq!(line_of(&fakes, change()).await, refused(json!(null), 401, "there is no token"));
    assert_eq!(
        line_of(&fakes, with_token("x", change())).await,
        refused(json!(null), 403, "the token cannot be read")
    );
    assert_eq!(
        line_of(&fakes, with_token(&user, change())).await,
        refused(json!("u1"), 403, "the user is no administrator")
    );
    let wrong = as_admin(of_what_was_read(r#"{"x":1}"#));
    let error = "the request does not match its schema in: the whole body";
    assert_eq!(line_of(&fakes, wrong).await, refused(json!("a1"), 400, error));
    fakes.tools.fail_with(AdminError::Conflict("it is disabled already".into()));
    assert_eq!(
        line_of(&fakes, as_admin(change())).await,
        refused(json!("a1"), 409, "it is disabled already")
    );
    fakes.tools.fail_with(AdminError::Unavailable("the store is gone".into()));
    assert_eq!(
        line_of(&fakes, as_admin(change())).await,
        [json!("a1"), json!("calculator"), json!("failed"), json!(503), json!("the store is gone")]
    );
    fakes.windows.fill("user:a1", 10);
    assert_eq!(
        line_of(&fakes, as_admin(change())).await,
        refused(json!("a1"), 429, "the user has sent too many requests")
    );
}

#[tokio::test]
async fn an_upload_is_logged_with_its_digest_whatever_became_of_it() {
    let fakes = Fakes::with_invoke(Answers);
    let digest = "sha256:cd5d4935a48c0672cb06407bb443bc0087aff947c6b864bac886982c73b3027f";
    let log = Log::collect();
    fakes.administer("PUT", "/admin/tools/calculator", "\0asm").await;
    fakes.tools.fail_with(AdminError::Refused("it exports nothing".into()));
    fakes.administer("PUT", "/admin/tools/calculator", "\0asm").await;
    let lines = log.audit();
    assert_eq!((&lines[0]["digest"], &lines[0]["status"]), (&json!(digest), &json!(202)));
    assert_eq!((&lines[1]["digest"], &lines[1]["outcome"]), (&json!(digest), &json!("refused")));
}

#[tokio::test]
async fn a_change_whose_client_went_away_is_logged_as_unknown() {
    let fakes = Fakes::with_invoke(Answers);
    fakes.tools.hold_uploads();
    let log = Log::collect();
    let upload = as_admin(request("PUT", "/admin/tools/calculator", "\0asm"));
    fakes.service.leave(upload, fakes.tools.begun(1)).await;
    let lines = log.audit();
    assert_eq!(lines.len(), 1);
    assert_eq!((&lines[0]["outcome"], &lines[0]["user_id"]), (&json!("unknown"), &json!("a1")));
}

#[tokio::test]
async fn an_answer_that_is_given_again_is_logged_as_no_second_change() {
    let fakes = Fakes::with_invoke(Answers);
    let log = Log::collect();
    for _ in 0..2 {
        fakes.service.send(with(as_admin(of_what_was_read("")), "idempotency-key", "k")).await;
    }
    let lines = log.audit();
    let outcomes: Vec<_> = lines.iter().map(|line| (&line["outcome"], &line["status"])).collect();
    assert_eq!(outcomes, [(&json!("done"), &json!(200)), (&json!("replayed"), &json!(200))]);
}

#[tokio::test]
async fn nobody_can_forge_a_line_and_no_token_is_in_one() {
    let fakes = Fakes::with_invoke(Answers);
    let log = Log::collect();
    fakes.administer("PUT", "/admin/tools/x%0A%1B[2Jdone", "\0asm").await;
    let long = format!("/admin/tools/{}/disable", "y".repeat(5000));
    fakes.administer("POST", &long, r#"{"zebra":"zebra"}"#).await;
    let lines = log.audit();
    assert_eq!(lines[0]["component"], "x%0A%1B[2Jdone");
    assert!(lines[1]["component"].as_str().unwrap().len() < 200, "{lines:?}");
    let secret = token("a1", None, Some("admin"));
    assert!(!log.text().contains("zebra") && !log.text().contains(&secret[..30]), "{}", log.text());
}

//! What is done with a component without its bytes.

use agent_core::ports::AdminError;
use axum::body::Body;
use http::StatusCode;
use insta::assert_snapshot;

use super::ROUTES;
use crate::harness::{APPROVED, Answers, Fakes, WAITING, as_admin, request, with};

/// The verbs that are about one version.
const OF_VERSIONS: [&str; 5] = ["approve", "rollback", "shadow", "canary", "promote"];

fn path(verb: &str) -> String {
    format!("/admin/tools/calculator/{verb}")
}

/// What was changed, without what was read before it.
fn changes(fakes: &Fakes) -> Vec<String> {
    fakes.tools.take_done().into_iter().filter(|done| !done.starts_with("get ")).collect()
}

#[tokio::test]
async fn without_a_body_the_obvious_version_is_meant() {
    let fakes = Fakes::with_invoke(Answers);
    for (method, path) in ROUTES.into_iter().skip(6) {
        for body in ["", "{}", " {} "] {
            let answer = fakes.administer(method, path, body).await;
            assert_eq!(answer.status, StatusCode::OK, "{method} {path} {body:?}: {answer}");
            fakes.windows.fill("user:a1", 0);
        }
    }
    let mut done = changes(&fakes);
    done.dedup();
    assert_snapshot!(done.join("\n"), @r"
    a1 on calculator: Approve { digest: None, facts: None, serve: true }
    a1 on calculator: Enable
    a1 on calculator: Disable
    a1 on calculator: Rollback(None)
    a1 on calculator: Try(Shadow, TrialRequest { digest: None, options: TrialOptions { share: 0.05, thresholds: Thresholds { min_calls: 20, max_error_rate: 0.02, max_traps: 0, max_p99_ratio: 2.0, min_agreement: 1.0, pass_after: 0, promote: false } } })
    a1 on calculator: Try(Canary, TrialRequest { digest: None, options: TrialOptions { share: 0.05, thresholds: Thresholds { min_calls: 20, max_error_rate: 0.02, max_traps: 0, max_p99_ratio: 2.0, min_agreement: 1.0, pass_after: 0, promote: false } } })
    a1 on calculator: Promote(None)
    a1 on calculator: Delete
    ");
}

#[tokio::test]
async fn a_version_can_be_named() {
    let fakes = Fakes::with_invoke(Answers);
    for verb in OF_VERSIONS {
        let answer = fakes.administer("POST", &path(verb), format!(r#"{{"digest":"{WAITING}"}}"#)).await;
        assert_eq!(answer.status, StatusCode::OK, "{verb}");
    }
    for done in changes(&fakes) {
        assert!(done.contains(WAITING), "{done}");
    }
}

#[tokio::test]
async fn an_approval_names_the_facts_that_were_looked_at() {
    let fakes = Fakes::with_invoke(Answers);
    let facts = format!("sha256:{}", "a".repeat(64));
    fakes
        .administer("POST", &path("approve"), format!(r#"{{"digest":"{WAITING}","facts":"{facts}"}}"#))
        .await;
    let expected = format!(
        r#"a1 on calculator: Approve {{ digest: Some("{WAITING}"), facts: Some("{facts}"), serve: true }}"#
    );
    assert_eq!(changes(&fakes), [expected]);
    let answer = fakes.administer("POST", &path("approve"), r#"{"facts": "latest"}"#).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{answer}");
}

#[tokio::test]
async fn after_a_change_the_component_is_shown_under_its_new_revision() {
    let fakes = Fakes::with_invoke(Answers);
    let answer = fakes.administer("POST", &path("rollback"), "").await;
    let shown = fakes.administer("GET", "/admin/tools/calculator", "").await;
    assert_eq!((answer.header("etag"), &answer.body), (Some("\"8\""), &shown.body));
    let deleted = fakes.administer("DELETE", "/admin/tools/calculator", "").await;
    assert_eq!((deleted.status, &deleted.json()["status"]), (StatusCode::OK, &"deleted".into()));
}

#[tokio::test]
async fn a_trial_has_a_share_and_thresholds() {
    let fakes = Fakes::with_invoke(Answers);
    let body = r#"{"share": 1, "thresholds": {"minCalls": 5, "maxErrorRate": 0.5, "maxTraps": 1, "maxP99Ratio": 1.5,
                   "minAgreement": 0, "passAfter": 100, "promote": true}}"#;
    fakes.administer("POST", &path("canary"), body).await;
    fakes.administer("POST", &path("shadow"), r#"{"thresholds": {"maxTraps": 2}}"#).await;
    assert_snapshot!(changes(&fakes).join("\n"), @r"
    a1 on calculator: Try(Canary, TrialRequest { digest: None, options: TrialOptions { share: 1.0, thresholds: Thresholds { min_calls: 5, max_error_rate: 0.5, max_traps: 1, max_p99_ratio: 1.5, min_agreement: 0.0, pass_after: 100, promote: true } } })
    a1 on calculator: Try(Shadow, TrialRequest { digest: None, options: TrialOptions { share: 0.05, thresholds: Thresholds { min_calls: 20, max_error_rate: 0.02, max_traps: 2, max_p99_ratio: 2.0, min_agreement: 1.0, pass_after: 0, promote: false } } })
    ");
}

/// Verbs, and bodies that make no sense for them.
const SENSELESS: [(&str, &str); 17] = [
    ("approve", r#"{"digset": "x"}"#),
    ("approve", r#"{"share": 0.1}"#),
    ("approve", r#"{"digest": 5}"#),
    ("approve", r#"{"digest": null}"#),
    ("rollback", r#"{"digest": "latest"}"#),
    ("promote", "[]"),
    ("enable", r#"{"digest": "sha256:1"}"#),
    ("disable", "null"),
    ("canary", r#"{"shares": 0.05, "treshold": {}}"#),
    ("canary", r#"{"share": 0}"#),
    ("canary", r#"{"share": 1.01}"#),
    ("canary", r#"{"share": "5 %"}"#),
    ("shadow", r#"{"thresholds": 5}"#),
    (
        "shadow",
        r#"{"thresholds": {"max_error_rate": 0.1, "minCalls": -1, "maxTraps": 1.5, "promote": "yes"}}"#,
    ),
    (
        "shadow",
        r#"{"thresholds": {"passAfter": 1e18, "maxErrorRate": 2, "minAgreement": 1.5, "maxP99Ratio": -1}}"#,
    ),
    ("canary", "{"),
    ("canary", "share=0.05"),
];

#[tokio::test]
async fn a_body_that_makes_no_sense_is_400_and_changes_nothing() {
    let fakes = Fakes::with_invoke(Answers);
    let mut told = vec![];
    for (verb, body) in SENSELESS {
        let answer = fakes.administer("POST", &path(verb), body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{verb} {body}");
        match answer.json()["error"].as_array() {
            Some(issues) => {
                told.extend(issues.iter().map(|issue| {
                    format!("{verb} at {}: {}", issue["path"], issue["message"].as_str().unwrap())
                }))
            }
            None => told.push(format!("{verb}: {}", answer.json()["error"])),
        }
        fakes.windows.fill("user:a1", 0);
    }
    assert_snapshot!(told.join("\n"), @r#"
    approve at []: Unrecognized key 'digset': did you mean 'digest'? allowed: 'digest', 'facts', 'serve'
    approve at []: Unrecognized key 'share': allowed: 'digest', 'facts', 'serve'
    approve at ["digest"]: Expected string, received number
    approve at ["digest"]: Expected string, received null
    rollback at ["digest"]: A digest is sha256: and 64 hexadecimal digits in lower case
    promote at []: Expected object, received array
    enable at []: Unrecognized key 'digest': allowed: none
    disable at []: Expected object, received null
    canary at []: Unrecognized key 'shares': did you mean 'share'? allowed: 'digest', 'share', 'thresholds'
    canary at []: Unrecognized key 'treshold': did you mean 'thresholds'? allowed: 'digest', 'share', 'thresholds'
    canary at ["share"]: Number must be greater than 0
    canary at ["share"]: Number must be less than or equal to 1
    canary at ["share"]: Expected number, received string
    shadow at ["thresholds"]: Expected object, received number
    shadow at ["thresholds"]: Unrecognized key 'max_error_rate': did you mean 'maxErrorRate'? allowed: 'maxErrorRate', 'maxP99Ratio', 'maxTraps', 'minAgreement', 'minCalls', 'passAfter', 'promote'
    shadow at ["thresholds","minCalls"]: Number must be greater than or equal to 0
    shadow at ["thresholds","maxTraps"]: Expected integer, received float
    shadow at ["thresholds","promote"]: Expected boolean, received string
    shadow at ["thresholds","maxErrorRate"]: Number must be less than or equal to 1
    shadow at ["thresholds","maxP99Ratio"]: Number must be greater than or equal to 0
    shadow at ["thresholds","minAgreement"]: Number must be less than or equal to 1
    shadow at ["thresholds","passAfter"]: Number must be less than or equal to 1000000000
    canary: "Invalid input"
    canary: "Invalid input"
    "#);
    assert_eq!(fakes.tools.take_done(), [""; 0]);
}

#[tokio::test]
async fn an_unknown_key_is_an_issue_like_any_other_and_is_quoted_briefly() {
    let fakes = Fakes::with_invoke(Answers);
    let answer = fakes.administer("POST", &path("approve"), r#"{"Digest": "x"}"#).await;
    assert_snapshot!(answer.body, @r#"{"error":[{"code":"unrecognized_keys","keys":["Digest"],"path":[],"message":"Unrecognized key 'Digest': did you mean 'digest'? allowed: 'digest', 'facts', 'serve'"}]}"#);
    let many: Vec<_> = (0..1000).map(|number| format!("\"{number}{}\":0", "x".repeat(90))).collect();
    let answer = fakes.administer("POST", &path("approve"), format!("{{{}}}", many.join(","))).await;
    assert_eq!(answer.json()["error"].as_array().unwrap().len(), 10);
    assert!(answer.body.len() < 4000, "{}", answer.body.len());
}

#[tokio::test]
async fn a_delete_that_names_a_version_is_refused_because_all_would_go() {
    let fakes = Fakes::with_invoke(Answers);
    let body = format!(r#"{{"digest":"{APPROVED}"}}"#);
    let answer = fakes.administer("DELETE", "/admin/tools/calculator", body).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(answer.json()["error"][0]["message"], "Unrecognized key 'digest': allowed: none");
    assert_eq!(fakes.tools.take_done(), [""; 0]);
}

#[tokio::test]
async fn the_body_of_an_action_has_the_limit_of_the_api_and_not_of_uploads() {
    let fakes = Fakes::with_invoke(Answers);
    let body = format!(r#"{{"digest":"{}"}}"#, "x".repeat(102_400));
    let answer = fakes.administer("POST", &path("approve"), body).await;
    answer.check(StatusCode::PAYLOAD_TOO_LARGE, r#"{"error":"Payload too large"}"#);
}

#[tokio::test]
async fn any_content_type_will_do_as_under_api() {
    let fakes = Fakes::with_invoke(Answers);
    for kind in ["application/json", "text/plain", "application/x-www-form-urlencoded"] {
        let request = with(request("POST", &path("promote"), Body::from("{}")), "content-type", kind);
        assert_eq!(fakes.service.send(as_admin(request)).await.status, StatusCode::OK, "{kind}");
    }
}

#[tokio::test]
async fn what_cannot_be_done_is_said_on_every_route() {
    let fakes = Fakes::with_invoke(Answers);
    fakes.tools.fail_with(AdminError::Conflict("nothing is tried".into()));
    for (method, path) in ROUTES.into_iter().skip(6) {
        let answer = fakes.administer(method, path, "").await;
        answer.check_at(path, StatusCode::CONFLICT, r#"{"error":"nothing is tried"}"#);
    }
}

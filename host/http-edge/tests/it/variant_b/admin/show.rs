//! What is told of the tools.

use agent_core::ports::AdminError;
use http::StatusCode;
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::harness::{APPROVED, Answer, Answers, Fakes, WAITING};

/// The body of a good answer, with its digests shortened.
fn shown(answer: &Answer) -> Value {
    assert_eq!(answer.status, StatusCode::OK);
    shortened(&answer.json())
}

/// The body with its digests shortened.
fn shortened(body: &Value) -> Value {
    let body = body.to_string();
    let body = ["0", "1", "2"].iter().fold(body, |body, digit| body.replace(&digit.repeat(60), "…"));
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn the_list_says_how_each_component_is() {
    let answer = Fakes::with_invoke(Answers).administer("GET", "/admin/tools", "").await;
    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(
        shown(&answer),
        json!({
            "data": [
                {
                    "active": "sha256:…1111", "name": "calculator", "revision": 7,
                    "serving": "sha256:…1111", "status": "serving", "waiting": 1,
                },
                {
                    "active": "sha256:…0000", "fault": "search.wasm cannot be read: \u{1b}]0;root\u{7}",
                    "name": "search", "revision": 3, "status": "down",
                    "trial": {"digest": "sha256:…2222", "kind": "canary", "state": "failed"}, "waiting": 0,
                },
            ],
        })
    );
}

#[tokio::test]
async fn a_component_is_shown_with_everything() {
    let fakes = Fakes::with_invoke(Answers);
    let answer = fakes.administer("GET", "/admin/tools/calculator", "").await;
    assert_eq!((answer.status, answer.header("etag")), (StatusCode::OK, Some("\"7\"")));
    let mut body = answer.json();
    let versions = body.as_object_mut().unwrap().remove("versions").unwrap();
    assert_eq!(
        shortened(&body),
        json!({
            "active": "sha256:…1111", "enabled": true,
            "known": ["sha256:…2222", "sha256:…1111", "sha256:…0000"], "name": "calculator",
            "previous": ["sha256:…0000"], "revision": 7, "serving": "sha256:…1111", "status": "serving",
        })
    );
    assert_eq!(versions.as_array().unwrap().len(), 2);
    assert_eq!(versions[1]["facts"]["tools"][0]["name"], "calculate");
}

#[tokio::test]
async fn a_version_is_shown_with_what_it_is_and_wants() {
    let fakes = Fakes::with_invoke(Answers);
    let answer = fakes.administer("GET", "/admin/tools/calculator", "").await;
    assert_eq!(
        shortened(&answer.json()["versions"][0]),
        json!({
            "active": false, "digest": "sha256:…2222",
            "facts": {
                "bytes": 4096, "contract": "agent:tool@0.1.1", "imports": ["agent:tool/log@0.1.1"],
                "signer": "ed25519:ab", "tellsUsersApart": false,
                "tools": [
                    {
                        "description": "Computes.", "hints": {"pure": "true"},
                        "inputSchema": {"properties": {"at": {"type": "number"}}, "type": "object"},
                        "name": "calculate",
                    },
                ],
                "wants": ["http"],
            },
            "proposedAt": "2026-11-21T12:00:00.000Z", "serving": false,
            "source": {"kind": "upload", "userId": "a1"},
            "status": {"because": ["it wants http"], "kind": "waiting"},
        })
    );
}

#[tokio::test]
async fn a_trial_is_shown_with_its_counts_and_its_verdict() {
    let fakes = Fakes::with_invoke(Answers);
    let answer = fakes.administer("GET", "/admin/tools/search", "").await;
    assert_eq!(
        answer.json()["trial"],
        json!({
            "against": "sha256:0000000000000000000000000000000000000000000000000000000000000000",
            "by": "user:a1",
            "counts": {
                "new": {
                    "agreed": 0, "calls": 20, "compared": 0, "durations": [0, 4, 16], "failed": 3,
                    "trapped": 3,
                },
                "old": {
                    "agreed": 0, "calls": 20, "compared": 0, "durations": [0, 4, 16], "failed": 0,
                    "trapped": 0,
                },
            },
            "digest": "sha256:2222222222222222222222222222222222222222222222222222222222222222", "id": "t1",
            "kind": "canary", "share": 0.25, "since": "2026-11-21T12:00:00.000Z",
            "state": {
                "at": "2026-11-21T12:01:00.000Z", "because": ["3 calls trapped; allowed are 0"],
                "kind": "failed",
            },
            "thresholds": {
                "maxErrorRate": 0.02, "maxP99Ratio": 2.0, "maxTraps": 0, "minAgreement": 1.0,
                "minCalls": 20, "passAfter": 0, "promote": false,
            },
        })
    );
}

#[tokio::test]
async fn versions_are_listed_with_their_status_and_what_serves() {
    let fakes = Fakes::with_invoke(Answers);
    assert_eq!(
        shown(&fakes.administer("GET", "/admin/tools/calculator/versions", "").await),
        json!({
            "data": [
                {
                    "active": false, "bytes": 4096, "contract": "agent:tool@0.1.1",
                    "digest": "sha256:…2222", "proposedAt": "2026-11-21T12:00:00.000Z", "serving": false,
                    "signer": "ed25519:ab", "source": {"kind": "upload", "userId": "a1"},
                    "status": {"because": ["it wants http"], "kind": "waiting"}, "tools": ["calculate"],
                    "wants": ["http"],
                },
                {
                    "active": true, "bytes": 4096, "contract": "agent:tool@0.1.1", "digest": "sha256:…1111",
                    "proposedAt": "2026-11-21T12:00:00.000Z", "serving": true, "source": {"kind": "folder"},
                    "status": {"at": "2026-11-21T12:00:00.001Z", "by": "user:a1", "kind": "approved"},
                    "tools": ["calculate"], "wants": [],
                },
            ],
        })
    );
}

#[tokio::test]
async fn a_diff_is_shown_as_it_is() {
    let fakes = Fakes::with_invoke(Answers);
    assert_eq!(
        shown(&fakes.administer("GET", "/admin/tools/calculator/diff", "").await),
        json!({
            "changesWhatModelsRead": false,
            "findings": [{"impact": "review", "place": "grants", "text": "it wants http, which it was not granted"}],
            "from": "sha256:…1111", "impact": "review", "to": "sha256:…2222", "widens": true,
        })
    );
    let path = format!("/admin/tools/calculator/diff?from={APPROVED}&to=");
    assert_eq!(fakes.administer("GET", &path, "").await.status, StatusCode::OK);
    let path = format!("/admin/tools/calculator/diff?to={WAITING}&other=1");
    assert_eq!(fakes.administer("GET", &path, "").await.status, StatusCode::OK);
    assert_eq!(
        fakes.tools.take_done(),
        [
            "diff calculator None None".to_owned(),
            format!("diff calculator Some({APPROVED:?}) None"),
            format!("diff calculator None Some({WAITING:?})"),
        ]
    );
}

#[tokio::test]
async fn versions_to_compare_are_named_by_whole_digests() {
    let fakes = Fakes::with_invoke(Answers);
    let answer = fakes.administer("GET", "/admin/tools/calculator/diff?from=latest&to=sha256:12", "").await;
    assert_snapshot!(answer, @r#"
    400 Bad Request
    content-type: application/json; charset=utf-8
    ratelimit-policy: 100;w=900
    ratelimit-limit: 100
    ratelimit-remaining: 99
    ratelimit-reset: 900
    x-ratelimit-limit: 10
    x-ratelimit-remaining: 9
    {"error":[{"code":"custom","message":"A digest is sha256: and 64 hexadecimal digits in lower case","path":["from"]},{"code":"custom","message":"A digest is sha256: and 64 hexadecimal digits in lower case","path":["to"]}]}
    "#);
    assert_eq!(fakes.tools.take_done(), [""; 0]);
}

#[tokio::test]
async fn the_trail_is_shown_with_moments() {
    let fakes = Fakes::with_invoke(Answers);
    assert_eq!(
        shown(&fakes.administer("GET", "/admin/tools/calculator/audit", "").await),
        json!({
            "data": [
                {"action": "disabled", "at": "2026-11-21T12:00:00.001Z", "by": "user:a1"},
                {
                    "action": "proposed", "at": "2026-11-21T12:00:00.000Z", "by": "user:a1",
                    "detail": "it widens its grants", "digest": "sha256:…2222",
                },
            ],
        })
    );
}

#[tokio::test]
async fn one_word_says_how_a_component_is() {
    let fakes = Fakes::with_invoke(Answers);
    let status = async || {
        let answer = fakes.administer("GET", "/admin/tools/calculator", "").await;
        fakes.windows.fill("user:a1", 0);
        answer.json()["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status().await, "serving");
    fakes.tools.change("calculator", |view| view.serving = Some(WAITING.into()));
    assert_eq!(status().await, "outdated");
    fakes.tools.change("calculator", |view| view.serving = None);
    assert_eq!(status().await, "down");
    fakes.tools.change("calculator", |view| view.record.active = None);
    assert_eq!(status().await, "stopped");
    fakes.tools.change("calculator", |view| view.record.previous.clear());
    assert_eq!(status().await, "waiting");
    fakes.tools.change("calculator", |view| view.record.enabled = false);
    assert_eq!(status().await, "disabled");
    fakes.tools.change("calculator", |view| view.record.deleted = true);
    assert_eq!(status().await, "deleted");
}

#[tokio::test]
async fn what_cannot_be_shown_has_its_status() {
    let paths = ["", "/calculator", "/calculator/versions", "/calculator/diff", "/calculator/audit"];
    for (error, status, body) in [
        (AdminError::UnknownComponent, 404, r#"{"error":"there is no component of that name"}"#),
        (AdminError::UnknownVersion("gone".into()), 404, r#"{"error":"gone"}"#),
        (AdminError::Invalid("no".into()), 400, r#"{"error":"no"}"#),
        (AdminError::Unavailable("secret@db".into()), 503, r#"{"error":"Service temporarily unavailable"}"#),
        (
            AdminError::NoStore,
            409,
            r#"{"error":"this service has no database to keep versions of tools in: set DATABASE_URL, or work with the tools folder"}"#,
        ),
    ] {
        let fakes = Fakes::with_invoke(Answers);
        fakes.tools.fail_with(error);
        for path in paths {
            let answer = fakes.administer("GET", &format!("/admin/tools{path}"), "").await;
            assert_eq!((answer.status.as_u16(), answer.body.as_str()), (status, body), "{path}");
            assert_eq!(answer.header("retry-after"), (status == 503).then_some("1"), "{path}");
        }
    }
}

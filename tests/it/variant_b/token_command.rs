//! `agent-host token`: tokens for whoever operates the service
//! (host/docs/interface/decisions-http.md#callers).

use acceptance::{Ended, Model, SECRET, Service, claims, now};
use serde_json::json;

/// What the command prints: one line.
async fn issue(arguments: &[&str]) -> String {
    let command = Service::command(&[&["token"], arguments].concat()).env("JWT_SECRET", SECRET);
    let Ended { code, stdout, stderr } = command.run().await;
    assert_eq!(code, Some(0), "{stderr}");
    let token = stdout.strip_suffix('\n').unwrap_or_else(|| panic!("a line: {stdout:?}"));
    assert!(!token.contains(char::is_whitespace), "{stdout:?}");
    token.to_owned()
}

#[tokio::test]
async fn a_token_from_the_command_line_is_accepted() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).start().await;
    for (arguments, limit) in [(&["--id", "u1"][..], "10"), (&["--id", "u2", "--tier", "premium"], "100")] {
        let answer = service.user(issue(arguments).await).jobs("").await;
        assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, limit), "{arguments:?}");
    }
    let before = now();
    let token = issue(&["--id", "u3", "--tier", "premium", "--role", "admin", "--ttl", "1h"]).await;
    let claims = claims(&token);
    let end = claims["exp"].as_u64().expect("an end");
    assert!((before + 3600..=now() + 3600).contains(&end), "{claims}");
    let admin = service.user(token);
    assert_eq!(admin.jobs("").await.header("x-ratelimit-limit"), "100");
    assert_eq!(admin.invalidate("agent:*").await.json(), json!({ "deleted": 0 }));
}

#[tokio::test]
async fn without_a_secret_or_an_id_there_is_no_token() {
    let without_secret = Service::command(&["token", "--id", "u1"]).run().await;
    assert_eq!((without_secret.code, without_secret.stdout.as_str()), (Some(1), ""));
    assert!(without_secret.stderr.contains("JWT_SECRET"), "{}", without_secret.stderr);
    for arguments in [&["token"][..], &["token", "--id", ""], &["token", "--id", "u1", "--ttl", "soon"]] {
        let Ended { code, stdout, stderr } =
            Service::command(arguments).env("JWT_SECRET", SECRET).run().await;
        assert!(code != Some(0) && stdout.is_empty(), "{arguments:?}: {stdout}");
        assert!(!stderr.is_empty(), "{arguments:?}");
        assert!(!stderr.contains(SECRET));
    }
}

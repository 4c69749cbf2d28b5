//! How the service starts, or says why it does not. What is said of each variable is tested in
//! `host/agent-host/src/config`.

use acceptance::{Builder, Ended, Service};
use insta::assert_snapshot;
use serde_json::json;

/// Runs what must not start: it ends with code 1, and says why on the standard error and nowhere else.
async fn refusal(builder: Builder) -> String {
    let Ended { code, stdout, stderr } = builder.run().await;
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    stderr
}

/// A service that lacks nothing.
fn complete() -> Builder {
    Service::variant_a().env("LLM_API_KEY", "sk-1").env("LLM_MODEL", "openai/test-model")
}

#[tokio::test]
async fn variant_b_needs_more_and_all_of_it_is_said() {
    let refused = Service::command(&["serve"]).env("SERVICE_VARIANT", "b");
    assert_snapshot!(refusal(refused).await, @r#"
    agent-host: 5 problems with the environment variables:
      NODE_ENV: not set, but needed when SERVICE_VARIANT is b or both; allowed: development, staging or production
      JWT_SECRET: not set, but needed when SERVICE_VARIANT is b or both; allowed: at least one character
      LLM_API_KEY: not set, but always needed; allowed: at least one character, and no control characters
      DATABASE_URL: not set, but needed when SERVICE_VARIANT is b or both; allowed: a URL that starts with postgres://, postgresql:// or sqlite://
      REDIS_URL: not set, but needed when SERVICE_VARIANT is b or both; allowed: a URL that starts with redis://, rediss://, redis+sentinel://, rediss+sentinel://, redis+cluster://, rediss+cluster:// or memory://
      To try it without any settings: agent-host dev
    "#);
}

#[tokio::test]
async fn the_log_says_which_free_port_was_taken_and_which_model_a_name_without_its_provider_is() {
    let named = |name: &'static str| complete().env("LLM_MODEL", name).start();
    let (one, two) = tokio::join!(named("gpt-4o-mini"), named("claude-sonnet-4"));
    assert_ne!(one.address().port(), two.address().port());
    for (service, model) in [(one, "openai/gpt-4o-mini"), (two, "anthropic/claude-sonnet-4")] {
        assert_eq!(service.live().await.status, 200);
        let address = service.address().to_string();
        let line = service.log().entry("its address", |entry| entry["address"] == address.as_str()).await;
        assert_eq!(
            (&line["environment"], &line["version"], &line["model"]),
            (&json!("production"), &json!(env!("CARGO_PKG_VERSION")), &json!(model))
        );
    }
}

#[tokio::test]
async fn a_port_in_use_is_an_error_that_names_it() {
    let other = complete().start().await;
    let port = other.address().port().to_string();
    let Ended { code, stderr, .. } = complete().env("PORT", &port).run().await;
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains(&port) && stderr.contains("PORT") && stderr.contains("in use"), "{stderr}");
}

#[tokio::test]
async fn an_address_of_another_machine_is_an_error_that_names_it() {
    // An address that is reserved for documentation (RFC 5737).
    let Ended { code, stderr, .. } = complete().env("HOST", "192.0.2.1").without_env("PORT").run().await;
    assert_eq!(code, Some(1), "{stderr}");
    // The port of the interface: host/docs/interface/errors-and-limits.md#limits.
    assert!(stderr.contains("192.0.2.1 port 3000") && stderr.contains("HOST"), "{stderr}");
}

#[tokio::test]
async fn a_database_file_in_a_folder_that_is_not_there_is_refused_with_the_folders_name() {
    let refused = complete().env("DATABASE_URL", "sqlite:///no/such/folder/x.db");
    let Ended { code, stderr, .. } = refused.run().await;
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains("DATABASE_URL") && stderr.contains("/no/such/folder does not exist: create it"),
        "{stderr}"
    );
}

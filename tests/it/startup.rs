//! How the service starts, or says why it does not.

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

/// Every variable whose value can be wrong, with a value that is.
const WRONG: [(&str, &str); 37] = [
    ("SERVICE_VARIANT", "c"),
    ("NODE_ENV", "prod"),
    ("HOST", "localhost:3000"),
    ("PORT", "65536"),
    ("MAX_BODY_BYTES", "100kb"),
    ("BODY_TIMEOUT_MS", "0"),
    ("TRUST_PROXY", "-1"),
    ("MAX_CONNECTIONS", "0"),
    ("CORS_ORIGINS", "https://app.example/, *"),
    ("RATE_LIMIT_IP", "0"),
    ("RATE_LIMIT_IP_WINDOW_S", "15m"),
    ("RATE_LIMIT_USER", "none"),
    ("RATE_LIMIT_PREMIUM", "-1"),
    ("RATE_LIMIT_USER_WINDOW_S", "86401"),
    ("SHUTDOWN_DRAIN_MS", "30001"),
    ("LOG_LEVEL", "verbose"),
    ("METRICS_PREFIX", "1st_"),
    ("LLM_MODEL", "llama3"),
    ("LLM_BASE_URL", "ftp://hunter2@host"),
    ("ALT_LLM_BASE_URL", "http://host"),
    ("LLM_TIMEOUT_MS", "1.5"),
    ("LLM_RETRIES", "many"),
    ("LLM_HEALTH_TTL_MS", "3600001"),
    ("MAX_CONCURRENT_AGENTS", "0"),
    ("ADMISSION_WAIT_MS", "NaN"),
    ("TOKEN_BUDGET_PER_REQUEST", "0"),
    ("AGENT_TIMEOUT_MS", "1h"),
    ("CIRCUIT_MIN_VOLUME", "x"),
    ("RESULT_CACHE", "maybe"),
    ("AGENT_CLUSTER_URL", "cluster"),
    ("TOOL_TIMEOUT_MS", "0"),
    ("TOOL_MEMORY_BYTES", "1024"),
    ("TOOL_OUTPUT_BYTES", "0"),
    ("TOOL_FUEL_METERING", "yes"),
    ("DATABASE_URL", "mysql://user:hunter2@host/db"),
    ("REDIS_URL", "hunter2"),
    ("MONGODB_URL", "http://user:hunter2@host"),
];

#[tokio::test]
async fn every_mistake_in_the_variables_is_in_the_one_message() {
    let builder = Service::command(&["serve"]);
    let refused = WRONG.iter().fold(builder, |builder, (variable, value)| builder.env(variable, value));
    assert_snapshot!(refusal(refused).await, @r#"
    agent-host: 39 problems with the environment variables:
      SERVICE_VARIANT: found "c"; allowed: a, b or both
      NODE_ENV: found "prod"; allowed: development, staging, production or test
      HOST: found "localhost:3000"; allowed: an IP address or a host name
      PORT: found "65536"; allowed: a whole number from 0 to 65535
      MAX_BODY_BYTES: found "100kb"; allowed: a whole number of bytes from 1 to 104857600
      BODY_TIMEOUT_MS: found "0"; allowed: a whole number of milliseconds from 1 to 3600000
      TRUST_PROXY: found "-1"; allowed: a whole number from 0 to 32
      MAX_CONNECTIONS: found "0"; allowed: a whole number from 1 to 1000000
      CORS_ORIGINS: found "https://app.example/, *"; allowed: origins such as https://app.example or http://localhost:5173, separated by commas
      RATE_LIMIT_IP: found "0"; allowed: a whole number from 1 to 1000000000
      RATE_LIMIT_IP_WINDOW_S: found "15m"; allowed: a whole number from 1 to 86400
      RATE_LIMIT_USER: found "none"; allowed: a whole number from 1 to 1000000000
      RATE_LIMIT_PREMIUM: found "-1"; allowed: a whole number from 1 to 1000000000
      RATE_LIMIT_USER_WINDOW_S: found "86401"; allowed: a whole number from 1 to 86400
      SHUTDOWN_DRAIN_MS: found "30001"; allowed: a whole number of milliseconds from 0 to 29000
      LOG_LEVEL: found "verbose"; allowed: debug, info, warn or error
      METRICS_PREFIX: found "1st_"; allowed: letters, digits, _ and :, not beginning with a digit
      LLM_API_KEY: not set, but always needed; allowed: at least one character, and no control characters
      LLM_MODEL: found "llama3"; allowed: anthropic/<model>, openai/<model> or, except in production, demo/<model>; without a provider only a name that begins with gpt, o1, o3, o4, chatgpt or claude
      LLM_BASE_URL: found a ftp:// address (not shown); allowed: a URL that starts with https:// or http://
      ALT_LLM_API_KEY: not set, but needed because ALT_LLM_BASE_URL is; allowed: at least one character, and no control characters
      ALT_LLM_MODEL: not set, but needed because ALT_LLM_BASE_URL is; allowed: anthropic/<model>, openai/<model> or, except in production, demo/<model>; without a provider only a name that begins with gpt, o1, o3, o4, chatgpt or claude
      LLM_TIMEOUT_MS: found "1.5"; allowed: a whole number of milliseconds from 1 to 3600000
      LLM_RETRIES: found "many"; allowed: a whole number from 0 to 10
      LLM_HEALTH_TTL_MS: found "3600001"; allowed: a whole number of milliseconds from 0 to 3600000
      MAX_CONCURRENT_AGENTS: found "0"; allowed: a whole number from 1 to 100000
      ADMISSION_WAIT_MS: found "NaN"; allowed: a whole number of milliseconds from 0 to 3600000
      AGENT_TIMEOUT_MS: found "1h"; allowed: a whole number of milliseconds from 1 to 3600000
      CIRCUIT_MIN_VOLUME: found "x"; allowed: a whole number from 0 to 1000000
      RESULT_CACHE: found "maybe"; allowed: on or off
      AGENT_CLUSTER_URL: found a value (not shown); allowed: a URL that starts with https:// or http://
      TOKEN_BUDGET_PER_REQUEST: found "0"; allowed: a whole number from 1 to 1000000000
      TOOL_TIMEOUT_MS: found "0"; allowed: a whole number of milliseconds from 1 to 3600000
      TOOL_MEMORY_BYTES: found "1024"; allowed: a whole number of bytes from 1048576 to 4294967296
      TOOL_OUTPUT_BYTES: found "0"; allowed: a whole number of bytes from 1 to 1073741824
      TOOL_FUEL_METERING: found "yes"; allowed: off or on
      DATABASE_URL: found a mysql:// address (not shown); allowed: a URL that starts with postgres://, postgresql:// or sqlite://
      REDIS_URL: found a value (not shown); allowed: a URL that starts with redis://, rediss://, redis+sentinel://, rediss+sentinel://, redis+cluster://, rediss+cluster:// or memory://
      MONGODB_URL: found a http:// address (not shown); allowed: a URL that starts with mongodb://
    "#);
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
async fn production_refuses_the_demo_model_as_first_and_as_second_and_in_dev() {
    let first = complete().env("LLM_MODEL", "demo/rules");
    assert_snapshot!(refusal(first).await, @r#"
    agent-host: 1 problem with the environment variables:
      LLM_MODEL: found "demo/rules"; allowed: anthropic/<model> or openai/<model>: the demo model is no language model
    "#);
    let second = complete().env("ALT_LLM_MODEL", "demo/rules").env("ALT_LLM_API_KEY", "sk-1");
    let message = refusal(second).await;
    assert!(message.contains("ALT_LLM_MODEL") && !message.contains(" LLM_MODEL"), "{message}");
    let message = refusal(Service::command(&["dev"]).env("NODE_ENV", "production").env("PORT", "0")).await;
    assert!(message.contains("LLM_MODEL"), "{message}");
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

#[tokio::test]
async fn a_second_providers_key_without_a_model_is_a_warning_and_no_more() {
    let service = complete().env("ALT_LLM_API_KEY", "sk-alt-never-to-be-seen").start().await;
    let warned = |entry: &serde_json::Value| {
        entry["level"] == "WARN" && entry["message"].to_string().contains("ALT_LLM_MODEL")
    };
    service.log().entry("a warning", warned).await;
    assert!(!service.log().to_string().contains("sk-alt-never-to-be-seen"));
}

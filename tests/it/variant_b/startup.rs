//! What Variant B needs to start, or says that it lacks
//! (host/docs/interface/errors-and-limits.md#configuration). All mistakes at once are in `startup.rs` beside
//! this folder.

use acceptance::{Builder, Ended, ReservedPort, SECRET, Service};

fn complete() -> Builder {
    Service::variant_b().env("LLM_API_KEY", "sk-1").env("LLM_MODEL", "openai/test-model")
}

async fn refusal(builder: Builder) -> String {
    let Ended { code, stdout, stderr } = builder.run().await;
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    stderr
}

#[tokio::test]
async fn each_variable_that_variant_b_needs_is_missed_by_its_name() {
    for variant in ["b", "both"] {
        for variable in ["NODE_ENV", "JWT_SECRET", "LLM_API_KEY", "DATABASE_URL", "REDIS_URL"] {
            let message = refusal(complete().env("SERVICE_VARIANT", variant).without_env(variable)).await;
            assert!(
                message.contains("1 problem with") && message.contains(&format!("{variable}: not set")),
                "{variant}, {variable}: {message}"
            );
            assert!(!message.contains(SECRET), "{message}");
        }
    }
}

#[tokio::test]
async fn an_environment_of_variant_a_is_none_of_variant_b() {
    for variant in ["b", "both"] {
        let message = refusal(complete().env("SERVICE_VARIANT", variant).env("NODE_ENV", "test")).await;
        assert!(message.contains("NODE_ENV: found \"test\""), "{message}");
    }
    for environment in ["development", "staging", "production"] {
        let service = complete().env("NODE_ENV", environment).start().await;
        assert_eq!(
            service.metrics().await.values_of("agent_invocations_total", "environment"),
            [environment].into()
        );
    }
}

#[tokio::test]
async fn an_empty_secret_is_no_secret() {
    let message = refusal(complete().env("JWT_SECRET", "")).await;
    assert!(message.contains("JWT_SECRET"), "{message}");
}

#[tokio::test]
async fn embedded_stores_are_made_where_there_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let service = complete().sqlite_in(folder.path()).start().await;
    assert_eq!(service.readiness().await.status, 200);
    assert!(folder.path().join("agent.db").is_file());
    service.stop().await;
    // And found again by the next one.
    let next = complete().sqlite_in(folder.path()).start().await;
    assert_eq!(next.readiness().await.status, 200);
}

/// A service either waits for its stores or ends with a reason; it neither crashes nor shows an address.
#[tokio::test]
async fn stores_that_are_not_there_are_said_to_be_missing_without_their_passwords() {
    let nobody = ReservedPort::take();
    let redis = format!("redis://:hunter2@{}", nobody.address());
    let service = complete().env("REDIS_URL", redis).start().await;
    assert_eq!(service.readiness().await.status, 503);
    assert!(!service.log().to_string().contains("hunter2"), "{}", service.log());
}

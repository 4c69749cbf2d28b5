//! The agent's failures reach the client through the error table. Its rows are tested beside it.

use agent_core::ports::ModelError;
use http::StatusCode;
use run_service::layers::InvokeError;
use run_service::loop_driver::RunError;
use run_service::testing::ScriptedInvoke;

use crate::harness::{Fakes, b};

/// Fails in always the same way.
pub(super) fn failing() -> ScriptedInvoke {
    let detail = "no such model".into();
    let refused = RunError::Model(ModelError::Refused { provider: "openai/gpt".into(), detail });
    ScriptedInvoke::new([Err(InvokeError::Run(refused))])
}

#[tokio::test]
async fn only_outside_of_production_is_a_failure_explained() {
    for (production, error) in [
        (true, "Internal server error"),
        (
            false,
            "the agent run failed: the model call failed: the model provider openai/gpt refused the request: no such model",
        ),
    ] {
        let fakes = Fakes::configured(failing(), |edge| b(edge).production = production);
        for path in ["/api/agent", "/api/gateway"] {
            let answer = fakes.post(path, r#"{"query":"hi"}"#).await;
            assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
            assert_eq!(answer.json()["error"], error, "{path}");
        }
    }
}

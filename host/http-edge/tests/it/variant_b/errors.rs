//! The agent's failures reach the client through the error table. Its rows are tested beside it.

use agent_core::ports::ModelError;
use boxed_async::boxed_async;
use http::StatusCode;
use run_service::layers::{Ask, Invoke, InvokeError, RunAnswer};
use run_service::loop_driver::RunError;

use crate::harness::{Fakes, b};

/// Fails in always the same way.
pub(super) struct Fails(pub(super) InvokeError);

#[boxed_async]
impl Invoke for Fails {
    async fn invoke(&self, _ask: Ask) -> Result<RunAnswer, InvokeError> {
        Err(self.0.clone())
    }
}

pub(super) fn refused() -> InvokeError {
    let detail = "no such model".into();
    InvokeError::Run(RunError::Model(ModelError::Refused { provider: "openai/gpt".into(), detail }))
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
        let fakes = Fakes::configured(Fails(refused()), |edge| b(edge).production = production);
        for path in ["/api/agent", "/api/gateway"] {
            let answer = fakes.post(path, r#"{"query":"hi"}"#).await;
            assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
            assert_eq!(answer.json()["error"], error, "{path}");
        }
    }
}

//! Asking again, and asking somebody else. A scripted provider fails the test by itself when it is asked more
//! or less often than its script is long.

use agent_core::ports::{Model, ModelError};
use model_client::Fallback;
use serde_json::json;

use crate::call::{anthropic, ask, both, openai, retrying};
use crate::provider::{Answer, ScriptedProvider};

#[tokio::test]
async fn a_quota_that_is_used_up_is_a_limit_that_is_tried_once() {
    for protocol in both() {
        for error in [
            json!({"message": "You exceeded your quota", "type": "insufficient_quota"}),
            json!({"message": "You exceeded your quota", "type": "requests", "code": "insufficient_quota"}),
        ] {
            let answer = Answer::text(429, &json!({ "error": error }).to_string());
            let provider = ScriptedProvider::start(protocol, [answer.with("retry-after", "0")]).await;
            let error = ask(&retrying(protocol, &provider)).await.unwrap_err();
            assert!(matches!(error, ModelError::RateLimited { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn a_call_survives_three_faults_of_any_kind() {
    for protocol in both() {
        let half = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{";
        let script = [
            Answer::HangUp,
            Answer::Raw(half.into()),
            Answer::error(429, "slow down").with("retry-after", "0"),
            Answer::reply(protocol, "3"),
        ];
        let provider = ScriptedProvider::start(protocol, script).await;
        assert_eq!(ask(&retrying(protocol, &provider)).await.unwrap().content, "3");
    }
}

#[tokio::test]
async fn the_second_provider_takes_the_conversation_over() {
    for (first, second) in [(openai(), anthropic()), (anthropic(), openai())] {
        for trouble in [vec![Answer::error(500, "no"); 4], vec![Answer::error(401, "key revoked")]] {
            let primary = ScriptedProvider::start(first, trouble).await;
            let secondary = ScriptedProvider::start(second, [Answer::reply(second, "3")]).await;
            let both = Fallback::new(retrying(first, &primary), retrying(second, &secondary));
            assert_eq!(both.name(), format!("{first}/test-model"));
            assert_eq!(ask(&both).await.unwrap().model, format!("{second}/test-model"));
        }
    }
}

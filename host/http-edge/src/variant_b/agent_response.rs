//! The body of Variant B's answers: the agent's result itself, with `cached` beside its fields when results
//! are kept (host/docs/interface/endpoints.md#answer-of-variant-b).

use agent_core::words::CanonicalResult;
use run_service::layers::RunAnswer;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::result_json::ResultBody;

/// What the run came to, and whether it was made for this request.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentAnswer)]
pub(super) struct Success<'a> {
    #[serde(flatten)]
    result: ResultBody<'a>,
    /// Whether the result was kept from an equal question; absent when no results are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = false)]
    cached: Option<bool>,
    /// False when the run could not be appended to its conversation; else absent.
    #[serde(rename = "conversationKept", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = false)]
    conversation_kept: Option<bool>,
}

impl<'a> From<&'a RunAnswer> for Success<'a> {
    fn from(answer: &'a RunAnswer) -> Self {
        let conversation_kept = answer.is_turn_lost.then_some(false);
        Self { result: ResultBody::from(&*answer.result), cached: answer.cached, conversation_kept }
    }
}

/// The end of [`Success`] for a result that was kept.
const FROM_CACHE: &[u8] = br#","cached":true}"#;

/// What [`Success`] is for a result that was kept, made of the bytes that are kept.
pub(super) fn from_cache(result: &CanonicalResult) -> Vec<u8> {
    [result.fields(), FROM_CACHE].concat()
}

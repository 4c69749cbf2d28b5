//! The words of a run that has ended, or why there are none.

use agent_core::words::{AgentResult, StopReason};

/// Why there is no answer of the format that the client asked for. The sentence of a run that waits for
/// somebody is such a reason as well: it is no JSON, and stands in the place of the answer.
pub(crate) fn refusal(result: &AgentResult, is_formatted: bool) -> Option<&str> {
    match result.stop_reason {
        // Also of a model that said nothing: no text is no JSON.
        StopReason::InvalidOutput | StopReason::EmptyReply => result.output_error.as_deref(),
        StopReason::Completed if is_formatted && result.output_value.is_none() => Some(&result.output),
        _ => None,
    }
}

/// The words of an answer. A client that wants JSON is told none that are not the whole of it, as beside
/// calls of its functions or where a limit has cut them off: its reader would take them for the JSON.
pub(crate) fn words(result: &AgentResult, is_formatted: bool) -> Option<&str> {
    let calls = result.stop_reason == StopReason::ToolCalls;
    let has_none = refusal(result, is_formatted).is_some() || (is_formatted && result.output_value.is_none());
    Some(result.output.as_str()).filter(|words| !(has_none || calls && words.is_empty()))
}

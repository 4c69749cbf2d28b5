//! The `text-stats` component: the tool `text_stats`.

mod statistics;

use agent_tool_sdk::Failure;
use schemars::JsonSchema;
use serde::Deserialize;

use statistics::Statistics;

/// What to count.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

fn text_stats(Text { text }: Text) -> Result<Statistics, Failure> {
    Ok(Statistics::of(&text))
}

agent_tool_sdk::export! {
    /// Counts the characters, words, sentences and lines of a text and its frequent words.
    text_stats(Text) -> Statistics, hints: [read_only, idempotent, pure], timeout_ms: 1000;
}

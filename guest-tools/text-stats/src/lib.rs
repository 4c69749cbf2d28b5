//! The `text-stats` component: the tool `text_stats`.

mod statistics;

use agent_tool::Failure;
use schemars::JsonSchema;
use serde::Deserialize;

use statistics::Statistics;

/// What to count.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Text {
    /// The text, as it is: line breaks and blanks count.
    text: String,
}

fn text_stats(Text { text }: Text) -> Result<Statistics, Failure> {
    Ok(Statistics::of(&text))
}

agent_tool::export! {
    /// Counts what a text is made of: characters, words, sentences, lines and bytes, and names its longest
    /// and its most frequent words. Use it rather than counting yourself, for example to check a text against
    /// a length limit.
    ///
    /// What counts as a character, a word or a sentence is as in Unicode (UAX #29), for any language written
    /// with blanks between words; where the count a user means is in doubt, several are given and each says
    /// what it counts.
    text_stats(Text) -> Statistics, hints: [read_only, idempotent], timeout_ms: 1000;
}

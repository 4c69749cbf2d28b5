//! The `regex` component: the tool `regex`, which finds, replaces or splits by a regular expression.
//!
//! The engine takes time linear in the text for each match, so there is no catastrophic backtracking, and for
//! that has neither look-around nor back-references. `pattern` compiles; `work` does what is asked, within
//! bounds.
//!
//! What the description leaves out, because each word of it is paid for in every model call: flags stand in
//! the pattern, (?i) for any case, (?m) for ^ and $ at lines, (?s) for . to match newlines; in a replacement
//! $1, \1, ${name}, $<name> or \g<name> is a group, ${1}0 a group before a digit, and $$ a dollar sign.

mod pattern;
mod work;

use agent_tool_sdk::Failure;
use schemars::JsonSchema;
use serde::Deserialize;

use work::Outcome;

/// What to look for where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    text: String,
    /// No look-around
    pattern: String,
    replacement: Option<String>,
    split: Option<bool>,
}

fn regex(Question { text, pattern, replacement, split }: Question) -> Result<Outcome, Failure> {
    let regex = pattern::compile(&pattern)?;
    work::check_length(&text)?;
    match (replacement, split.unwrap_or_default()) {
        (None, false) => Ok(work::find(&regex, &text)),
        (Some(replacement), false) => work::replace(&regex, &text, &replacement),
        (None, true) => Ok(work::split(&regex, &text)),
        (Some(_), true) => Err(Failure::invalid_arguments("give `replacement` or `split`, not both")),
    }
}

agent_tool_sdk::export! {
    /// Finds, replaces or splits by a regular expression.
    regex(Question) -> Outcome, hints: [read_only, idempotent, pure], timeout_ms: 3000;
}

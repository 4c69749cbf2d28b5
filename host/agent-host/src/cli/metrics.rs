//! `agent-host metrics`: every metric, from where it is declared.

use std::fmt::Write as _;

use tokio::runtime::Handle;

use super::Exit;
use crate::metrics::{Described, Metrics};
use host_setup::output::print;

/// Default of `METRICS_PREFIX`.
const PREFIX: &str = "agent_";

pub(super) fn run(json: bool) -> anyhow::Result<Exit> {
    let described = Metrics::described(PREFIX, &Handle::current())?;
    print(&if json { serde_json::to_string_pretty(&described)? + "\n" } else { table(&described) })?;
    Ok(Exit::Success)
}

/// In Markdown, which people can read too.
fn table(described: &[Described]) -> String {
    let mut text = String::from("| metric | kind | labels | what |\n|---|---|---|---|\n");
    for Described { name, kind, labels, help } in described {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        // silent-ok: nothing fails that writes into a string.
        let _ = writeln!(text, "| `{name}` | {kind} | {labels} | {help} |");
    }
    text
}

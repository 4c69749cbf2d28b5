//! Which versions of tools wait for an approval, and the command that approves them.

use agent_core::ports::Records;
use tokio::time::timeout;

use super::report::Finding;
use super::stores::is_made;
use crate::composition::{PROBE_LIMIT, open_stores, open_tool_versions};
use crate::config::Config;

/// The commands that show what waits, and approve it.
const REMEDY: &str = "agent-host tools versions shows what waits; agent-host tools approve --all approves the newest of \
                      every component";

/// Asks the database what waits. There is no finding where approvals are off, where there is no database, and
/// where it does not answer, which its own check says.
pub(super) async fn examine(config: &Config) -> Option<Finding> {
    if !config.tools.needs_approval || config.stores.database.is_none() {
        return None;
    }
    if !is_made(config) {
        return Some(none_yet());
    }
    let versions = open_tool_versions(&open_stores(&config.stores).await.ok()?)?;
    let records = timeout(PROBE_LIMIT, versions.records()).await.ok()?.ok()?;
    Some(if records.components.is_empty() { none_yet() } else { waiting(&records) })
}

fn none_yet() -> Finding {
    let text = "TOOLS_APPROVAL is on and nothing was approved yet: at the first start all tools wait that no policy names";
    Finding::warning("approvals", text.to_owned(), REMEDY)
}

fn waiting(records: &Records) -> Finding {
    let waiting: Vec<_> = records
        .components
        .iter()
        .filter_map(|(name, found)| Some(format!("{name}@{}", found.record.next_to_approve()?.digest)))
        .collect();
    match waiting.len() {
        0 => Finding::ok("approvals", "no version of a tool waits for one".to_owned()),
        count => {
            let text = format!("{count} wait and do not serve: {}", waiting.join(", "));
            Finding::warning("approvals", text, REMEDY)
        }
    }
}

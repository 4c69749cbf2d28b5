//! `agent-host tools approve --all`: approves the newest version that waits of every component.
//!
//! Each approval names the digest that was read and printed and the revision of the record it was read from:
//! whatever is proposed meanwhile waits on.

use std::fmt::Write as _;

use agent_core::ports::{AdminAction, ComponentView, Operator, ToolAdmin};
use agent_core::words::{ComponentVersion, VersionStatus};
use anyhow::bail;
use serde_json::json;

use super::versions::{OPERATOR, open};
use host_setup::output::{json_line, plain, print};

use super::Exit;

/// Prints what waits, and approves it.
pub(super) async fn run(serve: bool, as_json: bool) -> anyhow::Result<Exit> {
    let host = open().await?;
    let views = ToolAdmin::list(&host).await?;
    let waiting: Vec<_> =
        views.iter().filter_map(|view| Some((view, view.record.next_to_approve()?))).collect();
    if waiting.is_empty() && !as_json {
        print("no version waits for an approval\n")?;
    }
    let mut refused = 0;
    for (view, version) in waiting {
        print(&if as_json { as_line(view, version) } else { describe(view, version) })?;
        let action = AdminAction::Approve { digest: Some(version.digest.clone()), facts: None, serve };
        let operator = Operator { expected: Some(&[view.revision]), ..OPERATOR };
        if let Err(error) = host.change(&view.name, action, operator).await {
            refused += 1;
            tracing::error!(component = view.name, %error, "a version is not approved");
        }
    }
    match refused {
        0 => Ok(Exit::Success),
        refused => bail!(
            "{refused} versions are not approved: the log says why; what changed meanwhile is to be read again"
        ),
    }
}

fn as_line(view: &ComponentView, version: &ComponentVersion) -> String {
    json_line(&json!({ "name": view.name, "digest": version.digest, "facts": version.facts }))
}

fn describe(view: &ComponentView, version: &ComponentVersion) -> String {
    let mut text = format!("{}\n  approves   {}\n", view.name, version.digest);
    let mut line = |what: &str, said: &str| {
        // silent-ok: writing to a string does not fail.
        let _ = writeln!(text, "  {what:<10} {}", plain(said));
    };
    let tools: Vec<_> = version.facts.tools.iter().map(|tool| tool.name.as_str()).collect();
    line("tools", &tools.join(", "));
    if !version.facts.wants.is_empty() {
        line("wants", &version.facts.wants.join(", "));
    }
    if let VersionStatus::Waiting { because } = &version.status {
        line("waited", &because.join("; "));
    }
    text
}

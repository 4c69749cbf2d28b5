//! `agent-tool replay`: the tool calls of a recorded run once more, and what differs.
//!
//! Nothing is reached: requests are answered from what `TOOLS_RECORD_HTTP=on` recorded (`answers.rs`), values
//! that tools keep lie in a database that is thrown away, secrets have stand-ins, and no tool may call
//! another. The clock is the machine's. `journal.rs` reads the calls, `folder.rs` puts another component in
//! the place of one, `comparison.rs` says what differs and `report.rs` writes it out.
//!
//! Calls that tools made of other tools are not made again: journals have digests of their arguments only.

mod answers;
mod comparison;
mod folder;
mod journal;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{ToolFault, ToolRequest, Toolbox as _};
use anyhow::{Context as _, bail};
use clap::Args;
use host_setup::output::{json_text, print};
use host_setup::program::{Exit, install_tls};
use host_setup::settings::{ProcessEnv, Stores, Tools, token_budget};
use host_setup::stores;
use host_setup::tools::tool_host_config;
use tool_host::{HttpMode, ToolHost};

use crate::log;
use answers::RecordedAnswers;
use comparison::{Comparison, Verdict};
use journal::{RecordedCall, RecordedRun};

/// Makes the tool calls of a run again.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Its id, run_…: it stands in results and in the log
    run_id: String,
    /// A component that takes the place of the one in TOOLS_DIR whose file has the same name, with what that
    /// is granted
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    log::install()?;
    install_tls();
    let (run, recordings) = read(&arguments.run_id).await?;
    let answers = Arc::new(RecordedAnswers::new(recordings));
    let scratch = tempfile::tempdir().context("a folder for what the tools keep meanwhile cannot be made")?;
    // Approvals are not asked for: the records that hold them are not opened, and the calls reach nothing.
    let mut config = Tools { needs_approval: false, ..Tools::from_vars(&ProcessEnv)? };
    if let Some(file) = &arguments.with {
        folder::replace(&mut config, file, scratch.path())?;
    }
    let values = stores::values_in(&scratch.path().join("values.db")).await?;
    let host = ToolHost::start(tool_host::Config {
        key_value: Some(values),
        http: HttpMode::Answers(answers.clone()),
        // What they stand in for is sent nowhere.
        environment: Arc::new(|name| Some(format!("stand-in-of-{name}"))),
        ..tool_host_config(&config, token_budget::from_vars(&ProcessEnv)?)
    })
    .await?;
    host.reload().await;
    for ToolFault { file, error } in host.faults() {
        tracing::error!(file, error, "a tool component cannot be loaded");
    }
    let mcp_servers = config.policy.mcp_servers();
    let replayer = Replayer { host: &host, answers: &answers, mcp_servers, timeout: config.timeout };
    let mut comparisons = vec![];
    for call in &run.calls {
        comparisons.push(replayer.replay(&run, call).await);
    }
    let text = if json { json_text(&comparisons)? } else { report::of(&arguments.run_id, &comparisons) };
    print(&text)?;
    Ok(exit(&comparisons))
}

/// The run's calls, and what was recorded of them.
async fn read(run_id: &str) -> anyhow::Result<(RecordedRun, Vec<agent_core::ports::HttpRecording>)> {
    let opened = stores::open_existing(&Stores::from_vars(&ProcessEnv)?).await?;
    let recordings = stores::http_recordings(&opened);
    let Some(runs) = opened.runs else {
        bail!(
            "neither MONGODB_URL nor DATABASE_URL is set, so there is no store to read runs from: set the one that the \
             service has"
        );
    };
    let events = runs.store.read(run_id, 0).await;
    let events = events.with_context(|| format!("the journal of {run_id:?} cannot be read"))?;
    let Some(run) = journal::calls(&events) else {
        bail!("the store has no run {run_id:?}: it was never recorded, or is not recorded yet");
    };
    let recorded = match recordings {
        Some(store) => store.read(run_id).await.with_context(|| {
            format!("the HTTP recordings of {run_id:?} cannot be read: a service of this version makes their table \
                     when it starts")
        })?,
        None => vec![],
    };
    Ok((run, recorded))
}

/// Makes calls again, on this host.
struct Replayer<'a> {
    host: &'a ToolHost,
    answers: &'a RecordedAnswers,
    /// Names of the policy's MCP servers. The host never asks them for their tools.
    mcp_servers: BTreeSet<String>,
    /// How long a call may take in the service.
    timeout: Duration,
}

impl Replayer<'_> {
    /// Makes a call again, if that can say anything.
    async fn replay(&self, run: &RecordedRun, then: &RecordedCall) -> Comparison {
        self.answers.keep_last(&then.call_id, comparison::requests(&then.answer.receipt));
        let recorded = self.answers.recorded(&then.call_id);
        if let Some(verdict) = comparison::unfit(then, recorded, &self.mcp_servers) {
            return Comparison::not_made(then, verdict);
        }
        // Twice what the host allows, so that it is the tool's own limit that ends a call, as it did in the
        // service.
        let deadline = Instant::now() + self.timeout * 2;
        let tools = self.host.everything();
        // Nobody is asked again to approve a call: whatever the call does reaches nothing.
        let terms = tools.approval(&then.asked, &run.principal);
        let approved = terms.map(|terms| terms.approve(&then.asked));
        let now = tools.call(ToolRequest {
            request_id: "replay",
            run_id: &run.id,
            call_id: &then.call_id,
            attempt: 1,
            principal: &run.principal,
            grants: &run.grants,
            call: &then.call,
            approved: approved.as_ref(),
            deadline,
            nested: None,
            progress: None,
        });
        let now = now.await;
        Comparison::between(then, &now, self.answers.used(&then.call_id))
    }
}

/// A difference says more than what could not be compared.
fn exit(comparisons: &[Comparison]) -> Exit {
    let has = |verdict: fn(&Verdict) -> bool| comparisons.iter().any(|one| verdict(&one.verdict));
    if has(|verdict| matches!(verdict, Verdict::Differs { .. })) {
        Exit::Failure
    } else if has(|verdict| matches!(verdict, Verdict::NotReplayed { .. })) {
        Exit::Code(2)
    } else {
        Exit::Success
    }
}

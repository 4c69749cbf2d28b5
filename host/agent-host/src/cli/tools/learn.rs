//! `agent-host tools learn`: the least policy that lets a tool do what one call of it tries to do.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use agent_core::ports::{ToolRequest, Toolbox as _};
use agent_core::words::ToolCall;
use anyhow::{Context as _, bail};
use clap::Args;
use host_setup::output::{json_line, plain, print};
use serde_json::{Value, json};
use tool_host::PolicyFile;

use super::{Exit, call, host_config, load};
use crate::config::{Log, ProcessEnv, Tools};
use crate::telemetry::{self, Destination};

/// What to call, and what it may do meanwhile.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The tool's name
    tool: String,
    /// Its arguments, a JSON object; - reads them from the standard input
    #[arg(default_value = "{}")]
    arguments: String,
    /// A policy that is in force meanwhile, such as what this printed last
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    let object = call::read_arguments(&arguments.arguments)?;
    let mut config = Tools::from_vars(&ProcessEnv)?;
    // The service's own policy is not in force: what it grants would not be asked for.
    config.policy = arguments.with.clone().map_or(PolicyFile::None, PolicyFile::At);
    // Approvals are not asked for: the policy that is being learned is what would name the component, and
    // the one call is granted nothing that the operator has not written down.
    config.needs_approval = false;
    telemetry::install(&Log::from_vars(&ProcessEnv)?, Destination::Command, None)?;
    let host = load(tool_host::Config { learn: true, ..host_config(&config).await? }).await?;
    let call =
        ToolCall { id: "call_1".into(), name: arguments.tool.clone(), arguments: Value::Object(object) };
    let deadline = Instant::now() + config.timeout * 2;
    let returned =
        host.everything().call(ToolRequest::outside_of_runs("command-line", &call, deadline)).await;
    let Some(learned) = host.learned(&arguments.tool) else {
        let names: Vec<_> = host.list().into_iter().map(|tool| tool.tool).collect();
        bail!("there is no tool `{}` in {}: {}", arguments.tool, config.folder.display(), names.join(", "));
    };
    let exit = if learned.is_complete { Exit::Success } else { Exit::Failure };
    if json {
        print(&json_line(&json!({
            "policy": learned.lines, "isComplete": learned.is_complete, "refused": learned.refused,
            "answer": returned.content,
        })))?;
        return Ok(exit);
    }
    print(&learned.lines)?;
    let mut errors = io::stderr();
    writeln!(errors, "agent-host: the tool answered: {}", plain(&returned.content))
        .context("writing to the standard error")?;
    for refused in &learned.refused {
        writeln!(errors, "agent-host: no line can allow a request that it made: {}", plain(refused))?;
    }
    let next = if learned.is_complete {
        "it asked for nothing that it does not have"
    } else {
        "it was granted nothing more meanwhile: write the lines to a file, mend them, and run this again with --with FILE \
         until nothing new is asked for"
    };
    writeln!(errors, "agent-host: {next}")?;
    Ok(exit)
}

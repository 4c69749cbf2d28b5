//! `agent-host tools`: what would be served, without serving it.

use std::io::{self, Write};

use agent_core::ports::Toolbox;
use clap::Args;
use prometheus::Registry;
use tokio::runtime::Handle;
use tool_host::ToolListing;

use super::Exit;
use crate::config::{Agent, Env, Log, Tools};
use crate::metrics::ToolMetrics;
use crate::{telemetry, wire};

/// Lists tools.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print a JSON array, schemas whole
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: &Arguments, lane: Handle) -> anyhow::Result<Exit> {
    telemetry::install(&Log::from_vars(&Env)?, io::stderr)?;
    let config = Tools::from_vars(&Env)?;
    let metrics = ToolMetrics::new(&Registry::new())?;
    let budget = Agent::token_budget_of(&Env)?;
    let host = wire::start_tools(&config, budget, lane, metrics.into()).await?;
    // The start itself does not wait for what has to be compiled.
    host.reload().await;
    let tools = host.list();
    let text = if arguments.json { serde_json::to_string_pretty(&tools)? + "\n" } else { describe(&tools) };
    // A reader that has seen enough, such as `head`, is no fault.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    // The faults are in the log, on the standard error.
    Ok(if host.faults().is_empty() { Exit::Success } else { Exit::Failure })
}

fn describe(tools: &[ToolListing]) -> String {
    if tools.is_empty() {
        return "no tools are loaded\n".to_owned();
    }
    let paragraphs: Vec<_> = tools.iter().map(describe_one).collect();
    paragraphs.join("\n")
}

fn describe_one(tool: &ToolListing) -> String {
    let hints: Vec<_> = tool.hints.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let hints = if hints.is_empty() { String::new() } else { format!("  hints      {}\n", hints.join(" ")) };
    // A component is not to be trusted with the terminal of whoever looks at it.
    let plain =
        |text: &str| text.chars().filter(|char| *char == '\n' || !char.is_control()).collect::<String>();
    let hints = plain(&hints);
    let description = plain(tool.description.trim()).replace('\n', "\n             ");
    format!(
        "{}\n  component  {}@{}\n{hints}  what       {description}\n  arguments  {}\n",
        tool.tool, tool.component, tool.digest, tool.input_schema
    )
}

//! `agent-host tools`: what would be served, and calls of it, without serving it.

mod call;
mod learn;
pub(super) mod sign;

use std::io::{self, Write};
use std::sync::Arc;

use agent_core::ports::Toolbox;
use anyhow::bail;
use clap::{Args, Subcommand};
use tokio::runtime::Handle;
use tool_host::{NoObserver, Observer, ToolHost, ToolListing};

use super::Exit;
use crate::config::{Agent, Log, ProcessEnv, Stores, Tools};
use crate::telemetry::{self, Destination};
use crate::wire;

/// Lists tools, or calls one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Print a JSON array, schemas whole
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Call a tool once and print what a model would read
    ///
    /// Exits with 1 when the call fails; why stands on the standard error, beside what the tool logs. Needs no model and
    /// no key.
    #[command(after_help = "For example: agent-host tools call calculate '{\"expression\": \"6 * 7\"}'")]
    Call(call::Arguments),
    /// Call a tool once, deny it what it is not granted, and print the policy that lets it work
    ///
    /// Only --with grants anything meanwhile. Exits with 0 when nothing more was asked for, else with 1: then print again
    /// --with what was printed and mended. Why a request was refused stands on the standard error.
    #[command(
        after_help = "For example: agent-host tools learn fetch '{\"url\": \"https://example.org/\"}' > policy.toml"
    )]
    Learn(learn::Arguments),
    /// Sign components, so that a policy can trust their signer instead of each digest
    Sign(sign::Arguments),
    /// Make a key to sign components with, or read one, and print what a policy names it by
    Key(sign::KeyArguments),
}

/// How the tools folder is loaded.
struct Load {
    observer: Arc<dyn Observer>,
    /// Whether to note down what is not granted.
    learn: bool,
}

pub(crate) async fn run(arguments: &Arguments, guest_runtime: Handle) -> anyhow::Result<Exit> {
    match &arguments.command {
        Some(Command::Call(arguments)) => call::run(arguments, guest_runtime).await,
        Some(Command::Learn(arguments)) => learn::run(arguments, guest_runtime).await,
        Some(Command::Sign(arguments)) => sign::run(arguments),
        Some(Command::Key(arguments)) => sign::make_key(arguments),
        None => list(arguments.json, guest_runtime).await,
    }
}

/// Loads the tools folder.
async fn load(
    config: &Tools,
    guest_runtime: Handle,
    Load { observer, learn }: Load,
) -> anyhow::Result<ToolHost> {
    let folder = &config.folder;
    if !folder.is_dir() {
        let found = if folder.exists() { "is no folder" } else { "does not exist" };
        bail!(
            "the tools folder {} {found}: set TOOLS_DIR to the folder your components are in (`cargo xtask guests` \
             writes target/tools)",
            std::path::absolute(folder).as_ref().unwrap_or(folder).display()
        );
    }
    let host = wire::start_observed_tools(wire::ToolsStart {
        config,
        token_budget: Agent::token_budget_of(&ProcessEnv)?,
        guest_runtime,
        observer,
        kept: wire::kept_by(&Stores::from_vars(&ProcessEnv)?).await?,
        learn,
        remembers: false,
    })
    .await?;
    // The start itself does not wait for what has to be compiled.
    host.reload().await;
    Ok(host)
}

async fn list(json: bool, guest_runtime: Handle) -> anyhow::Result<Exit> {
    telemetry::install(&Log::from_vars(&ProcessEnv)?, Destination::Command, None)?;
    let host = load(
        &Tools::from_vars(&ProcessEnv)?,
        guest_runtime,
        Load { observer: Arc::new(NoObserver), learn: false },
    )
    .await?;
    let tools = host.list();
    let text = if json { serde_json::to_string_pretty(&tools)? + "\n" } else { describe(&tools) };
    print(&text)?;
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
    let hints = plain(&hints);
    let description = plain(tool.description.trim()).replace('\n', "\n             ");
    format!(
        "{}\n  component  {}@{}\n{hints}  what       {description}\n  arguments  {}\n",
        tool.tool, tool.component, tool.digest, tool.input_schema
    )
}

/// Writes a text to the standard output. A reader that has seen enough, such as `head`, is no fault.
pub(super) fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A text that a component wrote, without what could play with the terminal of whoever looks at it.
fn plain(text: &str) -> String {
    text.chars().filter(|char| *char == '\n' || !char.is_control()).collect()
}

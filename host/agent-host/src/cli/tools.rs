//! `agent-host tools`: what would be served, and calls of it, without serving it; and the versions of
//! components.

mod approve_all;
mod call;
mod install;
mod learn;
mod versions;

pub(in crate::cli) use versions::OPERATOR;

use agent_core::ports::{AdminAction, Toolbox};
use agent_core::words::TrialKind;
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use host_setup::output::{describe_tool, json_text, print};
use host_setup::program::install_tls;
use host_setup::settings::token_budget;
use host_setup::tools::tool_host_config;
use tool_host::{ToolHost, ToolListing};

use super::Exit;
use crate::composition::{open_existing_stores, open_key_value, open_tool_versions};
use crate::config::{Log, ProcessEnv, Stores, Tools};
use crate::telemetry::{self, Destination};

/// Lists tools, or calls one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Print JSON: of the list an array, schemas whole
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Call a tool once and print what a model would read
    ///
    /// Exits with 1 when the call fails; why stands on the standard error, beside what the tool logs. Needs
    /// no model and no key.
    #[command(
        visible_alias = "run",
        after_help = "For example: agent-host tools call calculate '{\"expression\": \"6 * 7\"}'"
    )]
    Call(call::Arguments),
    /// Call a tool once, deny it what it is not granted, and print the policy that lets it work
    ///
    /// Only --with grants anything meanwhile. Exits with 0 when nothing more was asked for, else with 1: then
    /// print again --with what was printed and mended. Why a request was refused stands on the standard
    /// error.
    #[command(
        after_help = "For example: agent-host tools learn fetch '{\"url\": \"https://example.org/\"}' > policy.toml"
    )]
    Learn(learn::Arguments),
    /// Put a component into the tools folder, from a registry or a file
    ///
    /// What comes from a registry is checked against its digest, a tag is looked up once, and what is printed
    /// names the digest. When the policy names signers for the component, one of them must have signed it. A
    /// service that watches the folder serves it at once. With a DATABASE_URL, and without --tools-dir, it is
    /// proposed to all services on that database in place of the folder, and waits where they ask for
    /// approvals.
    #[command(
        after_help = "For example: agent-host tools install oci://registry.example.org/tools/calculator@sha256:…"
    )]
    Install(install::Arguments),
    /// Show the versions of components that all replicas agree on, or of one: what serves, what waits, what
    /// is tried
    Versions(versions::ShowArguments),
    /// Compare two versions of a component: safe, for review, or breaking
    ///
    /// By default what serves with the newest proposal. Exits with 1 when the difference is breaking.
    Diff(versions::DiffArguments),
    /// Let a version serve that waits for an approval, or with --all the newest of every component
    Approve(versions::ApproveArguments),
    /// Have an earlier version serve, by default the last one
    Rollback(versions::DigestArguments),
    /// Have a component serve again
    Enable(versions::NameArguments),
    /// Have a component serve no longer; its versions stay
    Disable(versions::NameArguments),
    /// Try a version beside the calls of the one that serves: its answers are compared and thrown away
    Shadow(versions::TryArguments),
    /// Try a version on a share of the runs; it is withdrawn by itself when it is worse
    Canary(versions::TryArguments),
    /// End a trial; what serves stays
    EndTrial(versions::NameArguments),
    /// Have a version serve that was tried
    Promote(versions::DigestArguments),
    /// Remove a component and all its versions
    Delete(versions::NameArguments),
}

impl Arguments {
    #[cfg(test)]
    pub(super) fn prints_json(&self) -> bool {
        self.json
    }
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let json = arguments.json;
    let change = |name, action| versions::change(name, action, json);
    match &arguments.command {
        Some(Command::Call(arguments)) => call::run(arguments, json).await,
        Some(Command::Learn(arguments)) => learn::run(arguments, json).await,
        Some(Command::Install(arguments)) => install::run(arguments, json).await,
        Some(Command::Versions(arguments)) => versions::show(arguments, json).await,
        Some(Command::Diff(arguments)) => versions::diff(arguments, json).await,
        Some(Command::Approve(arguments)) => match &arguments.name {
            Some(name) => change(name, arguments.action()).await,
            None => approve_all::run(arguments.serves(), json).await,
        },
        Some(Command::Rollback(of)) => change(&of.name, AdminAction::Rollback(of.digest.clone())).await,
        Some(Command::Enable(of)) => change(&of.name, AdminAction::Enable).await,
        Some(Command::Disable(of)) => change(&of.name, AdminAction::Disable).await,
        Some(Command::Shadow(of)) => change(of.name(), of.action(TrialKind::Shadow)).await,
        Some(Command::Canary(of)) => change(of.name(), of.action(TrialKind::Canary)).await,
        Some(Command::EndTrial(of)) => change(&of.name, AdminAction::EndTrial).await,
        Some(Command::Promote(of)) => change(&of.name, AdminAction::Promote(of.digest.clone())).await,
        Some(Command::Delete(of)) => change(&of.name, AdminAction::Delete).await,
        None => list(json).await,
    }
}

/// Loads the tools folder of a host.
async fn load(config: tool_host::Config) -> anyhow::Result<ToolHost> {
    let folder = &config.folder;
    if !folder.is_dir() {
        let found = if folder.exists() { "is no folder" } else { "does not exist" };
        bail!(
            "the tools folder {} {found}: set TOOLS_DIR to the folder your components are in (`cargo xtask guests` \
             writes target/tools)",
            std::path::absolute(folder).as_ref().unwrap_or(folder).display()
        );
    }
    let host = ToolHost::start(config).await?;
    // The start itself does not wait for what has to be compiled.
    host.reload().await;
    Ok(host)
}

/// Begins to load the tools folder, for a command that follows it.
#[cfg(feature = "mcp")]
pub(super) async fn start_folder(config: &Tools) -> anyhow::Result<ToolHost> {
    Ok(ToolHost::start(host_config(config).await?).await?)
}

/// A tool host for whoever looks after versions: nothing of the folder is compiled for that.
async fn load_for_versions() -> anyhow::Result<ToolHost> {
    let folder = tempfile::tempdir().context("a temporary folder (TMPDIR) cannot be made")?;
    let config = Tools { folder: folder.path().to_owned(), ..Tools::from_vars(&ProcessEnv)? };
    Ok(ToolHost::start(host_config(&config).await?).await?)
}

/// The settings of a command's tool host, which tells nobody anything of its stores. A file that a mistyped
/// DATABASE_URL names is not made.
async fn host_config(config: &Tools) -> anyhow::Result<tool_host::Config> {
    install_tls();
    let stores = Stores::from_vars(&ProcessEnv)?;
    let opened = open_existing_stores(&stores).await?;
    let token_budget = token_budget::from_vars(&ProcessEnv)?;
    // Tables are the service's to make: a command of another version must not change them under it.
    Ok(tool_host::Config {
        versions: open_tool_versions(&opened),
        key_value: open_key_value(&stores, &opened)?,
        ..tool_host_config(config, token_budget)
    })
}

async fn list(json: bool) -> anyhow::Result<Exit> {
    telemetry::install(&Log::from_vars(&ProcessEnv)?, Destination::Command, None)?;
    let config = Tools::from_vars(&ProcessEnv)?;
    let host = load(host_config(&config).await?).await?;
    let tools = host.list();
    let text = match json {
        true => json_text(&tools)?,
        false if tools.is_empty() => format!("no tools are loaded {}\n", whence(&config)?),
        false => describe(&tools),
    };
    print(&text)?;
    // The faults are in the log, on the standard error.
    Ok(if host.faults().is_empty() { Exit::Success } else { Exit::Failure })
}

/// The source of a command's tools, for a message that the one that is meant is not among them.
fn whence(config: &Tools) -> anyhow::Result<String> {
    let folder = config.folder.display();
    Ok(match Stores::from_vars(&ProcessEnv)?.database {
        None => format!("in {folder} (TOOLS_DIR)"),
        Some(_) => format!(
            "among those that serve by the records of DATABASE_URL, whatever lies in {folder} (TOOLS_DIR): `agent-host tools versions` \
             shows what serves and what waits; unset DATABASE_URL to have the folder decide"
        ),
    })
}

fn describe(tools: &[ToolListing]) -> String {
    let paragraphs: Vec<_> = tools.iter().map(describe_tool).collect();
    paragraphs.join("\n")
}

//! `agent-host variables`: every setting, from the table that the parser is made from.

use clap::{Args, ValueEnum};
use host_setup::output::print;

use super::Exit;
use crate::config::settings_reference;

/// Lists the settings.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How to write them, unless as JSON
    #[arg(long, value_enum, default_value = "env")]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// A file of variables to copy and fill in
    Env,
    /// A table in Markdown
    Markdown,
}

pub(crate) fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    let text = match arguments.format {
        _ if json => serde_json::to_string_pretty(&settings_reference::json())? + "\n",
        Format::Env => settings_reference::env_file(),
        Format::Markdown => settings_reference::markdown(),
    };
    print(&text)?;
    Ok(Exit::Success)
}

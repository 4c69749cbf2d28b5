//! `agent-tool new`: a folder with a tool to begin with.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use host_setup::output::{json_line, print};
use host_setup::program::Exit;
use serde_json::json;
use tool_build::{Example, Language, New};

/// What to make.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Of the folder, the component and, with underscores for hyphens, the tool: such as order-lookup
    name: String,
    /// What it is to be written in
    #[arg(long, value_enum)]
    lang: Lang,
    /// What it is to do: `greeting` needs no grant, `http` asks a service that wants a key
    #[arg(long, value_enum, default_value_t = Kind::Greeting)]
    example: Kind,
    /// The folder that the new one is made in
    #[arg(long = "in", value_name = "FOLDER", default_value = ".")]
    parent: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Lang {
    Rust,
    #[value(alias = "py")]
    Python,
    /// JavaScript, or TypeScript
    #[value(aliases = ["javascript", "ts", "typescript"])]
    Js,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Greeting,
    Http,
}

pub(crate) fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    let language = match arguments.lang {
        Lang::Rust => Language::Rust,
        Lang::Python => Language::Python,
        Lang::Js => Language::JavaScript,
    };
    let example = match arguments.example {
        Kind::Greeting => Example::Greeting,
        Kind::Http => Example::Http,
    };
    let folder = tool_build::create(&arguments.parent, New { name: &arguments.name, language, example })?;
    print(&if json {
        json_line(&json!({ "folder": folder, "language": language.to_string() }))
    } else {
        introduce(&folder, language)
    })?;
    Ok(Exit::Success)
}

fn introduce(folder: &Path, language: Language) -> String {
    let (source, test) = match language {
        Language::Rust => ("src/lib.rs", "cargo test"),
        Language::Python => ("tools.py", "python3 -m unittest"),
        Language::JavaScript => ("tools.js", "npm test"),
    };
    format!(
        "a tool in {language}: {}\n  {source:<24} the tool, to be edited\n  {test:<24} its logic, natively\n  agent-tool build         \
         its component\n  agent-tool dev           builds at every change, into the tools folder of a running host\n",
        folder.display()
    )
}

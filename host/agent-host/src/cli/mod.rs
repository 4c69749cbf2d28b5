//! The command line: one file per command.

mod cache;
mod chat;
mod dev;
mod docs;
mod doctor;
mod jobs;
#[cfg(feature = "mcp")]
mod mcp_over_stdio;
mod metrics;
mod moved;
mod progress_bar;
mod runs;
mod serve;
mod token;
mod tools;
mod variables;
mod waits;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use host_setup::children::Child;
use host_setup::output::{completions, print};
use host_setup::program::{USAGE, VERSION, asks_for_json, complain, refuse};

pub use host_setup::program::Exit;

/// Serves a tool-using language-model agent over HTTP. Its tools are sandboxed WebAssembly components.
#[derive(Debug, Parser)]
#[command(
    version = VERSION,
    arg_required_else_help = true,
    after_help = "All settings are environment variables: agent-host variables lists them. To try it out: agent-host dev. \
                  To see a tool answer: agent-host tools call"
)]
pub struct Arguments {
    /// Print JSON; what goes wrong too, as {"error"} on the standard error
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

impl Arguments {
    /// Whether a program reads what is printed.
    pub fn prints_json(&self) -> bool {
        self.json
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve, as the environment says
    ///
    /// Needs LLM_API_KEY. Takes its tools from TOOLS_DIR (default `tools`), listens on HOST and PORT (default
    /// 0.0.0.0:3000) and logs JSON lines when NODE_ENV=production. SIGTERM, SIGINT and SIGHUP end it
    /// gracefully.
    Serve,
    /// Serve with everything built in, to try things out
    ///
    /// Listens on 127.0.0.1:3000 and takes its tools from TOOLS_DIR, else from target/tools, else those that
    /// were installed with it. Unless LLM_API_KEY is set, a demo model answers that knows a few rules and is
    /// no language model.
    Dev,
    /// List the tools of TOOLS_DIR (name, component, digest, schema), or call one without a model: tools call
    ///
    /// Exits with 1 when a component of TOOLS_DIR cannot be loaded, and says why.
    #[command(visible_alias = "tool")]
    Tools(Box<tools::Arguments>),
    /// Serve the tools of TOOLS_DIR to an MCP client, over the standard input and output
    ///
    /// Is started by the client, and ends with its input. Logs to the standard error. Needs no model and no
    /// key. A running service with Variant B has the same at /mcp, over HTTP.
    #[cfg(feature = "mcp")]
    #[command(after_help = "For example: agent-host mcp --user ada --tier premium")]
    Mcp(mcp_over_stdio::Arguments),
    /// Talk with a running service: answers are streamed, calls of tools are shown as they run
    ///
    /// What was said goes along with each question, and the service keeps nothing. An interrupt (Ctrl-C)
    /// cancels the run, a second one leaves. A connection that is lost is made again, on any replica. Exits
    /// with 1 when the run of MESSAGE failed.
    Chat(Box<chat::Arguments>),
    /// Sign a bearer token for Variant B with JWT_SECRET
    Token(token::Arguments),
    /// List runs, show what one did or does, remove old ones, or all of a user
    #[command(subcommand)]
    Runs(runs::Command),
    /// List a user's jobs, show, cancel or retry one
    #[command(subcommand)]
    Jobs(jobs::Command),
    /// List what runs wait for somebody to decide, show it, or decide it
    #[command(subcommand)]
    Waits(waits::Command),
    /// Check every setting, store, provider and folder, and say what to do about what is wrong
    ///
    /// Looks at the environment as serve does, and changes nothing. Exits with 0 when a service would work
    /// here, with 1 when something is wrong.
    Doctor(doctor::Arguments),
    /// Forget kept results of Variant B
    #[command(subcommand)]
    Cache(cache::Command),
    /// Print a script that completes commands and options in a shell
    ///
    /// For bash: agent-host completions bash > ~/.local/share/bash-completion/completions/agent-host
    Completions {
        /// The shell
        shell: Shell,
    },
    /// List the pages of the documentation, or show one: docs api/streams
    ///
    /// As Markdown. A running service has the same pages at /docs, with a search. The last part of a name is
    /// enough where it is the only one: docs streams
    Docs(docs::Arguments),
    /// List every setting: what it holds, its default, who needs it
    Variables(variables::Arguments),
    /// List every metric: its name, kind and labels, and what it counts
    ///
    /// As /metrics of a service shows them with the default METRICS_PREFIX. Not every service has each: there
    /// is a queue, a second provider or an export of traces behind some.
    Metrics,
    #[command(flatten)]
    Child(Child),
}

/// Reads the command line. Without a command to carry out, this is the exit code of the process.
pub fn parse() -> Result<Arguments, ExitCode> {
    Arguments::try_parse().map_err(|error| match moved::sentence(&error) {
        Some(sentence) => {
            complain("agent-host", asks_for_json(), &sentence);
            ExitCode::from(USAGE)
        }
        None => refuse("agent-host", &error),
    })
}

/// Carries out a command that has to be alone in its process, or hands back the arguments of another one.
pub fn run_alone(arguments: Arguments) -> Result<Exit, Arguments> {
    match arguments.command {
        Command::Child(child) => Ok(child.run()),
        command => Err(Arguments { command, ..arguments }),
    }
}

/// Carries a command out.
pub async fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let json = arguments.json;
    match arguments.command {
        Command::Serve => serve::run(&crate::config::ProcessEnv, |_| {}).await,
        Command::Dev => dev::run().await,
        Command::Tools(arguments) => tools::run(&arguments).await,
        #[cfg(feature = "mcp")]
        Command::Mcp(arguments) => Box::pin(mcp_over_stdio::run(arguments)).await,
        Command::Chat(arguments) => chat::run(*arguments).await,
        Command::Token(arguments) => token::run(arguments, json),
        Command::Runs(command) => runs::run(command).await,
        Command::Jobs(command) => jobs::run(command).await,
        Command::Waits(command) => waits::run(command).await,
        Command::Completions { shell } => {
            print(&completions(Arguments::command(), shell)?)?;
            Ok(Exit::Success)
        }
        Command::Doctor(arguments) => doctor::run(&arguments).await,
        Command::Cache(command) => cache::run(command, json).await,
        Command::Docs(arguments) => docs::run(&arguments, json),
        Command::Variables(arguments) => variables::run(&arguments, json),
        Command::Metrics => metrics::run(json),
        // `run_alone` has done these.
        Command::Child(child) => Ok(child.run()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that do something, with the words that lead to them.
    fn commands(command: &clap::Command, before: &str, found: &mut Vec<(String, bool)>) {
        let name = format!("{before} {}", command.get_name());
        if !command.is_subcommand_required_set() {
            found.push((name.clone(), command.get_arguments().any(|argument| argument.get_id() == "json")));
        }
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            commands(sub, &name, found);
        }
    }

    #[test]
    fn every_command_prints_json_when_it_is_asked_for() {
        let mut command = Arguments::command();
        command.build();
        let mut found = vec![];
        commands(&command, "", &mut found);
        assert!(found.len() > 35, "{found:?}");
        let without: Vec<_> = found.iter().filter(|(_, takes_json)| !takes_json).collect();
        assert!(without.is_empty(), "{without:?}");
    }

    #[test]
    fn json_may_stand_before_or_behind_a_command() {
        for line in [
            "agent-host tools --json",
            "agent-host --json tools",
            "agent-host tools call calculate {} --json",
            "agent-host --json tools call calculate",
            "agent-host tools versions --json",
            "agent-host runs list --json",
            "agent-host jobs cancel 1 --json",
            "agent-host token --id u1 --json",
        ] {
            let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
            assert!(arguments.prints_json(), "{line}");
            if let Command::Tools(tools) = &arguments.command {
                assert!(tools.prints_json(), "{line}");
            }
        }
        assert!(!Arguments::try_parse_from(["agent-host", "tools", "call", "x"]).unwrap().prints_json());
    }

    #[test]
    fn completions_know_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = completions(Arguments::command(), shell).unwrap();
            for word in ["doctor", "rollback", "token-file"] {
                assert!(script.contains(word), "{word} for {shell}");
            }
        }
    }
}

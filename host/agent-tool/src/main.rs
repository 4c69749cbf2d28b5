//! `agent-tool`: what the author of a tool does with it, from its first file to its place in a registry.
//!
//! A file or folder per command; `isolated` is the tool host over one component that several look with, `log`
//! what `replay` says beside its result.
//!
//! What does not belong here: serving, and looking after what serves. That is `agent-host`.

mod build;
mod check;
mod dev;
mod inspect;
mod isolated;
mod log;
mod new;
mod publish;
mod replay;
mod sign;
mod test;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use host_setup::children::Child;
use host_setup::output::{completions, print};
use host_setup::program::{self, Exit, VERSION};

/// Makes, builds, tests, signs and publishes tools for agent-host, in Rust, Python and JavaScript.
#[derive(Debug, Parser)]
#[command(
    version = VERSION,
    arg_required_else_help = true,
    after_help = "To begin: agent-tool new my-tool --lang rust. To call a tool without a model: agent-host tools call"
)]
struct Arguments {
    /// Print JSON; what goes wrong too, as {"error"} on the standard error
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a new tool: a folder with its sources, tests, SDK and contract
    #[command(after_help = "For example: agent-tool new order-lookup --lang python --example http")]
    New(new::Arguments),
    /// Build a tool's component from its sources, in Rust, Python, JavaScript or TypeScript
    ///
    /// Prints the component's file, size and digest. What the language needs and what is missing in the
    /// folder is installed into it, said aloud.
    Build(build::Arguments),
    /// Build a tool at every change of its sources and swap it into the tools folder of a running host
    ///
    /// A build that fails changes nothing there. Ends with Ctrl-C.
    #[command(after_help = "For example, beside agent-host dev: agent-tool dev my-tool target/tools")]
    Dev(dev::Arguments),
    /// Test a component: cases from a file with mocked HTTP, then abuse, then what its calls cost
    ///
    /// Nothing real is reached. Exits with 1 when a case fails, a tool does not bear abuse or costs more than
    /// a budget.
    #[command(after_help = "For example, in the folder of a tool: agent-tool test")]
    Test(test::Arguments),
    /// Check a component: its contract, its schemas, and whether it does what it declares
    ///
    /// Calls its tools with arguments made from their schemas; requests find nobody and what it keeps is
    /// thrown away. Exits with 1 when there is a fault.
    Check(check::Arguments),
    /// Show what a component is: digest, contract, imports, what it needs to be granted, tools
    ///
    /// Exits with 1 when a service would refuse it, and shows why and the lines of a policy that would let it
    /// in.
    Inspect(inspect::Arguments),
    /// Make a key to sign components with, or read one, and print what a policy names it by
    Key(sign::KeyArguments),
    /// Sign components, so that a policy can trust their signer instead of each digest
    Sign(sign::Arguments),
    /// Publish a component in an OCI registry
    ///
    /// Prints the reference to install it by. For a registry that wants to know who publishes, set
    /// TOOLS_REGISTRY, TOOLS_REGISTRY_USER and TOOLS_REGISTRY_PASSWORD.
    #[command(
        after_help = "For example: agent-tool publish calculator.wasm oci://registry.example.org/tools/calculator:1.0 \
                      --key tools.key.pem"
    )]
    Publish(publish::Arguments),
    /// Make the tool calls of a recorded run again, and show what differs
    ///
    /// Reads the run from DATABASE_URL (its journal from MONGODB_URL when that is set) and calls the tools of
    /// TOOLS_DIR as it did. Nothing is reached: HTTP is answered from what the service recorded under
    /// TOOLS_RECORD_HTTP=on, what tools keep is empty at first and thrown away, secrets have stand-ins, no
    /// tool calls another. Exits with 0 when nothing differs, with 1 when something does or nothing could be
    /// read, with 2 when calls could not be made again.
    Replay(replay::Arguments),
    /// Print a script that completes commands and options in a shell
    ///
    /// For bash: agent-tool completions bash > ~/.local/share/bash-completion/completions/agent-tool
    Completions {
        /// The shell
        shell: Shell,
    },
    #[command(flatten)]
    Child(Child),
}

fn main() -> ExitCode {
    let Arguments { json, command } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return program::refuse("agent-tool", &error),
    };
    let exit = match command {
        // Alone in its process.
        Command::Child(child) => Ok(child.run()),
        command => program::run("agent-tool", run(command, json)),
    };
    program::exit_code("agent-tool", json, exit)
}

async fn run(command: Command, json: bool) -> anyhow::Result<Exit> {
    match command {
        Command::New(arguments) => new::run(&arguments, json),
        Command::Build(arguments) => build::run(&arguments, json),
        Command::Dev(arguments) => dev::run(&arguments, json),
        Command::Test(arguments) => test::run(&arguments, json).await,
        Command::Check(arguments) => check::run(&arguments, json).await,
        Command::Inspect(arguments) => inspect::run(&arguments, json).await,
        Command::Key(arguments) => sign::make_key(&arguments, json),
        Command::Sign(arguments) => sign::run(&arguments, json),
        Command::Publish(arguments) => publish::run(&arguments, json).await,
        Command::Replay(arguments) => replay::run(&arguments, json).await,
        Command::Completions { shell } => {
            print(&completions(Arguments::command(), shell)?)?;
            Ok(Exit::Success)
        }
        Command::Child(child) => Ok(child.run()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_may_stand_before_or_behind_a_command() {
        for line in [
            "agent-tool inspect --json x.wasm",
            "agent-tool --json check x.wasm",
            "agent-tool test --json",
            "agent-tool replay run_1 --json",
            "agent-tool build --json",
        ] {
            assert!(Arguments::try_parse_from(line.split(' ')).unwrap().json, "{line}");
        }
        assert!(!Arguments::try_parse_from(["agent-tool", "build"]).unwrap().json);
    }

    #[test]
    fn a_budget_of_time_is_a_number_that_a_tool_can_be_beyond() {
        let parse = |budget| Arguments::try_parse_from(["agent-tool", "test", "--budget-ms", budget]);
        assert!(parse("2.5").is_ok());
        for budget in ["nan", "inf", "1e999", "0", "fast"] {
            let error = parse(budget).unwrap_err().to_string();
            assert!(error.contains("it is no number above 0"), "{budget}: {error}");
        }
    }

    #[test]
    fn completions_know_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = completions(Arguments::command(), shell).unwrap();
            for word in ["publish", "replay", "budget-tokens"] {
                assert!(script.contains(word), "{word} for {shell}");
            }
        }
    }
}

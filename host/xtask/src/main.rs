//! The project's own commands. One file or folder per command; this one only reads the command line.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks to whoever runs it")]

mod bench;
mod ci;
mod dev;
mod dist;
mod docs;
mod guests;
mod lines;
mod robustness;
mod run;
mod scale;
mod test;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use robustness::{chaos, fuzz, schedules, sim, soak};

#[derive(Parser)]
#[command(about = "The project's own commands")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build everything and serve it on http://127.0.0.1:3000, with the demo model unless LLM_API_KEY is set.
    Dev(dev::Arguments),
    /// Build the tools that need a grant, and sign them with a binary of `agent-tool`: what `dev` leaves for
    /// later.
    #[command(hide = true)]
    DevGranted { agent_tool: PathBuf },
    /// Build everything and run all tests. Arguments after `--` go to the test runner.
    Test(test::Arguments),
    /// Build the tools of guest-tools/ into target/tools, target/tools-granted and target/tools-misbehaving.
    Guests(guests::Arguments),
    /// Build what is shipped: the tools into target/tools, the service into target/shipped, the author's
    /// program into target/release, and all of it with a bill of materials and checksums into target/dist,
    /// with a Python wheel, an npm package and a Debian package.
    Dist(dist::Arguments),
    /// Pack the two programs and the tools of target/tools as a Python wheel, an npm package and a Debian
    /// package.
    Packages(dist::packages::Arguments),
    /// Build for release and print the numbers: cost of a tool call, latency, throughput, memory, start-up.
    Bench(bench::Arguments),
    /// Kill workers with jobs under way, by a seed, and print what was lost or paid twice.
    Chaos(chaos::Arguments),
    /// Ask two replicas for minutes while their stores and tools come and go, and draw what they hold.
    Soak(soak::Arguments),
    /// Simulate replicas, stores, providers and clients with faults by a seed, and print what was reached.
    Sim(sim::Arguments),
    /// Give every parser bytes of strangers for some minutes, guided by the code that they reach where there
    /// is a C++ compiler, and add to the numbers that are kept.
    Fuzz(fuzz::Arguments),
    /// Run the code around locks under schedules that a seed draws, a number of them for each place.
    Shuttle(schedules::Arguments),
    /// Say what breaks first with more replicas: simulate it from measured costs, and write the tables of
    /// host/docs/evidence/scale.md.
    Scale(scale::Arguments),
    /// Write what is made from code: the pages of host/docs/reference, and .env.example.
    Docs(docs::Arguments),
    /// Count the lines of Rust, by crate, source and tests apart.
    Lines,
    /// What every change has to pass: formatting, lints, documentation, guests, tests and simulations.
    Ci,
}

fn main() -> anyhow::Result<ExitCode> {
    if ci::linting_compiler::is_wanted() {
        return ci::linting_compiler::compile();
    }
    if fuzz::covering_compiler::is_wanted() {
        return fuzz::covering_compiler::compile();
    }
    carry_out()?;
    Ok(ExitCode::SUCCESS)
}

fn carry_out() -> anyhow::Result<()> {
    let repository = repository();
    match Arguments::parse().command {
        Command::Dev(arguments) => dev::serve(&repository, &arguments),
        Command::DevGranted { agent_tool } => dev::build_granted(&repository, &agent_tool),
        Command::Test(arguments) => test::run_all(&repository, &arguments, None),
        Command::Guests(arguments) => guests::build(&repository, &arguments),
        Command::Dist(arguments) => dist::build(&repository, &arguments),
        Command::Packages(arguments) => dist::pack(&repository, &arguments),
        Command::Bench(arguments) => bench::print_numbers(&repository, &arguments),
        Command::Chaos(arguments) => chaos::print_table(&repository, &arguments),
        Command::Soak(arguments) => soak::endure(&repository, &arguments),
        Command::Sim(arguments) => sim::simulate(&repository, &arguments),
        Command::Fuzz(arguments) => fuzz::run_targets(&repository, &arguments),
        Command::Shuttle(arguments) => schedules::run_all(&repository, &arguments),
        Command::Scale(arguments) => scale::write(&repository, &arguments),
        Command::Docs(arguments) => docs::write(&repository, &arguments),
        Command::Lines => lines::print(&repository),
        Command::Ci => ci::check_all(&repository),
    }
}

/// The root of the repository that this was built in.
fn repository() -> PathBuf {
    let here: PathBuf = concat!(env!("CARGO_MANIFEST_DIR"), "/../..").into();
    here.canonicalize().unwrap_or(here)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What a file has our commands called with: the words behind `cargo xtask`, up to the end of the line.
    fn commands(file: &str) -> Vec<Vec<String>> {
        let text = fs::read_to_string(repository().join(file)).unwrap();
        let called = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let called = called.filter_map(|line| line.split_once("cargo xtask ")).map(|(_, words)| words);
        called
            .map(|words| words.split_whitespace().map(|word| word.trim_matches('"').to_owned()).collect())
            .collect()
    }

    #[test]
    fn the_dockerfile_and_the_ci_call_commands_that_there_are() {
        for file in ["Dockerfile", ".ci/run"] {
            let commands = commands(file);
            assert!(!commands.is_empty(), "{file} calls none");
            for words in commands {
                let line = ["xtask".to_owned()].into_iter().chain(words.clone());
                assert!(Arguments::try_parse_from(line).is_ok(), "{file}: cargo xtask {words:?}");
            }
        }
    }

    /// The image has neither npm nor Python, and no history of the sources.
    #[test]
    fn the_dockerfile_packs_nothing_and_names_its_commit() {
        let words = commands("Dockerfile").into_iter().find(|words| words[0] == "dist").unwrap();
        let line = ["xtask".to_owned()].into_iter().chain(words);
        let Ok(Arguments { command: Command::Dist(arguments) }) = Arguments::try_parse_from(line) else {
            panic!("it builds what is shipped")
        };
        assert!(arguments.no_packages && arguments.commit.is_some());
    }
}

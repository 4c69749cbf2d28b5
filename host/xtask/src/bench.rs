//! `cargo xtask bench`: prints the project's numbers, all from one run on one machine.

mod durability;
mod greeters;

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;

use crate::guests;
use crate::run::{cargo, run};

/// `profile` is the last one: where there is no perf it fails.
const BENCHES: [&str; 10] =
    ["call", "author", "http", "streams", "variant_b", "durability", "lone", "waits", "caching", "profile"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only the numbers of this bench: `call` (a tool call), `author` (an edit under `agent-tool dev`),
    /// `http` (the whole service), `streams` (runs that are streamed, the OpenAI front, HTTP/2), `variant_b`
    /// (the whole service beside the Node deployment), `durability` (a run of five steps that survives,
    /// beside other engines), `lone` (where the time of a request goes that is alone), `waits` (a million
    /// runs that wait), `caching` (tokens that providers keep of earlier requests) or `profile` (what the
    /// processor time is spent on, with perf).
    #[arg(value_parser = PossibleValuesParser::new(BENCHES))]
    only: Option<String>,
    /// Another binary of agent-host, such as that of the release before, to be measured beside this one in
    /// the same run: in turns with it, in `profile` one after the other. Not in `call`, which measures the
    /// tool host within its own process beside wasmtime alone.
    #[arg(long, value_name = "FILE")]
    baseline: Option<std::path::PathBuf>,
    /// In which language the tool is that `author` edits: `rust`, `python`, `js` or `all`. Those of Python
    /// and JavaScript are built by toolchains that take most of a minute for each of 14 edits.
    #[arg(long, default_value = "rust")]
    language: String,
    /// Measure the binary as it is shipped, optimized across crates: that takes the compiler half an hour
    /// more.
    #[arg(long)]
    shipped: bool,
}

/// Builds for release and runs the benches.
pub(crate) fn print_numbers(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    guests::build(repository, &guests::Arguments::default())?;
    let wants = |bench: &str| arguments.only.as_deref().is_none_or(|only| only == bench);
    if wants("call") {
        greeters::build(repository)?;
    }
    if wants("durability") {
        durability::install_peers(repository);
    }
    let native = ["build", "--release", "--package", "calculator", "--example", "native"];
    run(&mut cargo(&repository.join("guest-tools"), native))?;
    // One set of features for all, or the libraries are built once for each. The benches by name: `--benches`
    // would build the tests of every library as well.
    let benches = BENCHES.into_iter().flat_map(|bench| ["--bench", bench]);
    let build = ["build", "--release", "--workspace", "--bins"].into_iter().chain(benches);
    run(&mut cargo(repository, build))?;
    if arguments.shipped {
        run(&mut cargo(repository, ["build", "--profile", "shipped", "--package", "agent-host", "--bins"]))?;
    }
    for bench in BENCHES {
        if wants(bench) {
            let mut command = cargo(repository, ["bench", "--workspace", "--quiet", "--bench", bench]);
            command.env("BENCH_LANGUAGE", &arguments.language);
            if arguments.shipped {
                command.env("BENCH_BINARY", repository.join("target/shipped/agent-host"));
            }
            if let Some(baseline) = &arguments.baseline {
                command.env("BENCH_BASELINE", fs::canonicalize(baseline).context("finding the baseline")?);
            }
            run(&mut command)?;
        }
    }
    Ok(())
}

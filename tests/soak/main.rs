//! `cargo xtask soak`: two replicas under requests, jobs, swaps and outages, and what they hold meanwhile.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "it fails like a test"
)]
// cargo sets `test` for programs without its harness as well: their unit tests are compiled, and called in
// `it` only.
#![allow(dead_code, unused_imports, reason = "unit tests without a harness")]

mod endurance;
#[path = "../benches/measuring/machine.rs"]
mod machine;

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use endurance::{Order, endure};

/// A short run has enough samples too.
const SAMPLES: u32 = 120;
const BETWEEN_SAMPLES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

fn main() -> ExitCode {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let [minutes, seed] = arguments[..] else {
        println!("cargo xtask soak says for how many minutes and with which seed");
        return ExitCode::FAILURE;
    };
    let lasting = Duration::from_secs(minutes * 60);
    let sampled_every = (lasting / SAMPLES).clamp(BETWEEN_SAMPLES.0, BETWEEN_SAMPLES.1);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let outcome = runtime.block_on(endure(Order { seed, lasting, sampled_every }));

    let title = format!("cargo xtask soak --minutes {minutes} --seed {seed}");
    println!("`{title}`\n{}", machine::describe());
    let (answers, outages, swaps) = outcome.events();
    println!("{answers} answers, {outages} outages, {swaps} swaps of a tool");
    println!("{}", outcome.tables());
    let folder = acceptance::repository().join("target/soak");
    let file = folder.join(format!("soak-{minutes}-minutes-seed-{seed}.svg"));
    fs::create_dir_all(&folder).expect("a folder for the plot");
    fs::write(&file, outcome.svg(&title)).expect("the plot can be written");
    println!("plot: {}", file.display());
    let wrong = outcome.wrong();
    wrong.iter().for_each(|wrong| println!("wrong: {wrong}"));
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! `cargo xtask scale --measure`: counts what a job and a request cost the stores, and writes that into the
//! file it is given.
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

mod costs;
#[path = "../benches/measuring/machine.rs"]
mod machine;

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use costs::{Order, measure};

/// PostgreSQL's processes report what they have counted when they have been idle for 10 s.
const REPORTED_AFTER: Duration = Duration::from_secs(12);

fn main() -> ExitCode {
    let Some(file) = std::env::args().nth(1) else {
        println!("cargo xtask scale --measure says into which file");
        return ExitCode::FAILURE;
    };
    let order =
        Order { units: 480, lanes: 16, lasting: Duration::from_secs(15), reported_after: REPORTED_AFTER };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut measured = runtime.block_on(measure(order));
    measured["machine"] = machine::describe().into();
    let text = serde_json::to_string_pretty(&measured).expect("JSON is text");
    fs::write(&file, text + "\n").expect("the file can be written");
    println!("{file} was written");
    ExitCode::SUCCESS
}

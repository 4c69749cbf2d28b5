//! The compiler process of this crate's tests and benches: nothing but a `CompileJob` from its arguments.
#![allow(
    missing_docs,
    clippy::print_stderr,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a program of the tests"
)]

use std::process::ExitCode;

use tool_host::CompileJob;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name).expect("a limit");
        arguments.get(at + 1).and_then(|number| number.parse().ok()).expect("a number")
    };
    let job = CompileJob {
        metering: arguments.iter().any(|argument| argument == "--metering"),
        memory_bytes: number("--memory-bytes"),
        cpu_seconds: number("--cpu-seconds"),
    };
    match job.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

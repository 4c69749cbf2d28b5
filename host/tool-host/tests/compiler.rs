//! The child processes of this crate's tests and benches: nothing but a `CompileJob` or, behind `launch`, a
//! `LaunchJob` from its arguments.
#![allow(
    clippy::print_stderr,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a program of the tests"
)]

use std::process::ExitCode;

use tool_host::{CompileJob, LaunchJob};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name).expect("a limit");
        arguments.get(at + 1).and_then(|number| number.parse().ok()).expect("a number")
    };
    if arguments.get(1).is_some_and(|first| first == "launch") {
        let at = arguments.iter().position(|argument| argument == "--").expect("a command");
        let mut command = arguments.iter().skip(at + 1);
        let program = command.next().expect("a program").into();
        let arguments = command.map(Into::into).collect();
        let parent = u32::try_from(number("--parent")).expect("the id of a process");
        let job = LaunchJob { memory_bytes: number("--memory-bytes"), parent, program, arguments };
        eprintln!("{}", job.run());
        return ExitCode::FAILURE;
    }
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

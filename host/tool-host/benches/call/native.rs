//! The work of the benchmark as native code, in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::BURST;

const EXPRESSION: &str = r#"{"expression":"2*(3+4)-1/4"}"#;

/// The calculator's example `native`: does as many calls as it is told and says how long they took.
pub(crate) struct Native {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Native {
    pub(crate) fn start() -> Self {
        let program =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-tools/target/release/examples/native");
        let mut child =
            Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap_or_else(
                |error| panic!("{}: {error}; `cargo xtask bench` builds it", program.display()),
            );
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, orders, answers }
    }

    pub(crate) fn burst(&mut self) -> Duration {
        writeln!(self.orders, "{BURST} {EXPRESSION}").unwrap();
        let mut nanoseconds = String::new();
        self.answers.read_line(&mut nanoseconds).unwrap();
        Duration::from_nanos(nanoseconds.trim().parse().unwrap()) / BURST
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! The calculator as native code, for the host's benchmark. Reads lines of a number and the arguments of a
//! call as JSON; makes that call so many times and answers with the nanoseconds it took.
#![expect(clippy::unwrap_used, reason = "a benchmark that goes wrong may end at once")]

// The component's sources, not a library of them: cargo optimises a `cdylib` across crates only when it is
// not a library too, and without that the component takes half as long again. So its modules name one another
// by `super`.
#[path = "../src/lib.rs"]
mod calculator;

use std::hint::black_box;
use std::io::{BufRead, Write};
use std::time::Instant;

use agent_tool_sdk::Component;

fn main() {
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let (times, arguments) = line.split_once(' ').unwrap();
        let times: u32 = times.parse().unwrap();
        let start = Instant::now();
        for _ in 0..times {
            black_box(call(black_box(arguments)));
        }
        writeln!(stdout, "{}", start.elapsed().as_nanos()).unwrap();
        stdout.flush().unwrap();
    }
}

fn call(arguments: &str) -> agent_tool_sdk::Output {
    calculator::Tools::call("calculate".to_owned(), arguments.to_owned()).unwrap()
}

//! The calculator as native code, for the host's benchmark. Reads lines of a number and the arguments of a call
//! as JSON; makes that call so many times and answers with the nanoseconds it took.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "the other end is a benchmark that reads what this prints")]

use std::hint::black_box;
use std::io::{BufRead, Write};
use std::time::Instant;

fn main() {
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let (times, arguments) = line.split_once(' ').unwrap();
        let times: u32 = times.parse().unwrap();
        let start = Instant::now();
        for _ in 0..times {
            black_box(calculator::call_natively(black_box(arguments).to_owned())).unwrap();
        }
        writeln!(stdout, "{}", start.elapsed().as_nanos()).unwrap();
        stdout.flush().unwrap();
    }
}

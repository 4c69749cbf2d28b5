//! Processor, cores, kernel and date: what a number means nothing without.

use std::process::Command;
use std::{fs, thread};

pub(crate) fn describe() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown processor");
    let model = model.trim_start_matches([' ', '\t', ':']);
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let date = Command::new("date").arg("+%F").output().map(|date| date.stdout).unwrap_or_default();
    let date = String::from_utf8_lossy(&date);
    format!("{model}, {cores} cores, Linux {}, {}", kernel.trim(), date.trim())
}

//! Processor, cores, memory, kernel and date: what a number means nothing without.

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
    let (memory, kernel) = (memory_gib(), kernel.trim());
    format!("{model}, {cores} cores, {memory} GiB, Linux {kernel}, {}", date.trim())
}

/// All memory that the kernel has, in whole GiB.
fn memory_gib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    let kib: f64 = total.and_then(|total| total.parse().ok()).unwrap_or_default();
    (kib / f64::from(1 << 20)).round() as u64
}

//! Processes and those that they have started: what they have spent, what they hold, their end.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::measuring::process::{self, stat_words};

/// A process with all that it has started and that live.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let all = fs::read_dir("/proc").unwrap().flatten();
    for process in all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        // The second word behind the name is the parent.
        let parent = stat_words(process).and_then(|words| words.get(1)?.parse().ok());
        children.entry(parent.unwrap_or_default()).or_default().push(process);
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(process) = found.get(next) {
        found.extend(children.remove(process).unwrap_or_default());
        next += 1;
    }
    found
}

/// Processor time from their start on. A process that has ended is none.
pub(crate) fn processor_time(processes: &[u32]) -> Duration {
    processes.iter().filter_map(|process| process::processor_time(*process)).sum()
}

/// Resident memory in MiB, in which a page that several processes have counts once: the `Pss` of the kernel.
pub(crate) fn resident_mib(processes: &[u32]) -> f64 {
    let resident = |process: &u32| {
        let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().trim_end_matches(" kB").parse::<f64>().ok()
    };
    processes.iter().filter_map(resident).sum::<f64>() / 1024.0
}

/// Ends a process and all that it has started as `kill -9` does.
pub(crate) fn kill(root: u32) {
    for process in tree(root) {
        if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
            let _gone_already = kill_process(process, Signal::KILL);
        }
    }
}

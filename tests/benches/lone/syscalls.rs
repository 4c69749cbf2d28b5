//! System calls of processes by name, counted by `strace -c` in a pass of its own: a process that is traced
//! is several times as slow.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long strace may take to attach to all threads.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many names are shown.
const MOST_NAMES: usize = 5;

/// Counts of one pass.
pub(crate) struct Syscalls {
    /// System calls with their counts, the most frequent first.
    by_name: Vec<(String, u64)>,
    answers: usize,
}

impl Syscalls {
    /// Counts the calls of processes, all or those `only`, while `run` asks them and says how many answers it
    /// had. An error says why they cannot be counted here.
    pub(crate) fn count(
        processes: &[u32],
        only: Option<&str>,
        home: &Path,
        run: impl FnOnce() -> usize,
    ) -> Result<Self, String> {
        let summary = home.join("strace");
        let mut strace = Command::new("strace")
            .args(["-f", "-c", "-qq"])
            .args(only.iter().flat_map(|only| ["-e", *only]))
            .arg("-o")
            .arg(&summary)
            .args(processes.iter().flat_map(|process| ["-p".to_owned(), process.to_string()]))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("strace cannot be started ({error}): apt-get install strace"))?;
        let attached = wait_until_attached(&mut strace, processes);
        let answers = if attached.is_ok() { run() } else { 0 };
        // SIGINT makes strace write its summary and let go of the process.
        let _gone_already = kill_process(Pid::from_child(&strace), Signal::INT);
        strace.wait().map_err(|error| error.to_string())?;
        attached?;
        let text = fs::read_to_string(&summary).map_err(|error| format!("no summary of strace: {error}"))?;
        Ok(Self { by_name: parse(&text), answers })
    }

    /// Of all names, for each answer.
    pub(crate) fn all(&self) -> f64 {
        self.each(self.by_name.iter().map(|(_, count)| count).sum())
    }

    /// The most frequent names with their counts for each answer.
    pub(crate) fn most_frequent(&self) -> String {
        let shown = self.by_name.iter().take(MOST_NAMES);
        let shown: Vec<_> = shown.map(|(name, count)| format!("{name} {:.1}", self.each(*count))).collect();
        shown.join(", ")
    }

    fn each(&self, count: u64) -> f64 {
        count as f64 / self.answers.max(1) as f64
    }
}

fn wait_until_attached(strace: &mut Child, processes: &[u32]) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    loop {
        if strace.try_wait().is_ok_and(|ended| ended.is_some()) {
            let mut said = String::new();
            if let Some(errors) = &mut strace.stderr {
                let _ = errors.read_to_string(&mut said);
            }
            return Err(format!("strace may not watch the processes: {}", said.trim()));
        }
        if processes.iter().copied().all(is_traced) {
            return Ok(());
        }
        if Instant::now() > until {
            return Err("strace does not attach".to_owned());
        }
        thread::yield_now();
    }
}

/// Whether every thread has a tracer. A process that has ended meanwhile needs none.
fn is_traced(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return true };
    threads.filter_map(Result::ok).all(|thread| {
        // One that has ended meanwhile needs none.
        fs::read_to_string(thread.path().join("status")).is_ok_and(|status| {
            status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|id| id.trim() != "0"))
        })
    })
}

/// Rows of `% time, seconds, usecs/call, calls, errors, syscall`, of which the errors may be left out.
fn parse(summary: &str) -> Vec<(String, u64)> {
    let rows = summary.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_row = words.len() >= 5 && words[0].parse::<f64>().is_ok();
        let (name, calls) = (words.last()?, words.get(3)?.parse().ok()?);
        (is_row && *name != "total").then(|| ((*name).to_owned(), calls))
    });
    let mut by_name: Vec<_> = rows.collect();
    by_name.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
    by_name
}

#[cfg(test)]
#[allow(dead_code, unused_imports, reason = "a bench runs no tests; `it/evidence.rs` does")]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_strace_is_read_with_and_without_errors() {
        let summary = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 63.01    7.733545         760     10170      1569 futex
 11.17    1.371532         162     84610           epoll_wait
------ ----------- ----------- --------- --------- ----------------
100.00    9.105077          96     94780      1569 total
";
        let counted = Syscalls { by_name: parse(summary), answers: 1000 };
        assert_eq!(counted.most_frequent(), "epoll_wait 84.6, futex 10.2");
        assert!((counted.all() - 94.78).abs() < 1e-9, "{}", counted.all());
        assert!(parse("").is_empty(), "strace writes nothing when there were no calls");
    }
}

//! How often processes ask the disk to keep what they wrote, counted by `strace -c` in a pass of its own, and
//! how long the disk takes for it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The system calls that make written data durable.
const CALLS: &str = "trace=fsync,fdatasync,sync_file_range,msync,syncfs,sync";

/// What strace may take to attach to every thread.
const ATTACHING: Duration = Duration::from_millis(700);

/// How often the disk is asked each time, and with how much.
const SAMPLES: usize = 50;
const PAGE: [u8; 4096] = [7; 4096];

/// For each run; an error says why they are not counted.
pub(crate) type Flushes = Result<f64, String>;

/// How long `fdatasync` took on the file system of the stores.
#[derive(Default)]
pub(crate) struct Disk {
    /// Of a file that grows: the file system writes down its length too.
    appended: Vec<Duration>,
    /// Of one that does not, such as a log that is begun anew.
    overwritten: Vec<Duration>,
}

impl Disk {
    /// Writes pages to a file and has each flushed.
    pub(crate) fn measure(&mut self, home: &Path) {
        let file = File::create(home.join("fdatasync")).unwrap();
        for times in [&mut self.appended, &mut self.overwritten] {
            for page in 0..SAMPLES {
                file.write_all_at(&PAGE, (page * PAGE.len()) as u64).unwrap();
                let start = Instant::now();
                file.sync_data().unwrap();
                times.push(start.elapsed());
            }
        }
    }

    /// Says how long both took, in words.
    pub(crate) fn describe(&mut self) -> String {
        let [appended, overwritten] = [&mut self.appended, &mut self.overwritten].map(|times| {
            times.sort_unstable();
            let last = times.len().saturating_sub(1);
            let micros = |percent: usize| times.get(last * percent / 100).map_or(0, Duration::as_micros);
            format!("p50 {} µs, p99 {} µs", micros(50), micros(99))
        });
        format!("appended: {appended}; overwritten: {overwritten}")
    }
}

/// Counts while `run` has runs made, and says how many there were.
pub(crate) fn count(processes: &[u32], home: &Path, run: impl FnOnce() -> usize) -> Flushes {
    let summary = home.join("strace");
    let attached = processes.iter().flat_map(|process| ["-p".to_owned(), process.to_string()]);
    let mut strace = Command::new("strace")
        .args(["-f", "-c", "-qq", "-e", CALLS, "-o"])
        .arg(&summary)
        .args(attached)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("strace cannot be started ({error}): apt-get install strace"))?;
    #[expect(clippy::disallowed_methods, reason = "strace does not say when it is attached")]
    thread::sleep(ATTACHING);
    if strace.try_wait().is_ok_and(|ended| ended.is_some()) {
        return Err("strace may not watch the processes".to_owned());
    }
    let runs = run();
    // SIGINT makes strace write its summary and let go of the processes.
    let _gone_already = kill_process(Pid::from_child(&strace), Signal::INT);
    strace.wait().map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(&summary).map_err(|error| format!("no summary of strace: {error}"))?;
    Ok(total(&text) as f64 / runs.max(1) as f64)
}

/// The calls of the row `total`, which is not there when there were none.
fn total(summary: &str) -> u64 {
    let rows = summary.lines().filter(|line| line.ends_with(" total"));
    rows.filter_map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
#[allow(dead_code, unused_imports, reason = "a bench runs no tests; `it/evidence.rs` does")]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_all_names_are_counted_and_none_is_no_call() {
        let summary = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 99.00    0.009915          82       118           fsync
  1.00    0.000100          50         2         1 msync
------ ----------- ----------- --------- --------- ----------------
100.00    0.010015          83       120         1 total
";
        assert_eq!((total(summary), total("")), (120, 0));
    }
}

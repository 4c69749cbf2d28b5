//! How often processes ask the disk to keep what they wrote, counted by `strace -c` in a pass of its own, and
//! how long the disk takes for it.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// What makes written data durable.
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
pub(crate) struct Disk(Vec<Duration>);

impl Disk {
    /// Appends pages to a file and has each flushed.
    pub(crate) fn measure(&mut self, home: &Path) {
        let mut file = File::create(home.join("fdatasync")).unwrap();
        for _ in 0..SAMPLES {
            file.write_all(&PAGE).unwrap();
            let start = Instant::now();
            file.sync_data().unwrap();
            self.0.push(start.elapsed());
        }
    }

    pub(crate) fn print(&mut self) {
        self.0.sort_unstable();
        let last = self.0.len().saturating_sub(1);
        let micros = |percent: usize| self.0.get(last * percent / 100).map_or(0, Duration::as_micros);
        println!(
            "fdatasync of an appended page on the stores' file system, before every turn: p50 {} µs, p99 {} µs",
            micros(50),
            micros(99)
        );
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

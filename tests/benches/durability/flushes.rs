//! How often processes ask the disk to keep what they wrote, counted by `strace -c` in a pass of its own, and
//! how long the disk takes for it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::measuring::client::percentile;
use crate::syscalls::Syscalls;

/// The system calls that make written data durable.
const CALLS: &str = "trace=fsync,fdatasync,sync_file_range,msync,syncfs,sync";

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
            let [p50, p99] =
                [50, 99].map(|percent| percentile(times, percent).unwrap_or_default().as_micros());
            format!("p50 {p50} µs, p99 {p99} µs")
        });
        format!("appended: {appended}; overwritten: {overwritten}")
    }
}

/// Counts while `run` has runs made, and says how many there were.
pub(crate) fn count(processes: &[u32], home: &Path, run: impl FnOnce() -> usize) -> Flushes {
    Syscalls::count(processes, Some(CALLS), home, run).map(|counted| counted.all())
}

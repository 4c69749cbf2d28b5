//! What the kernel has counted for a process: processor time, how often its threads went to sleep or were
//! taken off a processor, page faults.

use std::collections::HashMap;
use std::fs;
use std::ops::AddAssign;
use std::time::Duration;

use crate::measuring::process::{stat_words, user_and_system};

/// Counts since the process was started.
pub(crate) struct Reading {
    user: Duration,
    system: Duration,
    page_faults: u64,
    /// Of each thread that lives: the times that it waited for something, and those that it was taken off its
    /// processor.
    switches: HashMap<String, [u64; 2]>,
}

/// Counts between two readings. What threads counted that ended meanwhile is not among them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    /// The sum of both is exact; the kernel divides it by what it saw at its ticks.
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) page_faults: u64,
    pub(crate) waits: u64,
    pub(crate) preemptions: u64,
}

impl Reading {
    pub(crate) fn of(process: u32) -> Self {
        let words = stat_words(process).unwrap();
        let [user, system] = user_and_system(&words);
        Self { user, system, page_faults: words[7].parse().unwrap(), switches: switches_of(process) }
    }

    /// What was spent from `earlier` on.
    pub(crate) fn since(&self, earlier: &Self) -> Spent {
        let mut spent = Spent {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            page_faults: self.page_faults - earlier.page_faults,
            ..Spent::default()
        };
        for (thread, [waits, preemptions]) in &self.switches {
            let [waited, preempted] = earlier.switches.get(thread).copied().unwrap_or_default();
            spent.waits += waits.saturating_sub(waited);
            spent.preemptions += preemptions.saturating_sub(preempted);
        }
        spent
    }
}

fn switches_of(process: u32) -> HashMap<String, [u64; 2]> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads
        .filter_map(|thread| {
            let thread = thread.ok()?;
            // The thread may have ended meanwhile.
            let status = fs::read_to_string(thread.path().join("status")).ok()?;
            let count = |name: &str| {
                status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
            };
            let switches = [count("voluntary_ctxt_switches:")?, count("nonvoluntary_ctxt_switches:")?];
            Some((thread.file_name().to_string_lossy().into_owned(), switches))
        })
        .collect()
}

impl Spent {
    /// User and system time.
    pub(crate) fn processor(&self) -> Duration {
        self.user + self.system
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.user += other.user;
        self.system += other.system;
        self.page_faults += other.page_faults;
        self.waits += other.waits;
        self.preemptions += other.preemptions;
    }
}

//! What the kernel has counted for a process: processor time, how often its threads went to sleep or were
//! taken off a processor, page faults.

use std::collections::HashMap;
use std::fs;
use std::ops::AddAssign;
use std::time::Duration;

/// What the kernel counts processor time in, for every program on every machine: hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

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
        let line = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        // The name, in parentheses, may hold anything. Behind it page faults are the 8th word, user and
        // system time the 12th and 13th.
        let (_, words) = line.rsplit_once(')').unwrap();
        let words: Vec<&str> = words.split_whitespace().collect();
        let ticks = |index: usize| TICK * words[index].parse::<u32>().unwrap();
        Self {
            user: ticks(11),
            system: ticks(12),
            page_faults: words[7].parse().unwrap(),
            switches: switches_of(process),
        }
    }

    /// User and system time since the start.
    #[allow(dead_code, reason = "not every bench reads it of a whole process")]
    pub(crate) fn processor(&self) -> Duration {
        self.user + self.system
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

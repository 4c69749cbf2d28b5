//! Resident memory of what took part, idle and at most under load.

use crate::aim;
use crate::measuring::process::Running;

/// Ours, in parts of the peer's.
const AIM: f64 = 0.5;

/// Of some processes together, in MiB.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    idle: f64,
    peak: f64,
}

/// What processes held before anything was asked of them.
pub(crate) struct Idle<'a> {
    processes: Vec<&'a Running>,
    resident: f64,
}

impl<'a> Idle<'a> {
    pub(crate) fn of(processes: impl IntoIterator<Item = &'a Running>) -> Self {
        let processes: Vec<_> = processes.into_iter().collect();
        let resident = processes.iter().map(|process| process.resident_mib()).sum();
        Self { processes, resident }
    }

    /// The load is over.
    pub(crate) fn loaded(self) -> Memory {
        let peak = self.processes.iter().map(|process| process.peak_mib()).sum();
        Memory { idle: self.resident, peak }
    }
}

impl Memory {
    /// Prints the baseline's.
    pub(crate) fn report_baseline(self, load: &str) {
        println!("resident memory, {load}: baseline {:.1} MiB idle, {:.1} at most", self.idle, self.peak);
    }

    /// Prints ours beside the peer's.
    pub(crate) fn report(self, peer: Self, load: &str, peers: &str) {
        println!(
            "resident memory, {load}: agent-host {:.1} MiB idle, {:.1} at most; {peers} {:.1} MiB idle, {:.1} at most",
            self.idle, self.peak, peer.idle, peer.peak
        );
        for (when, ours, theirs) in
            [("idle", self.idle, peer.idle), ("at most under load", self.peak, peer.peak)]
        {
            println!("  {when}: {}", aim::at_most("the peer's", ours / theirs, AIM));
        }
    }
}

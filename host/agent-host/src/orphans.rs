//! Reaps what MCP servers leave behind where this is the first process of a container.
//!
//! An MCP server that is a child process may start others. They are killed with its group, and become
//! children of the first process. The kernel keeps each in its table, where it counts for the container's
//! limit on processes, until the first process has asked how it ended.
//!
//! Processes that the service has started do not belong here: somebody waits for them.

use std::time::Duration;

use procfs::process::{Process, Stat, all_processes};
use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::time::sleep;

/// How often they are looked for.
const INTERVAL: Duration = Duration::from_secs(10);

/// Whether the orphans of a container become children of this process.
pub(crate) fn come_here() -> bool {
    std::process::id() == 1
}

/// Reaps them again and again. Never ends by itself.
pub(crate) async fn keep_reaping() {
    loop {
        sleep(INTERVAL).await;
        reap();
    }
}

/// Gives how many there were.
fn reap() -> usize {
    let own = Process::myself().and_then(|own| own.stat());
    // silent-ok: a sandbox may hide `/proc`.
    let (Ok(own), Ok(processes)) = (own, all_processes()) else { return 0 };
    let all = processes.filter_map(|process| process.ok()?.stat().ok());
    all.filter(|process| is_orphan(process, &own)).filter(|orphan| has_ended(orphan.pid)).count()
}

/// A compiler is in the group of this process, and an MCP server leads a group of its own: these are waited
/// for elsewhere.
fn is_orphan(process: &Stat, own: &Stat) -> bool {
    let is_started_here = process.pgrp == own.pgrp || process.pgrp == process.pid;
    process.state == 'Z' && process.ppid == own.pid && !is_started_here
}

/// Asks how a child ended, after which the kernel forgets it.
fn has_ended(child: i32) -> bool {
    // Nothing of an id that is none: that would ask for any child.
    Pid::from_raw(child).is_some_and(|child| matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(Some(_))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use rustix::process::{getpid, set_child_subreaper};

    use super::*;

    #[tokio::test]
    async fn what_a_server_started_is_reaped_and_what_somebody_waits_for_is_not() {
        // Orphans of this process's children become its own, as those of a container do of its first process.
        set_child_subreaper(Some(getpid())).unwrap();
        let mut compiler = Command::new("true").spawn().unwrap();
        // Some shells ask how a child of theirs ended that ends before them.
        let mut server = Command::new("sh").args(["-c", "sleep 1 &"]).process_group(0).spawn().unwrap();
        while reap() == 0 {
            sleep(Duration::from_millis(10)).await;
        }
        assert!(compiler.wait().unwrap().success() && server.wait().unwrap().success());
        assert_eq!(reap(), 0);
    }
}

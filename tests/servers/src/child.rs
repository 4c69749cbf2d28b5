//! A server's process.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// How often a stopped process is looked at before it counts as stopped all the same, and the pause in
/// between.
const LOOKS: u32 = 1_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// A process that is ended with that signal when its guard is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    last_word: Signal,
}

impl Process {
    pub(crate) fn new(child: Child, last_word: Signal) -> Self {
        Self { child, last_word }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Stops the process and those it has started: it keeps its sockets and answers nothing.
    pub(crate) fn freeze(&self) {
        // The parent first, so that it starts no other while its children are counted.
        stop(self.child.id());
        for child in children_of(self.child.id()) {
            stop(child);
        }
    }

    /// Undoes [`Self::freeze`].
    pub(crate) fn thaw(&self) {
        for child in children_of(self.child.id()) {
            signal(child, Signal::CONT);
        }
        signal(self.child.id(), Signal::CONT);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        signal(self.child.id(), self.last_word);
        // One that was frozen has to be thawed to hear it.
        self.thaw();
        let _gone_already = self.child.wait();
    }
}

fn signal(process: u32, signal: Signal) {
    if let Some(id) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _gone_already = kill_process(id, signal);
    }
}

/// Stops a process and waits until each of its threads stands: the signal is delivered behind `kill`'s back,
/// and a thread that still runs may answer one more request.
#[expect(clippy::disallowed_methods, reason = "nothing tells when a signal has arrived")]
fn stop(process: u32) {
    signal(process, Signal::STOP);
    for _ in 0..LOOKS {
        if threads_stand(process) {
            return;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// Whether no thread of a process runs, as Linux tells; elsewhere there is nothing to wait for.
fn threads_stand(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return true };
    threads.flatten().all(|thread| {
        // `id (name) state …`: the name may hold anything, a parenthesis too.
        let line = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = line.rsplit(')').next().unwrap_or_default().trim_start();
        state.is_empty() || state.starts_with(['T', 't', 'Z', 'X'])
    })
}

/// The processes that this one has started, as Linux lists them; elsewhere none are known.
fn children_of(process: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

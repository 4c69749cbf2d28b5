//! A server's process.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

/// A process that is ended with that signal when its guard is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    last_word: Signal,
}

impl Server {
    pub(crate) fn new(child: Child, last_word: Signal) -> Self {
        Self { child, last_word }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _gone_already = kill_process(id, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal(self.last_word);
        // One that was frozen has to be thawed to hear it.
        self.signal(Signal::CONT);
        let _gone_already = self.child.wait();
    }
}

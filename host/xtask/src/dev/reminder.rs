//! Says every few seconds that a step goes on.

use std::io::{IsTerminal as _, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long nothing is said.
const PAUSE: Duration = Duration::from_secs(10);

/// A thread that ends when this is dropped.
pub(super) struct Reminder(#[expect(dead_code, reason = "dropping it tells the thread")] Sender<()>);

impl Reminder {
    /// At a terminal cargo shows a bar of how many crates of how many are done, and nothing more is said.
    pub(super) fn start(step: &'static str) -> Self {
        let (sender, dropped) = channel();
        let began = Instant::now();
        if !stderr().is_terminal() {
            thread::spawn(move || {
                while dropped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                    eprintln!("xtask: {step}: {} s so far", began.elapsed().as_secs());
                }
            });
        }
        Self(sender)
    }
}

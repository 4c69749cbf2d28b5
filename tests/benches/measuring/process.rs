//! A process under measurement: started, looked at from outside, killed when its guard is dropped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::Value;

pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Starts a process that logs lines of JSON, and waits for the first in which `find` finds something.
    pub(crate) fn start<T>(command: &mut Command, find: impl Fn(&Value) -> Option<T>) -> (Self, T) {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("what is measured can be started");
        let mut log = BufReader::new(child.stdout.take().unwrap());
        let found = loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "{command:?} ended");
            if let Some(found) = find(&serde_json::from_str(&line).unwrap_or_default()) {
                break found;
            }
        };
        // Somebody has to read the log, or the process waits for it.
        thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        (Self(child), found)
    }

    pub(crate) fn resident_mib(&self) -> f64 {
        self.status_mib("VmRSS:")
    }

    pub(crate) fn peak_mib(&self) -> f64 {
        self.status_mib("VmHWM:")
    }

    fn status_mib(&self, name: &str) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

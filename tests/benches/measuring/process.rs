//! Processes under measurement: started, looked at from outside, killed when their guard is dropped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// What the kernel counts processor time in, for every program on every machine: hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

pub(crate) struct Running(pub(crate) Child);

/// A process that serves.
pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
}

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

    /// Starts a process that does not say where it listens, and waits until it does at these addresses.
    pub(crate) fn listening(command: &mut Command, addresses: &[SocketAddr]) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut running = Self(child.expect("what is measured can be started"));
        let until = Instant::now() + PATIENCE;
        while !addresses.iter().all(|address| TcpStream::connect(address).is_ok()) {
            assert!(running.0.try_wait().unwrap().is_none(), "{command:?} ended");
            assert!(Instant::now() < until, "{command:?} does not listen");
            #[expect(clippy::disallowed_methods, reason = "a server says nothing when it listens")]
            thread::sleep(BETWEEN_LOOKS);
        }
        running
    }

    pub(crate) fn resident_mib(&self) -> f64 {
        status_mib(self.0.id(), "VmRSS:")
    }

    pub(crate) fn peak_mib(&self) -> f64 {
        status_mib(self.0.id(), "VmHWM:")
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

impl Server {
    /// Starts ours or the peer's server, and waits until its log says where it listens.
    pub(crate) fn start(command: &mut Command) -> Self {
        let (running, address) = Running::start(command, address_in);
        Self { running, address }
    }
}

/// Ours logs the address, the peer its port.
fn address_in(line: &Value) -> Option<SocketAddr> {
    let port = || Some(SocketAddr::from(([127, 0, 0, 1], u16::try_from(line["port"].as_u64()?).ok()?)));
    line["address"].as_str().and_then(|address| address.parse().ok()).or_else(port)
}

/// An amount of memory in the `status` of a process, such as `VmRSS:`.
pub(crate) fn status_mib(process: u32, name: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

/// The words of the `stat` of a process behind its name, which is in parentheses and may hold anything;
/// nothing of one that has ended.
pub(crate) fn stat_words(process: u32) -> Option<Vec<String>> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, words) = line.rsplit_once(')')?;
    Some(words.split_whitespace().map(str::to_owned).collect())
}

/// User and system time since the start of the process, of its [`stat_words`].
pub(crate) fn user_and_system(words: &[String]) -> [Duration; 2] {
    [11, 12].map(|index: usize| TICK * words[index].parse::<u32>().unwrap())
}

/// Processor time of a process from its start on; nothing of one that has ended.
pub(crate) fn processor_time(process: u32) -> Option<Duration> {
    Some(user_and_system(&stat_words(process)?).iter().sum())
}

//! A child process that does not outlive its guard, with all it writes.

use std::io;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use rustix::process::Signal;

use crate::log::{Log, Stream};
use test_servers::within;

/// A running process. Dropping it kills it.
pub struct Process {
    child: Child,
    log: Log,
    readers: JoinSet<()>,
    /// Whether standard output is read.
    reading: watch::Sender<bool>,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Exit code of the process; absent when a signal ended it.
    pub code: Option<i32>,
    /// All it wrote to standard output.
    pub stdout: String,
    /// All it wrote to standard error.
    pub stderr: String,
}

impl Process {
    /// Starts a process and begins to read what it writes.
    pub fn spawn(command: &mut Command) -> Self {
        let process = Self::spawn_unread(command);
        process.read();
        process
    }

    /// Starts a process whose standard output is not read before [`Self::read`] is called: what it writes
    /// fills the pipe.
    pub fn spawn_unread(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let log = Log::new();
        let mut readers = JoinSet::new();
        let (reading, mut may_read) = watch::channel(false);
        let (stdout, stdout_log) = (child.stdout.take().expect("it is piped"), log.clone());
        readers.spawn(async move {
            if may_read.wait_for(|read| *read).await.is_ok() {
                stdout_log.read(Stream::Stdout, stdout).await;
            }
        });
        readers.spawn(log.clone().read(Stream::Stderr, child.stderr.take().expect("it is piped")));
        Self { child, log, readers, reading }
    }

    /// Reads standard output from now on.
    pub fn read(&self) {
        self.reading.send_replace(true);
    }

    /// What it writes.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Id of the process.
    pub fn id(&self) -> u32 {
        self.child.id().expect("a process that was not waited for has an id")
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.id()).ok().and_then(Pid::from_raw).expect("an id of a process");
        kill_process(id, signal).expect("our own child can be signalled");
    }

    /// Waits until it has ended and all it wrote has been read.
    pub async fn ended(&mut self) -> Ended {
        let status = within("the process to end", self.child.wait()).await;
        self.read_to_the_end(status).await
    }

    /// Waits as [`Self::ended`] does, for as long as the test runner lets a test run: a program that works
    /// for half a minute on an idle machine needs more than [`crate::PATIENCE`] beside others.
    pub async fn ended_at_last(&mut self) -> Ended {
        let status = self.child.wait().await;
        self.read_to_the_end(status).await
    }

    async fn read_to_the_end(&mut self, status: io::Result<ExitStatus>) -> Ended {
        let status = status.expect("our own child can be waited for");
        self.read();
        let read_all = async { while self.readers.join_next().await.is_some() {} };
        within("the output of a process that ended", read_all).await;
        Ended { code: status.code(), stdout: self.log.stdout(), stderr: self.log.stderr() }
    }
}

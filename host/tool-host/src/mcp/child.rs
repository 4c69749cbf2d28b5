//! A child process that is spoken to over its standard input and output, a message a line.
//!
//! It has no environment but what its entry names, no descriptor of ours, a process group of its own and the limits of
//! `launch`. Dropping it kills the group. What it says on its standard error goes to the log, a few lines of each
//! exchange; between exchanges nobody reads it, and the pipe is the bound.

use std::process::Stdio;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::error::McpError;
use super::launch::Launcher;
use super::message::{Exchange, MOST_BYTES, Next};
use crate::egress::Scanner;
use crate::untrusted_text::printable;

/// The first descriptor that is neither input nor output nor complaint.
const FIRST_OTHER: i32 = 3;

/// Lines of the standard error that are logged of one exchange, and bytes of each.
const LOGGED_LINES: u32 = 20;
const LOGGED_BYTES: usize = 500;

/// Longest line that is logged at all: secrets are looked for in whole lines.
const LINE_BYTES: usize = 16 << 10;

/// Bytes of the standard output that are read at once.
const READ_BYTES: usize = 8 << 10;

/// Memory that a server may write to, unless its entry says otherwise.
const MEMORY_BYTES: u64 = 1 << 30;

/// How a server is started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start<'a> {
    pub(super) name: &'a str,
    pub(super) launcher: &'a Launcher,
    pub(super) program: &'a str,
    pub(super) arguments: &'a [String],
    pub(super) memory_bytes: Option<u64>,
}

/// A server that runs.
#[derive(Debug)]
pub(super) struct ChildProcess {
    name: String,
    _child: Child,
    group: Pid,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: Option<ChildStderr>,
    /// What was read of the standard output and is no whole line yet.
    read: Vec<u8>,
    complaints: Complaints,
}

/// The standard error of a server, as far as it goes to the log.
#[derive(Debug, Default)]
struct Complaints {
    line: Vec<u8>,
    logged: u32,
}

impl ChildProcess {
    /// Starts a server with this environment.
    pub(super) fn start(
        start: Start<'_>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, McpError> {
        let failed = |problem: String| McpError::Unreachable(format!("it cannot be started: {problem}"));
        // What this program opens is closed on exec; what it was started with may not be.
        close_fds::set_fds_cloexec_threadsafe(FIRST_OTHER, &[]);
        let memory = start.memory_bytes.unwrap_or(MEMORY_BYTES).to_string();
        let mut command = Command::new(&start.launcher.program);
        command
            .arg0("agent-host")
            .args(&start.launcher.arguments)
            .args(["--memory-bytes", &memory, "--", start.program])
            .args(start.arguments)
            .env_clear()
            .envs(environment)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(group), (Some(stdin), Some(stdout), stderr)) = (group, pipes) else {
            return Err(failed("it has no pipes".into()));
        };
        let (read, complaints) = (Vec::new(), Complaints::default());
        let name = start.name.to_owned();
        Ok(Self { name, _child: child, group, stdin, stdout, stderr, read, complaints })
    }

    /// Whether it has not ended. It is not waited for: its id stays its own until it is dropped.
    pub(super) fn is_alive(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(self.group), options), Ok(None))
    }

    /// Sends a message.
    pub(super) async fn send(&mut self, message: &str) -> Result<(), McpError> {
        let line = format!("{message}\n");
        let sent = async {
            self.stdin.write_all(line.as_bytes()).await?;
            self.stdin.flush().await
        };
        sent.await.map_err(|error| McpError::Died(error.to_string()))
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn request(
        &mut self,
        scanner: &Scanner,
        exchange: &mut Exchange,
        message: &str,
    ) -> Result<Value, McpError> {
        self.complaints.logged = 0;
        self.send(message).await?;
        loop {
            let line = self.line(scanner).await?;
            match exchange.take_in(&line)? {
                Next::Answer(answer) => return Ok(answer),
                Next::Reply(reply) => self.send(&reply).await?,
                Next::GoOn => {}
            }
        }
    }

    /// The next line that is not empty.
    async fn line(&mut self, scanner: &Scanner) -> Result<Vec<u8>, McpError> {
        let mut complaint = [0; 512];
        let mut searched = 0;
        loop {
            let found = self.read.iter().skip(searched).position(|byte| *byte == b'\n');
            if let Some(end) = found.map(|at| searched + at) {
                let rest = self.read.split_off(end + 1);
                let line = std::mem::replace(&mut self.read, rest);
                searched = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(line);
            }
            searched = self.read.len();
            if searched > MOST_BYTES {
                return Err(McpError::TooMuch(format!("a message of more than {MOST_BYTES} bytes")));
            }
            self.read.reserve(READ_BYTES);
            let Self { stdout, stderr, read, complaints, name, .. } = self;
            tokio::select! {
                got = stdout.read_buf(read) => match got {
                    Ok(0) => return Err(McpError::Died("it ended".into())),
                    Ok(_) => {}
                    Err(error) => return Err(McpError::Died(error.to_string())),
                },
                bytes = complaint_of(stderr.as_mut(), &mut complaint) => match bytes {
                    0 => *stderr = None,
                    bytes => complaints.push(name, scanner, complaint.get(..bytes).unwrap_or_default()),
                },
            }
        }
    }
}

/// Bytes that were read of the standard error; 0 at its end. Without one it waits for ever.
async fn complaint_of(stderr: Option<&mut ChildStderr>, into: &mut [u8]) -> usize {
    match stderr {
        // silent-ok: what cannot be read has ended.
        Some(stderr) => stderr.read(into).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

impl Complaints {
    fn push(&mut self, server: &str, scanner: &Scanner, piece: &[u8]) {
        for byte in piece {
            if *byte == b'\n' {
                self.log(server, scanner);
            } else if self.line.len() <= LINE_BYTES {
                self.line.push(*byte);
            }
        }
    }

    fn log(&mut self, server: &str, scanner: &Scanner) {
        let line = std::mem::take(&mut self.line);
        self.logged = self.logged.saturating_add(1);
        if self.logged > LOGGED_LINES || line.is_empty() {
            return;
        }
        if line.len() > LINE_BYTES {
            tracing::info!(
                server,
                "an MCP server wrote a line to its standard error that is too long to be logged"
            );
            return;
        }
        let text = String::from_utf8_lossy(&line);
        let said = printable(&scanner.scan_text(text.trim_end()), LOGGED_BYTES);
        tracing::info!(server, said, "an MCP server wrote to its standard error");
        if self.logged == LOGGED_LINES {
            tracing::info!(server, "it may have written more, which is not logged");
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // silent-ok: a group that has ended needs no signal.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

//! A child process that is spoken to over its standard input and output, a message a line.
//!
//! It has no environment but what its entry names, no descriptor of ours, a process group of its own and the
//! limits in `child_limits`. Dropping it kills the group. What it says on its standard error goes to the log,
//! a few lines of each exchange.

use std::process::Stdio;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::Value;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tool_egress::Scanner;

use crate::connection::child_limits::Launcher;
use crate::connection::child_output::Output;
use crate::error::McpError;
use crate::message::{Exchange, Next};

/// The first descriptor that is neither input nor output nor complaint.
const FIRST_OTHER: i32 = 3;

/// Memory that a server may write to, unless its entry says otherwise.
const MEMORY_BYTES: u64 = 1 << 30;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Start<'a> {
    pub(crate) name: &'a str,
    pub(crate) launcher: &'a Launcher,
    pub(crate) program: &'a str,
    pub(crate) arguments: &'a [String],
    pub(crate) memory_bytes: Option<u64>,
}

/// A server that runs.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    _child: Child,
    group: Pid,
    stdin: ChildStdin,
    output: Output<ChildStdout, ChildStderr>,
}

impl ChildProcess {
    /// Starts a server with this environment.
    pub(crate) fn start(
        start: Start<'_>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, McpError> {
        let failed = |problem: String| McpError::Unreachable(format!("it cannot be started: {problem}"));
        // What this program opens is closed on exec; what it was started with may not be.
        close_fds::set_fds_cloexec_threadsafe(FIRST_OTHER, &[]);
        let memory = start.memory_bytes.unwrap_or(MEMORY_BYTES).to_string();
        let parent = std::process::id().to_string();
        let mut command = Command::new(&start.launcher.program);
        command
            .arg0("agent-host")
            .args(&start.launcher.arguments)
            .args(["--memory-bytes", &memory, "--parent", &parent, "--", start.program])
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
        let output = Output::new(start.name.to_owned(), stdout, stderr);
        Ok(Self { _child: child, group, stdin, output })
    }

    /// Whether it has not ended. It is not waited for: its id stays its own until it is dropped.
    pub(crate) fn is_alive(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(self.group), options), Ok(None))
    }

    pub(crate) async fn send(&mut self, scanner: &Scanner, message: &str) -> Result<(), McpError> {
        let line = format!("{message}\n");
        self.output.write(&mut self.stdin, scanner, line.as_bytes()).await
    }

    /// Sends a request and waits for its answer, in which there is no secret.
    pub(crate) async fn request(
        &mut self,
        scanner: &Scanner,
        exchange: &mut Exchange<'_>,
        message: &str,
    ) -> Result<Value, McpError> {
        self.output.begin_exchange();
        self.send(scanner, message).await?;
        loop {
            let line = self.output.line(scanner).await?;
            // Over HTTP the way out has done this.
            let (line, _found) = scanner.scan_bytes(&line);
            match exchange.take_in(&line)? {
                Next::Answer(answer) => return Ok(answer),
                Next::Reply(reply) => self.send(scanner, &reply).await?,
                Next::GoOn => {}
            }
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // silent-ok: a group that has ended needs no signal.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

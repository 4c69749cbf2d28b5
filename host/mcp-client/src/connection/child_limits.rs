//! What stands between this program and an MCP server that is a child process: a process that limits itself
//! and then becomes the server.
//!
//! The limits bound what a server that runs wild may cost. They are **no sandbox**: the server runs as the
//! service's user, reads that user's files and opens what connections it likes.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::set_no_new_privs;

/// Most bytes of a file that a server writes.
const MOST_FILE_BYTES: u64 = 1 << 30;

/// Most descriptors of a server.
const MOST_FILES: u64 = 256;

/// The command that runs [`LaunchJob::run`] with the arguments that follow its own: `--memory-bytes`,
/// `--parent`, `--`, and the server's command.
#[derive(Debug, Clone)]
pub struct Launcher {
    pub program: PathBuf,
    /// Arguments of the program, before those of the job.
    pub arguments: Vec<OsString>,
}

impl Launcher {
    /// A program and its first arguments.
    pub fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        Self { program: program.into(), arguments: arguments.iter().map(Into::into).collect() }
    }
}

/// One server to start in the place of this process.
#[derive(Debug, Clone)]
pub struct LaunchJob {
    /// Most memory it may write to.
    pub memory_bytes: u64,
    /// The process that starts it, and with which it is to end.
    pub parent: u32,
    pub program: PathBuf,
    /// The program's arguments.
    pub arguments: Vec<OsString>,
}

/// Why no server was started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The launching process could not be limited.
    #[error("the process cannot limit itself: {0}")]
    Limits(#[source] io::Error),
    /// Whoever asked for the server has ended.
    #[error("the service that asked for it has ended")]
    Orphan,
    /// There is no such program, or it cannot be run.
    #[error("{program:?} cannot be started: {error}")]
    Start {
        program: PathBuf,
        #[source]
        error: io::Error,
    },
}

impl LaunchJob {
    /// Does the job, and returns only if it cannot be done. Meant for a process of its own that has done
    /// nothing before: it lowers the limits of the whole process.
    pub fn run(self) -> LaunchError {
        if let Err(error) = die_with_parent() {
            return LaunchError::Limits(error);
        }
        // Of a parent that ended before there is no signal.
        if getppid().and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok()) != Some(self.parent) {
            return LaunchError::Orphan;
        }
        if let Err(error) = self.limit() {
            return LaunchError::Limits(error);
        }
        let error = Command::new(&self.program).args(&self.arguments).exec();
        LaunchError::Start { program: self.program, error }
    }

    fn limit(&self) -> io::Result<()> {
        set_no_new_privs(true)?;
        lower(Resource::Core, 0)?;
        // Not the address space: interpreters reserve far more of that than they use.
        lower(Resource::Data, self.memory_bytes)?;
        lower(Resource::Fsize, MOST_FILE_BYTES)?;
        lower(Resource::Nofile, MOST_FILES)?;
        // When memory is short the kernel is to end this and not the service. silent-ok: not every system
        // lets us.
        let _ = fs::write("/proc/self/oom_score_adj", "1000");
        Ok(())
    }
}

/// Asks the kernel to kill this process, and none that it starts, when its parent ends. The signal comes when
/// the thread that started this ends; a runtime's threads last as long as the runtime.
fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Lowers a limit. One that is lower already stays.
fn lower(resource: Resource, most: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let least = |now: Option<u64>| Some(now.map_or(most, |now| now.min(most)));
    Ok(setrlimit(resource, Rlimit { current: least(now.current), maximum: least(now.maximum) })?)
}

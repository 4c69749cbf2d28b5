//! Compiling a stranger's bytes: in a child process, so that Cranelift never runs where requests are served.
//!
//! The child gets the component on its standard input, writes the code to its standard output, which is a
//! file that the parent opened, and says on its standard error what is wrong. It has no environment and no
//! other descriptor. It limits itself before it reads (`child.rs`); the parent holds it to the time limit and
//! kills it when nobody waits for the result any more. What the child wrote is checked in `compiled.rs`
//! before it is loaded. `engine.rs` says for which machine code is made, `precompile.rs` compiles ahead of
//! time.

mod child;
pub(crate) mod compiled;
pub(crate) mod engine;
pub(crate) mod precompile;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use json_schema::text_sanitizer::printable;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

use crate::error::LoadError;

pub use child::{CompileError, CompileJob};

/// Most bytes of a compiler's complaint that are kept.
const COMPLAINT_BYTES: usize = 1 << 10;

/// How many times as long a compiler may take when it has to share the processors.
const CONTENTION: u32 = 3;

/// What Rust's runtime says when an allocation fails, before it aborts the process.
const OUT_OF_MEMORY: &str = "memory allocation of ";

/// What rayon, over whose threads functions are compiled, calls its failure to start them. It panics.
const NO_THREADS: &str = "ThreadPoolBuildError";

/// The command that compiles one component, and what it may use up.
///
/// The program has to run [`CompileJob::run`] with the arguments that follow its own: `--memory-bytes`,
/// `--cpu-seconds` and, if instructions are to be counted, `--metering`.
#[derive(Debug, Clone)]
pub struct Compiler {
    pub program: PathBuf,
    /// Arguments of the program, before those of the job.
    pub arguments: Vec<OsString>,
    /// Longest one component may take with all processors to itself: what is limited is processor time, so
    /// that a busy machine refuses nothing that an idle one takes. By the clock it may take three times as
    /// long.
    pub time_limit: Duration,
    /// Most memory one component may take. Its address space is limited to four times as much.
    pub memory_bytes: u64,
}

impl Compiler {
    /// A command with the default limits. Measured: a Python component of 18 MB takes some 350 MB and, with
    /// two processors, ten seconds.
    pub fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
            time_limit: Duration::from_secs(60),
            memory_bytes: 2 << 30,
        }
    }
}

/// Runs compilers, a few at a time.
#[derive(Debug)]
pub(crate) struct Compilers {
    compiler: Compiler,
    metering: bool,
    permits: Semaphore,
    /// Of large components, beside that of any.
    large: Semaphore,
}

/// From so many bytes on a component is large: its compiler takes hundreds of MiB, and keeps all processors
/// busy by itself.
const LARGE_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct CompilePermit<'a> {
    _any: SemaphorePermit<'a>,
    _large: Option<SemaphorePermit<'a>>,
}

impl Compilers {
    pub(crate) fn new(compiler: Compiler, metering: bool) -> Self {
        // At least two, so that a slow component delays no small one; few, because each uses all processors.
        let at_once = processors().clamp(2, 4);
        Self { compiler, metering, permits: Semaphore::new(at_once), large: Semaphore::new(1) }
    }

    /// A permit to compile so many bytes, if one is free. Large components are compiled one after the other:
    /// several at once may take more memory than the service was given.
    pub(crate) fn try_permit(&self, bytes: usize) -> Option<CompilePermit<'_>> {
        let large = if bytes >= LARGE_BYTES { Some(self.large.try_acquire().ok()?) } else { None };
        Some(CompilePermit { _any: self.permits.try_acquire().ok()?, _large: large })
    }

    /// Waits for a permit to compile so many bytes. A large component that waits keeps no small one waiting.
    pub(crate) async fn permit(&self, bytes: usize) -> Result<CompilePermit<'_>, LoadError> {
        let closed = |error: AcquireError| LoadError::CompilerUnavailable(error.to_string());
        let is_large = bytes >= LARGE_BYTES;
        let large = if is_large { Some(self.large.acquire().await.map_err(closed)?) } else { None };
        Ok(CompilePermit { _any: self.permits.acquire().await.map_err(closed)?, _large: large })
    }

    /// Compiles a component into `output`, from its current position. Dropping the future kills the compiler.
    pub(crate) async fn compile(&self, bytes: &[u8], output: File) -> Result<(), LoadError> {
        let unavailable = |error: io::Error| LoadError::CompilerUnavailable(error.to_string());
        let mut child = self.command(output).spawn().map_err(unavailable)?;
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // silent-ok: a compiler that stops reading says why by other means.
                let _ = stdin.write_all(bytes).await;
            }
        };
        let listen = async move {
            match stderr {
                Some(stderr) => read_complaint(stderr).await,
                None => String::new(),
            }
        };
        let begun = Instant::now();
        let work = async { tokio::join!(feed, listen, child.wait()) };
        let longest = self.compiler.time_limit.saturating_mul(CONTENTION);
        let ended = tokio::time::timeout(longest, work).await;
        let Ok(((), complaint, status)) = ended else {
            // Not only asked to end but waited for: its memory is free before the next one starts.
            child.kill().await.map_err(unavailable)?;
            return Err(self.too_long());
        };
        let status = status.map_err(unavailable)?;
        tracing::debug!(seconds = begun.elapsed().as_secs_f64(), %status, "a compiler ended");
        self.judge(status, &complaint)
    }

    fn command(&self, output: File) -> Command {
        // What this program opens is closed on exec; what it was started with may not be.
        close_fds::set_fds_cloexec_threadsafe(child::FIRST_OTHER, &[]);
        let compiler = &self.compiler;
        let mut command = Command::new(&compiler.program);
        command.arg0("agent-host").args(&compiler.arguments);
        command.args(child::arguments(compiler, self.metering));
        command
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::from(output))
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    fn judge(&self, status: ExitStatus, complaint: &str) -> Result<(), LoadError> {
        if status.success() {
            return Ok(());
        }
        if complaint.contains(OUT_OF_MEMORY) {
            let most = self.compiler.memory_bytes >> 20;
            return Err(LoadError::Compile(format!("it needs more than {most} MiB of memory")));
        }
        if complaint.contains(NO_THREADS) {
            return Err(LoadError::CompilerUnavailable("no threads can be started for it".to_owned()));
        }
        match status.signal() {
            None if status.code() == Some(i32::from(child::TEMPORARY_FAILURE)) => {
                Err(LoadError::CompilerUnavailable(complaint.to_owned()))
            }
            None if complaint.is_empty() => Err(LoadError::CompilerCrashed(status.to_string())),
            None => Err(LoadError::Compile(complaint.to_owned())),
            Some(signal) if signal == Signal::XCPU.as_raw() => Err(self.too_long()),
            Some(signal) if signal == Signal::XFSZ.as_raw() => {
                let most = child::MOST_CODE_BYTES >> 20;
                Err(LoadError::Compile(format!("its compiled code has more than {most} MiB")))
            }
            // Nobody here sent it: the kernel does when memory runs short, and chooses a compiler first.
            Some(signal) if signal == Signal::KILL.as_raw() => {
                Err(LoadError::CompilerKilled("it was killed; is memory short?".to_owned()))
            }
            Some(_) => Err(LoadError::CompilerCrashed(status.to_string())),
        }
    }

    fn too_long(&self) -> LoadError {
        LoadError::CompilerKilled(format!(
            "it takes longer than {} s",
            self.compiler.time_limit.as_secs_f64()
        ))
    }
}

/// The first bytes of what a compiler says, on one line. The rest is read too, so that it can end.
async fn read_complaint(mut stderr: impl AsyncRead + Unpin) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let room = COMPLAINT_BYTES.saturating_sub(kept.len());
        kept.extend(buffer.iter().take(read.min(room)));
    }
    printable(&String::from_utf8_lossy(&kept).trim().replace('\n', " "), COMPLAINT_BYTES)
}

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_components_are_compiled_one_after_the_other_and_keep_no_small_one_waiting() {
        let compilers = Compilers::new(Compiler::new("none", &[]), false);
        let large = compilers.try_permit(LARGE_BYTES).unwrap();
        assert!(compilers.try_permit(LARGE_BYTES).is_none());
        let small = compilers.try_permit(LARGE_BYTES - 1);
        assert!(small.is_some());
        drop(large);
        assert!(compilers.try_permit(LARGE_BYTES).is_some());
    }
}

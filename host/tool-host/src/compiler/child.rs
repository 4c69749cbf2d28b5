//! What the compiler process does: limits itself, reads a component, writes compiled code, ends.
//!
//! The limits bound what a component may cost: memory, processor time, bytes of output, open files. They are
//! a wall against compile bombs and against crashes of Cranelift, which end this process and not the service.
//! They are **no sandbox**: an input that makes Cranelift run code of its author's choice runs it as the
//! service's user, who may read that user's files, start other programs, open connections, and signal the
//! service or, where the kernel's `ptrace` rules let it, read its memory. What is cheap against that is done:
//! nothing to inherit (no environment, no descriptor but three), no privileges gained by starting set-user-ID
//! programs, no core dump, and nobody of the same user may attach to this process. What it would take is a
//! system call filter or a user of its own for it: who serves components of strangers gives the container no
//! network policy but the service's own, and no file that the service does not need.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::RawFd;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, getrlimit, nice, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::set_no_new_privs;

use super::{Compiler, processors};
use crate::compiler::engine;
use crate::error::detail;
use crate::limits::MOST_COMPONENT_BYTES;

/// Most bytes of compiled code: some five times those of the largest component.
pub(crate) const MOST_CODE_BYTES: u64 = 512 << 20;

/// Open files a compiler needs: its input, its output, its complaint, and what the standard library reads for
/// a moment.
const MOST_FILES: u64 = 16;

/// How far a compiler steps back behind what serves.
const NICENESS: i32 = 5;

/// `EX_TEMPFAIL` of `sysexits.h`.
pub(super) const TEMPORARY_FAILURE: u8 = 75;

/// The first descriptor that is neither input nor output nor complaint.
pub(super) const FIRST_OTHER: RawFd = 3;

/// One component to compile, from standard input to standard output.
#[derive(Debug, Clone, Copy)]
pub struct CompileJob {
    /// Whether the code counts the instructions it runs.
    pub metering: bool,
    /// Most memory it may take.
    pub memory_bytes: u64,
    /// Most processor time it may take.
    pub cpu_seconds: u64,
}

/// Why there is no compiled code.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler's process could not be limited.
    #[error("the compiler cannot limit itself: {0}")]
    Limits(#[source] io::Error),
    /// The component did not arrive.
    #[error("the component cannot be read: {0}")]
    Input(#[source] io::Error),
    #[error("{0}")]
    Compile(String),
    /// The code could not be written.
    #[error("the compiled code cannot be written: {0}")]
    Output(#[source] io::Error),
}

impl CompileError {
    /// What the compiler process ends with: 1 when the component does not compile, and what `sysexits.h`
    /// calls a temporary failure when that was never found out, so that the component is tried again.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Compile(_) => 1,
            Self::Limits(_) | Self::Input(_) | Self::Output(_) => TEMPORARY_FAILURE,
        }
    }
}

/// The arguments of a job, as [`Compiler`] says.
pub(super) fn arguments(compiler: &Compiler, metering: bool) -> Vec<OsString> {
    // The time limit counts for all processors together.
    let cpu = compiler.time_limit.as_secs().max(1).saturating_mul(processors() as u64);
    let mut arguments = vec![
        "--memory-bytes".into(),
        compiler.memory_bytes.to_string().into(),
        "--cpu-seconds".into(),
        cpu.to_string().into(),
    ];
    if metering {
        arguments.push("--metering".into());
    }
    arguments
}

impl CompileJob {
    /// Does the job. Meant for a process of its own that has done nothing before: it lowers the limits of the
    /// whole process, and refuses to run with more than the first three descriptors open.
    pub fn run(self) -> Result<(), CompileError> {
        self.limit().map_err(CompileError::Limits)?;
        check_descriptors().map_err(CompileError::Limits)?;
        close_to_others().map_err(CompileError::Limits)?;
        let mut bytes = Vec::new();
        io::stdin().take(MOST_COMPONENT_BYTES + 1).read_to_end(&mut bytes).map_err(CompileError::Input)?;
        let compile = || engine::for_compiling(self.metering)?.precompile_component(&bytes);
        let code = compile().map_err(|error| CompileError::Compile(detail(&error)))?;
        let mut output = io::stdout().lock();
        output.write_all(&code).and_then(|()| output.flush()).map_err(CompileError::Output)
    }

    fn limit(self) -> io::Result<()> {
        // The signal comes when the thread that started this ends. A runtime's threads last as long as the
        // runtime.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Programs that it might be made to start get no more rights than it has.
        set_no_new_privs(true)?;
        lower(Resource::Core, 0)?;
        lower(Resource::Data, self.memory_bytes)?;
        lower(Resource::As, self.memory_bytes.saturating_mul(4))?;
        lower(Resource::Fsize, MOST_CODE_BYTES)?;
        lower(Resource::Nofile, MOST_FILES)?;
        lower(Resource::Cpu, self.cpu_seconds)?;
        nice(NICENESS)?;
        // When memory is short the kernel is to end this and not the service. silent-ok: not every system
        // lets us.
        let _ = fs::write("/proc/self/oom_score_adj", "1000");
        Ok(())
    }
}

/// Keeps other processes of the same user from attaching to this one and reading its memory. Comes last: from
/// then on most of `/proc/self` belongs to root.
fn close_to_others() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Refuses to run beside descriptors that are none of a compiler's business.
fn check_descriptors() -> io::Result<()> {
    let mut open = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        open.extend(number.map(|number| (number, entry.path())));
    }
    // The one that read the list is closed by now.
    let other = open.iter().find(|(number, path)| *number >= FIRST_OTHER && path.symlink_metadata().is_ok());
    match other {
        Some((number, _)) => Err(io::Error::other(format!("it was started with descriptor {number} open"))),
        None => Ok(()),
    }
}

/// Lowers a limit. One that is lower already stays.
fn lower(resource: Resource, most: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let least = |now: Option<u64>| Some(now.map_or(most, |now| now.min(most)));
    // Processor time ends with the signal of the soft limit, which says why; the hard one kills.
    let grace = u64::from(resource == Resource::Cpu);
    let hard = Some(now.maximum.map_or(most + grace, |now| now.min(most + grace)));
    Ok(setrlimit(resource, Rlimit { current: least(now.current), maximum: hard })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_something_of_the_component_is_final() {
        let broken = || io::Error::other("no space left");
        assert_eq!(CompileError::Compile("bad".into()).exit_code(), 1);
        for passing in
            [CompileError::Limits(broken()), CompileError::Input(broken()), CompileError::Output(broken())]
        {
            assert_eq!(passing.exit_code(), 75, "{passing}");
        }
    }
}

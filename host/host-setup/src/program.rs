//! From a command to the exit code of its process.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// Version, commit and date. `cargo xtask dist` names the last two; a build without them is somebody's own.
pub const VERSION: &str = match option_env!("AGENT_HOST_VERSION") {
    Some(version) => version,
    None => concat!(env!("CARGO_PKG_VERSION"), " (built from a working copy)"),
};

/// Fewest threads for guests that compute for longer than moments: two, so that one that computes for seconds
/// does not keep the next one waiting. On machines with more processors there is one for each, so that calls
/// run side by side; guests then compete with the threads that serve as one half of all threads.
const LEAST_GUEST_THREADS: usize = 2;

/// How the process is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Success,
    /// What was asked for was done, and something is wrong all the same.
    Failure,
    /// What whoever started this understands by that code.
    Code(u8),
    /// Requests or tasks were cut off.
    Forced,
}

/// Where guests go on that take long. Never dropped: those that still run at the end are interrupted with
/// their threads, not waited for.
static GUESTS: OnceLock<Runtime> = OnceLock::new();

/// Carries the command of this process out on a runtime of its own, beside the `guest_runtime`.
pub fn run(name: &str, command: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    let guests = runtime("guests", Some(processors().max(LEAST_GUEST_THREADS)))?;
    GUESTS.get_or_init(|| guests);
    let main = runtime(name, None)?;
    let exit = main.block_on(command);
    main.shutdown_background();
    exit
}

/// How many processors this process may use at once.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The runtime on which guests go on that take long: it serves nothing else. In tests, which run no command
/// of a process, the one they are called on.
pub fn guest_runtime() -> Handle {
    GUESTS.get().map_or_else(Handle::current, |guests| guests.handle().clone())
}

/// The exit code of what a command came to; what went wrong is said on the standard error.
pub fn exit_code(name: &str, json: bool, exit: anyhow::Result<Exit>) -> ExitCode {
    match exit {
        Ok(Exit::Success) => ExitCode::SUCCESS,
        Ok(Exit::Failure | Exit::Forced) => ExitCode::FAILURE,
        Ok(Exit::Code(code)) => ExitCode::from(code),
        Err(error) => {
            complain(name, json, &format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The exit code of a command line that cannot be carried out.
pub const USAGE: u8 = 2;

/// Whether a program reads what is printed, when the command line cannot be read.
pub fn asks_for_json() -> bool {
    std::env::args_os().any(|argument| argument == "--json")
}

/// Answers a command line that cannot be read: with the help or the version if that is what it asks for, else
/// with what is wrong with it.
pub fn refuse(name: &str, error: &clap::Error) -> ExitCode {
    if error.use_stderr() && asks_for_json() {
        let text = error.to_string();
        let text = text.trim();
        complain(name, true, &text.strip_prefix("error: ").unwrap_or(text));
        return ExitCode::from(USAGE);
    }
    // silent-ok: whoever cannot be told has closed the output.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// Says on the standard error what went wrong.
#[expect(clippy::print_stderr, reason = "a command that fails says why")]
pub fn complain(name: &str, json: bool, problem: &impl Display) {
    if json {
        eprintln!("{}", serde_json::json!({ "error": problem.to_string() }));
    } else {
        eprintln!("{name}: {problem}");
    }
}

/// Says which implementation of cryptography TLS is done with, before anything may connect.
pub fn install_tls() {
    // There is one in this process; only a second call could fail.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// How long a thread for blocking work waits for more. Such work is given to the thread that has waited for
/// longest, so with tokio's ten seconds one look at a folder a second keeps all threads of a start for good,
/// and with each what the allocator keeps of the memory that was freed on it (5 to 8 MiB in all).
pub const KEEP_ALIVE: Duration = Duration::from_secs(1);

fn runtime(name: &str, threads: Option<usize>) -> std::io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    builder.enable_all().thread_name(name).thread_keep_alive(KEEP_ALIVE).build()
}

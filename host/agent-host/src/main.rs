//! `agent-host`: reads the command line, starts the runtimes, and turns how it went into an exit code.
#![expect(clippy::disallowed_methods, reason = "this is where the process ends")]

use std::process::ExitCode;

use agent_host::cli::{self, Arguments, Exit};
use agent_host::telemetry;
use clap::Parser;
use mimalloc::MiMalloc;
use tokio::runtime::{Builder, Runtime};

/// A fifth of a request's processor time was glibc's allocator, whose arenas are shared by threads and which keeps what a
/// burst has fragmented (`cargo xtask bench http`). Without huge pages: with them an idle service holds twice the memory.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Fewest threads for guests that compute for longer than moments: two, so that one that computes for seconds
/// does not keep the next one waiting. On machines with more processors there is one for each, so that calls
/// run side by side; guests then compete with the threads that serve as one half of all threads.
const LEAST_GUEST_THREADS: usize = 2;

#[expect(clippy::print_stderr, reason = "a command that fails says why")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let json = arguments.prints_json();
    match run(arguments) {
        Ok(Exit::Success) => ExitCode::SUCCESS,
        Ok(Exit::Failure) => ExitCode::FAILURE,
        Ok(Exit::Code(code)) => ExitCode::from(code),
        // What did not end by itself must not get another chance to hold the process up.
        Ok(Exit::Forced) => std::process::exit(1),
        Err(error) => {
            if json {
                eprintln!("{}", serde_json::json!({ "error": format!("{error:#}") }));
            } else {
                eprintln!("agent-host: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let _flushed = FlushLog;
    let arguments = match cli::run_alone(arguments) {
        Ok(exit) => return Ok(exit),
        Err(arguments) => arguments,
    };
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let guests = runtime("guests", Some(processors.max(LEAST_GUEST_THREADS)))?;
    let main = runtime("agent-host", None)?;
    let handle = guests.handle().clone();
    let exit = main.block_on(async move { cli::run(arguments, handle).await });
    // Guests that still run are interrupted with their threads, not waited for.
    guests.shutdown_background();
    main.shutdown_background();
    exit
}

/// Writes what is left of the log when it is dropped, also when a panic ends the process.
struct FlushLog;

impl Drop for FlushLog {
    fn drop(&mut self) {
        telemetry::flush();
    }
}

fn runtime(name: &str, threads: Option<usize>) -> std::io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    builder.enable_all().thread_name(name).build()
}

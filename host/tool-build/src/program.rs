//! Runs the programs that others wrote: what they print is kept for the error, and whoever waits is told that
//! they still run.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// How often somebody who waits is told that it still goes on.
const REMINDER: Duration = Duration::from_secs(5);

/// The longest wait for one program: installing and compiling take minutes on a slow machine, hanging takes
/// for ever.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// Lines of each stream that are kept, the last ones, and how long each may be.
const KEPT_LINES: usize = 4096;
const LINE_BYTES: u64 = 1 << 20;

/// Lines that an error shows, the last ones.
const SHOWN_LINES: usize = 30;

/// What programs say that need a package registry and do not reach it.
const WITHOUT_NETWORK: [&str; 16] = [
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ENETUNREACH",
    "ETIMEDOUT",
    "ENOTCACHED",
    "NewConnectionError",
    "ConnectTimeoutError",
    "Max retries exceeded",
    "Temporary failure in name resolution",
    "Could not resolve host",
    "failed to download from",
    "download of config.json failed",
    "--offline was specified",
    "using offline mode",
    "attempting to make an HTTP request, but",
];

/// Whoever wants to know how far a build has got.
pub trait Progress {
    /// A step that may take more than a second begins, still goes on (every few seconds) or has ended.
    fn step(&self, text: &str);

    /// A program that builds says something: a line of a compiler's diagnostics, for example.
    fn line(&self, text: &str) {
        self.step(text);
    }
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) took: Duration,
    pub(crate) succeeded: bool,
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: Vec<String>,
}

impl Ended {
    /// The end of the output, for an error.
    pub(crate) fn shown(&self) -> String {
        let lines: Vec<_> = self.lines().filter(|line| !line.is_empty()).collect();
        let first = lines.len().saturating_sub(SHOWN_LINES);
        lines.get(first..).unwrap_or_default().join("\n")
    }

    /// Whether the output has one of these words.
    pub(crate) fn says(&self, words: &[&str]) -> bool {
        self.lines().any(|line| words.iter().any(|word| line.contains(word)))
    }

    /// Whether what failed is the way to a package registry.
    pub(crate) fn is_without_network(&self) -> bool {
        self.says(&WITHOUT_NETWORK)
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        self.stdout.iter().chain(&self.stderr).map(|line| line.trim_end())
    }
}

/// Whether somebody sees what a program writes to its standard error while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Lines,
    Nothing,
}

/// Runs a program to its end, saying every few seconds that `step` goes on.
///
/// # Errors
/// When it cannot be started or does not end; what it answers is in [`Ended`].
pub(crate) fn run(command: &mut Command, step: &str, show: Show, progress: &dyn Progress) -> Result<Ended> {
    let start = Instant::now();
    progress.step(step);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| cannot_start(command, &error))?;
    let (sender, lines) = channel();
    if let Some(stdout) = child.stdout.take() {
        let sender = sender.clone();
        thread::spawn(move || forward(stdout, false, &sender));
    }
    if let Some(stderr) = child.stderr.take() {
        thread::spawn(move || forward(stderr, true, &sender));
    }
    let mut ended = Ended { took: Duration::ZERO, succeeded: false, stdout: Vec::new(), stderr: Vec::new() };
    if !collect(&lines, &mut ended, start, (step, show, progress)) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(Error::new(format!("{step}: stopped after {} minutes", LONGEST.as_secs() / 60))
            .why(ended.shown())
            .mend("run the command by hand to see what it waits for"));
    }
    ended.succeeded = child.wait().map_err(|error| cannot_start(command, &error))?.success();
    ended.took = start.elapsed();
    if ended.took > Duration::from_secs(1) {
        progress.step(&format!("{step}: {:.1} s", ended.took.as_secs_f64()));
    }
    Ok(ended)
}

/// What a program answers on its standard output, if it is there and succeeds.
pub(crate) fn ask(program: impl AsRef<OsStr>, arguments: &[&str], folder: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stderr(Stdio::null());
    let answer = command.output().ok()?;
    answer.status.success().then(|| String::from_utf8_lossy(&answer.stdout).trim().to_owned())
}

fn cannot_start(command: &Command, error: &io::Error) -> Error {
    let program = command.get_program().to_string_lossy();
    Error::new(format!("`{program}` cannot be run"))
        .why(error)
        .mend(format!("install {program}, or put the folder that it is in on the PATH"))
}

/// Hands lines on, until the stream is closed.
fn forward(stream: impl Read, is_error: bool, lines: &Sender<(bool, String)>) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(1..) = reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
        if lines.send((is_error, text)).is_err() {
            return;
        }
        line.clear();
    }
}

/// Keeps the last lines until both streams are closed. False when that takes too long.
fn collect(
    lines: &Receiver<(bool, String)>,
    ended: &mut Ended,
    start: Instant,
    (step, show, progress): (&str, Show, &dyn Progress),
) -> bool {
    loop {
        match lines.recv_timeout(REMINDER) {
            Ok((is_error, line)) => {
                if is_error && show == Show::Lines {
                    progress.line(&line);
                }
                let kept = if is_error { &mut ended.stderr } else { &mut ended.stdout };
                kept.push(line);
                if kept.len() > 2 * KEPT_LINES {
                    kept.drain(..KEPT_LINES);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) if start.elapsed() > LONGEST => return false,
            Err(RecvTimeoutError::Timeout) => {
                progress.step(&format!("{step}: {} s so far", start.elapsed().as_secs()));
            }
        }
    }
}

//! Runs the programs that others wrote: what they print is kept for the error, and whoever waits is told that
//! they still run.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// How often somebody who waits is told that it still goes on.
const REMINDER: Duration = Duration::from_secs(5);

/// The longest wait for one program: installing and compiling take minutes on a slow machine, hanging takes
/// for ever.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// How long the streams of a program that has exited are read: a process that it started and left behind
/// holds them open for as long as it lives.
const AFTER_EXIT: Duration = Duration::from_secs(5);

/// How often to look whether the program has exited while nothing is read: with open streams, whose end
/// mostly tells of it, and without.
const EXIT_POLL: Duration = Duration::from_millis(100);
const CLOSED_POLL: Duration = Duration::from_millis(5);

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

/// What the threads that read a program's streams hand on.
enum Output {
    Line {
        is_error: bool,
        text: String,
    },
    /// One of the streams has ended.
    Closed,
}

/// How a program is run.
struct Watch<'a> {
    step: &'a str,
    show: Show,
    progress: &'a dyn Progress,
    longest: Duration,
}

/// A program that runs.
struct Running {
    child: Child,
    start: Instant,
    output: Receiver<Output>,
    /// Kept, so that waiting for output takes its time when no stream is open.
    sender: Sender<Output>,
    open_streams: usize,
}

/// Runs a program to its end, saying every few seconds that `step` goes on.
///
/// # Errors
/// When it cannot be started or does not end; what it answers is in [`Ended`].
pub(crate) fn run(command: &mut Command, step: &str, show: Show, progress: &dyn Progress) -> Result<Ended> {
    run_within(command, &Watch { step, show, progress, longest: LONGEST })
}

fn run_within(command: &mut Command, watch: &Watch<'_>) -> Result<Ended> {
    let Watch { step, progress, .. } = watch;
    progress.step(step);
    let mut running = Running::start(command)?;
    let mut ended = Ended { took: Duration::ZERO, succeeded: false, stdout: Vec::new(), stderr: Vec::new() };
    if !running.collect(&mut ended, watch) {
        // Only the program itself is killed, not what it has started: that takes a process group of its own,
        // which Ctrl-C at the terminal would no longer reach.
        let _ = running.child.kill();
        let _ = running.child.wait();
        return Err(Error::new(format!("{step}: stopped after {} minutes", watch.longest.as_secs() / 60))
            .why(ended.shown())
            .mend("run the command by hand to see what it waits for"));
    }
    ended.succeeded = running.child.wait().map_err(|error| cannot_start(command, &error))?.success();
    ended.took = running.start.elapsed();
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
fn forward(stream: impl Read, is_error: bool, output: &Sender<Output>) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(1..) = reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
        if output.send(Output::Line { is_error, text }).is_err() {
            return;
        }
        line.clear();
    }
    let _ = output.send(Output::Closed);
}

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let start = Instant::now();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| cannot_start(command, &error))?;
        let (sender, output) = channel();
        let mut running = Self { child, start, output, sender, open_streams: 0 };
        if let Some(stdout) = running.child.stdout.take() {
            running.read(stdout, false);
        }
        if let Some(stderr) = running.child.stderr.take() {
            running.read(stderr, true);
        }
        Ok(running)
    }

    fn read(&mut self, stream: impl Read + Send + 'static, is_error: bool) {
        let sender = self.sender.clone();
        thread::spawn(move || forward(stream, is_error, &sender));
        self.open_streams += 1;
    }

    /// Keeps the last lines until the program has exited and its streams are closed or given up. False when
    /// that takes too long, however much it prints.
    fn collect(&mut self, ended: &mut Ended, watch: &Watch<'_>) -> bool {
        let mut told = Instant::now();
        let mut exited: Option<Instant> = None;
        loop {
            if self.start.elapsed() > watch.longest {
                return false;
            }
            // `wait` meets an error again.
            if exited.is_none() && !matches!(self.child.try_wait(), Ok(None)) {
                exited = Some(Instant::now());
            }
            // What it left behind may go on printing.
            let is_over = |exited: Instant| self.open_streams == 0 || exited.elapsed() > AFTER_EXIT;
            if exited.is_some_and(is_over) {
                return true;
            }
            let pause = if self.open_streams == 0 { CLOSED_POLL } else { EXIT_POLL };
            match self.output.recv_timeout(pause) {
                Ok(Output::Line { is_error, text }) => {
                    keep(ended, is_error, text, watch);
                    told = Instant::now();
                }
                Ok(Output::Closed) => self.open_streams = self.open_streams.saturating_sub(1),
                Err(_) if told.elapsed() > REMINDER => {
                    watch.progress.step(&format!(
                        "{}: {} s so far",
                        watch.step,
                        self.start.elapsed().as_secs()
                    ));
                    told = Instant::now();
                }
                Err(_) => {}
            }
        }
    }
}

fn keep(ended: &mut Ended, is_error: bool, line: String, watch: &Watch<'_>) {
    if is_error && watch.show == Show::Lines {
        watch.progress.line(&line);
    }
    let kept = if is_error { &mut ended.stderr } else { &mut ended.stdout };
    kept.push(line);
    if kept.len() > 2 * KEPT_LINES {
        kept.drain(..KEPT_LINES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Silent;

    impl Progress for Silent {
        fn step(&self, _: &str) {}
    }

    fn run_script(script: &str, longest: Duration) -> Result<Ended> {
        let watch = Watch { step: "talking", show: Show::Nothing, progress: &Silent, longest };
        run_within(Command::new("sh").args(["-c", script]), &watch)
    }

    #[test]
    fn a_program_that_keeps_printing_is_stopped() {
        let script = "while :; do echo more; sleep 0.01; done";
        let stopped = run_script(script, Duration::from_millis(500)).unwrap_err().to_string();
        assert!(stopped.starts_with("talking: stopped after"), "{stopped}");
    }

    #[test]
    fn a_program_that_closes_its_streams_and_does_not_end_is_stopped() {
        let stopped = run_script("exec >&- 2>&-; exec sleep 60", Duration::from_millis(500)).unwrap_err();
        assert!(stopped.to_string().starts_with("talking: stopped after"), "{stopped}");
    }

    #[test]
    fn a_process_that_a_program_leaves_behind_is_not_waited_for() {
        let ended = run_script("sleep 60 & echo $!; exit 3", LONGEST).unwrap();
        assert!(!ended.succeeded && ended.took < Duration::from_secs(50), "{ended:?}");
        let left = ended.stdout.first().unwrap();
        assert!(Command::new("sh").args(["-c", &format!("kill {left}")]).status().unwrap().success());
    }

    #[test]
    fn what_a_program_says_is_kept_by_stream() {
        let ended = run_script("echo one; echo two >&2", LONGEST).unwrap();
        assert!(ended.succeeded, "{ended:?}");
        assert_eq!((ended.stdout, ended.stderr), (vec!["one".to_owned()], vec!["two".to_owned()]));
    }
}

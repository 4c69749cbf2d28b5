//! What a process has written, line by line, while it runs and afterwards.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::watch;

use test_servers::within;

/// Most lines that are kept: a test has fewer, and a service that runs for hours has the newest.
const MOST_LINES: usize = 100_000;

/// The output of one process. Clones are the same output.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    lines: Mutex<VecDeque<Line>>,
    /// Changes with every line and when a stream ends.
    open_streams: watch::Sender<usize>,
}

#[derive(Debug, Clone)]
struct Line {
    stream: Stream,
    text: String,
}

/// Where a process writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Inner {
    fn push(&self, line: Line) {
        let mut lines = self.lines.lock();
        if lines.len() == MOST_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

impl Log {
    /// Of a process whose two streams are going to be [read](Self::read).
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner { lines: Mutex::default(), open_streams: watch::Sender::new(2) }))
    }

    /// Reads one stream to its end.
    pub(crate) async fn read(self, stream: Stream, source: impl AsyncRead + Unpin) {
        let mut source = BufReader::new(source);
        let mut bytes = Vec::new();
        while source.read_until(b'\n', &mut bytes).await.is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
            bytes.clear();
            self.0.push(Line { stream, text });
            self.0.open_streams.send_modify(|_| {});
        }
        self.0.open_streams.send_modify(|open| *open -= 1);
    }

    /// Waits until `find` finds something in a line, old or new.
    pub async fn find<T>(&self, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
        let mut changes = self.0.open_streams.subscribe();
        let search = async {
            loop {
                let open = *changes.borrow_and_update();
                let found = self.0.lines.lock().iter().find_map(|line| find(&line.text));
                match found {
                    Some(found) => return found,
                    None if open == 0 => panic!("the process ended without {what}:\n{self}"),
                    None => changes.changed().await.expect("the log holds its own sender"),
                }
            }
        };
        within(what, search).await
    }

    /// Waits for a line that holds all of these texts, and returns it.
    pub async fn line_with(&self, texts: &[&str]) -> String {
        let holds_all = |line: &str| texts.iter().all(|text| line.contains(text)).then(|| line.to_owned());
        self.find(&format!("a line of its log with {texts:?}"), holds_all).await
    }

    /// Waits for an entry of a JSON log that `is_it`.
    pub async fn entry(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        self.find(what, |line| serde_json::from_str(line).ok().filter(|entry| is_it(entry))).await
    }

    /// Every line of standard output as an entry of a JSON log. A line that is none fails the test.
    pub fn entries(&self) -> Vec<Value> {
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("not a JSON line ({error}): {line}"))
        };
        self.stdout().lines().map(parse).collect()
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        self.of(Stream::Stdout)
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        self.of(Stream::Stderr)
    }

    fn of(&self, stream: Stream) -> String {
        let lines = self.0.lines.lock();
        let of_stream = lines.iter().filter(|line| line.stream == stream);
        of_stream.map(|line| format!("{}\n", line.text)).collect()
    }
}

/// All of it, in the order in which it was read.
impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.lines.lock().iter().try_for_each(|line| writeln!(f, "{}", line.text))
    }
}

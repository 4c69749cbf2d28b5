//! Collects what a test logs, as the JSON lines of production.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

use serde_json::Value;

thread_local! {
    /// What this thread logged since its test began to collect. Each test has a thread of its own.
    static COLLECTED: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Collects the lines of this thread until it is dropped.
pub(crate) struct Log;

impl Log {
    pub(crate) fn collect() -> Self {
        COLLECTED.set(Some(vec![]));
        Self
    }

    /// Everything that was written.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(COLLECTED.with_borrow(|lines| lines.clone().unwrap())).unwrap()
    }

    pub(crate) fn lines_of(&self, target: &str) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["target"] == target).collect()
    }

    /// The lines about changes by administrators, without what differs between runs of a test and without the
    /// spans.
    pub(crate) fn audit(&self) -> Vec<Value> {
        let mut lines = self.lines_of("http_edge::audit");
        for line in &mut lines {
            let line = line.as_object_mut().unwrap();
            for name in ["timestamp", "span", "spans"] {
                line.remove(name);
            }
        }
        lines
    }

    /// The one line about a request, without what differs between runs of a test.
    pub(crate) fn request(&self) -> Value {
        let mut lines = self.lines_of("http_edge::request");
        assert_eq!(lines.len(), 1, "{lines:#?}");
        let mut line = lines.remove(0);
        let duration = line["duration_ms"].as_f64().unwrap();
        let message = line["message"].as_str().unwrap().replace(&format!("{duration} ms"), "N ms");
        line["message"] = message.into();
        line["duration_ms"] = "N".into();
        line.as_object_mut().unwrap().remove("timestamp");
        line
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        COLLECTED.set(None);
    }
}

/// Makes all threads of the test process log to their collections. It is one subscriber for all of them and
/// it stands before the first event: tracing remembers for the whole process who wants an event, and gets
/// that wrong now and then while the subscribers of threads come and go.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_max_level(tracing::Level::DEBUG)
            .with_writer(|| Collector)
            .init();
    });
}

struct Collector;

impl Write for Collector {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        COLLECTED.with_borrow_mut(|lines| lines.as_mut().map(|lines| lines.extend_from_slice(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

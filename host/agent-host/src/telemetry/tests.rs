//! What is written for an entry, and for which.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tracing::subscriber::with_default;
use tracing::{debug, error, info, info_span, warn};

use super::*;

/// Keeps every single write.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<Vec<String>>>);

impl Writes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }

    /// Every write is one JSON object on a line of its own. Returned without what changes from run to run.
    fn take_json(&self) -> Vec<Value> {
        let parse = |line: String| {
            assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line:?}");
            let mut entry: Value = serde_json::from_str(&line).unwrap();
            let timestamp = entry.as_object_mut().unwrap().remove("timestamp").unwrap();
            let timestamp = timestamp.as_str().unwrap();
            assert!(timestamp.len() == 27 && timestamp.ends_with('Z'), "{timestamp}");
            entry
        };
        self.take().into_iter().map(parse).collect()
    }
}

impl io::Write for Writes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().push(String::from_utf8(bytes.to_vec()).unwrap());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logging(level: LogLevel, format: LogFormat, act: impl FnOnce()) -> Writes {
    let writes = Writes::default();
    let writer = writes.clone();
    with_default(subscriber(&Log { level, format }, move || writer.clone(), false), act);
    writes
}

fn messages(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["message"].as_str().unwrap()).collect()
}

#[test]
fn an_entry_is_one_flat_json_object() {
    let writes = logging(LogLevel::Info, LogFormat::Json, || {
        let request = info_span!("request", request_id = "r-1", user = tracing::field::Empty, depth = 1);
        request.record("user", "u-1");
        let _request = request.entered();
        let _inner = info_span!("inner", depth = 2, target = "t", r#type = "x").entered();
        info!(count = 3_u64, delta = -1, ratio = 0.5, ok = true, what = ?Some(1), "two\nlines");
    });
    assert_eq!(
        writes.take_json(),
        [json!({
            "level": "INFO", "target": "agent_host::telemetry::tests", "message": "two\nlines",
            "count": 3, "delta": -1, "ratio": 0.5, "ok": true, "what": "Some(1)",
            "depth": 2, "fields.target": "t", "type": "x", "request_id": "r-1", "user": "u-1",
        })]
    );
}

#[test]
fn the_head_of_an_entry_comes_first() {
    let writes = logging(LogLevel::Info, LogFormat::Json, || info!(a = 1, "hello"));
    let line = writes.take().concat();
    let (_timestamp, rest) = line.split_once(',').unwrap();
    assert!(line.starts_with(r#"{"timestamp":"2"#), "{line}");
    let expected = r#""level":"INFO","target":"agent_host::telemetry::tests","message":"hello","a":1}"#;
    assert_eq!(rest, format!("{expected}\n"));
}

#[test]
fn an_error_is_logged_with_its_causes() {
    #[derive(Debug, thiserror::Error)]
    #[error("the agent run failed")]
    struct Outer(#[source] io::Error);

    let writes = logging(LogLevel::Info, LogFormat::Json, || {
        let failure = Outer(io::Error::other("the disk is full"));
        error!(error = &failure as &(dyn std::error::Error + 'static), "no answer");
    });
    assert_eq!(writes.take_json()[0]["error"], "the agent run failed: the disk is full");
}

#[test]
fn text_is_written_line_by_line() {
    let writes = logging(LogLevel::Info, LogFormat::Text, || {
        let _request = info_span!("request", request_id = "r-1").entered();
        info!(count = 3, "hello");
        warn!("again");
    });
    let writes = writes.take();
    let [first, second] = writes.as_slice() else { panic!("{writes:?}") };
    let hello = " INFO request{request_id=\"r-1\"}: agent_host::telemetry::tests: hello count=3\n";
    assert!(first.ends_with(hello), "{first:?}");
    assert!(second.ends_with("again\n"), "{second:?}");
}

#[test]
fn the_level_is_about_our_crates_and_others_only_warn() {
    for (level, expected) in [
        (LogLevel::Debug, &["debug", "info", "warn", "error", "of a tool", "their warn", "their error"][..]),
        (LogLevel::Info, &["info", "warn", "error", "of a tool", "their warn", "their error"]),
        (LogLevel::Warn, &["warn", "error", "their warn", "their error"]),
        (LogLevel::Error, &["error", "their error"]),
    ] {
        let writes = logging(level, LogFormat::Json, || {
            debug!("debug");
            info!("info");
            warn!("warn");
            error!("error");
            info!(target: "tool", "of a tool");
            info!(target: "hyper::proto", "their info");
            warn!(target: "hyper::proto", "their warn");
            error!(target: "agent_hostess", "their error");
        });
        assert_eq!(messages(&writes.take_json()), expected, "{level:?}");
    }
}

#[test]
fn entries_bear_the_request_id_at_every_level() {
    for level in [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error] {
        let writes = logging(level, LogFormat::Json, || {
            let _request = info_span!("request", request_id = "r-1").entered();
            error!("failed");
        });
        assert_eq!(writes.take_json()[0]["request_id"], "r-1", "{level:?}");
    }
}

#[test]
fn a_panic_is_logged_once_with_its_place_and_task() {
    // The hook is the process's, the subscriber this thread's: a runtime of one thread has both.
    std::panic::set_hook(Box::new(log_panic));
    let writes = logging(LogLevel::Error, LogFormat::Json, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let tasks = tasks::Tasks::new();
            tasks.spawn("clumsy", async { panic!("it fell {} times", 2) });
            tasks.shutdown(std::time::Duration::from_secs(1)).await.unwrap();
        });
    });
    let _ = std::panic::take_hook();
    let mut entries = writes.take_json();
    assert_eq!(entries.len(), 1, "{entries:?}");
    let entry = entries[0].as_object_mut().unwrap();
    let location = entry.remove("location").unwrap();
    assert!(location.as_str().unwrap().contains("tests.rs:"), "{location}");
    // Whether there is one depends on RUST_BACKTRACE.
    entry.remove("backtrace");
    assert_eq!(
        entries[0],
        json!({
            "level": "ERROR", "target": "agent_host::telemetry",
            "message": "panicked: it fell 2 times", "task": "clumsy",
        })
    );
}

#[test]
fn every_crate_of_the_fan_is_ours() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found: BTreeSet<_> = std::fs::read_dir(crates)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().into_string().unwrap().replace('-', "_"))
        // Crates that are linked into no service.
        .filter(|name| {
            !["agent_tool", "boxed_async", "fuzz", "schedules", "sim", "tool_build", "tool_kit", "xtask"]
                .contains(&name.as_str())
        })
        .collect();
    found.insert("tool".to_owned());
    assert_eq!(found, OURS.map(str::to_owned).into());
}

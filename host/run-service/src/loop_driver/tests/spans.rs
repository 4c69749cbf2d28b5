//! Spans of a run, as a recorder of the process gets them.

use std::sync::atomic::{AtomicU64, Ordering};

use agent_core::trace::{self, InTrace as _, Parent, Record, Recorder, TraceContext};

use super::nested::{Scripts, at_once};
use super::*;

/// The spans of nested calls are within that of the call that makes them.
#[tokio::test(start_paused = true)]
async fn traces_show_which_call_made_which() {
    /// The id of the next span, and those that ended.
    static SPANS: (AtomicU64, Mutex<Vec<Record>>) = (AtomicU64::new(100), Mutex::new(Vec::new()));

    struct Recording;

    impl Recorder for Recording {
        fn context(&self, parent: Option<&Parent>) -> TraceContext {
            let span_id = SPANS.0.fetch_add(1, Ordering::Relaxed);
            let nowhere = TraceContext { trace_id: 1, span_id, sampled: false };
            parent.map_or(nowhere, |parent| TraceContext { span_id, ..parent.context })
        }

        fn now(&self) -> u64 {
            0
        }

        fn end(&self, record: Record) {
            SPANS.1.lock().push(record);
        }
    }

    assert!(trace::record_with(Box::new(Recording)));
    let caller = TraceContext { trace_id: 1, span_id: 1, sampled: true };
    let model = ScriptedModel::new([Ok(asks_for(&[at_once("a", ("look", "{}"), 2)])), Ok(says("done"))]);
    let (tools, journal) = (Scripts::new(), TestJournal::default());
    let driver = driver(&model, &tools, &journal);
    driver.start(task()).in_trace(Some(Parent::remote(caller, None))).await.unwrap();
    let spans = SPANS.1.lock();
    let call_of = |span: &Record| {
        let id = span.fields.iter().find(|(name, _)| *name == "gen_ai.tool.call.id");
        Some((format!("{:?}", id?.1), span.context.span_id, span.parent.as_ref()?.context.span_id))
    };
    let mut calls: Vec<_> = spans.iter().filter_map(call_of).collect();
    calls.sort_unstable();
    let [(a, outer, 1), (b, _, first), (c, _, second)] = &calls[..] else { panic!("{calls:?}") };
    let ids = [a, b, c].map(String::as_str);
    assert_eq!(ids, [r#"Text("a")"#, r#"Text("run_1.1.0.0")"#, r#"Text("run_1.1.0.1")"#]);
    assert_eq!((first, second), (outer, outer));
}

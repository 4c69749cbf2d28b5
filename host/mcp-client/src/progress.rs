//! What a server reports of a call's progress (`notifications/progress`), on its way to whoever watches the
//! call.

use std::sync::Arc;

use agent_core::ports::ProgressSink;
use agent_core::words::ToolProgress;
use json_schema::text_sanitizer::printable;
use serde_json::Value;

use tool_egress::Scanner;

/// Where the reports of one call go, and what may not be in them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reports<'a> {
    pub(crate) sink: &'a Arc<dyn ProgressSink>,
    pub(crate) scanner: &'a Scanner,
}

impl Reports<'_> {
    /// Hands on a report if it is of the request with that number, under which it was asked for.
    pub(crate) fn hand_on(&self, id: u64, params: &Value) {
        if params.get("progressToken").and_then(Value::as_u64) != Some(id) {
            return;
        }
        let number = |name: &str| params.get(name).and_then(Value::as_f64);
        let share = |(done, total): (f64, f64)| done / total;
        // A server may report anything; a share that is none is left out.
        let fraction = number("progress").zip(number("total")).map(share);
        let fraction = fraction.filter(|fraction| (0.0..=1.0).contains(fraction));
        let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
        let message = printable(&self.scanner.scan_text(message), ToolProgress::MOST_BYTES).into();
        self.sink.report(ToolProgress { message, fraction });
    }
}

#[cfg(test)]
mod tests {
    use agent_core::testing::TestProgress;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_bounded_and_has_neither_secrets_nor_control_characters() {
        let (latest, sink) = TestProgress::shared();
        let scanner = Scanner::new([("key", "abc-12345678")]).unwrap();
        let reports = Reports { sink: &sink, scanner: &scanner };
        let hand_on = |params: Value| {
            reports.hand_on(7, &params);
            latest.take().map(|report| (report.message.to_string(), report.fraction))
        };
        let whole = hand_on(
            json!({ "progressToken": 7, "progress": 1, "total": 4, "message": "abc-12345678\u{1b}" }),
        );
        let (message, fraction) = whole.unwrap();
        assert!(!message.contains("abc-12345678") && message.ends_with("\\u{1b}"), "{message}");
        assert_eq!(fraction, Some(0.25));
        for (more, expected) in [
            (json!({ "progress": 5 }), None),
            (json!({ "progress": 5, "total": 4 }), None),
            (json!({ "progress": 0, "total": 0 }), None),
            (json!({ "progress": "x", "total": 4, "message": 1 }), None),
            (json!({ "progress": 4, "total": 4 }), Some(1.0)),
        ] {
            let mut params = json!({ "progressToken": 7 });
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert_eq!(hand_on(params), Some((String::new(), expected)), "{more}");
        }
        let long = json!({ "progressToken": 7, "message": "x".repeat(10_000) });
        assert!(hand_on(long).unwrap().0.len() < ToolProgress::MOST_BYTES + 8);
        for others in [
            json!({ "progress": 1 }),
            json!({ "progressToken": 8 }),
            json!({ "progressToken": "7" }),
            json!([]),
        ] {
            assert_eq!(hand_on(others.clone()), None, "{others}");
        }
    }
}

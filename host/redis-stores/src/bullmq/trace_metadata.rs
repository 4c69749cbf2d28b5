//! The trace of a job in its options, where BullMQ's own telemetry keeps it: `tm` is the carrier of the
//! propagator as JSON (with W3C Trace Context `{"traceparent": …}`), and `omc` says that a job's trace is to
//! be one of its own.

use agent_core::trace::{self, TraceContext};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Options {
    tm: Option<String>,
    #[serde(default)]
    omc: bool,
}

#[derive(Deserialize)]
struct Carrier {
    traceparent: String,
}

/// What the options of a job hold that is added now, if it is added within a trace.
pub(super) fn current() -> Option<String> {
    trace::current().map(|context| json!({ "traceparent": context.to_string() }).to_string())
}

/// The trace in which a job was added, by us or by Node, of which `options` are stored.
pub(super) fn read(options: &str) -> Option<TraceContext> {
    let Options { tm, omc } = serde_json::from_str(options).ok()?;
    let carrier: Carrier = serde_json::from_str(&tm.filter(|_| !omc)?).ok()?;
    TraceContext::parse(&carrier.traceparent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_trace_of_a_job_is_read_from_what_bullmqs_telemetry_stores() {
        let stored = |more: &str| format!(r#"{{"attempts":3,"tm":"{{\"traceparent\":\"{VALID}\"}}"{more}}}"#);
        assert_eq!(read(&stored("")), TraceContext::parse(VALID));
        assert_eq!(read(&stored(r#","omc":false"#)), TraceContext::parse(VALID));
        assert_eq!(read(&stored(r#","omc":true"#)), None);
    }

    #[test]
    fn options_without_a_trace_have_none() {
        for options in
            ["", "{}", "[]", r#"{"tm":5}"#, r#"{"tm":"what"}"#, r#"{"tm":"{\"traceparent\":\"x\"}"}"#]
        {
            assert_eq!(read(options), None, "{options}");
        }
    }
}

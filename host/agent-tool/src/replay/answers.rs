//! Answers of servers, from what was recorded.
//!
//! A request gets the first answer of its call that was not given yet and was to the same request: same
//! method, URL and body; of a body that was recorded in part, that part. So the order of requests that a tool
//! makes side by side does not matter, and of equal ones it does.

use parking_lot::Mutex;
use std::collections::HashMap;

use agent_core::ports::HttpRecording;
use boxed_async::boxed_async;
use host_setup::http_exchange::decode;
use tool_host::{CallKey, HttpAnswers, HttpOutcome, HttpRequestRecord};

/// The exchanges of a run, by the call that they belong to.
pub(super) struct RecordedAnswers(Mutex<HashMap<String, Calls>>);

/// Recorded exchanges of one call.
#[derive(Default)]
struct Calls {
    exchanges: Vec<Exchange>,
    used: Used,
}

struct Exchange {
    request: HttpRequestRecord,
    /// Absent once it was given.
    outcome: Option<HttpOutcome>,
}

/// What a call that was made again had of the recordings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    /// How many exchanges are recorded of it.
    pub(super) recorded: u32,
    /// How many of the answers that it was given were recorded in part only.
    pub(super) cut: u32,
}

impl RecordedAnswers {
    /// What is no exchange that this program reads is as good as absent.
    pub(super) fn new(recordings: Vec<HttpRecording>) -> Self {
        let mut calls = HashMap::<String, Calls>::new();
        for HttpRecording { call_id, exchange } in recordings {
            let Some((request, outcome)) = decode(&exchange) else {
                tracing::warn!(call_id, "an HTTP exchange was recorded by another version and is not used");
                continue;
            };
            let call = calls.entry(call_id).or_default();
            call.used.recorded += 1;
            call.exchanges.push(Exchange { request, outcome: Some(outcome) });
        }
        Self(Mutex::new(calls))
    }

    /// Keeps the last exchanges of a call: as many as the requests of the attempt that ended it. Before them
    /// stand those of an attempt whose process was killed: of the same id, and without an answer in the
    /// journal.
    pub(super) fn keep_last(&self, call_id: &str, requests: u32) {
        // A receipt without requests may be one that does not tell them.
        if let Some(call) = self.0.lock().get_mut(call_id).filter(|_| requests > 0) {
            let earlier = call.used.recorded.saturating_sub(requests);
            call.exchanges.drain(..earlier as usize);
            call.used.recorded -= earlier;
        }
    }

    /// How many exchanges are recorded of a call.
    pub(super) fn recorded(&self, call_id: &str) -> u32 {
        self.used(call_id).recorded
    }

    pub(super) fn used(&self, call_id: &str) -> Used {
        self.0.lock().get(call_id).map(|call| call.used).unwrap_or_default()
    }

    pub(super) fn take(&self, call_id: &str, request: &HttpRequestRecord) -> Result<HttpOutcome, String> {
        let mut calls = self.0.lock();
        let call = calls.entry(call_id.to_owned()).or_default();
        let HttpRequestRecord { method, url, body, body_cut, .. } = request;
        let same_target = |one: &&mut Exchange| one.request.method == *method && one.request.url == *url;
        let same = |one: &&mut Exchange| {
            let recorded = &one.request;
            let same_body = if recorded.body_cut {
                body.starts_with(&recorded.body)
            } else {
                *body == recorded.body && !body_cut
            };
            same_target(one) && same_body && one.outcome.is_some()
        };
        let found = call.exchanges.iter_mut().find(same);
        if let Some(outcome) = found.and_then(|exchange| exchange.outcome.take()) {
            call.used.cut += u32::from(matches!(outcome, HttpOutcome::Response { cut: true, .. }));
            return Ok(outcome);
        }
        let why = match call.exchanges.iter_mut().filter(same_target).count() {
            0 => "this call made no such request when it was recorded",
            _ => "this call made it with another body, or less often, when it was recorded",
        };
        Err(format!("there is no recorded answer to {method} {url}: {why}"))
    }
}

#[boxed_async]
impl HttpAnswers for RecordedAnswers {
    async fn answer(&self, call: CallKey<'_>, request: &HttpRequestRecord) -> Result<HttpOutcome, String> {
        self.take(call.call_id, request)
    }
}

//! Makes the record of a request and of what came of it, while both pass.
//!
//! A [`Recording`] belongs to the exchange and hands the record over when it is dropped, however the exchange
//! ended. It is dropped before the guest sees the end of the answer, so that records of requests that are
//! made one after another come in that order. Without a recorder there is no `Recording`, and nothing is
//! copied.

use parking_lot::Mutex;
use std::sync::Arc;

use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, PROXY_AUTHORIZATION, SET_COOKIE,
};
use http::{Method, Response};

use crate::answers::{CallKey, HttpOutcome, HttpRecorder, HttpRequestRecord, MOST_BODY_BYTES};
use crate::error::ErrorKind;
use crate::target::Target;

/// Left away from what is recorded: they are credentials, whoever set them.
const CREDENTIALS: [HeaderName; 4] = [AUTHORIZATION, COOKIE, SET_COOKIE, PROXY_AUTHORIZATION];

/// The call that requests belong to.
#[derive(Debug)]
pub(crate) struct CallName {
    pub run_id: Arc<str>,
    pub call_id: Arc<str>,
}

/// The first bytes of a body.
#[derive(Debug, Clone, Default)]
pub(crate) struct BoundedBody(Arc<Mutex<CapturedBytes>>);

#[derive(Debug, Default)]
struct CapturedBytes {
    bytes: Vec<u8>,
    is_cut: bool,
    has_ended: bool,
}

/// The record of one exchange under way.
pub(crate) struct Recording {
    recorder: Arc<dyn HttpRecorder>,
    call: Arc<CallName>,
    request: HttpRequestRecord,
    sent: BoundedBody,
    received: BoundedBody,
    outcome: Mutex<Option<RecordedOutcome>>,
}

enum RecordedOutcome {
    Head(u16, Vec<(String, String)>),
    Failed(ErrorKind),
}

impl CallName {
    pub(crate) fn new(key: CallKey<'_>) -> Self {
        Self { run_id: key.run_id.into(), call_id: key.call_id.into() }
    }

    pub(crate) fn key(&self) -> CallKey<'_> {
        CallKey { run_id: &self.run_id, call_id: &self.call_id }
    }
}

impl BoundedBody {
    pub(crate) fn push(&self, chunk: &[u8]) {
        let mut taken = self.0.lock();
        let room = MOST_BODY_BYTES.saturating_sub(taken.bytes.len());
        let (kept, beyond) = chunk.split_at(room.min(chunk.len()));
        taken.bytes.extend_from_slice(kept);
        taken.is_cut |= !beyond.is_empty();
    }

    /// Nothing comes after what was pushed.
    pub(crate) fn end(&self) {
        self.0.lock().has_ended = true;
    }

    /// The bytes, and whether any are missing.
    pub(crate) fn take(&self) -> (Vec<u8>, bool) {
        let mut taken = self.0.lock();
        let is_cut = taken.is_cut || !taken.has_ended;
        (std::mem::take(&mut taken.bytes), is_cut)
    }
}

impl Recording {
    /// `sent` is what is sent of the request's body.
    pub(crate) fn new(
        recorder: Arc<dyn HttpRecorder>,
        call: Arc<CallName>,
        mut request: HttpRequestRecord,
        sent: BoundedBody,
    ) -> Self {
        request.headers.retain(|(name, _)| CREDENTIALS.iter().all(|credential| credential != name.as_str()));
        Self { recorder, call, request, sent, received: BoundedBody::default(), outcome: Mutex::default() }
    }

    /// The answer began. `head` is what the guest gets.
    pub(crate) fn head(&self, head: &Response<()>) {
        let kept = pairs(head.headers(), |name| !CREDENTIALS.contains(name));
        *self.outcome.lock() = Some(RecordedOutcome::Head(head.status().as_u16(), kept));
    }

    /// A part of the answer's body, as the guest gets it.
    pub(crate) fn received(&self, chunk: &[u8]) {
        self.received.push(chunk);
    }

    /// The answer is whole.
    pub(crate) fn ended(&self) {
        self.received.end();
    }

    /// The exchange failed. An answer that has begun stays one that is cut.
    pub(crate) fn failed(&self, kind: ErrorKind) {
        self.outcome.lock().get_or_insert(RecordedOutcome::Failed(kind));
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let outcome = self.outcome.lock().take();
        let mut request = self.request.clone();
        (request.body, request.body_cut) = self.sent.take();
        let outcome = match outcome {
            Some(RecordedOutcome::Head(status, headers)) => {
                let (body, cut) = self.received.take();
                HttpOutcome::Response { status, headers, body, cut }
            }
            Some(RecordedOutcome::Failed(kind)) => HttpOutcome::Failed(kind.to_string()),
            // The guest gave it up before there was an answer.
            None => HttpOutcome::Failed(ErrorKind::ConnectionTerminated.to_string()),
        };
        self.recorder.record(self.call.key(), request, outcome);
    }
}

/// A request before credentials are added to it, without its body.
pub(crate) fn request(
    method: &Method,
    target: &Target,
    path: &str,
    headers: &HeaderMap,
) -> HttpRequestRecord {
    HttpRequestRecord {
        method: method.as_str().to_owned(),
        url: format!("{}://{}{path}", target.origin.scheme.as_str(), target.origin.authority()),
        // The host sets these two for every request.
        headers: pairs(headers, |name| ![HOST, ACCEPT_ENCODING].contains(name)),
        body: vec![],
        body_cut: false,
    }
}

fn pairs(headers: &HeaderMap, keep: impl Fn(&HeaderName) -> bool) -> Vec<(String, String)> {
    let pair = |(name, value): (&HeaderName, &http::HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    headers.iter().filter(|(name, _)| keep(name)).map(pair).collect()
}

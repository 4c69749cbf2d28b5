//! An error as a client is told it: status, body and headers.

use std::borrow::Cow;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, ETAG, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::answer;
use crate::request::Issue;
use crate::variant_b::job_accepted::Accepted;
use crate::variant_b::timestamp::whole_seconds;

pub const UNAVAILABLE: &str = "Service temporarily unavailable";

/// The value of `Retry-After`: rounded up, so that nobody comes back before it helps.
pub fn retry_after_seconds(after: Duration) -> u64 {
    whole_seconds(after).max(1)
}

/// The body of the address limiter's 429, and its tag: that of Express for these very bytes
/// (host/docs/interface/node-clients.md#rate-limit-headers). Other answers carry none: nobody asks again for
/// an answer to a `POST`, and hashing each one costs something.
pub(super) const TOO_MANY: &str = "Too many requests from this IP";
const TOO_MANY_TAG: HeaderValue = HeaderValue::from_static(r#"W/"1e-roKLuvUqeFZ1+vMntDcNHW9otjw""#);
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// What a client is told.
pub(super) struct ErrorAnswer<'a> {
    pub(super) status: StatusCode,
    pub(super) body: Body<'a>,
    pub(super) retry_after: Option<Duration>,
    pub(super) header: Option<(HeaderName, HeaderValue)>,
}

pub(super) enum Body<'a> {
    Empty,
    /// The bare text that the Node stack's limiter sends.
    Page(&'static str),
    /// `{"error": text}`.
    Text(Cow<'static, str>),
    /// `{"error": text}`, where a component or its author is quoted.
    Quoting(Cow<'a, str>),
    /// `{"error": [issue, …]}`.
    Issues(Cow<'a, [Issue]>),
    /// `{"jobId": id}`, of what is no failure.
    Job(&'a str),
}

impl<'a> ErrorAnswer<'a> {
    pub(super) fn new(status: StatusCode, body: Body<'a>) -> Self {
        Self { status, body, retry_after: None, header: None }
    }

    /// An empty body beside the header that says how to come in.
    pub(super) fn challenging(status: StatusCode, challenge: HeaderValue) -> Self {
        Self { header: Some((WWW_AUTHENTICATE, challenge)), ..Self::new(status, Body::Empty) }
    }

    pub(super) fn text(status: StatusCode, text: &'static str) -> Self {
        Self::new(status, Body::Text(text.into()))
    }

    pub(super) fn quoting(status: StatusCode, text: &impl ToString) -> Self {
        Self::new(status, Body::Quoting(text.to_string().into()))
    }

    pub(super) fn unavailable(retry_after: Duration) -> Self {
        Self::text(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE).after(Some(retry_after))
    }

    /// The answer to who asked for a run that waits for somebody: where it goes on. It is in the table
    /// because whoever waits for a result gets none.
    pub(super) fn parked(job_id: &'a str) -> Self {
        let location = HeaderValue::try_from(format!("/api/agent/jobs/{job_id}")).ok();
        let header = location.map(|location| (LOCATION, location));
        Self { header, ..Self::new(StatusCode::ACCEPTED, Body::Job(job_id)) }
    }

    pub(super) fn after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    pub(super) fn into_response(self) -> Response {
        let mut response = match self.body {
            Body::Empty => self.status.into_response(),
            Body::Page(text) => {
                (self.status, [(CONTENT_TYPE, HTML), (ETAG, TOO_MANY_TAG)], text).into_response()
            }
            Body::Text(text) => answer::refuse_with(self.status, &*text),
            Body::Quoting(text) => answer::refuse_visibly(self.status, &*text),
            Body::Job(job_id) => answer::json(self.status, &Accepted { job_id }),
            Body::Issues(issues) => answer::refuse_with(self.status, &*issues),
        };
        Self::add_headers(&mut response, self.retry_after, self.header);
        response
    }

    pub(super) fn add_headers(
        response: &mut Response,
        retry_after: Option<Duration>,
        header: Option<(HeaderName, HeaderValue)>,
    ) {
        if let Some(duration) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, retry_after_seconds(duration).into());
        }
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
    }
}

//! One `POST` and its response, bounded in time and in size. Knows no JSON and no provider.

use std::time::Duration;

use agent_core::trace::InTrace as _;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use outbound::{Body, Client, Request};
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use super::client::{CONNECT_TIMEOUT, build_client};
use super::client_span;
use crate::connect_error::ConnectError;

/// The largest reply that is read, in bytes. The longest ones that models can write are a few hundred KiB; a
/// provider that sends without end must not fill the memory.
const REPLY_LIMIT: usize = 16 << 20;

/// The most bytes that are read of a response with an error status, and the longest body that is parsed as an
/// error.
pub(crate) const ERROR_LIMIT: usize = 64 << 10;

/// The largest streamed reply that is read, in bytes: every few words are an event of some hundred bytes.
const STREAM_LIMIT: usize = 64 << 20;

/// How long the end of a body is waited for after its last event.
const END_LIMIT: Duration = Duration::from_millis(5);

/// How long more of a stream is waited for after the reader has a whole reply. Providers send the usage and
/// the last event at once; some send neither and keep the connection open.
const USAGE_LIMIT: Duration = Duration::from_secs(2);

/// The header OpenAI documents for ids that the caller makes. Anthropic ignores it. `X-Request-Id` stays the
/// providers': both answer with one of their own.
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-client-request-id");

/// A pool of connections to one endpoint, and the headers of every request.
#[derive(Debug)]
pub(crate) struct Transport {
    client: Client,
    endpoint: Url,
    headers: HeaderMap,
}

/// A response, whatever its status.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Empty when a [`StreamReader`] has read it.
    pub(crate) body: Vec<u8>,
    /// Whether one has.
    pub(crate) is_streamed: bool,
}

/// Reads the body of a response that is a stream of events, piece by piece.
pub(crate) trait StreamReader: Send {
    /// Takes the next bytes. Says whether anything that follows would be read.
    fn read(&mut self, bytes: &[u8]) -> bool;

    /// Whether what was read is a whole reply, which an error behind it does not spoil.
    fn is_whole(&self) -> bool;
}

/// Why there is no whole response.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// The deadline passed.
    Timeout,
    /// No connection, or one that broke. The text names the host and the cause.
    Connection(String),
    /// The provider sends more than a reply can be.
    TooLarge,
}

impl Transport {
    /// Connects to nothing yet.
    pub(crate) fn new(endpoint: Url, mut headers: HeaderMap) -> Result<Self, ConnectError> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Self { client: build_client(&endpoint)?, endpoint, headers })
    }

    /// Posts `body` and reads the whole response, whatever its status, in a span of its own.
    pub(crate) async fn post(
        &self,
        request_id: &str,
        body: Vec<u8>,
        deadline: Instant,
        stream: Option<&mut dyn StreamReader>,
    ) -> Result<HttpResponse, ExchangeError> {
        if deadline <= Instant::now() {
            return Err(ExchangeError::Timeout);
        }
        let span = client_span::begin(&self.endpoint);
        let response = self.exchange(request_id, body, deadline, stream).in_trace(span.inner()).await;
        match &response {
            Ok(response) => client_span::record_status(&span, response.status.as_u16()),
            Err(error) => client_span::record_error(&span, error.as_str()),
        }
        response
    }

    async fn exchange(
        &self,
        request_id: &str,
        body: Vec<u8>,
        deadline: Instant,
        stream: Option<&mut dyn StreamReader>,
    ) -> Result<HttpResponse, ExchangeError> {
        let mut headers = self.headers.clone();
        if let Ok(id) = HeaderValue::from_str(request_id) {
            headers.insert(CLIENT_REQUEST_ID, id);
        }
        client_span::inject_context(&mut headers);
        let sending = self.client.send(Request::post(self.endpoint.clone(), headers, body));
        let (head, mut response) = self.in_time(deadline, sending).await?.into_parts();
        let (status, headers, mut body) = (head.status, head.headers, Vec::new());
        if let Some(reader) = stream.filter(|_| status.is_success() && is_event_stream(&headers)) {
            self.read_stream(&mut response, deadline, reader).await?;
            return Ok(HttpResponse { status, headers, body, is_streamed: true });
        }
        let limit = if status.is_success() { REPLY_LIMIT } else { ERROR_LIMIT };
        match self.in_time(deadline, response.read_into(&mut body, limit)).await {
            // The status says what happened; the text is only quoted, and half of it will do.
            Err(_) if !status.is_success() => {}
            whole => whole?,
        }
        Ok(HttpResponse { status, headers, body, is_streamed: false })
    }

    async fn in_time<T>(
        &self,
        deadline: Instant,
        work: impl Future<Output = Result<T, outbound::Error>>,
    ) -> Result<T, ExchangeError> {
        let done = timeout_at(deadline, work).await.map_err(|_elapsed| ExchangeError::Timeout)?;
        done.map_err(|error| self.failure(&error))
    }

    /// Gives the body of a response to `reader`. Silence is bounded by the deadline alone: servers answer the
    /// head at once and are silent while they read a long prompt or think.
    ///
    /// Once the reader has a whole reply, more of the stream is waited for at most [`USAGE_LIMIT`], and a
    /// connection that breaks, stalls or has no end is no error: the reply was paid for and would be asked
    /// for again.
    async fn read_stream(
        &self,
        response: &mut Body,
        deadline: Instant,
        reader: &mut dyn StreamReader,
    ) -> Result<(), ExchangeError> {
        let (mut read, mut until, mut is_whole) = (0, deadline, false);
        loop {
            let chunk = match self.in_time(until, response.chunk()).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(()),
                Err(_) if is_whole => return Ok(()),
                Err(error) => return Err(error),
            };
            read += chunk.len();
            if read > STREAM_LIMIT {
                return if is_whole { Ok(()) } else { Err(ExchangeError::TooLarge) };
            }
            if !reader.read(&chunk) {
                // A body that was read to its end leaves the connection to the next request. Most have ended
                // by now.
                let _ = timeout(END_LIMIT, response.chunk()).await;
                return Ok(());
            }
            if !is_whole && reader.is_whole() {
                is_whole = true;
                until = deadline.min(Instant::now() + USAGE_LIMIT);
            }
        }
    }

    /// The address without path and query, which may hold a key, and the causes.
    fn failure(&self, error: &outbound::Error) -> ExchangeError {
        let host = self.endpoint.authority();
        match error {
            outbound::Error::TooLarge => ExchangeError::TooLarge,
            error if error.is_timeout() => {
                let limit = CONNECT_TIMEOUT.as_millis();
                ExchangeError::Connection(format!("{host}: no connection within {limit} ms"))
            }
            causes => ExchangeError::Connection(format!("{host}: {causes}")),
        }
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    content_type.get(..17).is_some_and(|start| start.eq_ignore_ascii_case(b"text/event-stream"))
}

impl HttpResponse {
    /// Whether the end of the body was the end of the connection, so that a connection that broke and a
    /// complete body look the same.
    pub(crate) fn ends_with_the_connection(&self) -> bool {
        !self.headers.contains_key(CONTENT_LENGTH) && !self.headers.contains_key(TRANSFER_ENCODING)
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl ExchangeError {
    /// The value of `error.type` in traces.
    fn as_str(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Connection(_) => "connection",
            Self::TooLarge => "too_large",
        }
    }
}

//! A session over streamable HTTP: each message is a POST, and its answer a JSON document or a stream of
//! events.
//!
//! Every request is one of the call's requests (`egress`): checked address, no redirect, budget, deadline,
//! credentials of the entry. No stream is kept open between requests; one that its server closes before the
//! answer is resumed by a GET, if its events have ids. A session that is dropped is ended at
//! the server, and a request that it still waited for is cancelled there (`farewell`). Of a server that gave
//! no id of a session nothing is cancelled: it could take the request for that of another connection, which
//! counts its own alike.

use std::time::Duration;

use agent_core::event_stream::{EventStreamParser, Resumption, TooMuch};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use json_schema::MemoryBudget;
use serde_json::Value;
use tool_egress::{Call, EgressError, ResponseBody};

use crate::connection::farewell::Farewell;
use crate::error::McpError;
use crate::message::{self, Exchange, MOST_BYTES, Next};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Longest id of a session: it is sent with every request.
const MOST_SESSION_BYTES: usize = 256;

/// How long a stream is left alone before it is resumed, unless its server says how long.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) struct Session {
    uri: Uri,
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// The request that the server may be working on.
    under_way: Option<u64>,
    /// Whether a request behind the handshake was answered: the server knew the session then.
    has_answered: bool,
    farewell: Farewell,
}

impl Session {
    pub(crate) fn new(farewell: Farewell) -> Result<Self, McpError> {
        let uri = farewell.url.parse().map_err(|_| McpError::Unreachable("its address is none".into()))?;
        Ok(Self { uri, id: None, version: None, under_way: None, has_answered: false, farewell })
    }

    /// The version that was agreed on stands in every request from now on.
    pub(crate) fn set_version(&mut self, version: &'static str) {
        self.version = Some(HeaderValue::from_static(version));
    }

    /// Sends what has no answer.
    pub(crate) async fn send(&self, requests: &Call, message: String) -> Result<(), McpError> {
        let response = self.post(requests, message).await?;
        check(response.status(), self.id.is_some())
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn request(
        &mut self,
        requests: &Call,
        exchange: &mut Exchange<'_>,
        message: String,
    ) -> Result<Value, McpError> {
        self.under_way = Some(exchange.id);
        let answer = self.ask(requests, exchange, message).await;
        self.has_answered |= answer.is_ok() && self.version.is_some();
        match &answer {
            Ok(_) | Err(McpError::Refused { .. } | McpError::Unreachable(_)) => self.under_way = None,
            Err(McpError::SessionGone) => (self.id, self.under_way) = (None, None),
            // The server may go on with it.
            Err(McpError::Died(_) | McpError::Protocol(_) | McpError::TooMuch(_) | McpError::Asks(_)) => {}
        }
        answer
    }

    async fn ask(
        &mut self,
        requests: &Call,
        exchange: &mut Exchange<'_>,
        message: String,
    ) -> Result<Value, McpError> {
        let response = self.post(requests, message).await?;
        if let Err(refused) = check(response.status(), self.id.is_some()) {
            return Err(self.explained(refused, response).await);
        }
        if self.id.is_none() {
            self.id = session_of(&response)?;
        }
        let kind = kind_of(&response);
        if is_event_stream(&kind) {
            return self.follow(requests, exchange, response.into_body()).await;
        }
        if !kind.starts_with("application/json") {
            return Err(McpError::protocol("its answer is neither JSON nor a stream of events"));
        }
        let body = collect(response.into_body()).await?;
        match exchange.take_in(&body)? {
            Next::Answer(answer) => Ok(answer),
            Next::Reply(_) | Next::GoOn => Err(McpError::protocol("its answer is that of another request")),
        }
    }

    /// What a request was refused with, and the server's reason if it gives one. In place of 404, many
    /// servers say with 400 and an error of no request that they have forgotten the session.
    async fn explained(&self, refused: McpError, response: Response<ResponseBody>) -> McpError {
        let (status, kind) = (response.status(), kind_of(&response));
        let problem = match refused {
            McpError::Unreachable(problem) if kind.starts_with("application/json") => problem,
            refused => return refused,
        };
        // silent-ok: what cannot be read gives no reason.
        let body = collect(response.into_body()).await.unwrap_or_default();
        let said = MemoryBudget::default().read_loosely(&body).unwrap_or_default();
        let is_known = self.id.is_some() && self.has_answered;
        let is_forgotten = is_known && status == StatusCode::BAD_REQUEST && said["id"].is_null();
        match said["error"]["message"].as_str() {
            Some(_) if is_forgotten => McpError::SessionGone,
            Some(reason) => McpError::Unreachable(format!("{problem}: {reason}")),
            None => McpError::Unreachable(problem),
        }
    }

    /// Reads events until the answer is among them. The server may close the stream before, and goes on with
    /// it when it is asked to.
    async fn follow(
        &self,
        requests: &Call,
        exchange: &mut Exchange<'_>,
        mut body: ResponseBody,
    ) -> Result<Value, McpError> {
        let mut events = EventStreamParser::new(MOST_BYTES);
        loop {
            if let Some(answer) = self.answer_in(requests, exchange, (&mut events, body)).await? {
                return Ok(answer);
            }
            body = self.resume(requests, events.resumption()).await?;
            events = events.resumed();
        }
    }

    /// The answer, if it is among the events of a stream.
    async fn answer_in(
        &self,
        requests: &Call,
        exchange: &mut Exchange<'_>,
        (events, mut body): (&mut EventStreamParser, ResponseBody),
    ) -> Result<Option<Value>, McpError> {
        let too_much = |TooMuch| {
            McpError::TooMuch(format!("an event of more than {MOST_BYTES} bytes, or too many events"))
        };
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame?.into_data() else { continue };
            let events = events.push(&piece).map_err(too_much)?;
            // One without data is a sign of life.
            for event in events.iter().filter(|event| !event.data.is_empty()) {
                match exchange.take_in(event.data.as_bytes())? {
                    Next::Answer(answer) => return Ok(Some(answer)),
                    Next::Reply(reply) => self.send(requests, reply).await.map_err(begun)?,
                    Next::GoOn => {}
                }
            }
        }
        Ok(None)
    }

    /// The rest of a stream that the server closed before the answer. How often it may do that is bounded by
    /// the requests and the deadline of the call.
    async fn resume(&self, requests: &Call, resumption: &Resumption) -> Result<ResponseBody, McpError> {
        let id = HeaderValue::from_str(&resumption.last_event_id).ok().filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| McpError::Died("the stream ended".into()))?;
        tokio::time::sleep(resumption.retry.unwrap_or(RETRY)).await;
        let mut request = self.with_headers(Method::GET, String::new());
        request.headers_mut().insert(LAST_EVENT_ID, id);
        let response = self.exchange(requests, request).await.map_err(begun)?;
        check(response.status(), true).map_err(begun)?;
        if !is_event_stream(&kind_of(&response)) {
            return Err(McpError::protocol("it resumes a stream of events with something else"));
        }
        Ok(response.into_body())
    }

    async fn post(&self, requests: &Call, message: String) -> Result<Response<ResponseBody>, McpError> {
        self.exchange(requests, self.with_headers(Method::POST, message)).await
    }

    async fn exchange(
        &self,
        requests: &Call,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<ResponseBody>, McpError> {
        // The error's own text is for the model. The log gets the addresses, and the line of the policy that
        // would help.
        let response = requests.send(request, requests.times()).await.inspect_err(|error| {
            let server = self.farewell.server.as_str();
            tracing::warn!(server, problem = error.log_text(), "a request to an MCP server failed");
        });
        Ok(response?)
    }

    fn with_headers(&self, method: Method, message: String) -> Request<Full<Bytes>> {
        let length = message.len();
        let mut request = Request::new(Full::new(Bytes::from(message)));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.extend(self.id.clone().map(|id| (SESSION, id)));
        headers.extend(self.version.clone().map(|version| (VERSION, version)));
        request
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.id.is_none() {
            return;
        }
        // The request that begins a session is none that may be cancelled.
        let given_up = self.under_way.take().filter(|_| self.version.is_some());
        let cancelled = given_up.map(|id| self.with_headers(Method::POST, message::cancelled(id)));
        let over = self.with_headers(Method::DELETE, String::new());
        self.farewell.say(cancelled.into_iter().chain([over]).collect());
    }
}

/// The media type of a response, in lower case.
fn kind_of(response: &Response<ResponseBody>) -> String {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.unwrap_or_default().to_ascii_lowercase()
}

fn is_event_stream(kind: &str) -> bool {
    kind.starts_with("text/event-stream")
}

fn check(status: StatusCode, has_session: bool) -> Result<(), McpError> {
    match status {
        status if status.is_success() => Ok(()),
        StatusCode::NOT_FOUND if has_session => Err(McpError::SessionGone),
        status if status.is_redirection() => {
            let text = format!("it answered with HTTP {status}, and redirects are not followed");
            Err(McpError::Unreachable(text))
        }
        // A gateway gave up, or the server failed half way. With 503 it says that it has not begun.
        status if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE => {
            Err(McpError::Died(format!("HTTP {status}")))
        }
        status => Err(McpError::Unreachable(format!("it answered with HTTP {status}"))),
    }
}

/// What a failure says once the server has begun to answer: the request may have been carried out, so nobody
/// may make it again.
fn begun(error: McpError) -> McpError {
    match error {
        McpError::SessionGone => McpError::Died("the session ended during the call".into()),
        McpError::Unreachable(problem) => McpError::Died(problem),
        error => error,
    }
}

fn session_of(response: &Response<ResponseBody>) -> Result<Option<HeaderValue>, McpError> {
    let Some(id) = response.headers().get(SESSION) else { return Ok(None) };
    let is_plain = id.as_bytes().iter().all(u8::is_ascii_graphic);
    if id.is_empty() || id.len() > MOST_SESSION_BYTES || !is_plain {
        return Err(McpError::protocol("the id of its session is not one"));
    }
    Ok(Some(id.clone()))
}

async fn collect(mut body: ResponseBody) -> Result<Vec<u8>, McpError> {
    let mut collected = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame: Result<_, EgressError> = frame;
        let Ok(piece) = frame?.into_data() else { continue };
        if collected.len() + piece.len() > MOST_BYTES {
            return Err(McpError::TooMuch(format!("a message of more than {MOST_BYTES} bytes")));
        }
        collected.extend_from_slice(&piece);
    }
    Ok(collected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_not_carried_out_is_said_to_be_out_of_reach() {
        let what = |status: u16| match check(StatusCode::from_u16(status).unwrap(), true) {
            Ok(()) => "done",
            Err(McpError::SessionGone) => "gone",
            Err(McpError::Unreachable(_)) => "unreachable",
            Err(McpError::Died(_)) => "died",
            Err(error) => panic!("{status}: {error}"),
        };
        for (status, expected) in [
            (200, "done"),
            (202, "done"),
            (307, "unreachable"),
            (401, "unreachable"),
            (404, "gone"),
            (500, "died"),
            (502, "died"),
            (503, "unreachable"),
            (504, "died"),
        ] {
            assert_eq!(what(status), expected, "{status}");
        }
        for (error, is_died) in [
            (McpError::SessionGone, true),
            (McpError::Unreachable("x".into()), true),
            (McpError::TooMuch("x".into()), false),
        ] {
            assert_eq!(matches!(begun(error.clone()), McpError::Died(_)), is_died, "{error}");
        }
    }
}

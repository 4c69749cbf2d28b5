//! One WebSocket of `GET /v1/responses`, from its handshake to its close frame.
//!
//! A message `response.create` is answered by `responses::respond`, as a request of `POST /v1/responses` with
//! `stream` is: the messages are the data of that very stream's events. So there is one engine, and what a
//! stream's reader that leaves means, a connection that closes does.
//!
//! One response is under way at a time. Two more messages are read meanwhile, and what follows those waits in
//! the socket. `last_response` is what the next response may go on from.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use agent_core::error_chain::ErrorChain;
use axum::body::Body;
use axum::response::Response;
use futures::stream::FusedStream as _;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message, Utf8Bytes};
use tokio_util::sync::CancellationToken;

use super::super::input::parameters;
use super::super::responses;
use super::super::run::last_response::OfConnection;
use http_edge::json;
use http_edge::middleware::client_address::ClientAddress;
use http_edge::middleware::request_id::RequestId;
use http_edge::variant_b::asking::Asking;
use http_edge::variant_b::error::{Error, Problem, retry_after_seconds};
use http_edge::variant_b::state::Shared;
use http_edge::variant_b::{auth, rate_limit};
use run_service::streams::{STREAM_LIFE, StreamPermit};

/// How long a connection is silent at most: then it is asked whether its client is there.
const PING: Duration = Duration::from_secs(20);

/// How long a connection without a response is left its place when more than half of all are taken.
const IDLE: Duration = Duration::from_secs(60);

/// How many messages are read ahead of the response under way. As long as not more come, pings are answered
/// and a close is noticed.
const MOST_EARLY: usize = 2;

/// How long the client has to answer a close frame.
const CLOSES_WITHIN: Duration = Duration::from_secs(1);

/// Bytes that are read from the socket at once.
const READ_BYTES: usize = 8 << 10;

/// Bytes that are written to the socket at once, about as many as a part of a stream has.
const WRITE_BYTES: usize = 64 << 10;

/// What the document calls the event of an error.
pub(crate) const ERROR: &str = "OpenAiSocketError";

/// A connection before its first message.
pub(crate) struct Session {
    pub(crate) edge: Shared,
    /// Of the handshake: the token, and what becomes of a run whose client leaves.
    pub(crate) headers: HeaderMap,
    pub(crate) address: Option<ClientAddress>,
    /// Is cancelled when connections are accepted no longer.
    pub(crate) stopping: CancellationToken,
    pub(crate) permit: StreamPermit,
}

#[derive(Debug)]
enum End {
    /// The client closed it, or is not there any more.
    Gone,
    Close(CloseCode, &'static str),
}

impl Session {
    /// Serves the connection to its end.
    pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(self, io: S) {
        let most = Some(self.edge.settings.max_body_bytes);
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(WRITE_BYTES)
            .max_message_size(most)
            .max_frame_size(most);
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        let mut connection = Connection::new(socket);
        let end = self.answer_all(&mut connection).await;
        if let End::Close(code, reason) = end {
            connection.close(code, reason).await;
        }
    }

    async fn answer_all<S>(&self, connection: &mut Connection<S>) -> End
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let remembered = OfConnection::default();
        let mut over = pin!(sleep(STREAM_LIFE));
        let mut idle_until = Instant::now() + IDLE;
        loop {
            let message = tokio::select! {
                biased;
                () = self.stopping.cancelled() => {
                    return End::Close(CloseCode::Away, "The service is stopping: connect again");
                }
                () = &mut over => {
                    let _gone = connection.send(error_event(&too_old().into(), self.edge.variant.production).1).await;
                    return End::Close(CloseCode::Normal, "A connection lasts an hour: connect again");
                }
                // Before messages are read: a client whose messages are all refused would keep its place with
                // them.
                () = sleep_until(idle_until) => {
                    if self.permit.are_scarce() {
                        return End::Close(CloseCode::Away, "There was no response, and others need the place");
                    }
                    idle_until = Instant::now() + IDLE;
                    continue;
                }
                message = connection.next() => message,
            };
            let answered = match message {
                Ok(message) => self.answer(&message, &remembered, connection).await,
                Err(end) => Err(end),
            };
            match answered {
                Ok(true) => idle_until = Instant::now() + IDLE,
                Ok(false) => {}
                Err(end) => return end,
            }
        }
    }

    /// Answers a message with the events of a response, or with what is wrong: then it is false.
    async fn answer<S>(
        &self,
        message: &str,
        remembered: &OfConnection,
        connection: &mut Connection<S>,
    ) -> Result<bool, End>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let request_id = RequestId::unique();
        let response = Box::pin(self.respond(message, request_id.clone(), remembered));
        match connection.while_reading(response).await? {
            Ok(response) => connection.pass_on(response.into_body()).await.map(|()| true),
            Err(error) => {
                log_refusal(&request_id, &error);
                let (status, event) = error_event(&error, self.edge.variant.production);
                connection.send(event).await?;
                match status {
                    StatusCode::UNAUTHORIZED => {
                        Err(End::Close(CloseCode::Policy, "The token is not valid any more"))
                    }
                    _ => Ok(false),
                }
            }
        }
    }

    async fn respond(
        &self,
        message: &str,
        request_id: RequestId,
        remembered: &OfConnection,
    ) -> Result<Response, Error> {
        // As good as that of a request: the token may have expired since, and each message is counted,
        // whatever it is.
        let caller = auth::caller_now(&self.headers, &self.edge.variant.tokens)?;
        rate_limit::admit(&self.edge, self.address, &caller).await?;
        let mut fields = parameters::fields(json::parse(message.as_bytes())?)?;
        let previous = fields.get("previous_response_id").and_then(Value::as_str);
        let remembered = remembered.before(previous);
        if fields.remove("type").is_none_or(|kind| kind != "response.create") {
            return Err(
                Problem::unsupported_value("type", "Send messages of the type 'response.create'.").into()
            );
        }
        parameters::check(&fields, parameters::OF_SOCKETS)?;
        fields.insert("stream".to_owned(), true.into());
        let asking = Asking::on_connection(caller, request_id, self.headers.clone());
        responses::respond(&self.edge, &asking, fields, Some(remembered)).await
    }
}

/// A WebSocket, of which texts are read.
struct Connection<S> {
    socket: WebSocketStream<S>,
    pings: Interval,
    /// Whether nothing was read since the last ping.
    is_silent: bool,
    /// What was read while a response was under way.
    early: VecDeque<Utf8Bytes>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn new(socket: WebSocketStream<S>) -> Self {
        let mut pings = interval(PING);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is at once.
        pings.reset();
        Self { socket, pings, is_silent: false, early: VecDeque::new() }
    }

    async fn next(&mut self) -> Result<Utf8Bytes, End> {
        match self.early.pop_front() {
            Some(message) => Ok(message),
            None => self.read().await,
        }
    }

    /// Reads the next text, and answers and sends pings meanwhile. Dropping the future loses nothing.
    async fn read(&mut self) -> Result<Utf8Bytes, End> {
        loop {
            let message = tokio::select! {
                // First, so that a client whose answer waits behind a slow write is not taken for gone.
                biased;
                message = self.socket.next() => message,
                _ = self.pings.tick() => {
                    self.ping().await?;
                    continue;
                }
            };
            self.is_silent = false;
            match message {
                Some(Ok(Message::Text(text))) => return Ok(text),
                Some(Ok(Message::Binary(_))) => return Err(End::Close(CloseCode::Unsupported, "Send texts")),
                // tungstenite answers pings with what is written next, which may take long.
                Some(Ok(Message::Ping(_))) => self.socket.flush().await.map_err(|_gone| End::Gone)?,
                Some(Ok(Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(SocketError::Capacity(_))) => {
                    return Err(End::Close(
                        CloseCode::Size,
                        "The message is larger than MAX_BODY_BYTES allows",
                    ));
                }
                Some(Err(SocketError::Protocol(_))) => {
                    return Err(End::Close(CloseCode::Protocol, "Not a frame"));
                }
                Some(Err(SocketError::Utf8(_))) => return Err(End::Close(CloseCode::Invalid, "")),
                // tungstenite has an answer to that, which reading on writes.
                Some(Ok(Message::Close(_))) => {
                    let _too_slow = timeout(CLOSES_WITHIN, self.socket.next()).await;
                    return Err(End::Gone);
                }
                Some(Err(_)) | None => return Err(End::Gone),
            }
        }
    }

    /// Asks whether the client is there. One that has not answered the last time is not.
    async fn ping(&mut self) -> Result<(), End> {
        if self.is_silent {
            return Err(End::Gone);
        }
        self.send_message(Message::Ping(Default::default())).await?;
        // Not before it is sent, which a response that goes on may interrupt.
        self.is_silent = true;
        Ok(())
    }

    /// Reads ahead while that goes on, which is dropped when the client is gone.
    async fn while_reading<T>(&mut self, work: impl Future<Output = T>) -> Result<T, End> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                early = self.read(), if self.early.len() < MOST_EARLY => self.early.push_back(early?),
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Sends the events of a stream, until it ends or the client is gone, which ends the run.
    async fn pass_on(&mut self, events: Body) -> Result<(), End> {
        let mut parts = events.into_data_stream();
        loop {
            let Some(Ok(part)) = self.while_reading(parts.next()).await? else { return Ok(()) };
            let text = String::from_utf8_lossy(&part);
            if text.starts_with(':') && self.early.len() == MOST_EARLY {
                // The stream's heartbeat finds out whether a client is there that nothing is read of.
                self.send_message(Message::Ping(Default::default())).await?;
            }
            let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
            for event in data.filter(|data| *data != "[DONE]") {
                self.socket.feed(Message::text(event)).await.map_err(|_gone| End::Gone)?;
            }
            self.socket.flush().await.map_err(|_gone| End::Gone)?;
        }
    }

    async fn send(&mut self, text: String) -> Result<(), End> {
        self.send_message(Message::text(text)).await
    }

    async fn send_message(&mut self, message: Message) -> Result<(), End> {
        self.socket.send(message).await.map_err(|_gone| End::Gone)
    }

    /// Says why it ends, and waits for the client to have read that.
    async fn close(&mut self, code: CloseCode, reason: &'static str) {
        let closing = async {
            let frame = CloseFrame { code, reason: reason.into() };
            if self.socket.close(Some(frame)).await.is_err() {
                return;
            }
            if self.socket.is_terminated() {
                // What the client sends is read as frames no more. Left unread, it would have the connection
                // reset, and the client might not come to read why it ends.
                let _gone = tokio::io::copy(self.socket.get_mut(), &mut tokio::io::sink()).await;
            }
            while let Some(Ok(_)) = self.socket.next().await {}
        };
        let _too_slow = timeout(CLOSES_WITHIN, closing).await;
    }
}

/// The one line about a message that was refused.
fn log_refusal(request_id: &RequestId, error: &Error) {
    let (status, error) = (error.openai(true).0.as_u16(), ErrorChain(error));
    if status >= 500 {
        tracing::error!(%request_id, status, %error, "a message of a WebSocket was refused");
    } else {
        tracing::info!(%request_id, status, %error, "a message of a WebSocket was refused");
    }
}

fn too_old() -> Problem {
    let why = "Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.";
    Problem::socket(StatusCode::BAD_REQUEST, "websocket_connection_limit_reached", why)
}

/// What is wrong, as OpenAI's clients read it over a WebSocket, and the status of such an answer. The header
/// that would say when to come back is in it: a message has none of its own.
fn error_event(error: &Error, production: bool) -> (StatusCode, String) {
    let (status, mut event) = error.openai(production);
    event["type"] = "error".into();
    event["status"] = status.as_u16().into();
    if let Some(after) = error.retry_after() {
        event["headers"] = json!({ "retry-after": retry_after_seconds(after).to_string() });
    }
    (status, event.to_string())
}

/// The schema of the event, for the document.
pub(crate) fn error_schema() -> Value {
    use http_edge::openapi::schema_parts::{fields, object, of, one_of};
    let text = |about: &str, example: &str| of(["string", "null"], about, example);
    let error = object(
        "What is wrong.",
        fields([
            ("message", of("string", "In words.", "Previous response with id 'resp_1' not found.")),
            ("type", of("string", "Of which kind.", "invalid_request_error")),
            ("param", text("Where in the message.", "previous_response_id")),
            ("code", text("In a word.", "previous_response_not_found")),
        ]),
    );
    let mut event = object(
        "What is wrong with a message. The connection goes on, unless its token is not valid any more.",
        fields([
            ("type", one_of(&["error"], "Always the same.")),
            ("status", of("integer", "That of the answer to such a request.", 400)),
            ("error", error),
        ]),
    );
    let retry_after = of("string", "In how many seconds to send the message again.", "12");
    let headers = object("Of the answer to such a request.", fields([("retry-after", retry_after)]));
    // Not every event has them.
    event["properties"]["headers"] = headers;
    event
}

//! Responses over a WebSocket: the events of a stream, one response after the other, and what the connection
//! remembers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::Spawn as _;
use agent_core::testing::{TokioSpawn, asks_for, says};
use agent_core::words::Message as Said;
use axum::body::Body;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderValue, Request, StatusCode};
use http_edge::{Claims, Tokens};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use run_service::shutdown::Shutdown;
use run_service::testing::{ScriptedInvoke, run_stores, streams_of};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use tower::ServiceExt as _;

use super::open_responses::faults;
use super::openai::{RESPONSES, events, merged, saying};
use crate::harness::{Fakes, SECRET, b, token};

/// The client's side of a connection that is served.
fn connection(fakes: &Fakes) -> DuplexStream {
    let (client, server) = tokio::io::duplex(1 << 16);
    let router = fakes.service.router();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        router.clone().oneshot(request.map(Body::new))
    });
    let serving = http1::Builder::new().serve_connection(TokioIo::new(server), service).with_upgrades();
    TokioSpawn.spawn("connection", Box::pin(async move { drop(serving.await) }));
    client
}

/// A client of the WebSocket.
struct Client(WebSocketStream<DuplexStream>);

impl Client {
    /// Serves a connection, and opens the WebSocket on it.
    async fn connect(fakes: &Fakes, user: &str) -> Result<Self, Error> {
        Self::connect_with(fakes, &token(user, None, None)).await
    }

    async fn connect_with(fakes: &Fakes, token: &str) -> Result<Self, Error> {
        let client = connection(fakes);
        let mut request = "ws://localhost/v1/responses".into_client_request().unwrap();
        let token = format!("Bearer {token}");
        request.headers_mut().insert("authorization", HeaderValue::try_from(token).unwrap());
        client_async(request, client).await.map(|(socket, _answer)| Self(socket))
    }

    async fn open(fakes: &Fakes) -> Self {
        Self::connect(fakes, "u1").await.unwrap()
    }

    async fn send(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    /// Asks for a response, of which nothing is read yet.
    async fn create(&mut self, more: &Value) {
        let message = json!({"type": "response.create", "model": "agent", "input": "hi"});
        self.0.send(Message::text(merged(message, more))).await.unwrap();
    }

    /// The next message that is no ping, if there is one.
    async fn next(&mut self) -> Option<Message> {
        loop {
            match self.0.next().await? {
                Ok(Message::Ping(_)) => {}
                message => return message.ok(),
            }
        }
    }

    /// The events of the next response, or the one that says what is wrong.
    async fn events(&mut self) -> Vec<Value> {
        let mut events: Vec<Value> = vec![];
        loop {
            let message = self.next().await.unwrap();
            events.push(serde_json::from_str(message.to_text().unwrap()).unwrap());
            let kind = events.last().unwrap()["type"].as_str().unwrap();
            if ["error", "response.completed", "response.failed", "response.incomplete"].contains(&kind) {
                return events;
            }
        }
    }

    /// How the next response ends.
    async fn end(&mut self) -> Value {
        self.events().await.pop().unwrap()
    }

    async fn ask(&mut self, more: &Value) -> Value {
        self.create(more).await;
        self.end().await
    }

    /// The code with which the service closes the connection.
    async fn closed(&mut self) -> CloseCode {
        match self.next().await {
            Some(Message::Close(Some(frame))) => frame.code,
            other => panic!("{other:?}"),
        }
    }
}

/// A service whose agent answers `hello`, or waits.
fn service(agent: &ScriptedInvoke, shutdown: &Shutdown) -> Fakes {
    let streams = streams_of(agent.clone(), run_stores(&Arc::default())).until(shutdown.clone());
    Fakes::configured(agent.clone(), |edge| {
        edge.settings.max_websockets = 3;
        edge.settings.max_body_bytes = 4_000;
        b(edge).streams = Some(streams);
    })
}

fn answering() -> (Fakes, ScriptedInvoke) {
    let agent = ScriptedInvoke::answering("hello");
    (service(&agent, &Shutdown::default()), agent)
}

fn code(event: &Value) -> (&Value, &Value) {
    (&event["status"], &event["error"]["code"])
}

#[tokio::test]
async fn the_messages_are_the_events_of_a_stream() {
    let script = || [asks_for(&[("1", "echo", json!({"a": 1}))]), says("done")];
    let streamed = saying(script()).post(RESPONSES, r#"{"model":"agent","input":"hi","stream":true}"#).await;
    let fakes = saying(script());
    let document = fakes.get("/openapi.json").await.json();
    let mut client = Client::open(&fakes).await;
    client.create(&json!({})).await;
    let received = client.events().await;
    let types = |events: &[Value]| events.iter().map(|event| event["type"].clone()).collect::<Vec<_>>();
    assert_eq!(types(&received), types(&events(&streamed)));
    for (number, event) in received.iter().enumerate() {
        assert_eq!(event["sequence_number"], json!(number));
        assert_eq!(faults(&document, "OpenAiResponseEvent", event), [""; 0], "{event:#}");
    }
    // Nothing follows but the next response.
    let unknown = client.ask(&json!({"model": "gpt-5"})).await;
    assert_eq!(code(&unknown), (&json!(404), &json!("model_not_found")));
    assert_eq!(faults(&document, "OpenAiSocketError", &unknown), [""; 0], "{unknown:#}");
}

#[tokio::test]
async fn a_connection_goes_on_from_its_last_response_that_no_store_has() {
    let (fakes, agent) = answering();
    let mut client = Client::open(&fakes).await;
    let input = json!([{"role": "user", "content": "I am Ada."}, {"role": "assistant", "content": "Well?"},
                       {"role": "user", "content": "hi"}]);
    let first = client.ask(&json!({"store": false, "input": input})).await["response"].take();
    assert_eq!((&first["status"], &first["store"]), (&json!("completed"), &json!(false)));
    let goes_on = json!({"store": false, "previous_response_id": first["id"], "input": "who?"});
    let second = client.ask(&goes_on).await["response"].take();
    let said = |content: &str| Said::User { content: content.into() };
    let history = agent.asked().pop().unwrap().options.history;
    assert_eq!((history.len(), &history[0]), (3, &said("I am Ada.")));
    assert_eq!(second["previous_response_id"], first["id"]);
    // Only the last one is remembered, by this connection, and one that another goes on from without success
    // is forgotten.
    let unknown = (json!(400), json!("previous_response_not_found"));
    let refused = client.ask(&goes_on).await;
    assert_eq!(code(&refused), (&unknown.0, &unknown.1));
    let mut goes_on = json!({"store": false, "previous_response_id": second["id"]});
    let elsewhere = Client::open(&fakes).await.ask(&goes_on).await;
    assert_eq!(code(&elsewhere), (&unknown.0, &unknown.1));
    let again = goes_on.clone();
    goes_on["input"] = json!([{"type": "function_call_output", "call_id": "nobody", "output": "x"}]);
    let failed = client.ask(&goes_on).await;
    assert_eq!(code(&failed), (&json!(400), &json!("invalid_value")));
    let evicted = client.ask(&again).await;
    assert_eq!(code(&evicted), (&unknown.0, &unknown.1));
    // What is stored is found by every connection.
    fakes.windows.fill("user:u1", 0);
    let stored = client.ask(&json!({})).await["response"].take();
    drop(client);
    let mut other = Client::open(&fakes).await;
    let found = other.ask(&json!({"previous_response_id": stored["id"], "store": false})).await;
    assert_eq!(found["type"], "response.completed", "{found}");
}

#[tokio::test]
async fn what_is_wrong_is_an_event_and_the_connection_goes_on() {
    let (fakes, _agent) = answering();
    let mut client = Client::open(&fakes).await;
    for (message, expected, param) in [
        (json!([]), "invalid_type", Value::Null),
        (json!({}), "unsupported_value", json!("type")),
        (json!({"type": "response.cancel"}), "unsupported_value", json!("type")),
        (json!({"type": "response.create", "background": true}), "unsupported_value", json!("background")),
        (json!({"type": "response.create", "generate": false}), "unsupported_value", json!("generate")),
        (json!({"type": "response.create", "stream_id": "a"}), "unsupported_parameter", json!("stream_id")),
        (json!({"type": "response.create", "model": "agent"}), "missing_required_parameter", json!("input")),
    ] {
        client.send(&message).await;
        let event = client.end().await;
        assert_eq!(
            (&event["error"]["code"], &event["error"]["param"]),
            (&json!(expected), &param),
            "{event}"
        );
    }
    client.0.send(Message::text("{")).await.unwrap();
    assert_eq!(client.end().await["status"], 400);
    // Each counts like any other, whatever it is.
    assert_eq!(fakes.windows.count("user:u1"), 9);
    fakes.windows.fill("user:u1", 10);
    client.send(&json!({})).await;
    let limited = client.end().await;
    assert_eq!((&limited["status"], limited["headers"]["retry-after"].is_string()), (&json!(429), true));
    let document = fakes.get("/openapi.json").await.json();
    assert_eq!(faults(&document, "OpenAiSocketError", &limited), [""; 0], "{limited:#}");
    fakes.windows.fill("user:u1", 0);
    // What says nothing new is no matter.
    let answered = client.ask(&json!({"stream": true, "background": false, "generate": true})).await;
    assert_eq!(answered["type"], "response.completed", "{answered}");
    client.0.send(Message::binary(vec![1])).await.unwrap();
    assert_eq!(client.closed().await, CloseCode::Unsupported);
    let mut client = Client::open(&fakes).await;
    // Far longer than what lies between the two: all of it is read away.
    client.send(&json!({"type": "response.create", "input": "x".repeat(1 << 18)})).await;
    assert_eq!(client.closed().await, CloseCode::Size);
}

#[tokio::test]
async fn responses_are_counted_one_by_one_and_made_one_after_the_other() {
    let (fakes, _agent) = answering();
    let mut client = Client::open(&fakes).await;
    for input in ["a", "b", "c"] {
        client.create(&json!({"input": input, "metadata": {"is": input}})).await;
    }
    for input in ["a", "b", "c"] {
        let events = client.events().await;
        let of = |event: &Value| event["response"]["metadata"]["is"].clone();
        assert_eq!((of(&events[0]), of(events.last().unwrap())), (json!(input), json!(input)));
    }
    // One for the connection, and one for each response.
    assert_eq!(fakes.windows.count("user:u1"), 4);
    fakes.windows.fill("user:u1", 10);
    let limited = client.ask(&json!({})).await;
    assert_eq!(code(&limited), (&json!(429), &json!("rate_limit_exceeded")));
}

#[tokio::test]
async fn a_ping_behind_a_message_that_waits_is_answered_at_once() {
    let agent = ScriptedInvoke::default();
    for _ in 0..2 {
        agent.add_after(Duration::from_millis(300), Ok(ScriptedInvoke::answer("late")));
    }
    let fakes = service(&agent, &Shutdown::default());
    let mut client = Client::open(&fakes).await;
    client.create(&json!({})).await;
    client.create(&json!({})).await;
    client.0.send(Message::Ping(vec![1].into())).await.unwrap();
    loop {
        match client.next().await.unwrap() {
            Message::Pong(_) => break,
            event => assert!(!event.to_string().contains("response.completed"), "the pong came late"),
        }
    }
    for _ in 0..2 {
        assert_eq!(client.end().await["type"], "response.completed");
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_nothing_gives_way_when_places_are_few() {
    let (fakes, _agent) = answering();
    let mut idle = Client::open(&fakes).await;
    let mut busy = Client::connect(&fakes, "u2").await.unwrap();
    sleep(Duration::from_secs(30)).await;
    assert_eq!(busy.ask(&json!({})).await["type"], "response.completed");
    let began = Instant::now();
    tokio::select! {
        code = idle.closed() => assert_eq!(code, CloseCode::Away),
        // Answers pings.
        other = busy.next() => panic!("{other:?}"),
    }
    assert_eq!(began.elapsed().as_secs(), 30);
    assert_eq!(busy.ask(&json!({})).await["type"], "response.completed", "one of three is not many");
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_refused_keep_no_place_when_places_are_few() {
    let (fakes, _agent) = answering();
    let mut client = Client::open(&fakes).await;
    sleep(Duration::from_secs(30)).await;
    // Idle for less long than the first one.
    let mut other = Client::connect(&fakes, "u2").await.unwrap();
    let refused = async {
        loop {
            client.send(&json!({})).await;
            assert_eq!(client.end().await["type"], "error");
            fakes.windows.fill("user:u1", 0);
            if let Ok(message) = timeout(Duration::from_secs(25), client.next()).await {
                return message;
            }
        }
    };
    let last = tokio::select! {
        last = refused => last,
        // Answers pings.
        other = other.next() => panic!("{other:?}"),
    };
    assert!(matches!(&last, Some(Message::Close(Some(frame))) if frame.code == CloseCode::Away), "{last:?}");
}

#[tokio::test]
async fn a_token_that_is_not_valid_any_more_ends_the_connection() {
    let (fakes, _agent) = answering();
    let claims = Claims { id: "u1".into(), tier: None, role: None };
    // Tokens end with a whole second: with one second it could be over before the connection is made.
    let token = Tokens::new(SECRET).issue(&claims, Duration::from_secs(2), SystemTime::now()).unwrap();
    let mut client = Client::connect_with(&fakes, &token).await.unwrap();
    let mut last = client.ask(&json!({})).await;
    while last["type"] == "response.completed" {
        sleep(Duration::from_millis(300)).await;
        last = client.ask(&json!({})).await;
    }
    assert_eq!(last["status"], 401, "{last}");
    assert_eq!(client.closed().await, CloseCode::Policy);
}

#[tokio::test]
async fn what_is_no_handshake_is_refused_and_connections_are_few() {
    let (fakes, _agent) = answering();
    let plain = fakes.get(RESPONSES).await;
    assert_eq!((plain.status, plain.header("upgrade")), (StatusCode::UPGRADE_REQUIRED, Some("websocket")));
    assert_eq!(plain.json()["error"]["code"], "upgrade_required");
    let mut held = vec![];
    for user in ["u1", "u1", "u2"] {
        held.push(Client::connect(&fakes, user).await.unwrap());
    }
    let Err(Error::Http(answer)) = Client::connect(&fakes, "u3").await else { panic!("one too many") };
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers()["retry-after"], "1");
    drop(held);
    // Permits come back when the service has heard of it.
    while Client::connect(&fakes, "u3").await.is_err() {
        sleep(Duration::from_millis(5)).await;
    }
    let Err(Error::Http(answer)) = Client::connect(&Fakes::with_invoke(crate::harness::Answers), "u1").await
    else {
        panic!("where nothing can be streamed")
    };
    assert_eq!(answer.status(), StatusCode::NOT_IMPLEMENTED);
}

#[tokio::test]
async fn a_handshake_is_a_get_without_a_body() {
    let (fakes, _agent) = answering();
    for (method, header, status) in [
        ("GET", "Content-Length: 0", "101"),
        ("HEAD", "Content-Length: 0", "426"),
        ("GET", "Content-Length: 5", "426"),
        ("GET", "Transfer-Encoding: chunked", "426"),
    ] {
        let head = format!(
            "{method} {RESPONSES} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
             Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{header}\r\n\r\n",
            token("u1", None, None),
        );
        let mut client = connection(&fakes);
        client.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; "HTTP/1.1 101".len()];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer.escape_ascii().to_string(), format!("HTTP/1.1 {status}"), "{method} {header}");
    }
}

#[tokio::test]
async fn a_shutdown_closes_connections_once_their_response_is_whole() {
    let (agent, shutdown) = (ScriptedInvoke::default(), Shutdown::default());
    agent.add_after(Duration::from_millis(200), Ok(ScriptedInvoke::answer("late")));
    let fakes = service(&agent, &shutdown);
    let (mut busy, mut idle) = (Client::open(&fakes).await, Client::open(&fakes).await);
    busy.create(&json!({})).await;
    agent.until_under_way(1).await;
    shutdown.begin(Instant::now() + Duration::from_secs(20));
    shutdown.end_drain();
    assert_eq!(idle.closed().await, CloseCode::Away);
    assert_eq!(busy.end().await["type"], "response.completed");
    assert_eq!(busy.closed().await, CloseCode::Away);
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_run() {
    let agent = ScriptedInvoke::hanging();
    let fakes = service(&agent, &Shutdown::default());
    let mut client = Client::open(&fakes).await;
    client.create(&json!({})).await;
    agent.until_under_way(1).await;
    drop(client);
    agent.until_under_way(0).await;
    // One that says so is answered.
    let mut polite = Client::open(&fakes).await;
    polite.0.close(None).await.unwrap();
    assert!(matches!(polite.next().await, Some(Message::Close(_))));
}

#[tokio::test(start_paused = true)]
async fn a_connection_lasts_an_hour_and_no_longer_than_its_client() {
    let (fakes, _agent) = answering();
    let mut client = Client::open(&fakes).await;
    let began = Instant::now();
    let event = client.end().await;
    assert_eq!(code(&event), (&json!(400), &json!("websocket_connection_limit_reached")));
    assert_eq!(began.elapsed().as_secs(), 3600);
    assert_eq!(client.closed().await, CloseCode::Normal);
    // One that answers no pings is taken for gone.
    let mut silent = Client::open(&fakes).await;
    sleep(Duration::from_secs(41)).await;
    assert!(matches!(silent.0.next().await, Some(Ok(Message::Ping(_)))));
    assert!(!matches!(silent.0.next().await, Some(Ok(_))));
}

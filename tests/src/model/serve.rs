//! The server of a fake provider: takes requests in and carries the script out.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use super::play::Play;
use super::request::Request;
use super::rules::Demands;
use super::{Protocol, anthropic, openai, rules};

/// Says what to do when the script has come to its end.
pub(super) type Rule = Box<dyn Fn(&Request) -> Play + Send + Sync>;

/// Everything about a provider that its server and the test share.
pub(super) struct State {
    pub(super) protocol: Protocol,
    pub(super) key: String,
    script: Mutex<VecDeque<Play>>,
    pub(super) check_script: Mutex<VecDeque<Play>>,
    pub(super) rule: Mutex<Option<Rule>>,
    no_tools: AtomicBool,
    any_tools: AtomicBool,
    peer: AtomicBool,
    any_temperature: AtomicBool,
    forgets_calls: AtomicBool,
    pub(super) calls: watch::Sender<Vec<Request>>,
    pub(super) checks: watch::Sender<Vec<Request>>,
    pub(super) violations: Mutex<Vec<String>>,
}

impl State {
    pub(super) fn new(protocol: Protocol, key: String) -> Self {
        Self {
            protocol,
            key,
            script: Mutex::default(),
            check_script: Mutex::default(),
            rule: Mutex::default(),
            no_tools: AtomicBool::default(),
            any_tools: AtomicBool::default(),
            peer: AtomicBool::default(),
            any_temperature: AtomicBool::default(),
            forgets_calls: AtomicBool::default(),
            calls: watch::Sender::default(),
            checks: watch::Sender::default(),
            violations: Mutex::default(),
        }
    }

    pub(super) fn script(&self) -> MutexGuard<'_, VecDeque<Play>> {
        self.script.lock()
    }

    pub(super) fn expect_no_tools(&self) {
        self.no_tools.store(true, Ordering::Relaxed);
    }

    pub(super) fn expect_any_tools(&self) {
        self.any_tools.store(true, Ordering::Relaxed);
    }

    pub(super) fn expect_peer(&self) {
        self.peer.store(true, Ordering::Relaxed);
        self.expect_no_tools();
    }

    pub(super) fn expect_any_temperature(&self) {
        self.any_temperature.store(true, Ordering::Relaxed);
    }

    pub(super) fn forget_calls(&self) {
        self.forgets_calls.store(true, Ordering::Relaxed);
    }

    fn demands(&self) -> Demands<'_> {
        Demands {
            key: &self.key,
            client: if self.peer.load(Ordering::Relaxed) { "reference-peer/" } else { "agent-host/" },
            zero_temperature: !self.any_temperature.load(Ordering::Relaxed),
        }
    }

    /// Judges a request and says what to do about it.
    fn take_in(&self, request: &Request) -> Play {
        let mut violations = rules::violations(request, &self.demands());
        if request.is_check() {
            self.checks.send_modify(|checks| checks.push(request.clone()));
            self.violations.lock().extend(violations);
            return self.check_script.lock().pop_front().unwrap_or_else(|| super::says("pong"));
        }
        let any_tools = self.any_tools.load(Ordering::Relaxed);
        if !any_tools && request.tools().is_empty() != self.no_tools.load(Ordering::Relaxed) {
            violations.push(format!("offers the tools {:?}", request.tools()));
        }
        let next = self.script().pop_front();
        let play = next.or_else(|| self.rule.lock().as_ref().map(|rule| rule(request)));
        let play = play.unwrap_or_else(|| {
            violations.push("one request too many".to_owned());
            Play::Whole { status: 400, headers: Vec::new(), body: "the script is at its end".to_owned() }
        });
        self.violations.lock().extend(violations);
        if !self.forgets_calls.load(Ordering::Relaxed) {
            self.calls.send_modify(|calls| calls.push(request.clone()));
        }
        play
    }
}

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, state: Arc<State>) {
    let router = Router::new().fallback(answer).with_state(state);
    axum::serve(listener, router).await.expect("a listener that accepts");
}

async fn answer(
    extract::State(state): extract::State<Arc<State>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request = Request {
        protocol: state.protocol,
        line: format!("{method} {uri}"),
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
        came: Instant::now(),
    };
    let play = state.take_in(&request);
    carry_out(play, &request).await
}

async fn carry_out(mut play: Play, request: &Request) -> Response {
    loop {
        match play {
            Play::Held(mut gate, then) => {
                let _opened_by_its_drop = gate.wait_for(|open| *open).await;
                play = *then;
            }
            Play::Hang => std::future::pending().await,
            Play::Reply { .. } if request.body["stream"] == true => {
                let (beginning, end) = stream_of(&play, request);
                return event_stream(Body::from(beginning + &end));
            }
            Play::Reply { .. } => return response(200, Body::from(render(&play, request))),
            Play::Paused(gate, then) => {
                let (beginning, end) = stream_of(&then, request);
                let ended = stream::once(async move {
                    let mut gate = gate;
                    let _opened_by_its_drop = gate.wait_for(|open| *open).await;
                    Ok(Bytes::from(end))
                });
                let begun = stream::iter([Ok::<_, std::io::Error>(Bytes::from(beginning))]);
                return event_stream(Body::from_stream(begun.chain(ended)));
            }
            Play::Whole { status, headers, body } => {
                let mut response = response(status, Body::from(body));
                for (name, value) in headers {
                    response.headers_mut().insert(name, value.parse().expect("a header of the script"));
                }
                return response;
            }
        }
    }
}

fn response(status: u16, body: Body) -> Response {
    let builder = Response::builder().status(status).header("content-type", "application/json");
    builder.body(body).expect("a response of the script")
}

fn event_stream(body: Body) -> Response {
    let mut response = response(200, body);
    response.headers_mut().insert("content-type", "text/event-stream".parse().expect("a header"));
    response
}

/// The events of a reply: those of its beginning, and those of its end.
fn stream_of(reply: &Play, request: &Request) -> (String, String) {
    let reply = reply_of(reply, request);
    match request.protocol {
        Protocol::OpenAi => openai::stream(reply),
        Protocol::Anthropic => anthropic::stream(reply),
    }
}

fn render(reply: &Play, request: &Request) -> String {
    reply_of(reply, request).to_string()
}

fn reply_of(reply: &Play, request: &Request) -> Value {
    let Play::Reply { text, calls, usage } = reply else { return Value::Null };
    let first = request.calls_so_far() + 1;
    let calls = calls.iter().enumerate().map(|(n, (tool, arguments))| (first + n, tool.as_str(), arguments));
    match request.protocol {
        Protocol::OpenAi => openai::reply(text, calls, *usage),
        Protocol::Anthropic => anthropic::reply(text, calls, *usage),
    }
}

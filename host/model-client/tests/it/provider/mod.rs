//! A scripted provider: answers each request with the next answer of its script, and holds every request
//! against the rules of its protocol.
//!
//! Whoever starts one need not ask afterwards whether all was well: dropping it fails the test if a request
//! broke a rule, if there was one too many, or if an answer was not asked for.

mod answer;
mod rules;

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

use model_client::Provider;
use serde_json::Value;
use test_servers::{HttpConnection, HttpRequest, HttpServer};
use url::Url;

pub(crate) use answer::Answer;

/// The key that every request must carry.
pub(crate) const KEY: &str = "sk-a-very-secret-key";

/// A provider that listens until it is dropped.
pub(crate) struct ScriptedProvider {
    server: HttpServer,
    state: Arc<State>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    received: HttpRequest,
    /// Null when it was not JSON.
    pub(crate) body: Value,
}

struct State {
    protocol: Provider,
    script: Mutex<VecDeque<Answer>>,
    violations: Mutex<Vec<String>>,
}

impl Request {
    pub(crate) fn of(received: HttpRequest) -> Self {
        let body = serde_json::from_str(&received.body).unwrap_or_default();
        Self { received, body }
    }

    /// Method and path.
    pub(crate) fn line(&self) -> &str {
        self.received.line().trim_end_matches(" HTTP/1.1")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.received.header(name)
    }
}

impl ScriptedProvider {
    pub(crate) async fn start(protocol: Provider, script: impl IntoIterator<Item = Answer>) -> Self {
        let state = Arc::new(State {
            protocol,
            script: Mutex::new(script.into_iter().collect()),
            violations: Mutex::default(),
        });
        let served = Arc::clone(&state);
        let server = HttpServer::start(move |connection| serve(connection, Arc::clone(&served))).await;
        Self { server, state }
    }

    pub(crate) fn url(&self) -> Url {
        Url::parse(&format!("http://{}", self.server.address())).unwrap()
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.server.requests().into_iter().map(Request::of).collect()
    }

    /// How many connections were made to it.
    pub(crate) fn connections(&self) -> usize {
        self.server.connections()
    }
}

impl Drop for ScriptedProvider {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let violations = self.state.violations.lock();
        assert!(violations.is_empty(), "requests broke the protocol: {violations:#?}");
        let left = self.state.script.lock().len();
        assert_eq!(left, 0, "{left} answers of the script were not asked for");
    }
}

/// One connection, for as many requests as it brings.
async fn serve(mut connection: HttpConnection, state: Arc<State>) {
    while let Some(request) = connection.read_request().await {
        state.violations.lock().extend(rules::violations(state.protocol, &Request::of(request)));
        let answer = state.script.lock().pop_front().unwrap_or_else(|| {
            state.violations.lock().push("one request too many".into());
            Answer::HangUp
        });
        if !answer.send(&mut connection).await {
            return;
        }
    }
}

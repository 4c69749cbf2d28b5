//! A scripted provider: answers each request with the next answer of its script, and holds every request
//! against the rules of its protocol.
//!
//! Whoever starts one need not ask afterwards whether all was well: dropping it fails the test if a request
//! broke a rule, if there was one too many, or if an answer was not asked for.

mod answer;
mod http;
mod rules;

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model_client::Provider;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

pub(crate) use answer::Answer;
pub(crate) use http::Request;

/// The key that every request must carry.
pub(crate) const KEY: &str = "sk-a-very-secret-key";

/// A provider that listens until it is dropped.
pub(crate) struct ScriptedProvider {
    address: SocketAddr,
    state: Arc<State>,
    _listening: JoinSet<()>,
}

struct State {
    protocol: Provider,
    script: Mutex<VecDeque<Answer>>,
    requests: Mutex<Vec<Request>>,
    violations: Mutex<Vec<String>>,
    connections: AtomicUsize,
}

impl ScriptedProvider {
    pub(crate) async fn start(protocol: Provider, script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            protocol,
            script: Mutex::new(script.into_iter().collect()),
            requests: Mutex::default(),
            violations: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let mut listening = JoinSet::new();
        listening.spawn(listen(listener, Arc::clone(&state)));
        Self { address, state, _listening: listening }
    }

    pub(crate) fn url(&self) -> Url {
        Url::parse(&format!("http://{}", self.address)).unwrap()
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().clone()
    }

    /// How many connections were made to it.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
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

async fn listen(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        state.connections.fetch_add(1, Ordering::Relaxed);
        connections.spawn(serve(stream, Arc::clone(&state)));
    }
}

/// One connection, for as many requests as it brings.
async fn serve(mut stream: TcpStream, state: Arc<State>) {
    while let Some(request) = http::read_request(&mut stream).await {
        state.violations.lock().extend(rules::violations(state.protocol, &request));
        state.requests.lock().push(request);
        let answer = state.script.lock().pop_front().unwrap_or_else(|| {
            state.violations.lock().push("one request too many".into());
            Answer::HangUp
        });
        if !answer.send(&mut stream).await {
            return;
        }
    }
}

/// One request on one connection, by no provider's rules.
pub(crate) async fn serve_once(mut stream: TcpStream, answer: Answer, request: &mut Option<Request>) {
    *request = http::read_request(&mut stream).await;
    answer.send(&mut stream).await;
}

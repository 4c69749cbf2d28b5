//! An HTTP server that answers everything alike and remembers what it was sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{AppendHeaders, IntoResponse};
use test_servers::Task;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A server. Dropping it stops it.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    state: Arc<Answering>,
    _serving: Task<()>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Received {
    /// Method and path.
    pub line: String,
    pub headers: HeaderMap,
    /// The body as text.
    pub body: String,
}

#[derive(Debug)]
struct Answering {
    status: u16,
    content_type: &'static str,
    body: &'static str,
    /// How long each answer takes.
    takes: Duration,
    /// The coding that it says its body has.
    coding: Option<&'static str>,
    received: watch::Sender<Vec<Received>>,
}

/// Serves that on any free port of the loopback device, for as long as the task is held.
pub async fn serve(router: Router) -> (SocketAddr, Task<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("any free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let serving = async move { axum::serve(listener, router).await.expect("a listener that accepts") };
    (address, Task::begin(serving))
}

impl Upstream {
    /// One that answers everything with this.
    pub async fn answering(status: u16, content_type: &'static str, body: &'static str) -> Self {
        Self::answering_after(Duration::ZERO, status, content_type, body).await
    }

    /// One that takes so long for each answer. What it is sent is remembered at once.
    pub async fn answering_after(
        takes: Duration,
        status: u16,
        content_type: &'static str,
        body: &'static str,
    ) -> Self {
        let received = watch::Sender::default();
        Self::serving(Answering { status, content_type, body, takes, coding: None, received }).await
    }

    /// One that answers everything with 200 and a body of which it says that it has this coding.
    pub async fn answering_coded(coding: &'static str, body: &'static str) -> Self {
        Self::serving(Answering {
            status: 200,
            content_type: "application/json",
            body,
            takes: Duration::ZERO,
            coding: Some(coding),
            received: watch::Sender::default(),
        })
        .await
    }

    async fn serving(answering: Answering) -> Self {
        let state = Arc::new(answering);
        let (address, serving) = serve(Router::new().fallback(answer).with_state(Arc::clone(&state))).await;
        Self { address, state, _serving: serving }
    }

    /// The address of a path on it.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Every request so far.
    pub fn received(&self) -> Vec<Received> {
        self.state.received.borrow().clone()
    }
}

impl Received {
    /// A header as text; empty when it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap_or("(not text)"))
    }
}

async fn answer(
    State(state): State<Arc<Answering>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> impl IntoResponse {
    let line = format!("{method} {uri}");
    state.received.send_modify(|received| received.push(Received { line, headers, body }));
    tokio::time::sleep(state.takes).await;
    let status = StatusCode::from_u16(state.status).expect("a status of the test");
    let coding = state.coding.map(|coding| [(header::CONTENT_ENCODING, coding)]);
    (
        status,
        [(header::CONTENT_TYPE, state.content_type)],
        AppendHeaders(coding.into_iter().flatten()),
        state.body,
    )
}

//! agent-host and the Node deployment, side by side, each with a Redis and a model of its own.

use acceptance::{
    Answer, Builder, Caller, Model, Peer, PeerServer, Redis, Request, Service, Token, eventually, says,
};
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use serde_json::Value;

use super::comparison::compare;
use super::differences::Difference;

/// Both services and what they are made with.
pub(super) struct Pair {
    pub(super) node: PeerServer,
    pub(super) ours: Service,
    pub(super) node_redis: Redis,
    pub(super) our_redis: Redis,
    pub(super) node_model: Model,
    pub(super) our_model: Model,
}

/// A request to be sent to both.
#[derive(Clone)]
pub(super) struct Exchange {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Pair {
    /// In production, with models that repeat what they are told.
    pub(super) async fn start() -> Self {
        Self::start_with(|peer| peer, |service| service).await
    }

    /// As [`Self::start`], with other settings.
    pub(super) async fn start_with(
        change_node: impl FnOnce(Peer) -> Peer,
        change_ours: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let (node_redis, our_redis) = tokio::join!(Redis::start(), Redis::start());
        let (node_model, our_model) = tokio::join!(repeating(), repeating());
        let peer = change_node(Peer::on(&node_redis).model(&node_model));
        let service = change_ours(Service::variant_b().redis(&our_redis).model(&our_model));
        let (node, ours) = tokio::join!(peer.serve(), service.start());
        // Ours listens while a tool is compiled, and reports it.
        eventually("all tools to serve", async || {
            ours.get("/ready").await.json()["tools"]["preparing"].is_null().then_some(())
        })
        .await;
        Self { node, ours, node_redis, our_redis, node_model, our_model }
    }

    /// Sends a request to both and compares their answers, which may differ in what is `chosen`: the answers
    /// of Node and ours.
    pub(super) async fn check(&self, exchange: &Exchange, chosen: &[Difference]) -> (Answer, Answer) {
        let (node, ours) = tokio::join!(exchange.send_to(&self.node), exchange.send_to(&self.ours));
        compare(&exchange.to_string(), &node, &ours, chosen);
        (node, ours)
    }
}

/// A model that says what it was told.
async fn repeating() -> Model {
    let model = Model::openai().await;
    model.expects_any_temperature().always(|request: &Request| says(&request.user_text()));
    model
}

impl Exchange {
    pub(super) fn new(method: Method, path: &str) -> Self {
        Self { method, path: path.to_owned(), headers: Vec::new(), body: None }
    }

    pub(super) fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn post(path: &str) -> Self {
        Self::new(Method::POST, path)
    }

    /// `POST /api/agent` of that user with that body.
    pub(super) fn agent(token: &Token, body: &Value) -> Self {
        Self::post("/api/agent").token(token).json(body)
    }

    pub(super) fn token(self, token: &Token) -> Self {
        self.header(AUTHORIZATION.as_str(), &format!("Bearer {token}"))
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn json(self, body: &Value) -> Self {
        self.raw_json(body.to_string())
    }

    /// A body that says it is JSON, whether it is or not.
    pub(super) fn raw_json(self, body: impl Into<Vec<u8>>) -> Self {
        self.header(CONTENT_TYPE.as_str(), "application/json").raw(body)
    }

    pub(super) fn raw(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    pub(super) async fn send_to(&self, caller: &Caller) -> Answer {
        let mut request = caller.request(self.method.clone(), &self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        caller.send(if let Some(body) = &self.body { request.body(body.clone()) } else { request }).await
    }
}

/// Enough of it to be recognized.
impl std::fmt::Display for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = String::from_utf8_lossy(self.body.as_deref().unwrap_or_default());
        let start: String = body.chars().take(200).collect();
        write!(f, "{} {} {:?} {start}", self.method, self.path, self.headers)
    }
}

//! Whoever calls the service: a method per endpoint, and what it answers.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Once;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

use crate::exposition::Exposition;
use crate::user::User;
use test_servers::PATIENCE;

/// A client of the service. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Caller {
    client: Client,
    address: SocketAddr,
    pub(crate) token: Option<String>,
}

/// What the service answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    pub headers: HeaderMap,
    /// The body as text.
    pub body: String,
}

impl Caller {
    /// Of the service at that address.
    pub fn new(address: SocketAddr) -> Self {
        static CRYPTOGRAPHY: Once = Once::new();
        // reqwest wants one even where nothing is encrypted.
        CRYPTOGRAPHY.call_once(|| {
            let _already = rustls::crypto::ring::default_provider().install_default();
        });
        let client = Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build();
        Self { client: client.expect("a plain HTTP client"), address, token: None }
    }

    /// `POST /agent/invoke` with that input.
    pub async fn invoke(&self, input: &str) -> Answer {
        self.post("/agent/invoke", json!({ "input": input }).to_string()).await
    }

    /// `POST /agent/invoke`, which must succeed: the agent's result.
    pub async fn result_of(&self, input: &str) -> Value {
        let answer = self.invoke(input).await;
        assert_eq!(answer.status, 200, "{answer}");
        answer.json()["result"].take()
    }

    /// `GET /health/live`.
    pub async fn live(&self) -> Answer {
        self.get("/health/live").await
    }

    /// `GET /health/ready`.
    pub async fn ready(&self) -> Answer {
        self.get("/health/ready").await
    }

    /// `GET /health`, Variant B's report.
    pub async fn health(&self) -> Answer {
        self.get("/health").await
    }

    /// `GET /ready`, Variant B's report.
    pub async fn readiness(&self) -> Answer {
        self.get("/ready").await
    }

    /// A client for whoever has that token.
    pub fn user(&self, token: impl fmt::Display) -> User {
        User::new(Self { token: Some(token.to_string()), ..self.clone() })
    }

    /// `GET /metrics`, read.
    pub async fn metrics(&self) -> Exposition {
        Exposition::read(&self.get("/metrics").await.body)
    }

    /// A `GET` request.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    /// A `POST` request with a body that says it is JSON.
    pub async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        let request = self.request(Method::POST, path).header(CONTENT_TYPE, "application/json");
        self.send(request.body(body)).await
    }

    /// Any request, with the token if there is one, to be completed and [sent](Self::send).
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("http://{}{path}", self.address));
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        }
    }

    /// Sends a request, which must be answered.
    pub async fn send(&self, request: RequestBuilder) -> Answer {
        self.try_send(request).await.unwrap_or_else(|error| panic!("there is no answer: {error:?}"))
    }

    /// Sends a request, which may not be answered.
    pub async fn try_send(&self, request: RequestBuilder) -> reqwest::Result<Answer> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Answer { status, headers, body: response.text().await? })
    }
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("not JSON ({error}): {self}"))
    }

    /// A header as text; empty when it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("headers are text"))
    }
}

/// Status, content type and body.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}\n{}", self.status, self.header("content-type"), self.body)
    }
}

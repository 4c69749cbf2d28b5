//! What clients send over HTTP, and how they read what comes back.

use futures::FutureExt as _;
use http::{Method, Request};
use serde_json::Value;

use super::Client;
use crate::replica::edge::{Answer, token};

/// A request that somebody makes who has a token.
pub(super) struct ClientRequest<'a> {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) user: &'a str,
    pub(super) role: Option<&'a str>,
    pub(super) headers: &'a [(&'static str, &'a str)],
    pub(super) body: Option<Value>,
}

impl<'a> ClientRequest<'a> {
    pub(super) fn get(path: String, user: &'a str) -> Self {
        Self { method: Method::GET, path, user, role: None, headers: &[], body: None }
    }

    pub(super) fn post(path: String, user: &'a str, body: Value) -> Self {
        Self { method: Method::POST, body: Some(body), ..Self::get(path, user) }
    }

    /// As it goes over the network; nothing when it is no request.
    pub(super) fn request(self) -> Option<Request<String>> {
        let mut request = Request::builder()
            .method(self.method)
            .uri(self.path)
            .header("authorization", format!("Bearer {}", token(self.user, self.role)));
        for (name, value) in self.headers {
            request = request.header(*name, *value);
        }
        if self.body.is_some() {
            request = request.header("content-type", "application/json");
        }
        request.body(self.body.map(|body| body.to_string()).unwrap_or_default()).ok()
    }
}

impl Client {
    /// What a replica answers, if that comes over.
    pub(super) async fn send(
        &self,
        replica: usize,
        name: &'static str,
        asked: ClientRequest<'_>,
    ) -> Option<Answer> {
        let request = asked.request()?;
        let sent = self.replicas.ask(&self.world, replica, name, |service| {
            async move { service.edge().answer(request).await }.boxed()
        });
        sent.await.flatten()
    }

    pub(super) fn replica(&mut self) -> usize {
        self.random.usize(0..self.replicas.count())
    }
}

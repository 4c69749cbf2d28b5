//! A router over fakes, and a client that talks to it.

mod answer;
mod fakes;
mod keys;
mod log;
mod socket;
mod variant_b;

use std::sync::Arc;

use agent_core::ports::ModelError;
use agent_core::testing::{EchoTools, TestJournal};
use agent_core::words::ModelReply;
use axum::Router;
use axum::body::Body;
use http::Request;
use http_edge::{Edge, Hosts, Latch, Origins, Settings, VariantA};
use run_service::layers::Invoke;
use run_service::testing::scripted_agent;
use tower::ServiceExt;

pub(crate) use answer::Answer;
pub(crate) use fakes::{Answers, FixedProbe, Panics};
pub(crate) use keys::{Keys, of_a_service as idempotency_over};
pub(crate) use log::Log;
pub(crate) use variant_b::{
    APPROVED, FakeCluster, Fakes, SECRET, WAITING, as_admin, b, bearer, token, with_token,
};

/// A router, ready for requests.
pub(crate) struct Service {
    router: Router,
    latch: Latch,
}

impl Service {
    /// Variant A, with a scripted run of the real agent.
    pub(crate) fn with_model(script: impl IntoIterator<Item = Result<ModelReply, ModelError>>) -> Self {
        Self::with_invoke(scripted_agent(script, EchoTools::new(&["echo"]), Arc::<TestJournal>::default()))
    }

    /// Variant A, answering every request in that way.
    pub(crate) fn with_invoke(invoke: impl Invoke + 'static) -> Self {
        Self::configured(invoke, |_edge| {})
    }

    /// The same with something else about the edge changed.
    pub(crate) fn configured(invoke: impl Invoke + 'static, change: impl FnOnce(&mut Edge)) -> Self {
        Self::serving(|edge| {
            edge.a = Some(VariantA {
                invoke: Arc::new(invoke),
                streams: None,
                toolbox: Arc::new(EchoTools::new(&["echo"])),
                probes: vec![],
            });
            change(edge);
        })
    }

    /// Serves what `fill` puts into an edge without variants.
    pub(crate) fn serving(fill: impl FnOnce(&mut Edge)) -> Self {
        log::install();
        let latch = Latch::default();
        let mut edge = Edge {
            a: None,
            b: None,
            metrics: Arc::new(|_format| "up 1\n".into()),
            readiness: latch.readiness(),
            observe: Arc::new(|_request| {}),
            idempotency: keys::of_a_service(&Arc::default()),
            origins: Origins::default(),
            hosts: Hosts::Unchecked,
            settings: Settings::default(),
        };
        fill(&mut edge);
        Self { router: http_edge::router(edge), latch }
    }

    /// Begins the shutdown, by letting go of the latch.
    pub(crate) fn shut_down(&mut self) {
        self.latch = Latch::default();
    }

    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        Answer::read(self.router().oneshot(request).await.unwrap()).await
    }

    /// Sends a request, and goes away without an answer as soon as `begun` has ended.
    pub(crate) async fn leave(&self, request: Request<Body>, begun: impl Future<Output = ()>) {
        tokio::select! {
            _ = self.router().oneshot(request) => panic!("nobody answered"),
            () = begun => {}
        }
    }

    pub(crate) async fn ask(&self, method: &str, path: &str) -> Answer {
        self.send(request(method, path, Body::empty())).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path).await
    }

    /// `POST /agent/invoke` with that body.
    pub(crate) async fn invoke(&self, body: impl Into<Body>) -> Answer {
        self.send(request("POST", "/agent/invoke", body)).await
    }
}

/// The Variant A of an edge that has one.
pub(crate) fn a(edge: &mut Edge) -> &mut VariantA {
    edge.a.as_mut().unwrap()
}

pub(crate) fn request(method: &str, path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::builder().method(method).uri(path).body(body.into()).unwrap()
}

/// The request with that header.
pub(crate) fn with(mut request: Request<Body>, header: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().insert(header, value.parse().unwrap());
    request
}

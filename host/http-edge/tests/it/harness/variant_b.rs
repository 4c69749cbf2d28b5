//! Variant B over fakes that behave as their ports promise and say what they were asked.

mod cluster;
mod tools;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use agent_core::ports::{JobQueue, RateWindows, ResultCache, RunStore, ToolAdmin};
use agent_core::testing::{
    EchoTools, TestCache, TestConversations, TestQueue, TestRates, TestRuns, TokioSpawn,
};
use axum::body::Body;
use http::Request;
use http_edge::{Claims, Edge, Tokens, VariantB};
use run_service::conversations::Conversations;
use run_service::direct_calls::DirectCalls;
use run_service::jobs::Jobs;
use run_service::layers::{ConversationTurns, Invoke};
use run_service::waits::Waits;

pub(crate) use cluster::FakeCluster;
pub(crate) use tools::{APPROVED, WAITING};

use super::{Answer, FixedProbe, Service, request, with};
use tools::Tools;

pub(crate) const SECRET: &[u8] = b"a secret of these tests";

/// A Variant B, and what stands behind it.
pub(crate) struct Fakes {
    pub(crate) service: Service,
    pub(crate) windows: Arc<TestRates>,
    pub(crate) queue: Arc<TestQueue>,
    pub(crate) cache: Arc<TestCache>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) conversations: Arc<TestConversations>,
    pub(crate) runs: Arc<TestRuns>,
}

impl Fakes {
    /// Answers every request in that way.
    pub(crate) fn with_invoke(invoke: impl Invoke + 'static) -> Self {
        Self::configured(invoke, |_edge| {})
    }

    /// Answers every request in that way, with something about the edge changed.
    pub(crate) fn configured(invoke: impl Invoke + 'static, change: impl FnOnce(&mut Edge)) -> Self {
        Self::keeping(|_kept| Arc::new(invoke), change)
    }

    /// Answers every request in that way, in conversations that are kept.
    pub(crate) fn conversing(agent: impl Invoke + 'static) -> Self {
        Self::conversing_with(agent, |_edge| {})
    }

    /// The same with something about the edge changed.
    pub(crate) fn conversing_with(agent: impl Invoke + 'static, change: impl FnOnce(&mut Edge)) -> Self {
        let limit = Duration::from_secs(30);
        Self::keeping(|kept| Arc::new(ConversationTurns::new(agent, kept, limit)), change)
    }

    fn keeping(
        invoke: impl FnOnce(Conversations) -> Arc<dyn Invoke>,
        change: impl FnOnce(&mut Edge),
    ) -> Self {
        let (windows, queue, cache) =
            (Arc::<TestRates>::default(), Arc::<TestQueue>::default(), Arc::default());
        let (tools, runs) = (Arc::<Tools>::default(), Arc::<TestRuns>::default());
        let conversations = Arc::<TestConversations>::default();
        let kept = Conversations::new(conversations.clone(), Arc::new(TokioSpawn));
        let service = Service::serving(|edge| {
            edge.b = Some(VariantB {
                invoke: invoke(kept.clone()),
                streams: None,
                jobs: Jobs::new(queue.clone() as Arc<dyn JobQueue>),
                waits: Waits::new(queue.clone(), runs.clone(), Arc::new(approving())),
                conversations: kept,
                webhooks: None,
                runs: runs.clone() as Arc<dyn RunStore>,
                queue: queue.clone() as Arc<dyn JobQueue>,
                cache: Some(Arc::clone(&cache) as Arc<dyn ResultCache>),
                windows: windows.clone() as Arc<dyn RateWindows>,
                cluster: None,
                tokens: Tokens::new(SECRET),
                database: FixedProbe::passes("sql"),
                key_value: FixedProbe::passes("memory"),
                llm: FixedProbe::passes("llm"),
                toolbox: Arc::new(EchoTools::new(&[])),
                tool_calls: DirectCalls::new(Arc::new(EchoTools::new(&[])), Duration::from_secs(30)),
                tool_admin: Some(Arc::clone(&tools) as Arc<dyn ToolAdmin>),
                run_timeout: Duration::from_secs(30),
                openai: Some(openai_edge::DIALECT),
                prepared: Arc::new(AtomicBool::new(true)),
                production: true,
            });
            change(edge);
        });
        Self { service, windows, queue, cache, tools, conversations, runs }
    }

    /// A request of user `u1`.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        self.service.send(bearer("u1", request(method, path, body))).await
    }

    /// A request of administrator `a1`.
    pub(crate) async fn administer(&self, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        let mut request = as_admin(request(method, path, body));
        // Without a condition some changes are refused, and a condition of a `PUT` is that there is
        // something.
        if !["GET", "PUT"].contains(&method) {
            request = with(request, "if-match", &any_revision());
        }
        self.service.send(request).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.ask("POST", path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, Body::empty()).await
    }

    /// Owner and query of every job, in the order they came.
    pub(crate) fn submitted(&self) -> Vec<(String, String)> {
        self.queue.added().into_iter().map(|data| (data.user_id, data.query)).collect()
    }
}

/// Tools of which one has to be approved.
fn approving() -> EchoTools {
    EchoTools::new(&["pay"]).approved_by("pay", "sha256:policy")
}

/// Every revision that a component of a test may be at.
pub(crate) fn any_revision() -> String {
    (0..100).map(|revision| format!("\"{revision}\"")).collect::<Vec<_>>().join(", ")
}

/// The Variant B of an edge that has one.
pub(crate) fn b(edge: &mut Edge) -> &mut VariantB {
    edge.b.as_mut().unwrap()
}

/// A token that is good for an hour.
pub(crate) fn token(id: &str, tier: Option<&str>, role: Option<&str>) -> String {
    let claims = Claims { id: id.into(), tier: tier.map(str::to_owned), role: role.map(str::to_owned) };
    Tokens::new(SECRET).issue(&claims, Duration::from_hours(1), SystemTime::now()).unwrap()
}

/// The request with that user's token.
pub(crate) fn bearer(id: &str, request: Request<Body>) -> Request<Body> {
    with_token(&token(id, None, None), request)
}

/// The request with the token of administrator `a1`.
pub(crate) fn as_admin(request: Request<Body>) -> Request<Body> {
    with_token(&token("a1", None, Some("admin")), request)
}

/// The request with that token.
pub(crate) fn with_token(token: &str, request: Request<Body>) -> Request<Body> {
    with(request, "authorization", &format!("Bearer {token}"))
}

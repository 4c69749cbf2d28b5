//! A router over stores in memory and the demo model, for requests of strangers.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use agent_core::ports::{KeyBounds, Probe, Toolbox};
use agent_core::testing::{EchoTools, TestConversations, TestQueue, TestRuns, TokioSpawn};
use backends::memory::{MemoryIdempotency, MemoryWindows};
use http::Request;
use http::header::{AUTHORIZATION, HeaderValue};
use http_edge::testing::{NO_LIMITS, Router, Well};
use http_edge::{Claims, Edge, Hosts, Idempotency, Latch, Origins, Settings, Tokens, VariantA, VariantB};
use model_client::DemoModel;
use run_service::conversations::Conversations;
use run_service::direct_calls::DirectCalls;
use run_service::jobs::Jobs;
use run_service::layers::{Agent, Invoke};
use run_service::streams::RunStreams;
use run_service::testing::{run_stores, streams_of};
use run_service::waits::Waits;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const SECRET: &[u8] = b"a secret of strangers' requests";

/// After so many inputs everything is made anew: the stores keep what they are told.
const MOST_INPUTS: u32 = 500;

/// Longer than any stream lasts, by a clock that jumps whenever nothing else can go on.
const WITHIN: Duration = Duration::from_hours(3);

/// A router and the tokens that it takes. Clones are the same.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) router: Router,
    /// `Authorization` of a user, and of an administrator.
    pub(crate) user: String,
    admin: String,
    _latch: Arc<Latch>,
}

struct Process {
    runtime: Runtime,
    served: Served,
    inputs: u32,
}

thread_local! {
    /// Each thread has its own: an input that fails takes it along.
    static PROCESS: RefCell<Option<Process>> = const { RefCell::new(None) };
}

/// Does something with a router, within simulated hours.
pub(crate) fn serve<F: Future<Output = ()>>(work: impl FnOnce(Served) -> F) {
    let process = PROCESS.take().filter(|process| process.inputs < MOST_INPUTS).or_else(Process::begin);
    let Some(mut process) = process else { return assert!(process.is_some(), "a runtime can be made") };
    process.inputs += 1;
    let work = work(process.served.clone());
    let ended = process.runtime.block_on(async { timeout(WITHIN, work).await.is_ok() });
    assert!(ended, "an answer comes to its end within {WITHIN:?}");
    PROCESS.set(Some(process));
}

impl Process {
    fn begin() -> Option<Self> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().ok()?;
        let served = runtime.block_on(async { Served::new() });
        Some(Self { runtime, served, inputs: 0 })
    }
}

impl Served {
    fn new() -> Self {
        let latch = Latch::default();
        let runs = Arc::new(TestRuns::default());
        let toolbox = Arc::new(EchoTools::new(&["echo", "pay"]).approved_by("pay", "sha256:policy"));
        let kept = run_stores(&runs);
        let invoke: Arc<dyn Invoke> =
            Arc::new(Agent::new(Arc::new(DemoModel), toolbox.clone(), kept.journal.clone()));
        let queue = Arc::new(TestQueue::default());
        let jobs = Jobs::new(queue.clone()).recorded_in(runs.clone());
        let streams = streams_of(invoke.clone(), kept).with_jobs(jobs);
        let a = VariantA {
            invoke: invoke.clone(),
            streams: Some(streams.clone()),
            toolbox: toolbox.clone(),
            probes: vec![],
        };
        let bounds = KeyBounds { keys: 10_000, bytes: 64 << 20 };
        let store = Arc::new(MemoryIdempotency::new(bounds));
        let router = http_edge::router(Edge {
            a: Some(a),
            b: Some(variant_b(invoke, streams, queue, runs, toolbox)),
            metrics: Arc::new(|_format| String::new()),
            readiness: latch.readiness(),
            observe: Arc::new(|_request| {}),
            idempotency: Idempotency { store, spawn: Arc::new(TokioSpawn) },
            origins: Origins::default(),
            hosts: Hosts::Unchecked,
            settings: Settings { rates: NO_LIMITS, trusted_proxies: 2, ..Settings::default() },
        });
        let [user, admin] = [("u1", None), ("a1", Some("admin"))].map(|(id, role)| bearer(id, role));
        Self { router, user, admin, _latch: Arc::new(latch) }
    }

    /// Adds a token that is good there, unless the request has one.
    pub(crate) fn authorize<B>(&self, request: &mut Request<B>) {
        let is_admin = request.uri().path().starts_with("/admin/");
        let token = if is_admin { &self.admin } else { &self.user };
        // silent-ok: a request without a token is one, too.
        if let Ok(token) = HeaderValue::from_str(token) {
            request.headers_mut().entry(AUTHORIZATION).or_insert(token);
        }
    }
}

fn variant_b(
    invoke: Arc<dyn Invoke>,
    streams: RunStreams,
    queue: Arc<TestQueue>,
    runs: Arc<TestRuns>,
    toolbox: Arc<dyn Toolbox>,
) -> VariantB {
    let probe = || Arc::new(Well) as Arc<dyn Probe>;
    VariantB {
        invoke,
        streams: Some(streams),
        jobs: Jobs::new(queue.clone()).recorded_in(runs.clone()),
        waits: Waits::new(queue.clone(), runs.clone(), toolbox.clone()),
        conversations: Conversations::new(Arc::new(TestConversations::default()), Arc::new(TokioSpawn)),
        webhooks: None,
        cache: None,
        windows: Arc::new(MemoryWindows::new()),
        cluster: None,
        tokens: Tokens::new(SECRET),
        database: probe(),
        key_value: probe(),
        llm: probe(),
        toolbox: toolbox.clone(),
        tool_calls: DirectCalls::new(toolbox, Duration::from_secs(30)),
        runs,
        queue,
        tool_admin: None,
        run_timeout: Duration::from_secs(30),
        openai: Some(openai_edge::DIALECT),
        prepared: Arc::new(AtomicBool::new(true)),
        production: false,
    }
}

fn bearer(id: &str, role: Option<&str>) -> String {
    let claims = Claims { id: id.to_owned(), tier: None, role: role.map(str::to_owned) };
    let token = Tokens::new(SECRET).issue(&claims, Duration::from_hours(24), SystemTime::now());
    // silent-ok: a token that is none is refused, and the seeds of the corpus reach no handler.
    format!("Bearer {}", token.unwrap_or_default())
}

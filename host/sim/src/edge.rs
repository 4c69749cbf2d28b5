//! The real HTTP edge of a process: its router is called as a function, without a socket.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use agent_core::ports::{JobQueue, Probe, RunStore, Spawn, Toolbox};
use backends::memory::MemoryWindows;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::CONTENT_LOCATION;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use http_edge::testing::{NO_LIMITS, Well};
use http_edge::{Claims, Hosts, Idempotency, Latch, Origins, Settings, Tokens, VariantB};
use parking_lot::Mutex;
use run_service::conversations::Conversations;
use run_service::direct_calls::DirectCalls;
use run_service::jobs::Jobs;
use run_service::layers::Invoke;
use run_service::streams::RunStreams;
use run_service::waits::Waits;
use tokio::sync::mpsc;
use tower::ServiceExt as _;

use crate::gate::Gate;
use crate::ports::Ported;

const SECRET: &[u8] = b"a secret of the simulation, of some length";

type Serve = dyn Fn(Request<String>, Parts) -> BoxFuture<'static, ()> + Send + Sync;

/// Where the parts of an answer go.
type Parts = mpsc::UnboundedSender<Part>;

type Make = Box<dyn FnOnce() -> Box<Serve> + Send>;

/// The edge of a process.
///
/// Its router is made for the first request: that takes longer than most lives of a process.
pub struct Edge {
    serve: OnceLock<Box<Serve>>,
    make: Mutex<Option<Make>>,
}

/// A piece of an answer, as it comes over the network.
#[derive(Debug)]
pub enum Part {
    Head {
        status: StatusCode,
        /// Where a stream can be gone on with.
        location: Option<String>,
    },
    Bytes(Vec<u8>),
    /// Nothing follows, and nothing broke off.
    End,
}

/// What a client is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    pub body: String,
}

pub(crate) struct Served {
    pub(crate) jobs: Jobs,
    pub(crate) waits: Waits,
    pub(crate) streams: RunStreams,
    pub(crate) invoke: Arc<dyn Invoke>,
    pub(crate) calls: DirectCalls,
}

/// What its handlers use besides.
pub(crate) struct Dependencies {
    pub(crate) gate: Gate,
    pub(crate) toolbox: Arc<dyn Toolbox>,
    pub(crate) store: Arc<dyn RunStore>,
    pub(crate) queue: Arc<dyn JobQueue>,
    pub(crate) conversations: Conversations,
    pub(crate) spawn: Arc<dyn Spawn>,
    pub(crate) timeout: Duration,
}

impl Edge {
    pub(crate) fn of(served: Served, with: Dependencies) -> Self {
        let make: Make = Box::new(move || Self::router(served, with));
        Self { serve: OnceLock::new(), make: Mutex::new(Some(make)) }
    }

    fn router(served: Served, with: Dependencies) -> Box<Serve> {
        let latch = Latch::default();
        let keys = Ported::new(&with.gate, &with.gate.world.keys);
        let router = http_edge::router(http_edge::Edge {
            a: None,
            b: Some(variant_b(served, &with)),
            metrics: Arc::new(|_format| String::new()),
            readiness: latch.readiness(),
            observe: Arc::new(|_request| {}),
            idempotency: Idempotency { store: keys, spawn: with.spawn },
            origins: Origins::default(),
            hosts: Hosts::Unchecked,
            settings: Settings { rates: NO_LIMITS, ..Settings::default() },
        });
        Box::new(move |request: Request<String>, parts: Parts| {
            // Held for as long as requests are wanted.
            let _latch = &latch;
            let router = router.clone();
            async move {
                let Ok(response) = router.oneshot(request).await;
                let location = response.headers().get(CONTENT_LOCATION);
                let location = location.and_then(|location| location.to_str().ok()).map(str::to_owned);
                let mut is_read = parts.send(Part::Head { status: response.status(), location }).is_ok();
                let mut body = response.into_body();
                while is_read {
                    is_read = match body.frame().await.map(|frame| frame.map(|frame| frame.into_data())) {
                        Some(Ok(Ok(bytes))) => parts.send(Part::Bytes(bytes.to_vec())).is_ok(),
                        // Trailers are none of the answer.
                        Some(Ok(Err(_trailers))) => true,
                        Some(Err(_broken_off)) => false,
                        None => {
                            // silent-ok: whoever asked may have gone.
                            let _ = parts.send(Part::End);
                            false
                        }
                    };
                }
            }
            .boxed()
        })
    }

    /// Gives what a request is answered to `parts`, until nobody reads it any more.
    pub async fn serve(&self, request: Request<String>, parts: Parts) {
        let make = self.make.lock().take();
        if let Some(make) = make {
            drop(self.serve.set(make()));
        }
        if let Some(serve) = self.serve.get() {
            serve(request, parts).await;
        }
    }

    /// What a request is answered; nothing when the answer breaks off.
    pub async fn answer(&self, request: Request<String>) -> Option<Answer> {
        let (sender, mut parts) = mpsc::unbounded_channel();
        self.serve(request, sender).await;
        let (mut status, mut body) = (StatusCode::OK, Vec::new());
        while let Some(part) = parts.recv().await {
            match part {
                Part::Head { status: answered, .. } => status = answered,
                Part::Bytes(bytes) => body.extend(bytes),
                Part::End => {
                    return Some(Answer { status, body: String::from_utf8_lossy(&body).into_owned() });
                }
            }
        }
        None
    }
}

fn variant_b(served: Served, with: &Dependencies) -> VariantB {
    let probe = || Arc::new(Well) as Arc<dyn Probe>;
    VariantB {
        invoke: served.invoke,
        streams: Some(served.streams),
        jobs: served.jobs,
        waits: served.waits,
        conversations: with.conversations.clone(),
        webhooks: None,
        cache: None,
        windows: Arc::new(MemoryWindows::new()),
        cluster: None,
        tokens: Tokens::new(SECRET),
        database: probe(),
        key_value: probe(),
        llm: probe(),
        toolbox: with.toolbox.clone(),
        tool_calls: served.calls,
        runs: with.store.clone(),
        queue: with.queue.clone(),
        tool_admin: None,
        run_timeout: with.timeout,
        openai: false,
        prepared: Arc::new(AtomicBool::new(true)),
        production: false,
    }
}

/// The token of a user, which is good for as long as any simulation: the edge goes by the real clock.
pub fn token(user: &str, role: Option<&str>) -> String {
    let claims = Claims { id: user.to_owned(), tier: None, role: role.map(str::to_owned) };
    // silent-ok: a token that is none is refused, and the judge finds that nothing was answered.
    Tokens::new(SECRET).issue(&claims, Duration::from_hours(24), SystemTime::now()).unwrap_or_default()
}

impl std::fmt::Debug for Edge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edge").finish_non_exhaustive()
    }
}

//! The real HTTP edge of a process: its router is called as a function, without a socket.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::CONTENT_LOCATION;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use http_edge::testing::NO_LIMITS;
use http_edge::{Claims, Hosts, Idempotency, Latch, Origins, Settings, Tokens, VariantB};
use tokio::sync::mpsc;
use tower::ServiceExt as _;

use crate::faults::gate::Gate;
use crate::ports::Ported;

const SECRET: &[u8] = b"a secret of the simulation, of some length";

type Serve = dyn Fn(Request<String>, Parts) -> BoxFuture<'static, ()> + Send + Sync;

/// Where the parts of an answer go.
type Parts = mpsc::UnboundedSender<Part>;

/// The edge of a process.
pub struct Edge(Box<Serve>);

/// A piece of an answer, as it comes over the network.
#[derive(Debug)]
pub enum Part {
    /// With where a stream can be gone on with.
    Head(StatusCode, Option<String>),
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

impl Edge {
    pub fn new(gate: &Gate, variant: VariantB) -> Self {
        let latch = Latch::default();
        let (store, spawn) = (Ported::new(gate, &gate.world.keys), gate.process.clone());
        let router = http_edge::router(http_edge::Edge {
            a: None,
            b: Some(variant),
            metrics: Arc::new(|_format| String::new()),
            readiness: latch.readiness(),
            observe: Arc::new(|_request| {}),
            idempotency: Idempotency { store, spawn },
            origins: Origins::default(),
            hosts: Hosts::Unchecked,
            settings: Settings { rates: NO_LIMITS, ..Settings::default() },
        });
        Self(Box::new(move |request: Request<String>, parts: Parts| {
            // Held for as long as requests are wanted.
            let _latch = &latch;
            let router = router.clone();
            async move {
                let Ok(response) = router.oneshot(request).await;
                let location = response.headers().get(CONTENT_LOCATION);
                let location = location.and_then(|location| location.to_str().ok()).map(str::to_owned);
                let mut is_read = parts.send(Part::Head(response.status(), location)).is_ok();
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
        }))
    }

    /// Gives what a request is answered to `parts`, until nobody reads it any more.
    pub fn serve(&self, request: Request<String>, parts: Parts) -> BoxFuture<'static, ()> {
        (self.0)(request, parts)
    }

    /// What a request is answered; nothing when the answer breaks off.
    pub async fn answer(&self, request: Request<String>) -> Option<Answer> {
        let (sender, mut parts) = mpsc::unbounded_channel();
        self.serve(request, sender).await;
        let (mut status, mut body) = (StatusCode::OK, Vec::new());
        while let Some(part) = parts.recv().await {
            match part {
                Part::Head(answered, _) => status = answered,
                Part::Bytes(bytes) => body.extend(bytes),
                Part::End => {
                    return Some(Answer { status, body: String::from_utf8_lossy(&body).into_owned() });
                }
            }
        }
        None
    }
}

pub(crate) fn tokens() -> Tokens {
    Tokens::new(SECRET)
}

/// The token of a user, which is good for as long as any simulation: the edge goes by the real clock.
pub fn token(user: &str, role: Option<&str>) -> String {
    let claims = Claims { id: user.to_owned(), tier: None, role: role.map(str::to_owned) };
    // silent-ok: a token that is none is refused, and the judge finds that nothing was answered.
    tokens().issue(&claims, Duration::from_hours(24), SystemTime::now()).unwrap_or_default()
}

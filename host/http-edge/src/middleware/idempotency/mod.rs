//! Idempotency keys: a `POST` with the header `Idempotency-Key` is carried out once, and the same request
//! under the same key gets the same answer (draft-ietf-httpapi-idempotency-key-header-07).
//!
//! | the key | the answer |
//! |---|---|
//! | is new, or its last request ended without an answer that is kept | the request is carried out |
//! | was answered | that answer again: status, the headers that say something about it, body; `Idempotent-Replayed: true` |
//! | is carried out at this moment, on whichever replica | 409 with `Retry-After` |
//! | came with another method, path or body | 422 |
//! | is none (see [`key`]) | 400 |
//!
//! The key is claimed and the request carried out in a task of its own: a client that goes away and asks
//! again gets the answer of what it has begun. Nothing is begun, and the key is free again, when the client
//! goes away or the rate limit turns it away before the store has answered the claim. Not kept are answers
//! that say "not now" or "not you" (401, 403, 408, 409, 429, 5xx, [`NotKept`]), streams, and answers that
//! are too large.
//! The key of a stream is free again when its run has ended or waits for somebody.
//!
//! A process that dies, or that cannot renew its lease ([`agent_core::ports::idempotency`]), leaves a key
//! that anybody may claim: the request is then carried out anew. [`OnceId`] is the same both times, so a job
//! and a turn of a conversation are made once even so. The tool calls of a run that is no job are made again.
//! A run whose lease may have ended begins no further call until the store answers again
//! ([`run_service::held_lease::LeaseWatch`]). If somebody else has the key by then, the run is dropped, and
//! that of a stream cancelled. Both may do at once what was under way.
//!
//! A request without the header passes by, at the cost of looking for it.

pub(crate) mod kept_answer;
pub(crate) mod key;

use std::convert::Infallible;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::ports::idempotency::{LEASE, MOST_BYTES_OF_AN_ANSWER};
use agent_core::ports::{IdempotencyError, IdempotencyStore, KeyClaim, KeyResult, KeyTerms, Renewal, Spawn};
use agent_core::trace::InTrace as _;
use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::response::Response;
use boxed_async::boxed_async;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Either};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt as _;
use run_service::held_lease::{HeldLease, LeaseClaim, RenewalTerms, new_owner};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tower::Service;
use tracing::Instrument as _;

use super::panic_guard;
use crate::body::{BodyError, Payload};
use crate::dependencies::{Idempotency, Settings};
use key::{Digests, KeyError};

/// What Stripe and those who followed it say of an answer that is given again; the draft names no header for
/// it.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Why a request with a key is not carried out. Each variant's error table says what the client is told.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("a request with this Idempotency-Key is being carried out")]
    InFlight,
    #[error("this Idempotency-Key came with another request before")]
    OtherRequest,
    #[error(transparent)]
    Store(#[from] IdempotencyError),
    #[error("what was kept under this Idempotency-Key cannot be read by this version")]
    Unreadable,
    #[error("the task that carried the request out ended without an answer")]
    NoAnswer,
}

impl Refusal {
    /// What the client is told, the same in both variants; nothing where their tables have an answer of their
    /// own.
    pub(crate) fn status_and_text(&self) -> Option<(StatusCode, &'static str)> {
        Some(match self {
            Self::Key(_) => (
                StatusCode::BAD_REQUEST,
                "Idempotency-Key must be one key of 1 to 255 visible ASCII characters, with or without double quotes",
            ),
            Self::InFlight => {
                (StatusCode::CONFLICT, "A request with this Idempotency-Key is being processed")
            }
            Self::OtherRequest => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "This Idempotency-Key was used for another request: send a new key",
            ),
            Self::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "Service temporarily unavailable"),
            Self::Body(_) | Self::Unreadable | Self::NoAnswer => return None,
        })
    }

    /// One of each row, for the document.
    pub(crate) fn documented() -> [Self; 4] {
        let store = Self::Store(IdempotencyError(String::new()));
        [Self::Key(KeyError::Several), Self::InFlight, Self::OtherRequest, store]
    }

    /// Whether the same request may succeed a moment later.
    pub(crate) fn may_be_tried_again(&self) -> bool {
        matches!(self, Self::InFlight | Self::Store(_))
    }
}

/// The id under which everything is made that must be made once for a key: an extension of the request. The
/// same whenever the request is carried out again.
#[derive(Debug, Clone)]
pub(crate) struct OnceId(pub(crate) Arc<str>);

/// The answer says "not now" in another way than by its status: an extension of the response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotKept;

/// What a variant knows about its requests and answers.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// Whose keys the request uses.
    pub(crate) caller: fn(&Request) -> String,
    /// The answer to a refusal.
    pub(crate) refuse: fn(Refusal) -> Response,
    /// The answer as the client gets it: with a body.
    pub(crate) render: fn(Response, bool) -> Response,
    /// What `render` is told: whether clients learn nothing of errors.
    pub(crate) production: bool,
}

/// The service behind this layer.
#[derive(Clone)]
pub(crate) struct Idempotent<S> {
    inner: S,
    keys: Idempotency,
    settings: Settings,
    manner: Manner,
}

impl<S> Idempotent<S> {
    pub(crate) fn new(inner: S, keys: Idempotency, settings: Settings, manner: Manner) -> Self {
        Self { inner, keys, settings, manner }
    }
}

impl<S> Service<Request> for Idempotent<S>
where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if request.method() != Method::POST || !request.headers().contains_key(key::HEADER) {
            return Either::Left(self.inner.call(request));
        }
        // The one that is ready goes with the request.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let (keys, settings, manner) = (self.keys.clone(), self.settings, self.manner);
        Either::Right(Box::pin(async move {
            let carried_out = carry_out(inner, request, keys, settings, manner).await;
            Ok(carried_out.unwrap_or_else(manner.refuse))
        }))
    }
}

/// Finds out what the key is, and carries the request out if that is to be done.
async fn carry_out<S>(
    inner: S,
    request: Request,
    keys: Idempotency,
    settings: Settings,
    manner: Manner,
) -> Result<Response, Refusal>
where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send> + Send + 'static,
{
    let key = key::read(request.headers())?;
    let caller = (manner.caller)(&request);
    let (request, body) = read_body(request, &settings).await?;
    let digests = Digests::of(&caller, &key, &request, &body);
    let claim = Claim { store: keys.store, digests, owner: new_owner() };
    let held = Held { lease: HeldLease::new(claim, TERMS, keys.spawn.clone()), spawn: keys.spawn.clone() };
    let (answered, answer) = oneshot::channel();
    let request = request.map(|()| Body::from(body));
    let work = held.work(inner, request, manner, answered);
    keys.spawn.spawn("idempotent-request", Box::pin(work.in_current_span().in_current_trace()));
    answer.await.unwrap_or(Err(Refusal::NoAnswer))
}

/// An answer that was kept.
fn replay(kept: Vec<u8>) -> Result<Response, Refusal> {
    let mut answer = kept_answer::read(&kept.into()).ok_or(Refusal::Unreadable)?;
    answer.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(answer)
}

/// The body, decoded, and the request as it were without a coding: what makes two requests the same is what
/// they say.
async fn read_body(request: Request, settings: &Settings) -> Result<(http::Request<()>, Bytes), BodyError> {
    let (mut parts, body) = request.into_parts();
    let body = Payload::new(&parts.headers, body).read(settings).await?;
    for header in [CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING] {
        parts.headers.remove(header);
    }
    Ok((http::Request::from_parts(parts, ()), body))
}

/// How a key is kept claimed. A store that is away for as long as a lease lasts ends no run: it would be
/// carried out again with the calls that it has made. The run waits until it is known whether the key is
/// still ours.
const TERMS: RenewalTerms =
    RenewalTerms { lease: LEASE, every: Duration::from_secs(5), in_step_since: None, stop_before: None };

/// A key, as this request claims it.
struct Claim {
    store: Arc<dyn IdempotencyStore>,
    digests: Digests,
    owner: String,
}

#[boxed_async]
impl LeaseClaim for Claim {
    const WHAT: &'static str = "idempotency key";
    type Error = IdempotencyError;

    async fn renew(&self) -> KeyResult<Renewal> {
        let renewal = self.store.renew(self.digests.key(), &self.owner, LEASE).await?;
        if renewal != Renewal::Lost {
            return Ok(renewal);
        }
        // A store that has forgotten the key has it for nobody. What the request makes stays under the id
        // that it was begun with.
        let claim = self.store.claim(self.digests.key(), &self.owner, KeyTerms::default()).await?;
        Ok(Renewal::of_holder(matches!(claim, KeyClaim::Claimed { .. })))
    }

    async fn release(&self) -> KeyResult {
        self.store.release(self.digests.key(), &self.owner).await
    }
}

/// How long it is tried to keep an answer while the store fails. Its client has it already, and is told that
/// the request is carried out if it asks again meanwhile.
const KEEPING_FOR: Duration = Duration::from_secs(60);

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// How long one try may take.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// A key that this request claims, and then holds.
struct Held {
    lease: HeldLease<Claim>,
    /// Keeps the answer when that could not be done at once.
    spawn: Arc<dyn Spawn>,
}

impl Held {
    /// Claims the key, and carries the request out if that is to be done. Runs in a task of its own from the
    /// claim on: a store may have carried a claim out whose caller is gone, and nobody else would give the
    /// key free.
    async fn work<S>(
        mut self,
        inner: S,
        mut request: Request,
        manner: Manner,
        answered: oneshot::Sender<Result<Response, Refusal>>,
    ) where
        S: Service<Request, Response = Response, Error = Infallible>,
    {
        let Claim { store, digests, owner } = self.lease.claim();
        let claimed = store.claim(digests.key(), owner, KeyTerms::default()).await;
        // A claim that was not answered may have been carried out: it is given back when this is dropped.
        if !matches!(claimed, Ok(KeyClaim::Claimed { .. }) | Err(_)) {
            self.lease.ended();
        }
        let answer = match claimed {
            // The client has left, or the rate limit has turned the request away: nothing is begun.
            Ok(KeyClaim::Claimed { .. }) if answered.is_closed() => return self.lease.release().await,
            Ok(KeyClaim::Claimed { id }) => {
                request.extensions_mut().insert(OnceId(id.into()));
                request.extensions_mut().insert(self.lease.watch());
                self.carry_out(inner, request, manner).await
            }
            Ok(KeyClaim::InFlight) => Err(Refusal::InFlight),
            Ok(KeyClaim::OtherRequest) => Err(Refusal::OtherRequest),
            Ok(KeyClaim::Answered(kept)) => replay(kept),
            Err(error) => Err(error.into()),
        };
        // Nobody listens any more when the client has left.
        let _ = answered.send(answer);
    }

    /// Carries the request out while the claim is held, and keeps the answer or gives the key free.
    async fn carry_out<S>(self, mut inner: S, request: Request, manner: Manner) -> Result<Response, Refusal>
    where
        S: Service<Request, Response = Response, Error = Infallible>,
    {
        // A panic is answered, and its answer is not kept.
        let answering = AssertUnwindSafe(async { inner.call(request).await }).catch_unwind();
        let answer = match self.lease.while_held(answering).await {
            Some(Ok(Ok(answer))) => answer,
            Some(Err(panic)) => panic_guard::answer_panic(panic),
            None => {
                tracing::warn!("an idempotency key was lost: the request is carried out by whoever has it");
                self.guard();
                return Err(Refusal::InFlight);
            }
        };
        Ok(self.keep((manner.render)(answer, manner.production)).await)
    }

    async fn keep(mut self, answer: Response) -> Response {
        let (parts, body) = answer.into_parts();
        let whole = body.size_hint().exact().filter(|bytes| *bytes <= MOST_BYTES_OF_AN_ANSWER as u64);
        let is_stream = parts
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        let is_kept = is_kept(parts.status) && parts.extensions.get::<NotKept>().is_none();
        if whole.is_none() && !is_stream && is_kept {
            tracing::warn!(
                most_bytes = MOST_BYTES_OF_AN_ANSWER,
                "an answer is too large to be kept under its idempotency key: the same request is carried out again"
            );
        }
        if is_stream && self.lease.is_watched() {
            let spawn = self.spawn.clone();
            let held = self.hold().in_current_span().in_current_trace();
            spawn.spawn("idempotent-stream", Box::pin(held));
            return Response::from_parts(parts, body);
        }
        if whole.is_none() || is_stream || !is_kept {
            self.lease.release().await;
            return Response::from_parts(parts, body);
        }
        // A body of a known size is in memory.
        let bytes = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => {
                tracing::warn!(%error, "an answer broke off before it was kept");
                self.lease.release().await;
                return Response::from_parts(parts, Body::empty());
            }
        };
        let kept = kept_answer::write(&parts, &bytes);
        match self.settle(&kept).await {
            Ok(true) => self.lease.ended(),
            Ok(false) => {
                tracing::warn!("the claim of an idempotency key was lost: its answer is not kept");
                self.lease.ended();
            }
            Err(error) => {
                tracing::debug!(%error, "an answer is kept under its idempotency key later");
                let spawn = self.spawn.clone();
                spawn.spawn(
                    "idempotent-answer",
                    Box::pin(self.keep_later(kept).in_current_span().in_current_trace()),
                );
            }
        }
        Response::from_parts(parts, Body::from(bytes))
    }

    /// Holds the key for as long as the run of a stream goes on, whether anybody reads it or not.
    async fn hold(self) {
        if self.lease.while_held(self.lease.unwatched()).await.is_some() {
            return self.lease.release().await;
        }
        tracing::warn!("the idempotency key of a stream was lost: its run is cancelled");
        self.guard();
    }

    /// Keeps a lease that was lost until nothing acts under it: dropped before, it would guard nothing.
    fn guard(mut self) {
        self.lease.ended();
        let spawn = self.spawn.clone();
        spawn.spawn("idempotent-guard", Box::pin(async move { self.lease.unwatched().await }));
    }

    async fn settle(&self, kept: &[u8]) -> KeyResult<bool> {
        let Claim { store, digests, owner } = self.lease.claim();
        let settled = timeout(CALL_LIMIT, store.settle(digests.key(), owner, kept)).await;
        settled.unwrap_or_else(|_elapsed| Err(IdempotencyError("no answer in time".to_owned())))
    }

    /// Keeps an answer as soon as the store works again, and the key claimed until then: whoever asks again
    /// is not to have the request carried out once more.
    async fn keep_later(mut self, kept: Vec<u8>) {
        let keeping = async {
            let mut pause = Backoff::new(FIRST_PAUSE, LAST_PAUSE);
            loop {
                sleep(pause.next()).await;
                // A claim that is not held any more was settled by a try whose answer was lost, or has ended.
                if self.settle(&kept).await.is_ok() {
                    return;
                }
            }
        };
        if timeout(KEEPING_FOR, self.lease.while_running(keeping)).await.is_err() {
            tracing::warn!("an answer could not be kept under its idempotency key");
        }
        self.lease.ended();
    }
}

/// Whether the answer says what became of the request, and not who asks, how it was sent, how the service
/// does, or what stood in its way, which may be gone by the next time.
fn is_kept(status: StatusCode) -> bool {
    !status.is_server_error()
        && !matches!(
            status,
            StatusCode::UNAUTHORIZED
                | StatusCode::FORBIDDEN
                | StatusCode::REQUEST_TIMEOUT
                | StatusCode::CONFLICT
                | StatusCode::TOO_MANY_REQUESTS
        )
}

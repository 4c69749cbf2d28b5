//! The bad days of egress, over real sockets: local servers on free ports, reached under grants with
//! `private = true`.
//!
//! Servers here speak HTTP by hand, so that they can misbehave. Times are waited for on tokio's paused clock.

mod answers;
mod credentials;
mod limits;
mod pooling;
mod requests;
mod resolving;
mod responses;
mod secret_scan;
mod server;
mod target;
mod times;
mod tls;

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderName, Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use outbound::{ConnectError, LookupBounds, LookupSlot, PoolBounds, Resolve, Scheme, SystemResolver, Tls};
use rustls::RootCertStore;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::*;
use crate::body::ResponseBody;
use crate::error::{InvalidUri, Place};
use crate::receipt::Refusal;

use server::Server;

/// A secret of sixteen characters that URL-encoding and JSON change.
pub(super) const SECRET: &str = "s3cr/t+v\"lue=42é";

pub(super) struct Rules<F>(pub(super) F);

impl<F> std::fmt::Debug for Rules<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rules")
    }
}

impl<F: Fn(&RequestLine<'_>) -> Result<Admission, String> + Send + Sync> Authorize for Rules<F> {
    fn authorize(&self, request: &RequestLine<'_>) -> Result<Admission, String> {
        (self.0)(request)
    }
}

/// A resolver that gives one answer after the other, the last one again and again.
#[derive(Debug)]
pub(super) struct FakeResolver {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl FakeResolver {
    pub(super) fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self { answers: Mutex::new(answers.iter().map(parse).collect()), asked: Mutex::default() })
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

impl Resolve for FakeResolver {
    fn resolve(&self, host: String, _slot: LookupSlot) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.asked.lock().push(host);
        let mut answers = self.answers.lock();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Box::pin(async move { Ok(answer.unwrap_or_default()) })
    }
}

/// What a test reaches out with.
pub(super) struct World {
    pub(super) egress: Egress,
    pub(super) resolver: Arc<FakeResolver>,
}

impl World {
    /// Every name is this machine's.
    pub(super) fn new() -> Self {
        Self::with(FakeResolver::new(&[&["127.0.0.1"]]), EgressBounds::default())
    }

    pub(super) fn with(resolver: Arc<FakeResolver>, bounds: EgressBounds) -> Self {
        Self::of(resolver, bounds, HttpMode::default())
    }

    /// Every name is this machine's, and requests go where the mode says.
    pub(super) fn with_http(http: HttpMode) -> Self {
        Self::of(FakeResolver::new(&[&["127.0.0.1"]]), EgressBounds::default(), http)
    }

    fn of(resolver: Arc<FakeResolver>, bounds: EgressBounds, http: HttpMode) -> Self {
        let tls = Tls::with_roots(RootCertStore::empty()).unwrap();
        Self { egress: Egress::new(Handle::current(), resolver.clone(), tls, bounds, http), resolver }
    }

    /// A call that may reach everything, private addresses too.
    pub(super) fn call(&self) -> Call {
        self.call_with(vec![], RequestLimits::default())
    }

    pub(super) fn call_with(&self, secrets: Vec<Secret>, limits: RequestLimits) -> Call {
        self.egress.call(grant(true, secrets, limits), Instant::now() + Duration::from_secs(120))
    }
}

/// Admits everything. All secrets are for `example.test`.
pub(super) fn grant(private: bool, secrets: Vec<Secret>, limits: RequestLimits) -> Arc<Grant> {
    grant_called("sha256:test", private, secrets, limits)
}

pub(super) fn grant_called(
    digest: &str,
    private: bool,
    secrets: Vec<Secret>,
    limits: RequestLimits,
) -> Arc<Grant> {
    let names: Vec<String> = secrets.iter().map(|secret| secret.name.clone()).collect();
    let admit = move |line: &RequestLine<'_>| {
        let secrets = if line.host == "example.test" { names.clone() } else { vec![] };
        Ok(Admission { private, scheme: line.scheme, secrets, path: None })
    };
    Arc::new(Grant::new(digest.into(), Arc::new(Rules(admit)), secrets, limits).unwrap())
}

/// A value that URL-encoding and JSON change, for queries.
pub(super) fn secret(name: &str, placement: Placement) -> Secret {
    Secret { name: name.into(), value: Some(value(SECRET)), placement }
}

/// A value that headers take as it is.
pub(super) fn ascii_secret(name: &str, placement: Placement) -> Secret {
    Secret { value: Some(value("ascii-s3cret/v+lue")), ..secret(name, placement) }
}

pub(super) fn value(text: &str) -> SecretValue {
    SecretValue::new(agent_core::secret::Secret::new(text)).unwrap()
}

pub(super) fn header(name: &'static str, prefix: &str) -> Placement {
    Placement::Header { name: HeaderName::from_static(name), prefix: prefix.into() }
}

pub(super) fn get(url: impl AsRef<str>) -> Request<Empty<Bytes>> {
    Request::get(url.as_ref()).body(Empty::new()).unwrap()
}

pub(super) fn post(url: impl AsRef<str>, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(url.as_ref()).body(Full::new(body.into())).unwrap()
}

/// Sends and reads to the end.
pub(super) async fn fetch<B>(
    call: &Call,
    request: Request<B>,
) -> Result<(http::response::Parts, String), EgressError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    let response = call.send(request, call.times()).await?;
    read(response).await
}

pub(super) async fn read(
    response: Response<ResponseBody>,
) -> Result<(http::response::Parts, String), EgressError> {
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok((head, String::from_utf8(body.to_vec()).unwrap()))
}

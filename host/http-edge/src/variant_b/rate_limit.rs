//! The rate limit: each request counts in the window of its address and, with a valid token, in that of its
//! user.
//!
//! `limit` counts what comes to a route, in one round trip, and turns it away when a window is full.
//! `report` writes the windows on every answer, and counts by itself what no route has counted. Where hits
//! are kept is not known here.
//!
//! A route that is [`Counting::Beside`] gets its request while that is counted, and has the check as an
//! extension: it may read and look up what it likes meanwhile, and begins nothing before the check has
//! passed. So the round trip that counts and the one that looks into the cache are one.

use std::pin::pin;
use std::time::SystemTime;

use agent_core::ports::{Hits, RateWindows, Window, WindowKind};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt as _;
use futures::future::{Either, select};
use http::{HeaderMap, HeaderName, HeaderValue};
use run_service::layers::RateCheck;
use run_service::shared_future::SharedFuture;

use super::auth::{Caller, Identity};
use super::error::{Error, Render};
use super::state::Shared;
use super::timestamp::whole_seconds;
use crate::dependencies::{RateLimit, RateLimits};
use crate::middleware::client_address::ClientAddress;
use crate::middleware::refusals::Preflight;
use crate::tokens::Claims;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const USER_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const USER_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const USER_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The headers of every answer.
pub const OF_ADDRESSES: [HeaderName; 4] = [POLICY, LIMIT, REMAINING, RESET];

/// Headers of answers to requests with a valid token.
pub const OF_USERS: [HeaderName; 3] = [USER_LIMIT, USER_REMAINING, USER_RESET];

/// When the requests to a route are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Before the route sees them.
    Before,
    /// While it reads them: it has a [`RateCheck`] to wait for.
    Beside,
}

/// Counts a request in the windows of its address and of its user, and answers it if one is full.
pub(super) async fn limit(
    State((edge, counting)): State<(Shared, Counting)>,
    mut request: Request,
    next: Next,
) -> Response {
    let address = request.extensions().get().copied();
    let caller = request.extensions().get().and_then(Identity::caller).cloned();
    let count = async move {
        let claims = caller.as_ref().map(Caller::claims);
        count(&*edge.variant.windows, edge.settings.rates, address, claims, 1).await
    };
    let (status, answer) = match counting {
        Counting::Before => {
            let status = count.await;
            let answer = match status.check() {
                Ok(()) => next.run(request).await,
                Err(error) => error.into_response(),
            };
            (status, answer)
        }
        Counting::Beside => {
            let count = SharedFuture::new(count);
            let passes = count.clone().map(|status| status.check().is_ok());
            request.extensions_mut().insert(RateCheck::new(passes));
            answer_beside(count, next.run(request)).await
        }
    };
    let mut answer = answer;
    answer.extensions_mut().insert(status);
    answer
}

/// Counts what comes over a connection as one more request of its address and its user.
pub async fn admit(edge: &Shared, address: Option<ClientAddress>, caller: &Caller) -> Result<(), Error> {
    count(&*edge.variant.windows, edge.settings.rates, address, Some(caller.claims()), 1).await.check()
}

/// Answers while it is counted, the count first. An answer that is there before is held back until it is
/// known whether it may be given; one that is under way when a window turns out to be full is dropped.
async fn answer_beside(
    count: impl Future<Output = RateLimitStatus> + Unpin,
    answer: impl Future<Output = Response>,
) -> (RateLimitStatus, Response) {
    let (status, answer) = match select(count, pin!(answer)).await {
        Either::Left((status, answer)) => match status.check() {
            Ok(()) => (status, answer.await),
            Err(error) => return (status, error.into_response()),
        },
        Either::Right((answer, count)) => (count.await, answer),
    };
    match status.check() {
        Ok(()) => (status, answer),
        Err(error) => (status, error.into_response()),
    }
}

/// Writes on an answer what its request was counted in. One that was not counted, because no route has
/// answered it, is counted now: being turned away only afterwards looks no different, since nothing was done.
/// The preflight of a page that may call is neither counted nor turned away: a browser would hide the 429 of
/// the request itself from the page.
pub(super) async fn report(
    State((edge, render)): State<(Shared, Render)>,
    request: Request,
    next: Next,
) -> Response {
    let address = request.extensions().get().copied();
    let mut answer = next.run(request).await;
    let status = match answer.extensions_mut().remove::<RateLimitStatus>() {
        Some(status) => status,
        None => {
            let is_preflight = answer.extensions_mut().remove::<Preflight>().is_some();
            let cost = u64::from(!is_preflight);
            let status = count(&*edge.variant.windows, edge.settings.rates, address, None, cost).await;
            if !is_preflight && let Err(error) = status.check() {
                answer = render(error.into_response(), edge.variant.production);
            }
            status
        }
    };
    status.write(answer.headers_mut(), SystemTime::now());
    answer
}

/// What one request was counted in, an extension of its answer. Empty when the windows could not be asked:
/// such a request passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RateLimitStatus {
    address: Option<Count>,
    user: Option<Count>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    hits: Hits,
    limit: RateLimit,
}

/// Counts a request of that address, and of that user if it is somebody's, in one round trip.
async fn count(
    windows: &dyn RateWindows,
    rates: RateLimits,
    address: Option<ClientAddress>,
    user: Option<&Claims>,
    cost: u64,
) -> RateLimitStatus {
    let address_key = ClientAddress::key(address);
    let window =
        |kind, key, limit: RateLimit| Window { kind, key, limit: limit.requests, period: limit.period, cost };
    let user_key = user.map(|user| format!("user:{}", user.id)).unwrap_or_default();
    let user_limit = user.map_or(rates.user, |user| limit_of(user, rates));
    let both = [
        window(WindowKind::Address, &address_key, rates.address),
        window(WindowKind::User, &user_key, user_limit),
    ];
    let asked = if user.is_some() { &both[..] } else { &both[..1] };
    match windows.hit(asked).await {
        Ok(hits) => {
            let count = |hits: &Hits, limit| Count { hits: *hits, limit };
            RateLimitStatus {
                address: hits.first().map(|hits| count(hits, rates.address)),
                user: user.and_then(|_| hits.get(1)).map(|hits| count(hits, user_limit)),
            }
        }
        Err(error) => {
            tracing::error!(%error, "requests are not counted, and nobody is turned away for their number");
            RateLimitStatus::default()
        }
    }
}

impl RateLimitStatus {
    /// The address's window first: its 429 says nothing of the user.
    fn check(&self) -> Result<(), Error> {
        let full = |count: &Count| count.hits.exceed(count.limit.requests);
        match (self.address.filter(full), self.user.filter(full)) {
            (Some(Count { hits, .. }), _) => Err(Error::AddressLimited { retry_after: hits.resets_in }),
            (None, Some(Count { hits, .. })) => Err(Error::UserLimited { retry_after: hits.resets_in }),
            (None, None) => Ok(()),
        }
    }

    /// `RateLimit-*` for the address, whose reset is in seconds from now, and `X-RateLimit-*` for the user,
    /// whose reset is in seconds since the epoch (host/docs/interface/node-clients.md#rate-limit-headers).
    fn write(&self, headers: &mut HeaderMap, now: SystemTime) {
        if let Some(Count { hits, limit: RateLimit { requests, period } }) = self.address {
            // Both of them, as draft 6 of the header's standard has it
            // (host/docs/interface/node-clients.md#rate-limit-headers).
            let policy = HeaderValue::try_from(format!("{requests};w={}", whole_seconds(period)));
            // Digits and letters are always fit for a header.
            if let Ok(policy) = policy {
                headers.insert(POLICY, policy);
            }
            headers.insert(LIMIT, requests.into());
            headers.insert(REMAINING, requests.saturating_sub(hits.count).into());
            headers.insert(RESET, whole_seconds(hits.resets_in).into());
        }
        if let Some(Count { hits, limit }) = self.user {
            let since_the_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let reset = whole_seconds(since_the_epoch.saturating_add(hits.resets_in));
            headers.insert(USER_LIMIT, limit.requests.into());
            headers.insert(USER_REMAINING, limit.requests.saturating_sub(hits.count).into());
            headers.insert(USER_RESET, reset.into());
        }
    }
}

fn limit_of(user: &Claims, rates: RateLimits) -> RateLimit {
    match user.tier.as_deref() {
        Some("premium") => RateLimit { requests: rates.premium_requests, ..rates.user },
        Some(_) | None => rates.user,
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_left_is_never_negative_and_resets_are_rounded_up() {
        let hits = |count| Hits { count, resets_in: Duration::from_millis(59_001) };
        let RateLimits { address, user, .. } = RateLimits::default();
        let counted = RateLimitStatus {
            address: Some(Count { hits: hits(101), limit: address }),
            user: Some(Count { hits: hits(3), limit: user }),
        };
        let mut headers = HeaderMap::new();
        counted.write(&mut headers, SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_500));
        let mut lines: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        assert_eq!(
            lines,
            [
                "ratelimit-limit: 100",
                "ratelimit-policy: 100;w=900",
                "ratelimit-remaining: 0",
                "ratelimit-reset: 60",
                "x-ratelimit-limit: 10",
                "x-ratelimit-remaining: 7",
                "x-ratelimit-reset: 1060",
            ]
        );
    }

    #[test]
    fn what_was_not_counted_turns_nobody_away_and_says_nothing() {
        let mut headers = HeaderMap::new();
        RateLimitStatus::default().write(&mut headers, SystemTime::UNIX_EPOCH);
        assert!(headers.is_empty());
        assert!(RateLimitStatus::default().check().is_ok());
    }

    /// A count with this many requests of an address, which may have 100.
    fn counted(count: u64) -> RateLimitStatus {
        let hits = Hits { count, resets_in: Duration::from_secs(60) };
        RateLimitStatus { address: Some(Count { hits, limit: RateLimits::default().address }), user: None }
    }

    #[tokio::test]
    async fn an_answer_is_held_back_until_it_is_counted() {
        let (send, count) = tokio::sync::oneshot::channel();
        let mut answering = pin!(answer_beside(count.map(Result::unwrap), ready(Response::default())));
        assert!(answering.as_mut().now_or_never().is_none());
        send.send(counted(100)).unwrap();
        let (status, answer) = answering.await;
        assert_eq!((status, answer.status().as_u16()), (counted(100), 200));
    }

    #[tokio::test]
    async fn what_is_done_for_a_request_over_the_limit_is_dropped() {
        let (held, dropped) = tokio::sync::oneshot::channel::<()>();
        let answer = async move {
            let _held = held;
            pending().await
        };
        let (status, answer) = answer_beside(ready(counted(101)), answer).await;
        // The error gets its own status where it is rendered.
        assert_eq!(status, counted(101));
        assert_ne!(answer.status(), 200);
        assert!(dropped.await.is_err());
        let (_, answer) = answer_beside(ready(counted(101)), ready(Response::default())).await;
        assert_ne!(answer.status(), 200);
    }
}

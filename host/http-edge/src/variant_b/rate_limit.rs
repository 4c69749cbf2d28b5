//! The rate limit: each request counts in the window of its address and, with a valid token, in that of its user.
//!
//! [`limit`] counts what comes to a route, in one round trip, and turns it away when a window is full. [`report`]
//! writes the windows on every answer, and counts by itself what no route has counted. Where hits are kept is not known
//! here.

use std::net::{IpAddr, Ipv6Addr};
use std::time::SystemTime;

use agent_core::ports::{Hits, RateWindows, Window, WindowKind};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::auth::{Caller, Identity};
use super::error::{self, Error};
use super::state::Shared;
use super::timestamp::whole_seconds;
use crate::dependencies::{RateLimit, RateLimits};
use crate::middleware::client_address::ClientAddress;
use crate::tokens::Claims;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const USER_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const USER_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const USER_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Counts a request in the windows of its address and of its user, and answers it if one is full.
pub(super) async fn limit(State(edge): State<Shared>, request: Request, next: Next) -> Response {
    let address = request.extensions().get().copied();
    let caller = request.extensions().get().and_then(Identity::caller).map(Caller::claims);
    let status = count(&*edge.variant.windows, edge.settings.rates, address, caller).await;
    let mut answer = match status.check() {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    answer.extensions_mut().insert(status);
    answer
}

/// Writes on an answer what its request was counted in. One that was not counted, because no route has answered it, is
/// counted now: being turned away only afterwards looks no different, since nothing was done.
pub(super) async fn report(State(edge): State<Shared>, request: Request, next: Next) -> Response {
    let address = request.extensions().get().copied();
    let mut answer = next.run(request).await;
    let status = match answer.extensions_mut().remove::<RateLimitStatus>() {
        Some(status) => status,
        None => {
            let status = count(&*edge.variant.windows, edge.settings.rates, address, None).await;
            if let Err(error) = status.check() {
                answer = error::render(error.into_response(), edge.variant.production);
            }
            status
        }
    };
    status.write(answer.headers_mut(), SystemTime::now());
    answer
}

/// What one request was counted in, an extension of its answer. Empty when the windows could not be asked: such a
/// request passes.
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
) -> RateLimitStatus {
    let address_key = address_key(address);
    let window =
        |kind, key, limit: RateLimit| Window { kind, key, limit: limit.requests, period: limit.period };
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
    /// whose reset is in seconds since the epoch (wire 1.1).
    fn write(&self, headers: &mut HeaderMap, now: SystemTime) {
        if let Some(Count { hits, limit: RateLimit { requests, period } }) = self.address {
            // Both of them, as draft 6 of the header's standard has it (wire 1.1).
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

/// IPv6 callers own whole networks, so a /56 counts as one caller (decisions, "Client address"). Callers
/// without an address, who do not come through a socket, share a window.
fn address_key(address: Option<ClientAddress>) -> String {
    match address.map(|ClientAddress(address)| address.to_canonical()) {
        Some(IpAddr::V4(address)) => format!("ip:{address}"),
        Some(IpAddr::V6(address)) => format!("ip:{}/56", Ipv6Addr::from_bits(address.to_bits() >> 72 << 72)),
        None => "ip:unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn callers_are_told_apart_by_address_or_by_network() {
        let key = |text: &str| address_key(Some(ClientAddress(text.parse().unwrap())));
        assert_eq!(key("192.0.2.1"), "ip:192.0.2.1");
        assert_eq!(key("::ffff:192.0.2.1"), "ip:192.0.2.1");
        assert_eq!(key("2001:db8:0:100::1"), "ip:2001:db8:0:100::/56");
        assert_eq!(key("2001:db8:0:1ff::9"), "ip:2001:db8:0:100::/56");
        assert_eq!(key("2001:db8:0:200::1"), "ip:2001:db8:0:200::/56");
        assert_eq!(key("::1"), "ip:::/56");
        assert_eq!(address_key(None), "ip:unknown");
    }

    #[test]
    fn only_premium_users_have_the_larger_window() {
        let limit = |tier: Option<&str>| {
            let user = Claims { id: "u1".into(), tier: tier.map(str::to_owned), role: None };
            limit_of(&user, RateLimits::default()).requests
        };
        assert_eq!(limit(Some("premium")), 100);
        for tier in [None, Some(""), Some("Premium"), Some("free")] {
            assert_eq!(limit(tier), 10, "{tier:?}");
        }
    }

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
}

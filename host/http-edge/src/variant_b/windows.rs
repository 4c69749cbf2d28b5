//! How often one may call: the two windows, and what clients are told about them.
//!
//! Where hits are counted is not known here.

use std::net::IpAddr;
use std::net::Ipv6Addr;
use std::time::{Duration, SystemTime};

use agent_core::ports::{Hits, RateWindows, Window, WindowKind};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::error::Error;
use crate::edge::{RateLimit, RateLimits};
use crate::layers::ClientAddress;
use crate::tokens::Claims;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const USER_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const USER_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const USER_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// What one request was counted in. Empty when the windows could not be asked: such a request passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    address: Option<Count>,
    user: Option<Count>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    hits: Hits,
    limit: RateLimit,
}

/// Counts a request of that address, and of that user if it is somebody's, in one round trip.
pub(super) async fn count(
    windows: &dyn RateWindows,
    rates: RateLimits,
    address: Option<ClientAddress>,
    user: Option<&Claims>,
) -> Counted {
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
            Counted {
                address: hits.first().map(|hits| count(hits, rates.address)),
                user: user.and_then(|_| hits.get(1)).map(|hits| count(hits, user_limit)),
            }
        }
        Err(error) => {
            tracing::error!(%error, "requests are not counted, and nobody is turned away for their number");
            Counted::default()
        }
    }
}

impl Counted {
    /// The address's window first: someone it turns away is not asked for a token.
    pub(super) fn check_address(&self) -> Result<(), Error> {
        match self.address {
            Some(Count { hits, limit }) if hits.exceed(limit.requests) => {
                Err(Error::AddressLimited { retry_after: hits.resets_in })
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn check_user(&self) -> Result<(), Error> {
        match self.user {
            Some(Count { hits, limit }) if hits.exceed(limit.requests) => {
                Err(Error::UserLimited { retry_after: hits.resets_in })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// `RateLimit-*` for the address, whose reset is in seconds from now, and `X-RateLimit-*` for the user,
    /// whose reset is in seconds since the epoch (wire 1.1).
    pub(super) fn write(&self, headers: &mut HeaderMap, now: SystemTime) {
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

/// Rounded up, so that nobody is told to come back before it helps.
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
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
        let counted = Counted {
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
        Counted::default().write(&mut headers, SystemTime::UNIX_EPOCH);
        assert!(headers.is_empty());
        assert!(Counted::default().check_address().is_ok() && Counted::default().check_user().is_ok());
    }
}

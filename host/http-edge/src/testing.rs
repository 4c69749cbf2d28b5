//! What is promised of what clients send beside requests, for `host/fuzz`: functions that panic when it is
//! broken. Whole requests go through [`crate::router()`], with what it depends on beside stores.

use std::time::{Duration, SystemTime};

use agent_core::ports::{Probe, ProbeError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use boxed_async::boxed_async;
use bytes::Bytes;
use hmac::{Hmac, Mac as _};
use sha2::{Sha256, Sha384, Sha512};

pub use axum::Router;

use crate::body::coding::Coding;
use crate::dependencies::{RateLimit, RateLimits};
use crate::tokens::Tokens;

/// Limits that nobody comes to.
pub const NO_LIMITS: RateLimits = {
    let limit = RateLimit { requests: u64::MAX, period: Duration::from_secs(60) };
    RateLimits { address: limit, user: limit, premium_requests: u64::MAX }
};

/// A dependency that is always well.
#[derive(Debug)]
pub struct Well;

#[boxed_async]
impl Probe for Well {
    fn name(&self) -> &'static str {
        "well"
    }

    async fn check(&self) -> Result<Option<Duration>, ProbeError> {
        Ok(None)
    }
}

/// What tokens of the corpus are signed with.
const SECRET: &[u8] = b"a secret of strangers' tokens";

/// Seconds since 1970 at which they are read.
const NOW: u64 = 1_800_000_000;

/// Most bytes that a body may decode to.
const MOST_BYTES: usize = 64 << 10;

/// A token that is taken was signed with the secret.
///
/// # Panics
/// When it was not.
pub fn verify_token(token: &[u8]) {
    let tokens = Tokens::new(SECRET);
    let Ok(claims) = tokens.verify(token, SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)) else { return };
    assert!(!claims.id.is_empty(), "somebody bears it");
    let end = token.iter().rposition(|byte| *byte == b'.').unwrap_or_default();
    let (signed, signature) = token.split_at(end);
    let signature = URL_SAFE_NO_PAD.decode(signature.get(1..).unwrap_or_default()).unwrap_or_default();
    macro_rules! is_signed {
        ($($hash:ty),*) => { [$(Hmac::<$hash>::new_from_slice(SECRET).is_ok_and(|mac| {
            mac.chain_update(signed).verify_slice(&signature).is_ok()
        })),*] };
    }
    assert!(is_signed!(Sha256, Sha384, Sha512).contains(&true), "it was signed with the secret");
}

/// An encoded body decodes to no more than it may.
///
/// # Panics
/// When it does.
pub fn decode_body(coding: u8, body: &[u8]) {
    let all = [Coding::Identity, Coding::Gzip, Coding::Deflate, Coding::Brotli];
    let coding = all.get(usize::from(coding) % all.len()).copied().unwrap_or(Coding::Identity);
    if body.len() > coding.most_encoded(MOST_BYTES) {
        return;
    }
    if let Ok(decoded) = coding.decode(Bytes::copy_from_slice(body), MOST_BYTES) {
        assert!(decoded.len() <= MOST_BYTES, "{} bytes", decoded.len());
    }
}

//! Bearer tokens: JSON web tokens, accepted as the Node stack's `jsonwebtoken` accepts them
//! (host/docs/interface/node-clients.md#tokens).
//!
//! `issue` signs them, `verify` reads them. Where a token stands in a request and what a client is told of a
//! bad one is not known here.

mod issue;
mod provider;
#[cfg(test)]
mod tests;
mod verify;

use std::collections::HashSet;
use std::time::SystemTime;

use jsonwebtoken::errors::{Error as JwtError, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Validation};
use serde::Serialize;

/// Longest id of a user. PostgreSQL keeps no row under a key of more than some 2,700 bytes: with a longer id
/// runs would be lost, and jobs refused as in an outage.
const ID_BYTES: usize = 2_048;

/// What a string secret can have signed (host/docs/interface/node-clients.md#tokens).
const ALGORITHMS: [Algorithm; 3] = [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];

/// Issues and verifies tokens with one secret.
#[derive(Debug)]
pub struct Tokens {
    signing: EncodingKey,
    verifying: DecodingKey,
    rules: Validation,
}

/// What a token says of its bearer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claims {
    /// The user. A numeric `id` is written as its decimal text: 5 and "5" are one user.
    pub id: String,
    /// `premium` means a larger window of requests; anything else, or nothing, the smaller one. Tools may be
    /// for some tiers only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// `admin` may invalidate the cache and look after the tools. Tools may be for some roles only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// Why a token is not accepted. It quotes nothing of the token.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TokenError {
    /// The token was not signed with our secret and one of our algorithms.
    #[error("the token was not signed by us")]
    Forged,
    /// The token has not the parts of a token, or not the kind of JSON in them.
    #[error("the token cannot be read")]
    Malformed,
    /// The token expires at a time that is no number.
    #[error("the token's `{0}` is not a number")]
    NotATime(&'static str),
    /// The token's time is over.
    #[error("the token has expired")]
    Expired,
    /// The token's time has not come.
    #[error("the token is not valid yet")]
    NotYet,
    /// Nobody can be told apart by it.
    #[error("the token has no usable `id`")]
    Nobody,
}

impl TokenError {
    /// The library's own texts quote what strangers wrote, which does not belong in the log.
    fn from_library(error: &JwtError) -> Self {
        match error.kind() {
            ErrorKind::InvalidSignature | ErrorKind::InvalidAlgorithm => Self::Forged,
            _ => Self::Malformed,
        }
    }
}

/// Why a token cannot be issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// A token for nobody would be refused.
    #[error("the id is empty, holds control characters, or has more than {} bytes", ID_BYTES)]
    Id,
    /// The claims cannot be signed.
    #[error("the token cannot be signed")]
    Unsigned(#[source] JwtError),
}

impl Tokens {
    /// Tokens of that secret (`JWT_SECRET`).
    pub fn new(secret: &[u8]) -> Self {
        provider::install();
        let rules = Validation {
            algorithms: ALGORITHMS.to_vec(),
            required_spec_claims: HashSet::new(),
            // The library would round a fraction of a second and ask the clock itself: see `check_times`.
            validate_exp: false,
            validate_nbf: false,
            validate_aud: false,
            ..Validation::default()
        };
        Self { signing: EncodingKey::from_secret(secret), verifying: DecodingKey::from_secret(secret), rules }
    }

    /// A key for something else than tokens, which no token tells anything of. Each purpose has its own.
    pub(crate) fn derived_key(&self, purpose: &str) -> [u8; 32] {
        provider::derive(self.signing.as_bytes(), purpose)
    }
}

/// An id becomes part of keys, of rows and of log lines.
fn is_usable(id: &str) -> bool {
    (1..=ID_BYTES).contains(&id.len()) && !id.contains(char::is_control)
}

/// Whole seconds since the epoch; a clock before it is at it.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

//! Authentication: the bearer token of a request, and the [`Caller`] that handlers take as an argument.
//!
//! There are two steps, because the rate limit stands between them: [`identify`] verifies the token and
//! refuses nothing, [`require`] refuses. [`require_admin`] also refuses whoever is no administrator. A
//! handler that takes a [`Caller`] answers nobody else.

use std::sync::Arc;
use std::time::SystemTime;

use agent_core::words::Principal;
use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request};

use super::error::Error;
use crate::middleware::request_log::RequestUser;
use crate::tokens::{Claims, TokenError, Tokens};

/// The only role that may do more than others (host/docs/interface/decisions-http.md#the-cache).
const ADMIN: &str = "admin";

/// The authenticated user of a request. Clones are cheap.
#[derive(Debug, Clone)]
pub struct Caller {
    claims: Arc<Claims>,
    authorization: HeaderValue,
}

impl Caller {
    /// The user's id.
    pub fn id(&self) -> &str {
        &self.claims.id
    }

    /// What the token says.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// On whose behalf a run is made: what the token says.
    pub fn principal(&self) -> Principal {
        let Claims { id, tier, role } = &*self.claims;
        Principal { user_id: Some(id.clone()), tier: tier.clone(), role: role.clone() }
    }

    pub fn is_admin(&self) -> bool {
        self.claims.role.as_deref() == Some(ADMIN)
    }

    /// The header with the token, to be passed on.
    pub fn authorization(&self) -> &[u8] {
        self.authorization.as_bytes()
    }
}

/// Fails only on a route that does not [`require`] a caller.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        parts.extensions.get().cloned().ok_or(Error::NoToken)
    }
}

/// What the token of a request proved, an extension of the request between [`identify`] and [`require`].
#[derive(Debug, Clone)]
pub(super) enum Identity {
    Caller(Caller),
    NoToken,
    BadToken(TokenError),
}

impl Identity {
    fn of(headers: &HeaderMap, tokens: &Tokens) -> Self {
        let Some(authorization) = headers.get(AUTHORIZATION) else { return Self::NoToken };
        let Some(token) = find_token(authorization.as_bytes()) else { return Self::NoToken };
        match tokens.verify(token, SystemTime::now()) {
            Ok(claims) => {
                let mut authorization = authorization.clone();
                // Whatever prints a caller leaves it out.
                authorization.set_sensitive(true);
                Self::Caller(Caller { claims: Arc::new(claims), authorization })
            }
            Err(error) => Self::BadToken(error),
        }
    }

    /// The caller, or why there is none.
    fn require(self) -> Result<Caller, Error> {
        match self {
            Self::Caller(caller) => Ok(caller),
            Self::BadToken(error) => Err(Error::Token(error)),
            Self::NoToken => Err(Error::NoToken),
        }
    }

    /// The caller of a valid token.
    pub(super) fn caller(&self) -> Option<&Caller> {
        match self {
            Self::Caller(caller) => Some(caller),
            Self::NoToken | Self::BadToken(_) => None,
        }
    }
}

/// Verifies the token and notes on the request what it proved.
pub fn identify<B>(mut request: Request<B>, tokens: &Tokens) -> Request<B> {
    let identity = Identity::of(request.headers(), tokens);
    if let (Some(user), Some(caller)) = (request.extensions().get::<RequestUser>(), identity.caller()) {
        user.set(caller.id());
    }
    request.extensions_mut().insert(identity);
    request
}

/// Passes a request with a valid token, with its [`Caller`] as an extension.
pub fn require<B>(request: &mut Request<B>) -> Result<(), Error> {
    let identity = request.extensions_mut().remove().unwrap_or(Identity::NoToken);
    request.extensions_mut().insert(identity.require()?);
    Ok(())
}

/// The caller of a request with these headers, as of now: the token of a connection that lasts may have
/// expired since.
pub fn caller_now(headers: &HeaderMap, tokens: &Tokens) -> Result<Caller, Error> {
    Identity::of(headers, tokens).require()
}

/// Passes a request whose [`Caller`] is an administrator. It stands behind [`require`].
pub fn require_admin<B>(request: &Request<B>) -> Result<(), Error> {
    match request.extensions().get::<Caller>() {
        Some(caller) if caller.is_admin() => Ok(()),
        Some(_) => Err(Error::NotAdmin),
        None => Err(Error::NoToken),
    }
}

/// The second of the parts that single spaces separate; the first one may be any word
/// (host/docs/interface/node-clients.md#tokens).
fn find_token(authorization: &[u8]) -> Option<&[u8]> {
    authorization.split(|byte| *byte == b' ').nth(1).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_the_second_part_whatever_the_first_one_says() {
        for (header, token) in [
            ("Bearer t", Some("t")),
            ("bearer t", Some("t")),
            ("Whatever t", Some("t")),
            (" t", Some("t")),
            ("Bearer t more", Some("t")),
            ("Bearer t ", Some("t")),
            ("Bearer", None),
            ("Bearer ", None),
            ("Bearer  t", None),
            ("t", None),
            ("Bearer\tt", None),
            ("", None),
        ] {
            assert_eq!(find_token(header.as_bytes()), token.map(str::as_bytes), "{header:?}");
        }
    }
}

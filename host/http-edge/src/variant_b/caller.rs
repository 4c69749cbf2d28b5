//! Who is calling: a valid token within its windows. A handler that takes a [`Caller`] runs for nobody else.

use std::time::SystemTime;

use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

use super::error::Error;
use super::gate::Tally;
use super::{Shared, windows};
use crate::edge::VariantB;
use crate::layers::Whose;
use crate::tokens::Claims;

/// The only role that may do more than others (decisions, "Cache invalidation").
const ADMIN: &str = "admin";

/// The authenticated user of a request.
#[derive(Debug)]
pub(super) struct Caller {
    claims: Claims,
    authorization: HeaderValue,
}

impl Caller {
    /// The user's id.
    pub(super) fn id(&self) -> &str {
        &self.claims.id
    }

    pub(super) fn is_admin(&self) -> bool {
        self.claims.role.as_deref() == Some(ADMIN)
    }

    /// The header that proved it, to be passed on.
    pub(super) fn authorization(&self) -> &[u8] {
        self.authorization.as_bytes()
    }
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = Error;

    /// The token is looked at first, because that costs no I/O and both windows are then one round trip. What
    /// the caller is told keeps to the order of the decisions.
    async fn from_request_parts(parts: &mut Parts, edge: &Shared) -> Result<Self, Error> {
        let caller = authenticate(&parts.headers, &edge.variant);
        let claims = caller.as_ref().ok().map(|caller| &caller.claims);
        let address = parts.extensions.get().copied();
        if let (Some(whose), Some(claims)) = (parts.extensions.get::<Whose>(), claims) {
            whose.is(&claims.id);
        }
        let counted = windows::count(&*edge.variant.windows, edge.settings.rates, address, claims).await;
        if let Some(tally) = parts.extensions.get::<Tally>() {
            tally.write(counted);
        }
        counted.check_address()?;
        let caller = caller?;
        counted.check_user()?;
        Ok(caller)
    }
}

fn authenticate(headers: &HeaderMap, variant: &VariantB) -> Result<Caller, Error> {
    let authorization = headers.get(AUTHORIZATION).ok_or(Error::NoToken)?;
    let token = find_token(authorization.as_bytes()).ok_or(Error::NoToken)?;
    let claims = variant.tokens.verify(token, SystemTime::now())?;
    let mut authorization = authorization.clone();
    // Whatever prints a caller leaves it out.
    authorization.set_sensitive(true);
    Ok(Caller { claims, authorization })
}

/// The second of the parts that single spaces separate; the first one may be any word (wire 1.3).
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

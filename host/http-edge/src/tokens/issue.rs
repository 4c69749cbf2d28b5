//! Issuing tokens, as `agent-host token` does.

use std::time::{Duration, SystemTime};

use jsonwebtoken::{Algorithm, Header};
use serde::Serialize;

use super::{Claims, IssueError, Tokens, is_usable, seconds};

impl Tokens {
    /// A token that is accepted from `now` until `time_to_live` has passed, in whole seconds.
    pub fn issue(
        &self,
        claims: &Claims,
        time_to_live: Duration,
        now: SystemTime,
    ) -> Result<String, IssueError> {
        #[derive(Serialize)]
        struct Payload<'a> {
            #[serde(flatten)]
            claims: &'a Claims,
            iat: u64,
            exp: u64,
        }
        if !is_usable(&claims.id) {
            return Err(IssueError::Id);
        }
        let iat = seconds(now);
        let payload = Payload { claims, iat, exp: iat.saturating_add(time_to_live.as_secs()) };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &payload, &self.signing)
            .map_err(IssueError::Unsigned)
    }
}

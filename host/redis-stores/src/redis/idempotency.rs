//! Idempotency keys in Redis: `agent-host:idempotency:{caller}:<key>`, a hash for each, and two keys beside
//! them that say what a caller has. One script does all of it, so that a claim is one round trip and atomic.

use std::time::Duration;

use agent_core::ports::{
    IdempotencyError, IdempotencyKey, IdempotencyStore, KeyBounds, KeyClaim, KeyResult, KeyTerms, Renewal,
};
use boxed_async::boxed_async;
use redis::Script;

use super::{QueryError, Redis};

/// Keeps keys in Redis, for all replicas together.
pub struct RedisIdempotency {
    redis: Redis,
    script: Script,
    bounds: KeyBounds,
}

impl RedisIdempotency {
    /// Keys in that Redis.
    pub fn new(redis: Redis) -> Self {
        Self { redis, script: Script::new(include_str!("idempotency.lua")), bounds: KeyBounds::default() }
    }

    /// Sets other bounds for each caller.
    #[must_use]
    pub fn with_bounds(self, bounds: KeyBounds) -> Self {
        Self { bounds, ..self }
    }

    /// Runs the script. All it does may be done twice: a claim that is sent again finds itself.
    async fn run(
        &self,
        what: &str,
        key: IdempotencyKey<'_>,
        owner: &str,
        arguments: &[&[u8]],
    ) -> KeyResult<Vec<Vec<u8>>> {
        // What stands between the braces decides on the hash slot.
        let prefix = format!("agent-host:idempotency:{{{}}}", key.caller);
        let mut run = self.script.prepare_invoke();
        let redis = self.redis.at(&prefix);
        run.key(format!("{prefix}:{}", key.key)).key(format!("{prefix}#kept")).key(format!("{prefix}#sizes"));
        run.arg(what).arg(key.key).arg(owner).arg(self.bounds.keys).arg(self.bounds.bytes);
        for argument in arguments {
            run.arg(*argument);
        }
        redis.script(&run).await.map_err(failed)
    }

    async fn change(
        &self,
        what: &str,
        key: IdempotencyKey<'_>,
        owner: &str,
        argument: &[u8],
    ) -> KeyResult<bool> {
        let words = self.run(what, key, owner, &[argument]).await?;
        Ok(words.first().is_some_and(|word| word == b"done"))
    }
}

#[boxed_async]
impl IdempotencyStore for RedisIdempotency {
    async fn claim(&self, key: IdempotencyKey<'_>, owner: &str, terms: KeyTerms) -> KeyResult<KeyClaim> {
        let (lease, kept) = (ms(terms.lease), ms(terms.kept));
        let arguments = [key.request.as_bytes(), lease.as_bytes(), kept.as_bytes()];
        let mut words = self.run("claim", key, owner, &arguments).await?.into_iter();
        let (word, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match &*word {
            b"claimed" => Ok(KeyClaim::Claimed { id: String::from_utf8_lossy(&value).into_owned() }),
            b"in-flight" => Ok(KeyClaim::InFlight),
            b"answered" => Ok(KeyClaim::Answered(value)),
            b"other" => Ok(KeyClaim::OtherRequest),
            _ => Err(IdempotencyError("Redis answered what its script does not say".into())),
        }
    }

    async fn renew(&self, key: IdempotencyKey<'_>, owner: &str, lease: Duration) -> KeyResult<Renewal> {
        self.change("renew", key, owner, ms(lease).as_bytes()).await.map(Renewal::of_holder)
    }

    async fn settle(&self, key: IdempotencyKey<'_>, owner: &str, answer: &[u8]) -> KeyResult<bool> {
        self.change("settle", key, owner, answer).await
    }

    async fn release(&self, key: IdempotencyKey<'_>, owner: &str) -> KeyResult {
        self.change("release", key, owner, &[]).await.map(drop)
    }
}

/// Lua's numbers hold whole ones up to 2^53, and Redis takes at least one.
fn ms(duration: Duration) -> String {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).clamp(1, 1 << 52).to_string()
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn failed(error: QueryError) -> IdempotencyError {
    IdempotencyError(error.to_string())
}

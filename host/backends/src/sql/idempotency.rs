//! Idempotency keys in the database.
//!
//! A claim is one statement that inserts the key, or takes it over when nobody holds it: of two at once the
//! database lets one do so. Whoever gets nothing then reads why. What a caller may keep is checked whenever a
//! key was inserted or an answer kept: their oldest keys are deleted. Expired ones go in batches.

use std::sync::LazyLock;
use std::time::Duration;

use agent_core::ports::{
    IdempotencyError, IdempotencyKey, IdempotencyStore, KeyBounds, KeyClaim, KeyResult, KeyTerms, Renewal,
};
use boxed_async::boxed_async;
use futures::TryFutureExt as _;

use super::error::describe;
use super::lease::{Given, LeasedTable, change, renew};
use super::{SqlPool, ms, reading, writing};

const KEYS: LeasedTable =
    LeasedTable { table: "idempotency_keys", key: &["caller", "key"], owner: "owner", until: "leased_until" };

/// `$1` caller, `$2` key, `$3` request, `$4` owner, `$5` ms of the lease, `$6` ms for which the key is kept.
/// One that has expired is a new one.
static CLAIM: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO idempotency_keys AS kept \
             (caller, key, request, claim, owner, leased_until, expires_at) \
         SELECT $1, $2, $3, $4, $4, ms + $5, ms + $6 FROM clock WHERE TRUE {}, \
             request = excluded.request, \
             claim = CASE WHEN kept.expires_at <= (SELECT ms FROM clock) \
                          THEN excluded.claim ELSE kept.claim END, \
             answer = NULL, bytes = 0, \
             expires_at = CASE WHEN kept.expires_at <= (SELECT ms FROM clock) \
                               THEN excluded.expires_at ELSE kept.expires_at END \
         WHERE kept.expires_at <= (SELECT ms FROM clock) \
             OR (kept.request = excluded.request AND kept.answer IS NULL AND {}) \
         RETURNING claim",
        KEYS.or_take_over(),
        KEYS.is_free()
    )
});

static RENEW: LazyLock<String> = LazyLock::new(|| KEYS.renewal());

/// `$4` answer, `$5` its bytes.
static SETTLE: LazyLock<String> =
    LazyLock::new(|| KEYS.update("owner = '', leased_until = 0, answer = $4, bytes = $5"));

static RELEASE: LazyLock<String> = LazyLock::new(|| KEYS.update("owner = '', leased_until = 0"));

/// `$1` caller, `$2` key.
const READ: &str = "SELECT request, answer FROM idempotency_keys \
    WHERE caller = $1 AND key = $2 AND expires_at > (SELECT ms FROM clock)";

/// Deletes what a caller has beyond `$2` keys or `$3` bytes, the oldest, but no key that is claimed. `$1`
/// caller.
const TRIM: &str = "\
    DELETE FROM idempotency_keys WHERE caller = $1 AND leased_until <= CASE WHEN answer IS NULL \
            THEN (SELECT ms FROM clock) ELSE leased_until END \
        AND key IN (SELECT key FROM (SELECT key, ROW_NUMBER() OVER newest AS number, \
                SUM(bytes) OVER newest AS total FROM idempotency_keys WHERE caller = $1 \
                WINDOW newest AS (ORDER BY expires_at DESC, key DESC)) AS theirs \
            WHERE number > $2 OR total > CAST($3 AS BIGINT))";

/// `$1` caller.
const USE: &str =
    "SELECT COUNT(*), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM idempotency_keys WHERE caller = $1";

/// `$1` most rows. The condition stands outside again: PostgreSQL asks it anew of a row for which it has
/// waited, and which somebody may have claimed meanwhile.
const EXPIRE: &str = "DELETE FROM idempotency_keys WHERE (caller, key) IN (SELECT caller, key FROM idempotency_keys \
    WHERE expires_at <= (SELECT ms FROM clock) ORDER BY expires_at LIMIT $1) \
    AND expires_at <= (SELECT ms FROM clock)";

/// Most expired keys that are deleted with one answer: more than one answer adds.
const MOST_EXPIRED: u32 = 16;

/// Deletes up to `most` expired keys, and says how many there were.
pub(super) async fn expire(pool: &SqlPool, most: u32) -> sqlx::Result<u64> {
    writing!(pool, db => {
        sqlx::query(EXPIRE).bind(i64::from(most)).execute(db).map_ok(|done| done.rows_affected())
    })
}

/// How often a claim is tried again because the key was gone when it was read.
const TRIES: u32 = 4;

/// Keeps keys in the database, for every process that uses the same one.
pub struct SqlIdempotency {
    pool: SqlPool,
    bounds: KeyBounds,
}

impl SqlIdempotency {
    /// The keys in that database, whose tables `SqlPool::migrate` makes.
    pub fn new(pool: SqlPool) -> Self {
        Self { pool, bounds: KeyBounds::default() }
    }

    /// Sets other bounds for each caller.
    #[must_use]
    pub fn with_bounds(self, bounds: KeyBounds) -> Self {
        Self { bounds, ..self }
    }

    async fn try_claim(
        &self,
        key: IdempotencyKey<'_>,
        owner: &str,
        terms: KeyTerms,
    ) -> sqlx::Result<Option<String>> {
        let claims: Vec<String> = writing!(&self.pool, db => {
            let query = sqlx::query_scalar(CLAIM.as_str());
            let query = query.bind(key.caller).bind(key.key).bind(key.request).bind(owner);
            query.bind(ms(terms.lease)).bind(ms(terms.kept)).fetch_all(db)
        })?;
        Ok(claims.into_iter().next())
    }

    async fn tidy_if_possible(&self, caller: &str) {
        if let Err(error) = self.tidy(caller).await {
            tracing::debug!(error = describe(&error), "old idempotency keys could not be deleted");
        }
    }

    /// Deletes what is expired, and what the caller has too much of.
    async fn tidy(&self, caller: &str) -> sqlx::Result<()> {
        expire(&self.pool, MOST_EXPIRED).await?;
        let (keys, bytes): (i64, i64) =
            reading!(&self.pool, db => sqlx::query_as(USE).bind(caller).fetch_one(db))?;
        let most_keys = i64::from(self.bounds.keys);
        let most_bytes = i64::try_from(self.bounds.bytes).unwrap_or(i64::MAX);
        if keys <= most_keys && bytes <= most_bytes {
            return Ok(());
        }
        // A tenth of the keys at a time: so it is not done for every request of a caller who has that many.
        let (keys, bytes) = (most_keys - most_keys / 10, most_bytes - most_bytes / 10);
        writing!(&self.pool, db => {
            sqlx::query(TRIM).bind(caller).bind(keys).bind(bytes).execute(db).map_ok(drop)
        })
    }
}

#[boxed_async]
impl IdempotencyStore for SqlIdempotency {
    async fn claim(&self, key: IdempotencyKey<'_>, owner: &str, terms: KeyTerms) -> KeyResult<KeyClaim> {
        for _ in 0..TRIES {
            if let Some(id) = self.try_claim(key, owner, terms).await.map_err(failed)? {
                return Ok(KeyClaim::Claimed { id });
            }
            let row: Option<(String, Option<Vec<u8>>)> = reading!(&self.pool, db => {
                sqlx::query_as(READ).bind(key.caller).bind(key.key).fetch_optional(db)
            })
            .map_err(failed)?;
            match row {
                Some((request, _)) if request != key.request => return Ok(KeyClaim::OtherRequest),
                Some((_, Some(answer))) => return Ok(KeyClaim::Answered(answer)),
                Some((_, None)) => return Ok(KeyClaim::InFlight),
                // The key has expired, or was deleted for others, since the claim.
                None => {}
            }
        }
        Ok(KeyClaim::InFlight)
    }

    async fn renew(&self, key: IdempotencyKey<'_>, owner: &str, lease: Duration) -> KeyResult<Renewal> {
        renew(&self.pool, &RENEW, &[key.caller, key.key, owner], lease).await.map_err(failed)
    }

    async fn settle(&self, key: IdempotencyKey<'_>, owner: &str, answer: &[u8]) -> KeyResult<bool> {
        let bytes = i64::try_from(answer.len()).unwrap_or(i64::MAX);
        let given = [Given::Bytes(answer), Given::Number(bytes)];
        let holder = [key.caller, key.key, owner];
        let is_kept = change(&self.pool, &SETTLE, &holder, &given).await.map_err(failed)?;
        // The answer is kept: what could not be deleted is deleted with the next one.
        self.tidy_if_possible(key.caller).await;
        Ok(is_kept)
    }

    async fn release(&self, key: IdempotencyKey<'_>, owner: &str) -> KeyResult {
        let holder = [key.caller, key.key, owner];
        change(&self.pool, &RELEASE, &holder, &[]).await.map_err(failed)?;
        // A caller whose requests all fail leaves keys behind as well.
        self.tidy_if_possible(key.caller).await;
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn failed(error: sqlx::Error) -> IdempotencyError {
    IdempotencyError(describe(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::row_locks::changed_behind;

    #[tokio::test]
    async fn a_key_that_is_claimed_while_expired_ones_are_deleted_stays() {
        let expired = "INSERT INTO idempotency_keys \
            (caller, key, request, claim, owner, leased_until, expires_at) \
            VALUES ('c', 'again', 'r', 'o', '', 0, 1), ('c', 'old', 'r', 'o', '', 0, 2)";
        let claimed = "UPDATE idempotency_keys SET expires_at = 9000000000000 WHERE key = 'again'";
        assert_eq!(changed_behind(expired, claimed, &EXPIRE.replace("$1", "16")).await, 1);
    }
}

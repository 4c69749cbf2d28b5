//! Kept conversations in the database: a row each, with its turns as one text.
//!
//! A claim is one statement that begins the conversation, or takes it when nobody holds it: of two at once
//! the database lets one do so. Whoever gets nothing then reads why. Writing the turns and giving the claim
//! back is one statement as well.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use agent_core::ports::lease::attempts_of;
use agent_core::ports::{
    ClaimResult, ClaimTerms, ConversationClaim, ConversationError, ConversationStore, Deletion, Renewal,
    TurnsResult,
};
use agent_core::words::{Conversation, ConversationKey, ConversationKind, ConversationSummary, Turn};
use boxed_async::boxed_async;
use futures::TryFutureExt as _;

use super::error::describe;
use super::from_row::from_row;
use super::lease::{Given, LeasedTable, change, renew};
use super::text_columns::{escape, unescape};
use super::{SqlPool, from_ms, ms, reading, to_ms, writing};

const CONVERSATIONS: LeasedTable =
    LeasedTable { table: "conversations", key: &["key"], owner: "owner", until: "leased_until" };

/// `$1` key, `$2` kind, `$3` user, `$4` id, `$5` owner, `$6` ms of the lease, `$7` most of a user, `$8` what
/// the owners of all attempts at its job begin with. Those have one length: they compare alike in every
/// collation.
static CLAIM: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO conversations AS kept \
             (key, kind, user_id, id, owner, leased_until, created_at, updated_at) \
         SELECT $1, $2, $3, $4, $5, ms + $6, ms, ms FROM clock \
         WHERE EXISTS (SELECT 1 FROM conversations WHERE key = $1) \
             OR (SELECT COUNT(*) FROM conversations WHERE user_id = $3 AND kind = $2) < $7 \
         {} WHERE (substr(kept.owner, 1, length($8)) = $8 AND kept.owner <= excluded.owner) OR {} \
         RETURNING body",
        CONVERSATIONS.or_take_over(),
        CONVERSATIONS.is_free()
    )
});

static RENEW: LazyLock<String> = LazyLock::new(|| CONVERSATIONS.renewal());

/// `$3` turns, `$4` how many.
static SETTLE: LazyLock<String> = LazyLock::new(|| {
    CONVERSATIONS
        .update("owner = NULL, leased_until = 0, body = $3, turns = $4, updated_at = (SELECT ms FROM clock)")
});

/// The claim on what has turns is given back; what has none goes.
static RELEASE: LazyLock<[String; 2]> = LazyLock::new(|| {
    let is_held = CONVERSATIONS.is_held();
    [
        format!("UPDATE conversations SET owner = NULL, leased_until = 0 WHERE {is_held} AND turns > 0"),
        format!("DELETE FROM conversations WHERE {is_held} AND turns = 0"),
    ]
});

/// `$1` user, `$2` kind. What dead processes left behind before anything was said.
const REMOVE_EMPTY: &str = "DELETE FROM conversations \
    WHERE user_id = $1 AND kind = $2 AND turns = 0 AND leased_until <= (SELECT ms FROM clock)";

/// `$1` key.
const EXISTS: &str = "SELECT id FROM conversations WHERE key = $1";

/// `$1` key, `$2` kind, `$3` user, `$4` id, `$5` turns, `$6` how many, `$7` what was shown.
const PUT: &str = "\
    INSERT INTO conversations (key, kind, user_id, id, body, turns, shown, created_at, updated_at) \
    SELECT $1, $2, $3, $4, $5, $6, $7, ms, ms FROM clock WHERE TRUE \
    ON CONFLICT (key) DO UPDATE SET body = excluded.body, turns = excluded.turns, shown = excluded.shown, \
        updated_at = excluded.updated_at";

/// `$1` key, `$2` turns, `$3` how many, `$4` what was shown.
const REPLACE: &str = "UPDATE conversations SET body = $2, turns = $3, shown = $4, \
    updated_at = (SELECT ms FROM clock) WHERE key = $1";

/// `$1` user, `$2` kind, `$3` how many stay.
const TRIM: &str = "DELETE FROM conversations WHERE key IN (SELECT key FROM conversations \
    WHERE user_id = $1 AND kind = $2 ORDER BY updated_at DESC, key DESC LIMIT 1000 OFFSET $3)";

/// `$1` key.
const READ: &str = "SELECT id, body, shown, created_at, updated_at, \
    CASE WHEN leased_until > (SELECT ms FROM clock) THEN 1 ELSE 0 END AS is_busy \
    FROM conversations WHERE key = $1";

/// `$1` user, `$2` kind, `$3` and `$4` time and key of the last one of the page before, `$5` most rows.
const LIST: &str = "SELECT id, turns, created_at, updated_at FROM conversations \
    WHERE user_id = $1 AND kind = $2 AND turns > 0 AND updated_at <= $3 AND (updated_at < $3 OR key > $4) \
    ORDER BY updated_at DESC, key LIMIT $5";

/// `$1` key.
const DELETE: &str = "DELETE FROM conversations WHERE key = $1 AND leased_until <= (SELECT ms FROM clock)";

/// Keeps conversations in the database, for every process that uses the same one.
pub struct SqlConversations {
    pool: SqlPool,
}

from_row! {
    #[derive(Debug)]
    struct Row {
        id: String,
        body: String,
        shown: Option<String>,
        created_at: i64,
        updated_at: i64,
        is_busy: i32,
    }
}

impl SqlConversations {
    /// The conversations in that database, whose tables `SqlPool::migrate` makes.
    pub fn new(pool: SqlPool) -> Self {
        Self { pool }
    }

    async fn try_claim(
        &self,
        key: ConversationKey<'_>,
        owner: &str,
        terms: ClaimTerms,
    ) -> sqlx::Result<Option<String>> {
        let bodies: Vec<String> = writing!(&self.pool, db => {
            let query = sqlx::query_scalar(CLAIM.as_str()).bind(key.digest()).bind(key.kind.as_str());
            let query = query.bind(escape(key.user_id)).bind(key.id).bind(owner).bind(ms(terms.lease));
            query.bind(i64::from(terms.most)).bind(attempts_of(owner)).fetch_all(db)
        })?;
        Ok(bodies.into_iter().next())
    }

    async fn exists(&self, key: ConversationKey<'_>) -> sqlx::Result<bool> {
        let id: Option<String> = reading!(&self.pool, db => {
            sqlx::query_scalar(EXISTS).bind(key.digest()).fetch_optional(db)
        })?;
        Ok(id.is_some())
    }
}

#[boxed_async]
impl ConversationStore for SqlConversations {
    async fn claim(&self, key: ConversationKey<'_>, owner: &str, terms: ClaimTerms) -> ClaimResult {
        if let Some(body) = self.try_claim(key, owner, terms).await.map_err(failed)? {
            return Ok(ConversationClaim::Claimed(read_turns(body)?));
        }
        if self.exists(key).await.map_err(failed)? {
            return Ok(ConversationClaim::Busy);
        }
        writing!(&self.pool, db => {
            let query = sqlx::query(REMOVE_EMPTY).bind(escape(key.user_id)).bind(key.kind.as_str());
            query.execute(db).map_ok(drop)
        })
        .map_err(failed)?;
        match self.try_claim(key, owner, terms).await.map_err(failed)? {
            Some(body) => Ok(ConversationClaim::Claimed(read_turns(body)?)),
            None if self.exists(key).await.map_err(failed)? => Ok(ConversationClaim::Busy),
            None => Ok(ConversationClaim::TooMany),
        }
    }

    async fn renew(&self, key: ConversationKey<'_>, owner: &str, lease: Duration) -> TurnsResult<Renewal> {
        renew(&self.pool, &RENEW, &[&key.digest(), owner], lease).await.map_err(failed)
    }

    async fn settle(&self, key: ConversationKey<'_>, owner: &str, turns: &[Turn]) -> TurnsResult<bool> {
        let (body, holder) = (write_turns(turns)?, [&*key.digest(), owner]);
        let given = [Given::Text(&body), Given::Number(count(turns))];
        change(&self.pool, &SETTLE, &holder, &given).await.map_err(failed)
    }

    async fn release(&self, key: ConversationKey<'_>, owner: &str) -> TurnsResult {
        let holder = [&*key.digest(), owner];
        for sql in &*RELEASE {
            change(&self.pool, sql, &holder, &[]).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn put(
        &self,
        key: ConversationKey<'_>,
        turns: &[Turn],
        shown: &str,
        most: Option<u32>,
    ) -> TurnsResult {
        let body = write_turns(turns)?;
        let Some(most) = most else {
            return writing!(&self.pool, db => {
                let query = sqlx::query(REPLACE).bind(key.digest()).bind(&body).bind(count(turns));
                query.bind(escape(shown)).execute(db).map_ok(drop)
            })
            .map_err(failed);
        };
        writing!(&self.pool, db => {
            let query = sqlx::query(PUT).bind(key.digest()).bind(key.kind.as_str()).bind(escape(key.user_id));
            let query = query.bind(key.id).bind(&body).bind(count(turns)).bind(escape(shown));
            query.execute(db).map_ok(drop)
        })
        .map_err(failed)?;
        let trimmed = writing!(&self.pool, db => {
            let query = sqlx::query(TRIM).bind(escape(key.user_id)).bind(key.kind.as_str());
            query.bind(i64::from(most)).execute(db).map_ok(drop)
        });
        // The response is kept: what could not be deleted is deleted with the next one.
        if let Err(error) = trimmed {
            tracing::debug!(error = describe(&error), "old responses could not be deleted");
        }
        Ok(())
    }

    async fn read(&self, key: ConversationKey<'_>) -> TurnsResult<Option<Conversation>> {
        let row: Option<Row> =
            reading!(&self.pool, db => sqlx::query_as(READ).bind(key.digest()).fetch_optional(db))
                .map_err(failed)?;
        row.map(Row::into_conversation).transpose()
    }

    async fn list(
        &self,
        user_id: &str,
        limit: u32,
        after: Option<(SystemTime, &str)>,
    ) -> TurnsResult<Vec<ConversationSummary>> {
        let (time, key) = match after {
            Some((at, id)) => (to_ms(at), ConversationKey::conversation(user_id, id).digest()),
            None => (i64::MAX, String::new()),
        };
        let rows: Vec<(String, i64, i64, i64)> = reading!(&self.pool, db => {
            let query = sqlx::query_as(LIST).bind(escape(user_id));
            let query = query.bind(ConversationKind::Conversation.as_str()).bind(time).bind(&key);
            query.bind(i64::from(limit)).fetch_all(db)
        })
        .map_err(failed)?;
        let summary = |(id, turns, created_at, updated_at): (String, i64, i64, i64)| ConversationSummary {
            id,
            turns: turns.unsigned_abs(),
            created_at: from_ms(created_at),
            updated_at: from_ms(updated_at),
        };
        Ok(rows.into_iter().map(summary).collect())
    }

    async fn delete(&self, key: ConversationKey<'_>) -> TurnsResult<Deletion> {
        let changed = writing!(&self.pool, db => {
            sqlx::query(DELETE).bind(key.digest()).execute(db).map_ok(|done| done.rows_affected())
        })
        .map_err(failed)?;
        match changed {
            0 if self.exists(key).await.map_err(failed)? => Ok(Deletion::Busy),
            0 => Ok(Deletion::Unknown),
            _ => Ok(Deletion::Done),
        }
    }
}

impl Row {
    fn into_conversation(self) -> TurnsResult<Conversation> {
        Ok(Conversation {
            id: self.id,
            turns: read_turns(self.body)?,
            is_busy: self.is_busy != 0,
            created_at: from_ms(self.created_at),
            updated_at: from_ms(self.updated_at),
            shown: self.shown.map(unescape),
        })
    }
}

fn write_turns(turns: &[Turn]) -> TurnsResult<String> {
    let json = serde_json::to_string(turns).map_err(|error| ConversationError::Store(error.to_string()))?;
    Ok(escape(&json).into_owned())
}

fn read_turns(body: String) -> TurnsResult<Vec<Turn>> {
    serde_json::from_str(&unescape(body)).map_err(|_error| ConversationError::Unreadable)
}

fn count(turns: &[Turn]) -> i64 {
    i64::try_from(turns.len()).unwrap_or(i64::MAX)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn failed(error: sqlx::Error) -> ConversationError {
    ConversationError::Store(describe(&error))
}

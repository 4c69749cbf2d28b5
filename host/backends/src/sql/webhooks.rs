//! The outbox of webhooks in the database. A claim is one statement; in PostgreSQL it passes the rows that
//! others claim at this moment.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use agent_core::ports::webhooks::{ClaimBounds, KEPT, NewWebhook};
use agent_core::ports::{WebhookError, WebhookOutbox, WebhookResult};
use agent_core::trace;
use agent_core::words::{Webhook, WebhookAttempt, WebhookState};
use boxed_async::boxed_async;
use futures::TryFutureExt as _;

use super::error::describe;
use super::from_row::from_row;
use super::lease::{Given, LeasedTable, change};
use super::text_columns::{escape, unescape};
use super::{SqlPool, from_ms, ms, reading, to_ms, writing};

/// `$1` job, `$2` user, `$3` url, `$4` trace.
const PUT: &str = "INSERT INTO webhooks (job_id, user_id, url, traceparent, state, due_at, created_at) \
    SELECT $1, $2, $3, $4, 'waiting', ms, ms FROM clock WHERE TRUE \
    ON CONFLICT (job_id) DO UPDATE SET state = 'waiting', owner = NULL, due_at = excluded.due_at, \
        created_at = excluded.created_at \
    WHERE webhooks.tries = 0 AND webhooks.state IN ('waiting', 'failed')";

/// `$1` owner, `$2` ms of the lease, `$3` most rows, `$4` most rows of a user.
///
/// The users are the `$3` whose webhooks have been due for longest, without those of whom `$4` are claimed.
/// They are found among the first 1000 due webhooks; where these are of fewer users, among all that are due.
/// Webhooks that are not due are not read, however many users wait for theirs: SQLite would, along the index
/// of users, if it were asked to group by a column of it. The first `$4` due webhooks of each user are found
/// along that index.
macro_rules! claim {
    ($first_of_each:literal, $lock:literal) => {
        concat!(
            "WITH busy AS (SELECT user_id FROM webhooks WHERE owner IS NOT NULL \
             AND due_at > (SELECT ms FROM clock) GROUP BY user_id HAVING COUNT(*) >= $4), \
             early AS (SELECT user_id, due_at FROM webhooks WHERE due_at <= (SELECT ms FROM clock) \
             ORDER BY due_at LIMIT 1000), \
             few AS (SELECT user_id FROM early WHERE user_id NOT IN (SELECT user_id FROM busy) \
             GROUP BY user_id ORDER BY MIN(due_at) LIMIT $3), \
             users AS (SELECT user_id FROM few UNION SELECT user_id FROM (\
             SELECT MIN(user_id) AS user_id FROM webhooks WHERE (SELECT COUNT(*) FROM few) < $3 \
             AND (SELECT COUNT(*) FROM early) = 1000 AND due_at <= (SELECT ms FROM clock) \
             AND user_id NOT IN (SELECT user_id FROM busy) \
             GROUP BY user_id || '' ORDER BY MIN(due_at) LIMIT $3) others) \
             UPDATE webhooks SET owner = $1, due_at = (SELECT ms FROM clock) + $2 WHERE job_id IN (\
             SELECT job_id FROM webhooks WHERE due_at <= (SELECT ms FROM clock) AND job_id IN (\
             SELECT job_id FROM (SELECT w.job_id, w.due_at, \
             ROW_NUMBER() OVER (PARTITION BY w.user_id ORDER BY w.due_at) + (SELECT COUNT(*) FROM webhooks c \
             WHERE c.user_id = w.user_id AND c.owner IS NOT NULL AND c.due_at > (SELECT ms FROM clock)) AS nth \
             FROM users u CROSS JOIN ",
            $first_of_each,
            ") ranked WHERE nth <= $4 ORDER BY due_at LIMIT $3) ",
            $lock,
            ") RETURNING job_id, user_id, url, traceparent, state, tries, attempts, created_at"
        )
    };
}

const CLAIM_IN_SQLITE: &str = claim!(
    "webhooks w WHERE w.job_id IN (SELECT d.job_id FROM webhooks d WHERE d.user_id = u.user_id \
     AND d.due_at <= (SELECT ms FROM clock) ORDER BY d.due_at LIMIT $4)",
    ""
);
const CLAIM_IN_POSTGRES: &str = claim!(
    "LATERAL (SELECT d.job_id, d.user_id, d.due_at FROM webhooks d WHERE d.user_id = u.user_id \
     AND d.due_at <= (SELECT ms FROM clock) ORDER BY d.due_at LIMIT $4) w",
    "FOR UPDATE SKIP LOCKED"
);

const WEBHOOKS: LeasedTable =
    LeasedTable { table: "webhooks", key: &["job_id"], owner: "owner", until: "due_at" };

/// `$3` state, `$4` tries, `$5` attempts, `$6` ms until it is due, or null.
static SETTLE: LazyLock<String> = LazyLock::new(|| {
    WEBHOOKS
        .update("owner = NULL, state = $3, tries = $4, attempts = $5, due_at = (SELECT ms FROM clock) + $6")
});

/// `$1` job.
const READ: &str = "SELECT job_id, user_id, url, traceparent, state, tries, attempts, created_at \
    FROM webhooks WHERE job_id = $1";

/// `$1` job.
const REPLAY: &str = "UPDATE webhooks SET state = 'pending', tries = 0, due_at = (SELECT ms FROM clock) \
    WHERE job_id = $1 AND state IN ('delivered', 'failed')";

/// `$1` job, `$2` the time from when it counts as submitted at the earliest.
const REARM: &str = "UPDATE webhooks SET state = 'waiting', tries = 0, owner = NULL, \
    due_at = (SELECT ms FROM clock), created_at = CASE WHEN $2 > (SELECT ms FROM clock) THEN $2 \
        ELSE (SELECT ms FROM clock) END WHERE job_id = $1";

/// `$1` ms, `$2` most rows. What is still to be delivered stays, also what is to be delivered again since
/// PostgreSQL began to wait for its row: so the condition stands outside as well.
const EXPIRE: &str = "DELETE FROM webhooks WHERE job_id IN (SELECT job_id FROM webhooks \
    WHERE created_at < (SELECT ms FROM clock) - $1 AND due_at IS NULL ORDER BY created_at LIMIT $2) \
    AND created_at < (SELECT ms FROM clock) - $1 AND due_at IS NULL";

/// Most old webhooks that are deleted with a new one.
const MOST_EXPIRED: u32 = 16;

/// Deletes up to `most` of the webhooks that are older than they are kept, and says how many there were.
pub(super) async fn expire(pool: &SqlPool, most: u32) -> sqlx::Result<u64> {
    writing!(pool, db => {
        let query = sqlx::query(EXPIRE).bind(ms(KEPT)).bind(i64::from(most));
        query.execute(db).map_ok(|done| done.rows_affected())
    })
}

/// Keeps webhooks in the database.
pub struct SqlWebhooks {
    pool: SqlPool,
}

from_row! {
    #[derive(Debug)]
    struct Row {
        job_id: String,
        user_id: String,
        url: String,
        traceparent: Option<String>,
        state: String,
        tries: i64,
        attempts: String,
        created_at: i64,
    }
}

impl SqlWebhooks {
    /// The outbox in that database, whose tables `SqlPool::migrate` makes.
    pub fn new(pool: SqlPool) -> Self {
        Self { pool }
    }
}

#[boxed_async]
impl WebhookOutbox for SqlWebhooks {
    async fn put(&self, webhook: &NewWebhook<'_>) -> WebhookResult {
        let traceparent = trace::current().map(|context| context.to_string());
        writing!(&self.pool, db => {
            let query = sqlx::query(PUT).bind(escape(webhook.job_id)).bind(escape(webhook.user_id));
            query.bind(escape(webhook.url)).bind(traceparent.as_deref()).execute(db).map_ok(drop)
        })
        .map_err(failed)?;
        if let Err(error) = expire(&self.pool, MOST_EXPIRED).await {
            tracing::debug!(error = describe(&error), "old webhooks could not be deleted");
        }
        Ok(())
    }

    async fn claim(
        &self,
        owner: &str,
        lease: Duration,
        ClaimBounds { most, of_a_user }: ClaimBounds,
    ) -> WebhookResult<Vec<Webhook>> {
        let claim = match self.pool {
            SqlPool::Postgres(_) => CLAIM_IN_POSTGRES,
            SqlPool::Sqlite(_) => CLAIM_IN_SQLITE,
        };
        let rows: Vec<Row> = writing!(&self.pool, db => {
            let claim = sqlx::query_as(claim).bind(owner).bind(ms(lease));
            claim.bind(i64::from(most)).bind(i64::from(of_a_user)).fetch_all(db)
        })
        .map_err(failed)?;
        rows.into_iter().map(Row::into_webhook).collect()
    }

    async fn settle(&self, owner: &str, webhook: &Webhook, next: Option<Duration>) -> WebhookResult<bool> {
        let attempts =
            serde_json::to_string(&webhook.attempts).map_err(|error| WebhookError(error.to_string()))?;
        let (job_id, attempts) = (escape(&webhook.job_id), escape(&attempts));
        let given = [
            Given::Text(webhook.state.as_str()),
            Given::Number(i64::from(webhook.tries)),
            Given::Text(&attempts),
            Given::OptionalNumber(next.map(ms)),
        ];
        change(&self.pool, &SETTLE, &[&job_id, owner], &given).await.map_err(failed)
    }

    async fn read(&self, job_id: &str) -> WebhookResult<Option<Webhook>> {
        let row: Option<Row> =
            reading!(&self.pool, db => sqlx::query_as(READ).bind(escape(job_id)).fetch_optional(db))
                .map_err(failed)?;
        row.map(Row::into_webhook).transpose()
    }

    async fn replay(&self, job_id: &str) -> WebhookResult<bool> {
        let changed = writing!(&self.pool, db => {
            sqlx::query(REPLAY).bind(escape(job_id)).execute(db).map_ok(|done| done.rows_affected())
        })
        .map_err(failed)?;
        Ok(changed > 0)
    }

    async fn rearm(&self, job_id: &str, not_before: SystemTime) -> WebhookResult<bool> {
        let changed = writing!(&self.pool, db => {
            let query = sqlx::query(REARM).bind(escape(job_id)).bind(to_ms(not_before));
            query.execute(db).map_ok(|done| done.rows_affected())
        })
        .map_err(failed)?;
        Ok(changed > 0)
    }
}

impl Row {
    fn into_webhook(self) -> WebhookResult<Webhook> {
        let unreadable = || WebhookError("a webhook cannot be read by this program".into());
        let attempts: Vec<WebhookAttempt> =
            serde_json::from_str(&unescape(self.attempts)).map_err(|_error| unreadable())?;
        Ok(Webhook {
            job_id: unescape(self.job_id),
            user_id: unescape(self.user_id),
            url: unescape(self.url),
            traceparent: self.traceparent,
            state: WebhookState::parse(&self.state).ok_or_else(unreadable)?,
            tries: u32::try_from(self.tries).unwrap_or(u32::MAX),
            created_at: from_ms(self.created_at),
            attempts,
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn failed(error: sqlx::Error) -> WebhookError {
    WebhookError(describe(&error))
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
    use test_servers::Postgres;

    use super::*;
    use crate::sql::row_locks::changed_behind;
    use crate::sql::sqlite_plans::SqlitePlans;

    /// Many users whose webhooks are not due, one with more due ones than are looked at first, and another.
    const FILL: &str = "\
        INSERT INTO webhooks (job_id, user_id, url, state, due_at, created_at) \
            SELECT 'j' || n, 'u' || n, '', 'waiting', ms + 3600000, 1 FROM clock, generate_series(1, 10000) AS n \
            UNION ALL SELECT 'm' || n, 'many', '', 'waiting', n, 1 FROM generate_series(1, 1100) AS n \
            UNION ALL SELECT 'z', 'z', '', 'waiting', 2000, 1; \
        ANALYZE webhooks";

    #[tokio::test]
    async fn a_claim_on_sqlite_walks_no_index_of_webhooks_that_are_not_due() {
        let steps = SqlitePlans::open().await.steps(CLAIM_IN_SQLITE).await;
        assert_eq!(steps.iter().find(|step| step.contains("SCAN") && step.contains("webhooks_due")), None);
    }

    #[tokio::test]
    async fn old_webhooks_that_are_still_due_are_not_read_by_what_deletes_settled_ones() {
        let steps = SqlitePlans::open().await.steps(EXPIRE).await;
        assert!(steps.iter().any(|step| step.contains("webhooks_settled (created_at<?)")), "{steps:?}");
    }

    #[tokio::test]
    async fn a_claim_finds_each_user_with_a_due_webhook_and_reads_nothing_of_those_without() {
        let server = Postgres::start().await;
        SqlPool::postgres(&server.url()).unwrap().migrate().await.unwrap();
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        sqlx::raw_sql(FILL).execute(&mut connection).await.unwrap();
        let parameters = [("$1", "'o'"), ("$2", "60000"), ("$3", "16"), ("$4", "4")];
        let claim = parameters
            .iter()
            .fold(CLAIM_IN_POSTGRES.to_owned(), |sql, (name, value)| sql.replace(name, value));
        let explain = AssertSqlSafe(format!("EXPLAIN (ANALYZE, BUFFERS) {claim}"));
        let plan: Vec<String> = sqlx::query_scalar(explain).fetch_all(&mut connection).await.unwrap();
        let plan = plan.join("\n");
        let (_, pages) = plan.split_once("shared hit=").unwrap();
        let pages = pages.split(|char: char| !char.is_ascii_digit()).next().unwrap();
        assert!(pages.parse::<u32>().unwrap() < 10_000, "{plan}");
        let claimed = sqlx::query_scalar("SELECT job_id FROM webhooks WHERE owner = 'o' ORDER BY job_id");
        let claimed: Vec<String> = claimed.fetch_all(&mut connection).await.unwrap();
        assert_eq!(claimed, ["m1", "m2", "m3", "m4", "z"]);
    }

    #[tokio::test]
    async fn a_webhook_that_is_to_be_sent_again_while_old_ones_are_deleted_stays() {
        let old = "INSERT INTO webhooks (job_id, user_id, url, state, due_at, created_at) \
            VALUES ('again', 'u', '', 'failed', NULL, 1), ('old', 'u', '', 'failed', NULL, 2)";
        let replay = REPLAY.replace("$1", "'again'");
        let expire = EXPIRE.replace("$1", "60000").replace("$2", "16");
        assert_eq!(changed_behind(old, &replay, &expire).await, 1);
    }
}

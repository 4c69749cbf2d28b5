//! What is asked of the tables of spaces and values, in SQL that PostgreSQL and SQLite both understand.
//!
//! A value has expired from `expires_at` on, also while its row is still there.

/// Makes the space if there is none, and holds it until the transaction ends. `$1` id, `$2` component, `$3`
/// user.
pub(super) const HOLD: &str = "\
    INSERT INTO tool_spaces (id, component, user_id, bytes) VALUES ($1, $2, $3, 0) \
    ON CONFLICT (id) DO UPDATE SET bytes = tool_spaces.bytes RETURNING bytes";

/// Holds a space that is there. `$1` id.
pub(super) const HOLD_OLD: &str = "UPDATE tool_spaces SET bytes = bytes WHERE id = $1 RETURNING bytes";

/// `$1` space, `$2` key. One row: the time, what is under the key, and whether anything has expired. That is
/// asked of the first entry in the index by spaces that may be one of the space. PostgreSQL supposes that a
/// third has expired: asked whether there is any, it would read a table that is mostly of one space.
pub(super) const LOOK: &str = "\
    SELECT ms, kept.value, kept.expires_at, COALESCE((SELECT old.space = $1 AND old.expires_at <= ms \
        FROM (SELECT space, expires_at FROM tool_values WHERE expires_at IS NOT NULL \
              AND (space, expires_at) >= ($1, 0) ORDER BY space, expires_at LIMIT 1) AS old), FALSE) AS has_expired \
    FROM clock LEFT JOIN tool_values AS kept ON kept.space = $1 AND kept.key = $2";

/// `$1` space, `$2` key, `$3` value, `$4` when it expires.
pub(super) const PUT: &str = "\
    INSERT INTO tool_values (space, key, value, expires_at) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (space, key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at";

/// `$1` space, `$2` key.
pub(super) const REMOVE: &str = "DELETE FROM tool_values WHERE space = $1 AND key = $2";

/// Removes what has expired longest, and says how many bytes each was. `$1` space, `$2` most rows.
pub(super) const SWEEP: &str = "\
    DELETE FROM tool_values WHERE space = $1 AND key IN (SELECT key FROM tool_values \
        WHERE space = $1 AND expires_at IS NOT NULL AND expires_at <= (SELECT ms FROM clock) \
        ORDER BY expires_at LIMIT $2) \
    RETURNING CAST(length(key) + length(value) AS bigint)";

/// `$1` id, `$2` bytes.
pub(super) const RECOUNT: &str = "UPDATE tool_spaces SET bytes = $2 WHERE id = $1";

/// `$1` id.
pub(super) const DROP: &str = "DELETE FROM tool_spaces WHERE id = $1";

/// `$1` space, `$2` key.
pub(super) const GET: &str = "\
    SELECT value FROM tool_values WHERE space = $1 AND key = $2 \
    AND (expires_at IS NULL OR expires_at > (SELECT ms FROM clock))";

/// `$1` space, `$2` from which key on, `$3` before which key, `$4` most rows.
pub(super) const LIST: &str = "\
    SELECT key FROM tool_values WHERE space = $1 AND key >= $2 AND key < $3 \
    AND (expires_at IS NULL OR expires_at > (SELECT ms FROM clock)) ORDER BY key LIMIT $4";

/// The space of what expired first of all. Parameters: none.
pub(super) const LONGEST_EXPIRED: &str = "\
    SELECT space FROM tool_values WHERE expires_at IS NOT NULL AND expires_at <= (SELECT ms FROM clock) \
    ORDER BY expires_at LIMIT 1";

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
    use test_servers::Postgres;

    use super::*;
    use crate::sql::SqlPool;
    use crate::sql::sqlite_plans::SqlitePlans;

    /// Values of one space, none of which has expired.
    const FILL: &str = "\
        INSERT INTO tool_values (space, key, value, expires_at) \
            SELECT decode('01', 'hex'), convert_to(n::text, 'UTF8'), '', ms + 3600000 FROM clock, generate_series(1, 10000) AS n; \
        ANALYZE tool_values";

    #[tokio::test]
    async fn a_look_reads_one_entry_of_an_index_however_many_values_may_expire() {
        let steps = SqlitePlans::open().await.steps(LOOK).await;
        assert!(steps.iter().any(|step| step.contains("tool_values_of_space_to_expire")), "{steps:?}");
        let server = Postgres::start().await;
        SqlPool::postgres(&server.url()).unwrap().migrate().await.unwrap();
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        sqlx::raw_sql(FILL).execute(&mut connection).await.unwrap();
        let look = LOOK.replace("$1", "decode('01', 'hex')").replace("$2", "decode('31', 'hex')");
        let explain = sqlx::query_scalar(AssertSqlSafe(format!("EXPLAIN {look}")));
        let plan: Vec<String> = explain.fetch_all(&mut connection).await.unwrap();
        let plan = plan.join("\n");
        assert!(plan.contains("using tool_values_of_space_to_expire on"), "{plan}");
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }
}

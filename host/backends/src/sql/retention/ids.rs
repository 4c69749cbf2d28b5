//! Many ids as one parameter of a statement, and what looking for a page of them results in.

use agent_core::ports::EndedPage;

use crate::sql::SqlPool;

pub(super) type SqlPage = sqlx::Result<EndedPage>;

/// A statement for PostgreSQL and for SQLite with the ids of `$1`, an array of JSON, in between as a column.
macro_rules! with_ids {
    ($before:literal, $($after:tt)*) => {
        [
            concat!($before, " = ANY(ARRAY(SELECT jsonb_array_elements_text($1::jsonb))) ", $($after)*),
            concat!($before, " IN (SELECT value FROM json_each($1)) ", $($after)*),
        ]
    };
}
pub(super) use with_ids;

/// The ids as an array of JSON, which both databases read.
pub(super) fn as_json<I: AsRef<str>>(ids: impl Iterator<Item = I>) -> String {
    serde_json::Value::from_iter(ids.map(|id| id.as_ref().to_owned())).to_string()
}

/// A statement in the words of this database, of those that [`with_ids`] makes.
pub(super) fn of_dialect(pool: &SqlPool, [postgres, sqlite]: [&'static str; 2]) -> &'static str {
    match pool {
        SqlPool::Postgres(_) => postgres,
        SqlPool::Sqlite(_) => sqlite,
    }
}

//! How SQLite carries statements out, for the tests that none reads more than it has to.

use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};
use tempfile::TempDir;

use super::SqlPool;

/// A database with the tables of ours and nothing in them.
pub(super) struct SqlitePlans {
    connection: SqliteConnection,
    _folder: TempDir,
}

impl SqlitePlans {
    pub(super) async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("some.db").display());
        SqlPool::sqlite(&url).unwrap().migrate().await.unwrap();
        Self { connection: SqliteConnection::connect(&url).await.unwrap(), _folder: folder }
    }

    /// The steps in which a statement is carried out, as `EXPLAIN QUERY PLAN` says them.
    pub(super) async fn steps(&mut self, sql: &str) -> Vec<String> {
        let explain = sqlx::query_as(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")));
        let plan: Vec<(i64, i64, i64, String)> = explain.fetch_all(&mut self.connection).await.unwrap();
        plan.into_iter().map(|(_, _, _, step)| step).collect()
    }
}

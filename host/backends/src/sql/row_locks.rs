//! What PostgreSQL does with a row that a statement has waited for, for the tests of statements that delete.

use futures::future::join;
use sqlx::{AssertSqlSafe, PgPool};
use test_servers::{Postgres, eventually};

use super::SqlPool;

/// Fills a database, changes something in a transaction, and ends that when `statement` waits for it. Says
/// how many rows the statement has changed then.
pub(super) async fn changed_behind(fill: &'static str, change: &str, statement: &str) -> u64 {
    let server = Postgres::start().await;
    SqlPool::postgres(&server.url()).unwrap().migrate().await.unwrap();
    let pool = PgPool::connect(&server.url()).await.unwrap();
    sqlx::query(fill).execute(&pool).await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    sqlx::query(AssertSqlSafe(change.to_owned())).execute(&mut *transaction).await.unwrap();
    let statement = sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&pool);
    let commit = async {
        let waiting = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        eventually("the statement to wait for the row", async || {
            let count: i64 = sqlx::query_scalar(waiting).fetch_one(&pool).await.unwrap();
            (count > 0).then_some(())
        })
        .await;
        transaction.commit().await.unwrap();
    };
    join(statement, commit).await.0.unwrap().rows_affected()
}

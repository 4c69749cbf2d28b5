//! How long the database may take.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::time::timeout;

/// Lets the statements of a transaction take as long as they do on PostgreSQL, whatever limit its user has
/// there: what the service asks of the user behind a pooler holds at the server's own address too.
pub(super) const NO_LIMIT: &str = "SET LOCAL statement_timeout = 0";

/// What the database answers, or an error if that takes longer than `patience`.
pub(super) async fn in_time<T>(
    patience: Duration,
    query: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    let too_late = || Err(sqlx::Error::Io(ErrorKind::TimedOut.into()));
    timeout(patience, query).await.unwrap_or_else(|_elapsed| too_late())
}

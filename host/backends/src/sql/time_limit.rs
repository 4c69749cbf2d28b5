//! How long the database may take.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::time::timeout;

/// What the database answers, or an error if that takes longer than `patience`.
pub(super) async fn in_time<T>(
    patience: Duration,
    query: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let too_late = || Err(sqlx::Error::Io(ErrorKind::TimedOut.into()));
    timeout(patience, query).await.unwrap_or_else(|_elapsed| too_late())
}

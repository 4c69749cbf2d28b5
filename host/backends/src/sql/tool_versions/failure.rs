//! What the caller is told when the database fails, and how long a component may take on its way.

use std::io::ErrorKind;
use std::time::Duration;

use agent_core::ports::{VersionsError, VersionsResult};
use tokio::time::timeout;

use crate::sql::error::describe;

/// How long it may take to write, read or remove components. Each statement on the way has the time limit of
/// any other.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
pub(super) fn failed(error: sqlx::Error) -> VersionsError {
    VersionsError::Unavailable(describe(&error))
}

/// What comes of a transfer, if it ends in time.
pub(super) async fn in_transfer_time<T>(
    transfer: impl Future<Output = VersionsResult<T>>,
) -> VersionsResult<T> {
    let too_late = || Err(failed(sqlx::Error::Io(ErrorKind::TimedOut.into())));
    timeout(TRANSFER_TIMEOUT, transfer).await.unwrap_or_else(|_elapsed| too_late())
}

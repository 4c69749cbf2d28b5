//! What the tools of runs were answered over HTTP.

use futures::TryFutureExt as _;

use crate::sql::{SqlPool, writing};

/// Removes the recordings of these runs, by their ids as columns have them: run by run, because they are
/// large.
pub(super) async fn remove_of(pool: &SqlPool, run_ids: &[String]) -> sqlx::Result<()> {
    for id in run_ids {
        writing!(pool, db => {
            sqlx::query("DELETE FROM http_recordings WHERE run_id = $1").bind(id).execute(db).map_ok(drop)
        })?;
    }
    Ok(())
}

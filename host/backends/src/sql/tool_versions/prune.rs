//! Removing what no record needs any more.
//!
//! What there is to remove is looked up first, without keeping anybody from writing. Each component is then
//! removed in a transaction of its own that holds the revision of the store and looks again: a record that
//! was committed meanwhile is seen, and none is committed until the component is gone.

use std::time::Duration;

use agent_core::ports::VersionsResult;
use futures::TryFutureExt as _;

use super::components::remove_blob;
use super::failure::{failed, in_transfer_time};
use super::statements;
use crate::sql::transaction::{SqlTransaction, in_transaction};
use crate::sql::{SqlPool, answer, ms, reading};

/// After how long bytes that no component consists of are not being written any more. Writing them has a
/// limit of a minute.
const UNFINISHED_AFTER: Duration = Duration::from_secs(3600);

/// Removes components, and says how many; then what was left half-written, and counts.
pub(super) async fn prune(pool: &SqlPool, grace: Duration) -> VersionsResult<u64> {
    // The future has room for the transactions of both databases, which is too much to move about.
    let pruning = Box::pin(async {
        let unneeded: Vec<String> = reading!(pool, db => {
            sqlx::query_scalar(statements::UNNEEDED).bind(ms(grace)).fetch_all(db)
        })
        .map_err(failed)?;
        let mut removed = 0;
        for digest in unneeded {
            removed += u64::from(answer(remove(pool, &digest, grace)).await.map_err(failed)?);
        }
        let unfinished: Vec<String> = reading!(pool, db => {
            sqlx::query_scalar(statements::UNFINISHED).bind(ms(UNFINISHED_AFTER)).fetch_all(db)
        })
        .map_err(failed)?;
        for blob in unfinished {
            remove_blob(pool, &blob).await.map_err(failed)?;
        }
        remove_counts(pool).await.map_err(failed)?;
        Ok(removed)
    });
    in_transfer_time(pruning).await
}

/// False if somebody needs it after all.
async fn remove(pool: &SqlPool, digest: &str, grace: Duration) -> sqlx::Result<bool> {
    let mut transaction = hold_revision(pool).await?;
    let blob: Option<String> = in_transaction!(transaction, db => {
        sqlx::query_scalar(statements::REMOVE_UNNEEDED).bind(ms(grace)).bind(digest).fetch_optional(db)
    })?;
    let Some(blob) = blob else { return transaction.rollback().await.map(|()| false) };
    in_transaction!(transaction, db => {
        sqlx::query(statements::REMOVE_BLOB).bind(blob).execute(db).map_ok(drop)
    })?;
    transaction.commit().await.map(|()| true)
}

async fn remove_counts(pool: &SqlPool) -> sqlx::Result<()> {
    let has_unneeded: bool =
        reading!(pool, db => sqlx::query_scalar(statements::HAS_UNNEEDED_COUNTS).fetch_one(db))?;
    if !has_unneeded {
        return Ok(());
    }
    answer(async {
        let mut transaction = hold_revision(pool).await?;
        in_transaction!(transaction, db => {
            sqlx::query(statements::REMOVE_UNNEEDED_COUNTS).execute(db).map_ok(drop)
        })?;
        transaction.commit().await
    })
    .await
}

/// A transaction during which nobody writes a record.
async fn hold_revision(pool: &SqlPool) -> sqlx::Result<SqlTransaction> {
    let mut transaction = SqlTransaction::begin(pool).await?;
    in_transaction!(transaction, db => sqlx::query(statements::HOLD_REVISION).execute(db).map_ok(drop))?;
    Ok(transaction)
}

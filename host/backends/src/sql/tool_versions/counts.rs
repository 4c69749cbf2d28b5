//! What the replicas count in a trial.

use agent_core::ports::VersionsResult;
use agent_core::ports::tool_versions::stored::{decode_counts, encode_counts};
use agent_core::words::TrialCounts;
use futures::TryFutureExt as _;

use super::failure::failed;
use super::statements;
use crate::sql::text_columns::escape;
use crate::sql::transaction::{SqlTransaction, in_transaction};
use crate::sql::{SqlPool, answer, reading};

/// Adds in one transaction, which holds the row: replicas take turns. Whoever adds nothing only reads.
pub(super) async fn add(pool: &SqlPool, trial: &str, counts: &TrialCounts) -> VersionsResult<TrialCounts> {
    if *counts == TrialCounts::default() {
        return read(pool, trial).await;
    }
    let sum = answer(async {
        let mut transaction = SqlTransaction::begin(pool).await?;
        let kept: String = in_transaction!(transaction, db => {
            sqlx::query_scalar(statements::HOLD_COUNTS).bind(escape(trial)).fetch_one(db)
        })?;
        match add_to(trial, &kept, counts) {
            Err(error) => transaction.rollback().await.map(|()| Err(error)),
            Ok((sum, json)) => {
                in_transaction!(transaction, db => {
                    sqlx::query(statements::PUT_COUNTS).bind(escape(trial)).bind(json).execute(db).map_ok(drop)
                })?;
                transaction.commit().await.map(|()| Ok(sum))
            }
        }
    });
    sum.await.map_err(failed)?
}

async fn read(pool: &SqlPool, trial: &str) -> VersionsResult<TrialCounts> {
    let kept: Option<String> = reading!(pool, db => {
        sqlx::query_scalar(statements::COUNTS).bind(escape(trial)).fetch_optional(db)
    })
    .map_err(failed)?;
    kept.map_or_else(|| Ok(TrialCounts::default()), |kept| decode_counts(trial, &kept))
}

fn add_to(trial: &str, kept: &str, counts: &TrialCounts) -> VersionsResult<(TrialCounts, String)> {
    let mut sum = decode_counts(trial, kept)?;
    sum.add(counts);
    let json = encode_counts(trial, &sum)?;
    Ok((sum, json))
}

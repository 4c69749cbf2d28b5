//! Heartbeats in PostgreSQL: each lease is renewed by itself, so that it does not wait behind a commit that
//! hangs.
//!
//! A network that has forgotten a connection is noticed by its silence alone, and has most likely forgotten
//! the others that are kept. A heartbeat that waited for it as long as other statements do would end after
//! the lease. So after a while the lease is renewed on a new connection as well.

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use tokio::time::timeout;

use super::statements;
use crate::sql::{Postgres, answer, on_postgres};

/// How long a connection may be silent: as long as Redis may be, so that a lease of 6 s that is renewed after
/// 1 s lasts.
const SILENCE: Duration = Duration::from_secs(2);

/// Says whether somebody asked to cancel the job; nothing when the claim is not the job's any more.
pub(super) async fn renew(
    pool: &Postgres,
    job_id: &str,
    token: &str,
    lease: i64,
) -> sqlx::Result<Option<bool>> {
    let mut first = pin!(renew_once(pool, job_id, token, lease));
    if let Ok(renewed) = timeout(SILENCE, &mut first).await {
        return renewed;
    }
    pool.close_idle();
    // A server that is only slow answers the first one: there the second one waits for it.
    let second = pin!(renew_once(pool, job_id, token, lease));
    match select(first, second).await {
        Either::Left((renewed, _)) | Either::Right((renewed, _)) => renewed,
    }
}

async fn renew_once(pool: &Postgres, job_id: &str, token: &str, lease: i64) -> sqlx::Result<Option<bool>> {
    let renewing = async {
        on_postgres!(pool, Allowed, db => {
            sqlx::query_scalar(statements::RENEW).bind(job_id).bind(token).bind(lease).fetch_all(db)
        })
    };
    let cancel_asked: Vec<bool> = answer(renewing).await?;
    Ok(cancel_asked.first().copied())
}

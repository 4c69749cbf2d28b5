//! The lock under which one process sweeps: a row with a lease. It needs no session of its own, so it holds
//! through poolers of connections, and it says as well when the next sweep is due, whoever makes it.

use std::time::Duration;

use agent_core::ports::{RetainedKind, SweepTime};
use futures::TryFutureExt as _;

use crate::sql::{SqlPool, writing};

/// `$1` kind, `$2` sweeper, `$3` ms, `$4` whether it may begin before it is due.
const BEGIN: &str = "\
    INSERT INTO sweeps (what, sweeper, held_until, due_at) SELECT $1, $2, ms + $3, ms FROM clock WHERE TRUE \
    ON CONFLICT (what) DO UPDATE SET sweeper = excluded.sweeper, held_until = excluded.held_until \
    WHERE sweeps.held_until <= (SELECT ms FROM clock) AND ($4 OR sweeps.due_at <= (SELECT ms FROM clock))";

/// `$1` kind, `$2` sweeper, `$3` ms.
const RENEW: &str =
    "UPDATE sweeps SET held_until = (SELECT ms FROM clock) + $3 WHERE what = $1 AND sweeper = $2";

/// `$1` kind, `$2` sweeper, `$3` ms until the next one.
const END: &str = "\
    UPDATE sweeps SET held_until = (SELECT ms FROM clock), due_at = (SELECT ms FROM clock) + $3 \
    WHERE what = $1 AND sweeper = $2";

pub(super) async fn begin(
    pool: &SqlPool,
    kind: RetainedKind,
    sweeper: &str,
    lease: Duration,
    time: SweepTime,
) -> Result<bool, sqlx::Error> {
    let rows = writing!(pool, db => {
        let query = sqlx::query(BEGIN).bind(kind.as_str()).bind(sweeper).bind(ms(lease));
        query.bind(time == SweepTime::Now).execute(db).map_ok(|done| done.rows_affected())
    })?;
    Ok(rows > 0)
}

pub(super) async fn renew(
    pool: &SqlPool,
    kind: RetainedKind,
    sweeper: &str,
    lease: Duration,
) -> Result<bool, sqlx::Error> {
    let rows = writing!(pool, db => {
        let query = sqlx::query(RENEW).bind(kind.as_str()).bind(sweeper).bind(ms(lease));
        query.execute(db).map_ok(|done| done.rows_affected())
    })?;
    Ok(rows > 0)
}

pub(super) async fn end(
    pool: &SqlPool,
    kind: RetainedKind,
    sweeper: &str,
    next: Duration,
) -> Result<(), sqlx::Error> {
    writing!(pool, db => {
        let query = sqlx::query(END).bind(kind.as_str()).bind(sweeper).bind(ms(next));
        query.execute(db).map_ok(drop)
    })
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

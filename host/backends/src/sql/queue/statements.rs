//! What is asked of the table of jobs, in SQL that PostgreSQL and SQLite both understand.
//!
//! `due_at` says when a job may be claimed: a waiting one from then on, an active one because its lease has expired
//! (then it is stalled). `place` is 0 at the front of the queue, and 1 elsewhere.
//! A job that is `delayed` is a waiting one whose time has not come.

/// The columns of a job.
macro_rules! job_columns {
    () => {
        "id, run_id, user_id, result, error, attempts_made, created_at, started_at, finished_at, \
         CASE WHEN status = 'waiting' AND due_at > (SELECT ms FROM clock) THEN 'delayed' ELSE status END \
         AS status"
    };
}

/// `$1` id.
pub(super) const READ: &str = concat!("SELECT ", job_columns!(), " FROM jobs WHERE id = $1");

/// `$1` user, `$2` id before which the page begins, `$3` status or null, `$4` most rows.
pub(super) const LIST: &str = concat!(
    "SELECT * FROM (SELECT ",
    job_columns!(),
    " FROM jobs WHERE user_id = $1 AND id < $2) AS theirs \
     WHERE $3 IS NULL OR status = $3 ORDER BY id DESC LIMIT $4"
);

/// Parameters: none.
pub(super) const DEPTH: &str = "\
    SELECT COUNT(*) FILTER (WHERE status = 'waiting' AND due_at <= ms) AS waiting, \
           COUNT(*) FILTER (WHERE status = 'active') AS active, \
           COUNT(*) FILTER (WHERE status = 'waiting' AND due_at > ms) AS delayed, \
           MAX(ms - due_at) FILTER (WHERE status = 'waiting' AND due_at <= ms) AS oldest_waiting \
    FROM jobs, clock WHERE status IN ('waiting', 'active')";

/// Whether as many workers died of a job as may, the one among them whose lease has expired just now.
macro_rules! has_killed_enough {
    () => {
        "losses + CASE WHEN status = 'active' THEN 1 ELSE 0 END >= $4"
    };
}

/// Leases the next job to `$1` worker under `$2` token for `$3` ms. One whose worker died is ended instead when
/// its owner does not want it any more, or after `$4` such deaths; then the returned status says so.
macro_rules! claim {
    ($lock:literal) => {
        concat!(
            "WITH next AS (SELECT id FROM jobs \
             WHERE status IN ('waiting', 'active') AND due_at <= (SELECT ms FROM clock) \
             ORDER BY place, id LIMIT 1 ",
            $lock,
            ") UPDATE jobs SET status = CASE WHEN cancel_asked THEN 'cancelled' WHEN ",
            has_killed_enough!(),
            " THEN 'failed' ELSE 'active' END, error = CASE WHEN NOT cancel_asked AND ",
            has_killed_enough!(),
            " THEN 'Every process that worked on the job died.' ELSE error END, \
             finished_at = CASE WHEN cancel_asked OR ",
            has_killed_enough!(),
            " THEN (SELECT ms FROM clock) END, \
             losses = losses + CASE WHEN status = 'active' THEN 1 ELSE 0 END, \
             started_at = (SELECT ms FROM clock), due_at = (SELECT ms FROM clock) + $3, \
             place = 1, worker = $1, token = $2, claims = claims + 1 \
             WHERE id = (SELECT id FROM next) \
             RETURNING id, run_id, user_id, query, user_tier, user_role, status, attempts_made, created_at, \
                       traceparent, claims"
        )
    };
}

/// [`claim!`] for SQLite, where nobody else writes meanwhile.
pub(super) const CLAIM_IN_SQLITE: &str = claim!("");

/// [`claim!`] for PostgreSQL, past the jobs that others are claiming at this moment.
pub(super) const CLAIM_IN_POSTGRES: &str = claim!("FOR UPDATE SKIP LOCKED");

/// `$1` address, `$2` worker that asks, `$3` ms that a lease has left when it was renewed in time. A death counts as
/// one, however it was noticed.
pub(super) const RECLAIM: &str = "\
    UPDATE jobs SET status = CASE WHEN cancel_asked THEN 'cancelled' ELSE 'waiting' END, \
        finished_at = CASE WHEN cancel_asked THEN (SELECT ms FROM clock) END, \
        losses = losses + 1, place = 0, due_at = (SELECT ms FROM clock), worker = NULL, token = NULL \
    WHERE substr(worker, 1, length($1)) = $1 AND worker <> $2 AND status = 'active' \
        AND due_at <= (SELECT ms FROM clock) + $3";

/// `$1` id, `$2` token, `$3` ms.
pub(super) const RENEW: &str = "\
    UPDATE jobs SET due_at = (SELECT ms FROM clock) + $3 \
    WHERE id = $1 AND token = $2 AND status = 'active' RETURNING cancel_asked";

/// `$1` id, `$2` token, `$3` status it goes to, `$4` ms until it may be claimed again, `$5` place,
/// `$6` attempts to count, `$7` result, `$8` error. A job that nobody wants any more does not go back.
pub(super) const FINISH: &str = "\
    UPDATE jobs SET status = CASE WHEN $3 = 'waiting' AND cancel_asked THEN 'cancelled' ELSE $3 END, \
        finished_at = CASE WHEN $3 = 'waiting' AND NOT cancel_asked THEN NULL \
                           ELSE (SELECT ms FROM clock) END, \
        due_at = (SELECT ms FROM clock) + $4, place = $5, attempts_made = attempts_made + $6, \
        result = $7, error = CASE WHEN $3 = 'completed' THEN NULL ELSE COALESCE($8, error) END, \
        worker = NULL, token = NULL \
    WHERE id = $1 AND token = $2 AND status = 'active'";

/// `$1` id.
pub(super) const CANCEL: &str = "\
    UPDATE jobs SET status = CASE WHEN status = 'waiting' THEN 'cancelled' ELSE status END, \
        finished_at = CASE WHEN status = 'waiting' THEN (SELECT ms FROM clock) END, cancel_asked = TRUE \
    WHERE id = $1 AND status IN ('waiting', 'active') RETURNING status";

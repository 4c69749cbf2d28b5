//! What is asked of the table of jobs, in SQL that PostgreSQL and SQLite both understand.
//!
//! `due_at` says when a job may be claimed: a waiting one from then on, an active one because its lease has
//! expired (then it is stalled), a parked one because the first of its waits has. `place` is 0 at the front
//! of the queue, and 1 elsewhere. A job that is `delayed` is a waiting one whose time has not come.
//!
//! How jobs are added and attempts end is said in `../commit/jobs.rs`.
//!
//! Waiting jobs, active ones and parked ones have an index each, so that neither those that are held nor
//! those that wait for somebody nor those that have ended are read by whoever claims one.

use agent_core::words::JobStatus;

use crate::sql::commit::number_of_claim;

/// The columns of a job.
macro_rules! job_columns {
    () => {
        "id, run_id, user_id, parent, result, error, attempts_made, created_at, started_at, finished_at, \
         CASE WHEN status = 'waiting' AND due_at > (SELECT ms FROM clock) THEN 'delayed' ELSE status END \
         AS status"
    };
}

/// `$1` id.
pub(super) const READ: &str = concat!("SELECT ", job_columns!(), " FROM jobs WHERE id = $1");

/// `$1` ids as a JSON array.
pub(super) const READ_SEVERAL_IN_SQLITE: &str =
    concat!("SELECT ", job_columns!(), " FROM jobs WHERE id IN (SELECT value FROM json_each($1))");

/// A page of a user's jobs. `$1` user, `$2` id before which it begins, `$3` most rows.
macro_rules! list {
    (of $user:literal $($of_status:literal)*) => {
        concat!(
            "SELECT ",
            job_columns!(),
            " FROM jobs WHERE ",
            $user,
            " = $1 AND id < $2",
            $($of_status,)*
            " ORDER BY id DESC LIMIT $3"
        )
    };
    ($($of_status:literal)*) => {
        list!(of "user_id" $($of_status)*)
    };
}

/// As [`list!`], of jobs that ended so. Both databases find the index `jobs_ended_of_user` (migration 25) by
/// the text of its condition.
macro_rules! list_ended {
    ($status:literal) => {
        list!(" AND status IN ('completed', 'failed', 'cancelled') AND status = " $status)
    };
}

/// The statement of a list. The status is no parameter of it: a plan that PostgreSQL makes for whatever the
/// parameters are would suppose that hardly a job has it, and read and sort all jobs of the user.
pub(super) fn list(status: Option<JobStatus>) -> &'static str {
    match status {
        None => list!(),
        Some(JobStatus::Waiting) => list!(" AND status = 'waiting' AND due_at <= (SELECT ms FROM clock)"),
        Some(JobStatus::Delayed) => list!(" AND status = 'waiting' AND due_at > (SELECT ms FROM clock)"),
        // Workers hold few jobs at once, and their index has no users. SQLite takes it only where it cannot
        // walk the jobs of the user instead.
        Some(JobStatus::Active) => list!(of "user_id || ''" " AND status = 'active'"),
        Some(JobStatus::Parked) => list!(" AND status = 'parked'"),
        Some(JobStatus::Completed) => list_ended!("'completed'"),
        Some(JobStatus::Failed) => list_ended!("'failed'"),
        Some(JobStatus::Cancelled) => list_ended!("'cancelled'"),
    }
}

/// Parked jobs of everybody. `$1` and `$2` due and id of the last one of the page before, `$3` most rows.
pub(super) const PARKED: &str = concat!(
    "SELECT due_at, ",
    job_columns!(),
    " FROM jobs WHERE status = 'parked' AND due_at >= $1 AND (due_at > $1 OR id > $2) \
     ORDER BY due_at, id LIMIT $3"
);

/// However many are parked, no more than 10,000 are counted. Parameters: none.
pub(super) const DEPTH: &str = "\
    SELECT waiting, (SELECT COUNT(*) FROM jobs WHERE status = 'active') AS active, delayed, \
        (SELECT COUNT(*) FROM (SELECT 1 FROM jobs WHERE status = 'parked' LIMIT 10000) AS counted) AS parked, \
        (SELECT ms FROM clock) - (SELECT created_at FROM jobs WHERE status = 'parked' ORDER BY id LIMIT 1) \
            AS oldest_parked, oldest_waiting \
    FROM (SELECT COUNT(*) FILTER (WHERE due_at <= ms) AS waiting, \
                 COUNT(*) FILTER (WHERE due_at > ms) AS delayed, \
                 MAX(ms - due_at) FILTER (WHERE due_at <= ms) AS oldest_waiting \
          FROM jobs, clock WHERE status = 'waiting') AS not_held";

/// Parked jobs by what their runs wait for: for each combination of kinds ([`OpenKinds`]) how many there are,
/// counted to 10,000, and for how many ms the first has waited. Both are read from the beginning of an index,
/// in its order, so that PostgreSQL does not take the table for cheaper. Parameters: none.
///
/// [`OpenKinds`]: agent_core::words::OpenKinds
pub(super) const WAITS: &str = "\
    WITH RECURSIVE combination (kinds) AS (SELECT 1 UNION ALL SELECT kinds + 1 FROM combination WHERE kinds < 31) \
    SELECT CAST(kinds AS BIGINT) AS kinds, \
        (SELECT COUNT(*) FROM (SELECT 1 FROM jobs WHERE status = 'parked' AND waits = kinds \
                               ORDER BY waits_since LIMIT 10000) AS counted) AS runs, \
        (SELECT ms FROM clock) - (SELECT waits_since FROM jobs WHERE status = 'parked' AND waits = kinds \
                                  ORDER BY waits_since LIMIT 1) AS oldest \
    FROM combination";

/// In how many ms the next job is due that waits, is held or is parked; null if there is none. Of those that
/// are parked, however many, one entry of their index is read. Parameters: none.
pub(super) const NEXT_DUE: &str = "\
    SELECT MIN(due_at) - (SELECT ms FROM clock) \
    FROM (SELECT due_at FROM jobs WHERE status = 'waiting' \
          UNION ALL SELECT due_at FROM jobs WHERE status = 'active' \
          UNION ALL SELECT MIN(due_at) FROM jobs WHERE status = 'parked') AS open";

/// Whether as many workers died of a job as may, the one among them whose lease has expired just now. For one
/// that is to be cancelled twice as many may: it is not carried on, but its journal is read.
macro_rules! has_killed_enough {
    () => {
        "losses + CASE WHEN status = 'active' THEN 1 ELSE 0 END \
         >= CAST($4 AS BIGINT) * CASE WHEN cancel_asked THEN 2 ELSE 1 END"
    };
}

/// Leases the next job, a stalled one before others and one whose wait has expired before those that wait, to
/// `$1` worker under `$2` token for `$3` ms. One of which `$4` workers died has failed instead; then the
/// returned status says so. One that its owner asked to cancel is leased like any other: its worker ends the
/// run.
macro_rules! claim {
    ($lock:literal) => {
        concat!(
            "WITH stalled AS MATERIALIZED (SELECT id FROM jobs \
             WHERE status = 'active' AND due_at <= (SELECT ms FROM clock) ORDER BY id LIMIT 1 ",
            $lock,
            "), expired AS MATERIALIZED (SELECT id FROM jobs \
             WHERE status = 'parked' AND due_at <= (SELECT ms FROM clock) AND NOT EXISTS (SELECT 1 FROM stalled) \
             ORDER BY due_at LIMIT 1 ",
            $lock,
            "), ready AS MATERIALIZED (SELECT id FROM jobs \
             WHERE status = 'waiting' AND due_at <= (SELECT ms FROM clock) \
             AND NOT EXISTS (SELECT 1 FROM stalled) AND NOT EXISTS (SELECT 1 FROM expired) \
             ORDER BY place, due_at, id LIMIT 1 ",
            $lock,
            ") UPDATE jobs SET status = CASE WHEN ",
            has_killed_enough!(),
            " THEN 'failed' ELSE 'active' END, error = CASE WHEN ",
            has_killed_enough!(),
            " THEN 'Every process that worked on the job died.' ELSE error END, \
             finished_at = CASE WHEN ",
            has_killed_enough!(),
            " THEN (SELECT ms FROM clock) END, \
             losses = losses + CASE WHEN status = 'active' THEN 1 ELSE 0 END, \
             started_at = (SELECT ms FROM clock), due_at = (SELECT ms FROM clock) + $3, \
             place = 1, worker = $1, token = $2, claims = ",
            number_of_claim!(),
            " WHERE id = (SELECT id FROM stalled UNION ALL SELECT id FROM expired UNION ALL SELECT id FROM ready LIMIT 1) \
             RETURNING id, run_id, user_id, query, user_tier, user_role, status, attempts_made, created_at, \
                       traceparent, claims, losses, conversation_id, options, parent, \
                       CAST(CASE WHEN cancel_asked THEN 1 ELSE 0 END AS BIGINT) AS cancel_asked"
        )
    };
}

/// [`claim!`] for SQLite, where nobody else writes meanwhile.
pub(super) const CLAIM_IN_SQLITE: &str = claim!("");

/// [`claim!`] for PostgreSQL, past the jobs that others are claiming at this moment.
pub(super) const CLAIM_IN_POSTGRES: &str = claim!("FOR UPDATE SKIP LOCKED");

/// `$1` address, `$2` worker that asks, `$3` ms that a lease has left when it was renewed in time, `$4` when
/// a lease ends that was renewed as this worker began. A death counts as one, however it was noticed.
pub(super) const RECLAIM: &str = "\
    UPDATE jobs SET status = 'waiting', \
        losses = losses + 1, place = 0, due_at = (SELECT ms FROM clock), worker = NULL, token = NULL \
    WHERE substr(worker, 1, length($1)) = $1 AND worker <> $2 AND status = 'active' \
        AND due_at <= (SELECT ms FROM clock) + $3 AND due_at < $4 RETURNING id";

/// `$1` id, `$2` token, `$3` ms. On PostgreSQL; on SQLite leases are renewed by the commit lane.
pub(super) const RENEW: &str = "\
    UPDATE jobs SET due_at = (SELECT ms FROM clock) + $3 \
    WHERE id = $1 AND token = $2 AND status = 'active' RETURNING cancel_asked";

/// `$1` id.
pub(super) const CANCEL: &str = "\
    UPDATE jobs SET status = CASE WHEN status = 'active' THEN status ELSE 'cancelled' END, \
        finished_at = CASE WHEN status <> 'active' THEN (SELECT ms FROM clock) END, cancel_asked = TRUE \
    WHERE id = $1 AND status IN ('waiting', 'active', 'parked') RETURNING status";

/// `$1` id, `$2` ms. One that is to go on at once is put before those that nobody has begun.
pub(super) const RESUME: &str = "\
    UPDATE jobs SET status = CASE WHEN $2 = 0 THEN 'waiting' ELSE status END, \
        place = CASE WHEN $2 = 0 THEN 0 ELSE place END, \
        due_at = CASE WHEN due_at < (SELECT ms FROM clock) + $2 THEN due_at ELSE (SELECT ms FROM clock) + $2 END \
    WHERE id = $1 AND status = 'parked'";

/// `$1` id, `$2` the id of its next run.
pub(super) const RETRY: &str = "\
    UPDATE jobs SET status = 'waiting', run_id = $2, error = NULL, finished_at = NULL, started_at = NULL, \
        due_at = (SELECT ms FROM clock), place = 1, losses = 0, cancel_asked = FALSE \
    WHERE id = $1 AND status = 'failed'";

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
    use test_servers::Postgres;

    use super::*;
    use crate::sql::SqlPool;
    use crate::sql::sqlite_plans::SqlitePlans;

    /// Jobs of a hundred users, and plans that are made for all of them.
    const FILL: &str = "\
        INSERT INTO jobs (id, run_id, user_id, query, status, due_at, created_at) \
            SELECT lpad(n::text, 8, '0'), 'r', 'u' || n % 100, 'q', \
                CASE WHEN n % 50 = 0 THEN 'failed' WHEN n % 7 = 0 THEN 'waiting' ELSE 'completed' END, 1, 1 \
            FROM generate_series(1, 10000) AS n; \
        ANALYZE jobs; SET plan_cache_mode = force_generic_plan";

    #[test]
    fn every_combination_of_kinds_is_counted() {
        let most = format!("WHERE kinds < {})", agent_core::words::OpenKinds::COMBINATIONS);
        assert!(WAITS.contains(&most), "{most}");
    }

    #[tokio::test]
    async fn on_sqlite_no_statement_reads_the_whole_table() {
        let mut plans = SqlitePlans::open().await;
        for (sql, indexes) in [
            (CLAIM_IN_SQLITE, &["jobs_waiting", "jobs_active", "jobs_parked"][..]),
            (DEPTH, &["jobs_waiting", "jobs_active", "jobs_parked"]),
            (NEXT_DUE, &["jobs_waiting", "jobs_active", "jobs_parked"]),
            (WAITS, &["jobs_parked_by_kind"]),
            (list(None), &["jobs_of_user"]),
            (list(Some(JobStatus::Failed)), &["jobs_ended_of_user (user_id=? AND status=? AND id<?)"]),
            (list(Some(JobStatus::Parked)), &["jobs_parked_of_user"]),
            (list(Some(JobStatus::Waiting)), &["jobs_waiting_of_user (user_id=? AND id<?)"]),
            (list(Some(JobStatus::Delayed)), &["jobs_waiting_of_user (user_id=? AND id<?)"]),
            (list(Some(JobStatus::Active)), &["jobs_active"]),
            (PARKED, &["jobs_parked"]),
            (RECLAIM, &["jobs_active"]),
            (READ_SEVERAL_IN_SQLITE, &["sqlite_autoindex_jobs_1"]),
        ] {
            let steps = plans.steps(sql).await;
            let whole = |step: &&String| step.starts_with("SCAN jobs") && !step.contains("INDEX jobs_");
            assert_eq!(steps.iter().find(whole), None, "{sql}");
            for index in indexes {
                assert!(steps.iter().any(|step| step.contains(index)), "{index}: {steps:?}");
            }
        }
    }
    #[tokio::test]
    async fn on_postgres_a_page_is_read_in_its_order_and_nothing_behind_it() {
        let server = Postgres::start().await;
        SqlPool::postgres(&server.url()).unwrap().migrate().await.unwrap();
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        sqlx::raw_sql(FILL).execute(&mut connection).await.unwrap();
        for (status, index) in [
            (None, "jobs_of_user"),
            (Some(JobStatus::Completed), "jobs_ended_of_user"),
            (Some(JobStatus::Failed), "jobs_ended_of_user"),
            (Some(JobStatus::Cancelled), "jobs_ended_of_user"),
            (Some(JobStatus::Waiting), "jobs_waiting_of_user"),
            (Some(JobStatus::Delayed), "jobs_waiting_of_user"),
        ] {
            let prepare = format!("PREPARE page (text, text, bigint) AS {}", list(status));
            let explain = format!("{prepare}; EXPLAIN EXECUTE page ('u', '~', 21); DEALLOCATE page");
            let plan = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut connection).await.unwrap();
            let plan: Vec<&str> = plan.iter().map(|row| row.get(0)).collect();
            let plan = plan.join("\n");
            assert!(plan.contains(&format!("Backward using {index} on")), "{status:?}: {plan}");
            assert!(!["Filter", "Sort"].iter().any(|word| plan.contains(word)), "{status:?}: {plan}");
        }
    }
}

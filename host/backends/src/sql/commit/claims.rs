//! Claims that are made with the end of an attempt: a worker that ends a job is given the next one in the
//! same commit.
//!
//! Only jobs that wait are claimed here, and none while there is a stalled one or one whose wait has expired,
//! or where the one at hand has killed as many workers as may and is not to be cancelled. Then the end claims
//! nothing, and its worker claims by itself (`queue/statements.rs`), where such jobs come first and fail if
//! need be. So nothing of this can end a job, and whoever waits behind a stalled one does so as before.

use agent_core::ports::queue::MOST_LOSSES;
use serde::Deserialize;

use crate::sql::from_row::from_row;

/// The number of the claim that is made, in a statement that changes a job: the database's time in
/// milliseconds, or one more than the last number where that is higher. A restore or a failover to a replica
/// that is behind may have forgotten a claim whose worker still writes: by the time the next number is
/// another one. The first claim of a job has an even number and each later one an odd number, because a
/// statement answers with what it has written.
macro_rules! number_of_claim {
    () => {
        "CASE WHEN claims = 0 THEN ((SELECT ms FROM clock) + 1) / 2 * 2 \
              ELSE CASE WHEN claims >= (SELECT ms FROM clock) THEN claims + 1 ELSE (SELECT ms FROM clock) END | 1 END"
    };
}
pub(crate) use number_of_claim;

/// What the lane calls the answer that is a job which was claimed: the token of the claim, and the job as
/// JSON.
pub(super) const CLAIMED: i64 = 3;

/// A claim of the next job, if there is one and the end that it comes with takes effect.
#[derive(Debug)]
pub(crate) struct NextClaim {
    pub(crate) worker: String,
    /// Of the claim that is made: the same one however often the end is handed in, so that a claim whose
    /// answer was lost is found again.
    pub(crate) token: String,
    /// How many ms it lasts.
    pub(crate) lease: i64,
}

from_row! {
    /// Columns of a job that is claimed.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    pub(crate) struct ClaimRow {
        pub(crate) id: String,
        pub(crate) run_id: String,
        pub(crate) user_id: String,
        pub(crate) query: String,
        pub(crate) user_tier: Option<String>,
        pub(crate) user_role: Option<String>,
        pub(crate) conversation_id: Option<String>,
        pub(crate) options: Option<String>,
        pub(crate) parent: Option<String>,
        pub(crate) status: String,
        pub(crate) attempts_made: i64,
        pub(crate) created_at: i64,
        pub(crate) traceparent: Option<String>,
        pub(crate) claims: i64,
        pub(crate) losses: i64,
        /// 1 when its owner asked to cancel it, else 0.
        pub(crate) cancel_asked: i64,
    }
}

/// The arguments of `json_object` that make the text of a [`ClaimRow`]: an answer of the lane has the same
/// columns whatever was written.
const CLAIM_AS_JSON: &str = "\
    'id', id, 'run_id', run_id, 'user_id', user_id, 'query', query, 'user_tier', user_tier, 'user_role', user_role, \
    'conversation_id', conversation_id, 'options', options, 'parent', parent, 'status', status, 'attempts_made', attempts_made, 'created_at', created_at, \
    'traceparent', traceparent, 'claims', claims, 'losses', losses, \
    'cancel_asked', CASE WHEN cancel_asked THEN 1 ELSE 0 END";

/// The tables of a claim, on top of `claimant` with the columns `next_worker`, `next_token`, `lease` and
/// `number`, counted from 1: `next` has as many jobs as there are claimants, or fewer. `lock` is what
/// PostgreSQL needs so that no two claim the same one.
///
/// Whether a wait has expired is asked by `MIN`, for which the first entry of an index is read. Of `EXISTS`
/// PostgreSQL supposes that a third of all jobs match, and reads the table: 230 ms at a million that wait.
pub(super) fn next_jobs(lock: &str) -> String {
    format!(
        "ready AS MATERIALIZED ( \
             SELECT id FROM jobs WHERE status = 'waiting' AND due_at <= (SELECT ms FROM clock) \
             AND NOT EXISTS (SELECT 1 FROM jobs s WHERE s.status = 'active' AND s.due_at <= (SELECT ms FROM clock)) \
             AND COALESCE((SELECT MIN(due_at) FROM jobs WHERE status = 'parked') > (SELECT ms FROM clock), TRUE) \
             ORDER BY place, due_at, id LIMIT (SELECT COUNT(*) FROM claimant) {lock}), \
         next AS MATERIALIZED (SELECT id AS next_id, ROW_NUMBER() OVER () AS next_number FROM ready)"
    )
}

/// Leases the jobs of `next` to the claimants.
pub(super) fn claim_next() -> String {
    format!(
        "UPDATE jobs SET status = 'active', started_at = (SELECT ms FROM clock), \
             due_at = (SELECT ms FROM clock) + lease, place = 1, worker = next_worker, token = next_token, \
             claims = {} \
         FROM next, claimant \
         WHERE id = next_id AND number = next_number AND losses < {MOST_LOSSES} * CASE WHEN cancel_asked THEN 2 ELSE 1 END",
        number_of_claim!()
    )
}

/// Renews the leases that were claimed by these tokens before, for `$2` ms.
pub(super) const RENEW_IN_SQLITE: &str = "\
    UPDATE jobs SET due_at = (SELECT ms FROM clock) + $2 \
    WHERE status = 'active' AND token IN (SELECT value FROM json_each($1))";

/// Renews the leases that were claimed by these tokens before, for `$2` ms. `$1` an array.
pub(super) const RENEW_IN_POSTGRES: &str = "\
    UPDATE jobs SET due_at = (SELECT ms FROM clock) + $2 WHERE status = 'active' AND token = ANY($1)";

/// What the lane answers for a job that was claimed: the token and the job.
pub(super) fn answer(json_object: &str) -> String {
    format!("{CLAIMED} AS kind, token AS id, NULL AS number, {json_object}({CLAIM_AS_JSON})")
}

impl ClaimRow {
    /// Whether nobody had claimed the job before. Where a worker of an earlier release had, which counts
    /// claims, the number is odd as well.
    pub(crate) fn is_first(&self) -> bool {
        self.claims % 2 == 0
    }

    /// Nothing when it is not what [`answer`] made.
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

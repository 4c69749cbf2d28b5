//! One commit of the lane: in one transaction of either database. What was kept out of a journal is then held
//! against what stands there.

use std::collections::HashMap;

use sqlx::AssertSqlSafe;

use super::batch::{Batch, Changed, ChangedRow};
use super::claims;
use super::jobs::{AttemptRow, EndedRow};
use super::runs::{AppendRow, Entry, FoundRow, StoredUnderKey};
use super::write::{CommitError, Together, Write, Written};
use super::{Commit, Outcome, in_postgres, in_sqlite};
use crate::sql::error::describe;
use crate::sql::{SqlPool, on_postgres};

impl Commit for Write {
    type Answer = Written;

    fn parts(mut writes: &[Self]) -> Vec<&[Self]> {
        let mut parts = Vec::new();
        while !writes.is_empty() {
            let mut together = Together::default();
            let count = writes.iter().take_while(|write| together.takes(write)).count();
            let (part, left) = writes.split_at(count);
            parts.push(part);
            writes = left;
        }
        parts
    }

    async fn commit(pool: &SqlPool, writes: &[Self]) -> sqlx::Result<Vec<Outcome<Self>>> {
        let batch = Batch::of(writes);
        let rows = match pool {
            SqlPool::Postgres(pool) => in_postgres::write(pool, &batch).await?,
            SqlPool::Sqlite(pools) => in_sqlite::write(pools, &batch).await?,
        };
        let changed = Changed::from_iter(rows);
        let mut outcomes: Vec<_> = writes.iter().map(|write| Ok(changed.of(write))).collect();
        find_claims(pool, writes, &mut outcomes).await;
        find_ends(pool, writes, &mut outcomes).await;
        let kept_out: Vec<(usize, &Entry)> = writes
            .iter()
            .enumerate()
            .filter_map(
                |(index, write)| if let Write::Run(entry) = write { Some((index, entry)) } else { None },
            )
            .filter(|(_, entry)| entry.append().is_some_and(|append| !changed.has_appended(append)))
            .collect();
        // What was committed stays so, whatever becomes of this: it fails those only that it is about.
        let found = find(pool, &kept_out).await.map_err(|error| CommitError(describe(&error)));
        for (number, (index, _)) in kept_out.iter().enumerate() {
            if let Some(outcome) = outcomes.get_mut(*index) {
                *outcome = match &found {
                    Ok(found) => {
                        Ok(Written::Run(found.get(number).copied().unwrap_or(StoredUnderKey::Another)))
                    }
                    Err(error) => Err(error.clone()),
                };
            }
        }
        Ok(outcomes)
    }
}

/// Ends with a claim that were handed in before, or committed without an answer, took effect then. The jobs
/// that were claimed with them are found by the tokens of those claims, and their leases begin anew. One that
/// claimed nothing, or whose next job somebody else has by now, is like an end without a claim
/// ([`find_ends`]).
async fn find_claims(pool: &SqlPool, writes: &[Write], outcomes: &mut [Outcome<Write>]) {
    let refused = refused(writes, outcomes).into_iter();
    let refused: Vec<_> =
        refused.filter_map(|(index, attempt)| Some((index, attempt, attempt.next.as_ref()?))).collect();
    let Some((_, _, first)) = refused.first() else { return };
    let tokens = refused.iter().map(|(_, _, next)| &*next.token).collect();
    let found = renew_claims(pool, tokens, first.lease).await;
    for (index, attempt, next) in refused {
        let ended = |next| EndedRow { status: attempt.status.to_owned(), next: Some(next) };
        note(outcomes, index, found.as_ref().map(|found| found.claimed(next).map(ended)));
    }
}

/// The ends that changed nothing, each with its place among the writes.
fn refused<'a>(writes: &'a [Write], outcomes: &[Outcome<Write>]) -> Vec<(usize, &'a AttemptRow)> {
    let ends = writes.iter().zip(outcomes).enumerate().filter_map(|(index, pair)| match pair {
        (Write::End(attempt), Ok(Written::Ended(None))) => Some((index, attempt)),
        _ => None,
    });
    ends.collect()
}

/// Says of an end what was found of it.
fn note(outcomes: &mut [Outcome<Write>], index: usize, ended: Result<Option<EndedRow>, &sqlx::Error>) {
    if let Some(outcome) = outcomes.get_mut(index) {
        *outcome = ended.map(Written::Ended).map_err(|error| CommitError(describe(error)));
    }
}

async fn renew_claims(pool: &SqlPool, tokens: Vec<&str>, lease: i64) -> sqlx::Result<Changed> {
    let rows: Vec<ChangedRow> = match pool {
        SqlPool::Postgres(pool) => {
            let answer = claims::answer("json_build_object");
            let sql = format!(
                "WITH claimed AS ({} RETURNING {answer}::text AS text) \
                 SELECT kind::bigint, id, NULL::bigint AS number, text FROM claimed",
                claims::RENEW_IN_POSTGRES
            );
            on_postgres!(pool, Allowed, db => {
                sqlx::query_as(AssertSqlSafe(sql.as_str())).bind(tokens.clone()).bind(lease).fetch_all(db)
            })?
        }
        SqlPool::Sqlite(pools) => {
            let answer = claims::answer("json_object");
            let sql = format!("{} RETURNING {answer} AS text", claims::RENEW_IN_SQLITE);
            let tokens = serde_json::to_string(&tokens).map_err(|error| sqlx::Error::Encode(error.into()))?;
            let query = sqlx::query_as(AssertSqlSafe(sql)).bind(tokens).bind(lease);
            query.fetch_all(pools.writer()).await?
        }
    };
    Ok(Changed::from_iter(rows))
}

/// Ends that are refused although they took effect: they were told before, and the answer was lost. Their
/// workers are told so, and not that they lost their leases: what is left to do behind an end is theirs.
async fn find_ends(pool: &SqlPool, writes: &[Write], outcomes: &mut [Outcome<Write>]) {
    let refused = refused(writes, outcomes);
    if refused.is_empty() {
        return;
    }
    let ends: Vec<&AttemptRow> = refused.iter().map(|(_, attempt)| *attempt).collect();
    let found = ends_told_before(pool, &ends).await;
    for (number, (index, _)) in (0_i64..).zip(refused) {
        let ended = |status: &String| EndedRow { status: status.clone(), next: None };
        note(outcomes, index, found.as_ref().map(|found| found.get(&number).map(ended)));
    }
}

/// The statuses of the jobs that stand as the ends `a` leave them and that nobody has claimed since, by the
/// numbers of the ends. An end that leaves its job to somebody may have cancelled it instead.
const STAND_AS_ENDED: &str = "\
    SELECT a.number, j.status FROM a JOIN jobs j ON j.id = a.job_id \
    WHERE j.token IS NULL AND j.claims = a.epoch AND j.place = a.place \
      AND (j.status = a.status OR (j.status = 'cancelled' AND a.status IN ('waiting', 'parked'))) \
      AND (a.result IS NULL OR j.result = a.result) AND (a.error IS NULL OR j.error = a.error)";

async fn ends_told_before(pool: &SqlPool, ends: &[&AttemptRow]) -> sqlx::Result<HashMap<i64, String>> {
    let columns = "number, job_id, epoch, status, place, result, error";
    let rows: Vec<(i64, String)> = match pool {
        SqlPool::Postgres(pool) => {
            let sql = format!(
                "WITH a ({columns}) AS (SELECT * FROM UNNEST($1::bigint[], $2::text[], $3::bigint[], $4::text[], \
                                                             $5::bigint[], $6::text[], $7::text[]) AS ends) \
                 {STAND_AS_ENDED}"
            );
            on_postgres!(pool, Allowed, db => {
                sqlx::query_as(AssertSqlSafe(sql.as_str()))
                    .bind((0_i64..).take(ends.len()).collect::<Vec<_>>())
                    .bind(ends.iter().map(|end| &*end.job_id).collect::<Vec<_>>())
                    .bind(ends.iter().map(|end| end.epoch).collect::<Vec<_>>())
                    .bind(ends.iter().map(|end| end.status).collect::<Vec<_>>())
                    .bind(ends.iter().map(|end| end.place).collect::<Vec<_>>())
                    .bind(ends.iter().map(|end| end.result.as_deref()).collect::<Vec<_>>())
                    .bind(ends.iter().map(|end| end.error.as_deref()).collect::<Vec<_>>())
                    .fetch_all(db)
            })?
        }
        SqlPool::Sqlite(pools) => {
            let sql = format!(
                "WITH a ({columns}) AS (SELECT key, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, \
                                               value ->> 5 FROM json_each($1)) {STAND_AS_ENDED}"
            );
            let rows: Vec<_> = ends
                .iter()
                .map(|end| (&end.job_id, end.epoch, end.status, end.place, &end.result, &end.error))
                .collect();
            let rows = serde_json::to_string(&rows).map_err(|error| sqlx::Error::Encode(error.into()))?;
            sqlx::query_as(AssertSqlSafe(sql)).bind(rows).fetch_all(pools.readers()).await?
        }
    };
    Ok(rows.into_iter().collect())
}

const FIND_IN_POSTGRES: &str = "\
    SELECT a.number, e.epoch, e.event, l.epoch AS last_epoch, l.event AS last_event, \
           (SELECT MAX(h.epoch) FROM run_events h WHERE h.run_id = a.run_id) AS highest \
    FROM UNNEST($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) AS a (number, run_id, first, last) \
    LEFT JOIN run_events e ON e.run_id = a.run_id AND e.sequence = a.first \
    LEFT JOIN run_events l ON l.run_id = a.run_id AND l.sequence = a.last";

/// `$1` an array of `[run, number of the first event, number of the last one]`.
const FIND_IN_SQLITE: &str = "\
    SELECT a.key AS number, e.epoch, e.event, l.epoch AS last_epoch, l.event AS last_event, \
           (SELECT MAX(h.epoch) FROM run_events h WHERE h.run_id = a.value ->> 0) AS highest \
    FROM json_each($1) AS a \
    LEFT JOIN run_events e ON e.run_id = a.value ->> 0 AND e.sequence = a.value ->> 1 \
    LEFT JOIN run_events l ON l.run_id = a.value ->> 0 AND l.sequence = a.value ->> 2";

/// What kept each of these appends out, in one statement however many they are. Events never change, so what
/// stands there now is what stood there at the commit.
async fn find(pool: &SqlPool, kept_out: &[(usize, &Entry)]) -> sqlx::Result<Vec<StoredUnderKey>> {
    let appends: Vec<&AppendRow> = kept_out.iter().filter_map(|(_, entry)| entry.append()).collect();
    if appends.is_empty() {
        return Ok(vec![]);
    }
    let rows: Vec<FoundRow> = match pool {
        SqlPool::Postgres(pool) => on_postgres!(pool, Allowed, db => {
            sqlx::query_as(FIND_IN_POSTGRES)
                .bind((0_i64..).take(appends.len()).collect::<Vec<_>>())
                .bind(appends.iter().map(|append| &*append.run_id).collect::<Vec<_>>())
                .bind(appends.iter().map(|append| append.first).collect::<Vec<_>>())
                .bind(appends.iter().map(|append| append.last()).collect::<Vec<_>>())
                .fetch_all(db)
        })?,
        SqlPool::Sqlite(pools) => {
            let places: Vec<_> =
                appends.iter().map(|append| (&append.run_id, append.first, append.last())).collect();
            let places = serde_json::to_string(&places).map_err(|error| sqlx::Error::Encode(error.into()))?;
            sqlx::query_as(FIND_IN_SQLITE).bind(places).fetch_all(pools.readers()).await?
        }
    };
    let found: HashMap<i64, FoundRow> = rows.into_iter().map(|row| (row.number, row)).collect();
    let stored: Vec<_> =
        (0_i64..).zip(&appends).map(|(number, append)| append.compare(found.get(&number))).collect();
    if let SqlPool::Postgres(pool) = pool {
        // SQLite has committed them with their events.
        let there = kept_out.iter().zip(&stored).filter(|(_, stored)| **stored == StoredUnderKey::Ours);
        let records = there.filter_map(|((_, entry), _)| Some((entry.record()?.0, None))).collect();
        let batch = Batch { records, is_promised: true, ..Batch::default() };
        if !batch.records.is_empty() {
            in_postgres::write(pool, &batch).await?;
        }
    }
    Ok(stored)
}

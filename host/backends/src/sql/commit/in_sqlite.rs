//! A commit in SQLite: one exchange with the thread that SQLite runs on, whatever is written.
//!
//! It is flushed whether anybody relies on it or not. How far SQLite flushes is a setting of the connection,
//! which those writes share that are relied on; it is set when the text of a statement is prepared and not
//! when that is run, and not within a transaction, so that two more exchanges around a commit would be the
//! price.

use sqlx::{AssertSqlSafe, Sqlite as Driver};

use super::batch::{APPENDED, Batch, ChangedRow, ENDED, RENEWED};
use super::claims;
use super::jobs::{ATTEMPT, END_ATTEMPTS, NEW_JOB, waits, waits_since};
use super::runs::{AppendRow, replace_record};
use super::values::{ROWS_AT_ONCE, Statements, Value};
use crate::sql::Sqlite;

/// How many statements a text may have that stays prepared. The driver keeps a hundred texts with all their
/// statements, each of up to 20 KB, and hardly any text of a larger batch occurs twice.
const MOST_PREPARED: usize = 6;

/// The columns of a record.
const RECORD: &str = "run_id, request_id, user_id, job_id, started_at, finished_at, outcome";

/// Whether no later claim has written to the run of an append `a`.
const IS_UNFENCED: &str =
    "NOT EXISTS (SELECT 1 FROM run_events e WHERE e.run_id = a.run_id AND e.epoch > a.epoch)";

/// Whether nothing stands where the append `a` begins.
const IS_FREE: &str =
    "NOT EXISTS (SELECT 1 FROM run_events e WHERE e.run_id = a.run_id AND e.sequence = a.first)";

/// Whether the event before the append `a` is there. A failover to a copy that was behind may have lost it:
/// what is written behind such a hole could never be read as a run.
const IS_BEHIND_ANOTHER: &str = "\
    (a.first = 0 OR EXISTS (SELECT 1 FROM run_events e WHERE e.run_id = a.run_id AND e.sequence = a.first - 1))";

/// Writes all of it and answers what has changed.
pub(super) async fn write(pools: &Sqlite, batch: &Batch<'_>) -> sqlx::Result<Vec<ChangedRow>> {
    let statements = statements(batch);
    let is_kept = statements.texts.len() <= MOST_PREPARED;
    let mut query =
        sqlx::query_as::<Driver, ChangedRow>(AssertSqlSafe(statements.text())).persistent(is_kept);
    for value in statements.values {
        query = match value {
            Value::Text(text) => query.bind(text),
            Value::Number(number) => query.bind(number),
            Value::Null => query.bind(None::<i64>),
        };
    }
    pools.exchange(query).await
}

fn statements<'a>(batch: &Batch<'a>) -> Statements<'a> {
    let mut statements = Statements::default();
    add_jobs(&mut statements, batch);
    renew(&mut statements, batch);
    claim(&mut statements, batch);
    end_attempts(&mut statements, batch);
    save(&mut statements, batch);
    append(&mut statements, batch);
    statements
}

fn add_jobs<'a>(statements: &mut Statements<'a>, batch: &Batch<'a>) {
    let rows: Vec<_> = batch
        .jobs
        .iter()
        .map(|job| {
            [
                Value::from(&job.id),
                (&job.run_id).into(),
                (&job.user_id).into(),
                (&job.query).into(),
                job.user_tier.as_ref().into(),
                job.user_role.as_ref().into(),
                job.conversation_id.as_ref().into(),
                job.options.as_ref().into(),
                job.parent.as_ref().into(),
                job.traceparent.as_ref().into(),
                job.status.into(),
                job.claims.into(),
                waits(job.open).into(),
                waits_since(job.open).into(),
                job.delay.into(),
            ]
        })
        .collect();
    statements.add(&rows, |rows| {
            format!(
                "WITH job ({NEW_JOB}, delay) AS (VALUES {rows}) \
                 INSERT INTO jobs ({NEW_JOB}, due_at, created_at, started_at) \
                 SELECT {NEW_JOB}, ms + delay, ms, CASE WHEN status = 'parked' THEN ms END FROM job, clock WHERE id IS NOT NULL ON CONFLICT DO NOTHING"
            )
    });
}

fn renew<'a>(statements: &mut Statements<'a>, batch: &Batch<'a>) {
    let rows: Vec<_> = batch
        .renewals
        .iter()
        .map(|renewal| [Value::from(&renewal.job_id), (&renewal.token).into(), renewal.lease.into()])
        .collect();
    statements.add(&rows, |rows| {
        format!(
            "WITH renewal (job_id, job_token, lease) AS (VALUES {rows}) \
                 UPDATE jobs SET due_at = (SELECT ms FROM clock) + lease \
                 FROM renewal WHERE id = job_id AND token = job_token AND status = 'active' \
                 RETURNING {RENEWED} AS kind, id, cancel_asked AS number, NULL AS text"
        )
    });
}

/// Claims for those whose ends will take effect, before they do: what held them then is still to be seen.
/// Jobs that are added in this commit are among those that can be claimed.
fn claim<'a>(statements: &mut Statements<'a>, batch: &Batch<'a>) {
    let rows: Vec<_> = batch
        .claims()
        .into_iter()
        .map(|(attempt, next)| {
            [
                Value::from(&attempt.job_id),
                (&attempt.token).into(),
                (&next.worker).into(),
                (&next.token).into(),
                next.lease.into(),
            ]
        })
        .collect();
    statements.add(&rows, |rows| {
        let (next, update, answer) =
            (claims::next_jobs(""), claims::claim_next(), claims::answer("json_object"));
        format!(
            "WITH wanted (job_id, job_token, next_worker, next_token, lease) AS (VALUES {rows}), \
                 claimant AS MATERIALIZED ( \
                     SELECT next_worker, next_token, lease, ROW_NUMBER() OVER () AS number FROM wanted \
                     WHERE EXISTS (SELECT 1 FROM jobs e \
                                   WHERE e.id = job_id AND e.token = job_token AND e.status = 'active')), \
                 {next} {update} RETURNING {answer} AS text"
        )
    });
}

fn end_attempts<'a>(statements: &mut Statements<'a>, batch: &Batch<'a>) {
    let rows: Vec<_> = batch
        .attempts
        .iter()
        .map(|attempt| {
            [
                Value::from(&attempt.job_id),
                (&attempt.token).into(),
                attempt.status.into(),
                attempt.delay.into(),
                attempt.place.into(),
                attempt.attempts.into(),
                attempt.result.as_ref().into(),
                attempt.error.as_ref().into(),
                waits(attempt.open).into(),
                waits_since(attempt.open).into(),
            ]
        })
        .collect();
    statements.add(&rows, |rows| {
        format!(
            "WITH attempt ({ATTEMPT}) AS (VALUES {rows}) {END_ATTEMPTS} \
                 RETURNING {ENDED} AS kind, id, NULL AS number, status AS text"
        )
    });
}

/// The events of an append are in one statement, which decides about all of them: reading the table that it
/// writes to, it sees nothing of what it writes. What does not fit into it follows where the first event is
/// the append's.
fn append<'a>(statements: &mut Statements<'a>, batch: &Batch<'a>) {
    for appends in together(&batch.appends) {
        let mut firsts = Vec::new();
        for append in appends {
            for (number, event) in rows(append).take(ROWS_AT_ONCE) {
                let run_id = Value::from(&append.run_id);
                firsts.push([run_id, append.first.into(), number.into(), append.epoch.into(), event.into()]);
            }
        }
        statements.add(&firsts, |rows| {
            format!(
                "WITH a (run_id, first, sequence, epoch, event) AS (VALUES {rows}) \
                 INSERT INTO run_events (run_id, sequence, writer, epoch, event) \
                 SELECT run_id, sequence, '', epoch, event FROM a \
                 WHERE a.run_id IS NOT NULL AND {IS_UNFENCED} AND {IS_FREE} AND {IS_BEHIND_ANOTHER} \
                 ON CONFLICT DO NOTHING \
                 RETURNING {APPENDED} AS kind, run_id AS id, sequence AS number, NULL AS text"
            )
        });
        for append in appends {
            append_rest(statements, append);
        }
    }
}

/// The events of a long append behind those of its first statement.
fn append_rest<'a>(statements: &mut Statements<'a>, append: &'a AppendRow) {
    let rest: Vec<_> =
        rows(append).skip(ROWS_AT_ONCE).map(|(number, event)| [Value::from(number), event.into()]).collect();
    for rows in rest.chunks(ROWS_AT_ONCE) {
        let first = append.events.first();
        statements.bind(&[[
            Value::from(&append.run_id),
            append.first.into(),
            append.epoch.into(),
            first.into(),
        ]]);
        statements.add(rows, |rows| {
            format!(
                "WITH a (run_id, first, epoch, event) AS (VALUES (?, ?, ?, ?)), rest (sequence, event) AS (VALUES {rows}) \
                 INSERT INTO run_events (run_id, sequence, writer, epoch, event) \
                 SELECT a.run_id, rest.sequence, '', a.epoch, rest.event FROM a, rest \
                 WHERE rest.sequence IS NOT NULL AND {IS_UNFENCED} \
                   AND EXISTS (SELECT 1 FROM run_events e WHERE e.run_id = a.run_id AND e.sequence = a.first \
                               AND e.epoch = a.epoch AND e.event = a.event) \
                 ON CONFLICT DO NOTHING"
            )
        });
    }
}

/// Writes records anew, the last one of a run behind the others. One that comes with events is written where
/// these are going to be.
fn save<'a>(statements: &mut Statements<'a>, batch: &Batch<'a>) {
    let rows: Vec<_> = batch
        .records
        .iter()
        .map(|(record, append)| {
            [
                Value::from(&record.run_id),
                (&record.request_id).into(),
                record.user_id.as_ref().into(),
                record.job_id.as_ref().into(),
                record.started_at.into(),
                record.finished_at.into(),
                (&record.outcome).into(),
                append.map(|append| append.epoch).into(),
                append.map(|append| append.first).into(),
            ]
        })
        .collect();
    let replace = replace_record();
    statements.add(&rows, |rows| {
        format!(
            "WITH a ({RECORD}, epoch, first) AS (VALUES {rows}) \
                 INSERT INTO run_records ({RECORD}) SELECT {RECORD} FROM a \
                 WHERE a.run_id IS NOT NULL \
                   AND (a.epoch IS NULL OR ({IS_UNFENCED} AND {IS_FREE} AND {IS_BEHIND_ANOTHER})) {replace}"
        )
    });
}

/// The events of an append with their numbers.
fn rows(append: &AppendRow) -> impl Iterator<Item = (i64, &String)> {
    (append.first..).zip(&append.events)
}

/// Groups the appends that go into one statement together.
fn together<'a, 'b>(mut appends: &'b [&'a AppendRow]) -> Vec<&'b [&'a AppendRow]> {
    let mut statements = Vec::new();
    while !appends.is_empty() {
        let (mut count, mut rows) = (0, 0);
        for append in appends {
            rows += append.events.len();
            // A long one goes alone.
            if count > 0 && rows > ROWS_AT_ONCE {
                break;
            }
            count += 1;
        }
        let (statement, left) = appends.split_at(count);
        statements.push(statement);
        appends = left;
    }
    statements
}

#[cfg(test)]
mod tests {
    use agent_core::words::JobData;

    use super::super::claims::NextClaim;
    use super::super::jobs::{AttemptRow, NewJob, Renewal};
    use super::super::runs::{Entry, RecordRow};
    use super::super::write::Write;
    use super::*;
    use crate::sql::sqlite_plans::SqlitePlans;

    /// One write of each kind.
    fn writes() -> Vec<Write> {
        let next = NextClaim { worker: "worker".into(), token: "next".into(), lease: 1 };
        let append = AppendRow { run_id: "run_1".into(), epoch: 1, first: 0, events: vec!["{}".into(); 20] };
        vec![
            NewJob::new(&JobData::new("2 + 3", "u1"), &"".into()).into(),
            Renewal { job_id: "job_1".into(), token: "token".into(), lease: 1 }.into(),
            AttemptRow::of("job_1", "token", Some(next)).into(),
            Entry::End(append, RecordRow::of("run_1")).into(),
        ]
    }

    #[tokio::test]
    async fn no_statement_reads_a_whole_table() {
        let mut plans = SqlitePlans::open().await;
        let writes = writes();
        let statements = statements(&Batch::of(&writes));
        assert_eq!(statements.texts.len(), 7, "{:?}", statements.texts);
        for sql in statements.texts {
            let steps = plans.steps(&sql).await;
            let tables = ["jobs", "e", "s", "run_records"].map(|table| format!("SCAN {table}"));
            // What waits and what is held have an index each, which is read from its beginning.
            let is_partial =
                |step: &String| step.contains("INDEX jobs_waiting") || step.contains("INDEX jobs_active");
            let whole = |step: &&String| {
                tables.iter().any(|scan| *step == scan || step.starts_with(&format!("{scan} ")))
                    && !is_partial(step)
            };
            assert_eq!(steps.iter().find(whole), None, "{sql}");
        }
    }
}

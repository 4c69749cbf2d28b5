//! A commit in PostgreSQL: one statement, and so one round trip, whatever is written. Its parts are common
//! table expressions that see nothing of each other, but for what they read from each other's answers.

use sqlx::{AssertSqlSafe, Postgres as Driver};

use super::batch::{APPENDED, Batch, ChangedRow, ENDED};
use super::claims;
use super::jobs::{ATTEMPT, END_ATTEMPTS, NEW_JOB, waits, waits_since};
use super::runs::{HAS_RESULT, RUNNING, replace_record};
use crate::sql::{Postgres, on_postgres};

/// A parameter: a column of many rows, or one text.
#[derive(Debug, Clone)]
enum Parameter<'a> {
    Texts(Vec<&'a str>),
    OptionalTexts(Vec<Option<&'a str>>),
    Numbers(Vec<i64>),
    OptionalNumbers(Vec<Option<i64>>),
    Text(&'a str),
}

/// The parts of a statement.
#[derive(Debug, Default)]
struct Parts<'a> {
    /// What is written.
    expressions: Vec<String>,
    /// What is answered.
    answers: Vec<String>,
    parameters: Vec<Parameter<'a>>,
}

/// Writes all of it and answers what has changed.
pub(super) async fn write(pool: &Postgres, batch: &Batch<'_>) -> sqlx::Result<Vec<ChangedRow>> {
    debug_assert!(batch.renewals.is_empty(), "they are made by themselves");
    let parts = parts(batch);
    let sql = parts.text();
    on_postgres!(pool, Allowed, db => {
        let mut query = sqlx::query_as::<Driver, ChangedRow>(AssertSqlSafe(sql.as_str()));
        for parameter in parts.parameters.iter().cloned() {
            query = match parameter {
                Parameter::Texts(texts) => query.bind(texts),
                Parameter::OptionalTexts(texts) => query.bind(texts),
                Parameter::Numbers(numbers) => query.bind(numbers),
                Parameter::OptionalNumbers(numbers) => query.bind(numbers),
                Parameter::Text(text) => query.bind(text),
            };
        }
        query.fetch_all(db)
    })
}

fn parts<'a>(batch: &Batch<'a>) -> Parts<'a> {
    let mut parts = Parts::default();
    if !batch.is_promised {
        // Not flushed before the answer: until the end of this transaction, which this statement is.
        parts.answer("SELECT -1::bigint, set_config('synchronous_commit', 'off', TRUE), NULL, NULL".into());
    }
    if !batch.jobs.is_empty() {
        add_jobs(&mut parts, batch);
    }
    if !batch.attempts.is_empty() {
        end_attempts(&mut parts, batch);
        claim(&mut parts, batch);
    }
    announce(&mut parts, batch);
    if !batch.appends.is_empty() {
        append(&mut parts, batch);
    }
    if !batch.records.is_empty() {
        save(&mut parts, batch);
    }
    parts
}

fn add_jobs<'a>(parts: &mut Parts<'a>, batch: &Batch<'a>) {
    let jobs = &batch.jobs;
    let rows = parts.unnest([
        texts(jobs, |job| &job.id),
        texts(jobs, |job| &job.run_id),
        texts(jobs, |job| &job.user_id),
        texts(jobs, |job| &job.query),
        optional_texts(jobs, |job| job.user_tier.as_deref()),
        optional_texts(jobs, |job| job.user_role.as_deref()),
        optional_texts(jobs, |job| job.conversation_id.as_deref()),
        optional_texts(jobs, |job| job.options.as_deref()),
        optional_texts(jobs, |job| job.parent.as_deref()),
        optional_texts(jobs, |job| job.traceparent.as_deref()),
        texts(jobs, |job| job.status),
        numbers(jobs, |job| job.claims),
        numbers(jobs, |job| waits(job.open)),
        numbers(jobs, |job| waits_since(job.open)),
        numbers(jobs, |job| job.delay),
    ]);
    parts.expressions.push(format!(
        "added AS ( \
             INSERT INTO jobs ({NEW_JOB}, due_at, created_at, started_at) \
             SELECT {NEW_JOB}, ms + delay, ms, CASE WHEN status = 'parked' THEN ms END FROM {rows} AS job ({NEW_JOB}, delay), clock \
             ON CONFLICT DO NOTHING RETURNING id)"
    ));
}

fn end_attempts<'a>(parts: &mut Parts<'a>, batch: &Batch<'a>) {
    let attempts = &batch.attempts;
    let rows = parts.unnest([
        texts(attempts, |attempt| &attempt.job_id),
        texts(attempts, |attempt| &attempt.token),
        texts(attempts, |attempt| attempt.status),
        numbers(attempts, |attempt| attempt.delay),
        numbers(attempts, |attempt| attempt.place),
        numbers(attempts, |attempt| attempt.attempts),
        optional_texts(attempts, |attempt| attempt.result.as_deref()),
        optional_texts(attempts, |attempt| attempt.error.as_deref()),
        numbers(attempts, |attempt| waits(attempt.open)),
        numbers(attempts, |attempt| waits_since(attempt.open)),
    ]);
    parts.expressions.push(format!("attempt ({ATTEMPT}) AS (SELECT * FROM {rows} AS attempt)"));
    parts.expressions.push(format!("ended AS ({END_ATTEMPTS} RETURNING id, status)"));
    parts.answer(format!("SELECT {ENDED}::bigint, id, NULL, status FROM ended"));
}

/// Claims for those whose ends take effect: the claims of this statement are no others' for as long as the
/// ends are not.
fn claim<'a>(parts: &mut Parts<'a>, batch: &Batch<'a>) {
    let claims = batch.claims();
    if claims.is_empty() {
        return;
    }
    let rows = parts.unnest([
        texts(&claims, |(attempt, _)| &attempt.job_id),
        texts(&claims, |(_, next)| &next.worker),
        texts(&claims, |(_, next)| &next.token),
        numbers(&claims, |(_, next)| next.lease),
    ]);
    parts.expressions.push(format!(
        "claimant AS MATERIALIZED ( \
             SELECT next_worker, next_token, lease, ROW_NUMBER() OVER () AS number \
             FROM {rows} AS wanted (job_id, next_worker, next_token, lease) JOIN ended ON ended.id = job_id)"
    ));
    parts.expressions.push(claims::next_jobs("FOR UPDATE SKIP LOCKED"));
    let (update, answer) = (claims::claim_next(), claims::answer("json_build_object"));
    parts.expressions.push(format!("claimed AS ({update} RETURNING {answer}::text AS text)"));
    parts.answer("SELECT kind::bigint, id, NULL, text FROM claimed".into());
}

/// Jobs that wait now are announced, once for all of them.
fn announce<'a>(parts: &mut Parts<'a>, batch: &Batch<'a>) {
    let of_jobs = batch.jobs.first().map(|job| (&*job.announcement, "SELECT id FROM added"));
    let of_attempts = batch
        .attempts
        .first()
        .map(|attempt| (&*attempt.announcement, "SELECT id FROM ended WHERE status = 'waiting'"));
    let waiting: Vec<_> = of_jobs.into_iter().chain(of_attempts).collect();
    let Some((announcement, _)) = waiting.first() else { return };
    let announcement = parts.parameter(Parameter::Text(announcement));
    let jobs: Vec<_> = waiting.iter().map(|(_, jobs)| *jobs).collect();
    parts.expressions.push(format!(
        "announced AS MATERIALIZED ( \
             SELECT pg_notify('agent_host_jobs', {announcement}::text) FROM ({}) AS waiting LIMIT 1)",
        jobs.join(" UNION ALL ")
    ));
    parts.answer("SELECT -1::bigint, NULL, COUNT(*), NULL FROM announced".into());
}

/// An append is written where no later claim has written to its run, nothing stands where it begins, and the
/// event before it is there. A failover to a copy that was behind may have lost that one: what is written
/// behind such a hole could never be read as a run. A subquery for each row looks for it, which no plan turns
/// into a read of the whole table.
fn append<'a>(parts: &mut Parts<'a>, batch: &Batch<'a>) {
    let firsts: Vec<_> =
        batch.appends.iter().filter_map(|append| Some((*append, append.events.first()?))).collect();
    let rows = parts.unnest([
        texts(&firsts, |(append, _)| &append.run_id),
        numbers(&firsts, |(append, _)| append.first),
        numbers(&firsts, |(append, _)| append.epoch),
        texts(&firsts, |(_, event)| event),
    ]);
    parts.expressions.push(format!(
        "firsts AS ( \
             INSERT INTO run_events (run_id, sequence, writer, epoch, event) \
             SELECT run_id, sequence, '', epoch, event FROM {rows} AS a (run_id, sequence, epoch, event) \
             WHERE NOT EXISTS (SELECT 1 FROM run_events e WHERE e.run_id = a.run_id AND e.epoch > a.epoch) \
               AND (a.sequence = 0 OR ( \
                   SELECT TRUE FROM run_events e WHERE e.run_id = a.run_id AND e.sequence = a.sequence - 1)) \
             ON CONFLICT DO NOTHING RETURNING run_id, sequence)"
    ));
    parts.answer(format!("SELECT {APPENDED}::bigint, run_id, sequence, NULL FROM firsts"));
    let rest: Vec<_> = batch
        .appends
        .iter()
        .flat_map(|append| (append.first..).zip(&append.events).skip(1).map(move |row| (*append, row)))
        .collect();
    if rest.is_empty() {
        return;
    }
    let rows = parts.unnest([
        texts(&rest, |(append, _)| &append.run_id),
        numbers(&rest, |(append, _)| append.first),
        numbers(&rest, |(_, (sequence, _))| *sequence),
        numbers(&rest, |(append, _)| append.epoch),
        texts(&rest, |(_, (_, event))| event),
    ]);
    parts.expressions.push(format!(
        "rest AS ( \
             INSERT INTO run_events (run_id, sequence, writer, epoch, event) \
             SELECT r.run_id, r.sequence, '', r.epoch, r.event \
             FROM {rows} AS r (run_id, first, sequence, epoch, event) \
             JOIN firsts f ON f.run_id = r.run_id AND f.sequence = r.first \
             ON CONFLICT DO NOTHING)"
    ));
}

/// One statement cannot write a row twice. Of the records of a run the last one with a result counts, else
/// the last failure, else the latest heartbeat. They are written in the order of their runs, so that
/// processes which write the same ones do not wait for each other.
fn save<'a>(parts: &mut Parts<'a>, batch: &Batch<'a>) {
    let records = &batch.records;
    let rows = parts.unnest([
        texts(records, |(record, _)| &record.run_id),
        texts(records, |(record, _)| &record.request_id),
        optional_texts(records, |(record, _)| record.user_id.as_deref()),
        optional_texts(records, |(record, _)| record.job_id.as_deref()),
        numbers(records, |(record, _)| record.started_at),
        numbers(records, |(record, _)| record.finished_at),
        texts(records, |(record, _)| &record.outcome),
        optional_numbers(records, |(_, append)| append.map(|append| append.first)),
    ]);
    // Without appends there is nothing that a record could come with.
    let is_with_its_events = if batch.appends.is_empty() {
        ""
    } else {
        "WHERE r.first IS NULL \
             OR EXISTS (SELECT 1 FROM firsts f WHERE f.run_id = r.run_id AND f.sequence = r.first)"
    };
    parts.expressions.push(format!(
        "saved AS ( \
             INSERT INTO run_records (run_id, request_id, user_id, job_id, started_at, finished_at, outcome) \
             SELECT DISTINCT ON (run_id) run_id, request_id, user_id, job_id, started_at, finished_at, outcome \
             FROM {rows} WITH ORDINALITY \
                  AS r (run_id, request_id, user_id, job_id, started_at, finished_at, outcome, first, number) \
             {is_with_its_events} ORDER BY run_id, \
             CASE WHEN outcome {HAS_RESULT} THEN 0 WHEN outcome = {RUNNING} THEN 2 ELSE 1 END, \
             CASE WHEN outcome = {RUNNING} THEN finished_at END DESC, number DESC \
             {replace})",
        replace = replace_record(),
    ));
}

impl<'a> Parts<'a> {
    fn parameter(&mut self, parameter: Parameter<'a>) -> String {
        self.parameters.push(parameter);
        format!("${}", self.parameters.len())
    }

    /// A table of these columns.
    fn unnest<const N: usize>(&mut self, columns: [Parameter<'a>; N]) -> String {
        let columns = columns.map(|column| {
            let array = match column {
                Parameter::Texts(_) | Parameter::OptionalTexts(_) | Parameter::Text(_) => "text[]",
                Parameter::Numbers(_) | Parameter::OptionalNumbers(_) => "bigint[]",
            };
            format!("{}::{array}", self.parameter(column))
        });
        format!("UNNEST({})", columns.join(", "))
    }

    fn answer(&mut self, answer: String) {
        self.answers.push(answer);
    }

    fn text(&self) -> String {
        // `none` gives the columns their names and types.
        let none = "SELECT 0::bigint AS kind, NULL::text AS id, NULL::bigint AS number, NULL::text AS text WHERE FALSE";
        let answers = [none].into_iter().chain(self.answers.iter().map(String::as_str)).collect::<Vec<_>>();
        let answers = answers.join(" UNION ALL ");
        if self.expressions.is_empty() {
            return answers;
        }
        format!("WITH {} {answers}", self.expressions.join(", "))
    }
}

fn texts<'a, R>(rows: &[R], of: impl Fn(&R) -> &'a str) -> Parameter<'a> {
    Parameter::Texts(rows.iter().map(of).collect())
}

fn optional_texts<'a, R>(rows: &[R], of: impl Fn(&R) -> Option<&'a str>) -> Parameter<'a> {
    Parameter::OptionalTexts(rows.iter().map(of).collect())
}

fn numbers<'a, R>(rows: &[R], of: impl Fn(&R) -> i64) -> Parameter<'a> {
    Parameter::Numbers(rows.iter().map(of).collect())
}

fn optional_numbers<'a, R>(rows: &[R], of: impl Fn(&R) -> Option<i64>) -> Parameter<'a> {
    Parameter::OptionalNumbers(rows.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::super::runs::{AppendRow, Entry, RecordRow};
    use super::super::write::Write;
    use super::*;

    fn end(run_id: &str, epoch: i64) -> Write {
        let append = AppendRow { run_id: run_id.into(), epoch, first: 0, events: vec!["{}".into()] };
        Entry::End(append, RecordRow::of(run_id)).into()
    }

    #[test]
    fn only_a_batch_on_which_nobody_relies_is_not_flushed() {
        for (epochs, is_flushed) in [([0, 0], false), ([0, 1], true), ([1, 1], true)] {
            let writes = [end("run_1", epochs[0]), end("run_2", epochs[1])];
            let sql = parts(&Batch::of(&writes)).text();
            assert_eq!(!sql.contains("synchronous_commit"), is_flushed, "{epochs:?}: {sql}");
        }
    }
}

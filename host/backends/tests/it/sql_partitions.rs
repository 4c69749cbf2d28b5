//! Partitions of runs by month, on PostgreSQL: of a database that another release has filled, made ahead, and
//! dropped.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::journal_format::encode;
use agent_core::ports::{
    DropStep, Epoch, HttpRecording, HttpRecordings as _, Journal as _, JournalError, RetainedKind,
    Retention as _, RetentionBounds, RunStore as _,
};
use agent_core::testing::says;
use agent_core::words::{Event, RunOutcome, RunRecord};
use backends::sql::{SqlHttpRecordings, SqlRetention, SqlRuns};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::contract::retention::DAY;
use crate::contract::runs::some_record;
use crate::sql::{Database, migrations_before, open_runs_of};
use crate::sql_retention::ms;

/// The first migration that knows partitions.
const PARTITIONS: i64 = 15;

/// What a month made by hand begins with, whatever month the test runs in: January 2020.
const JANUARY: u64 = 1_577_836_800_000;

const MONTH: Duration = Duration::from_secs(31 * 24 * 3600);

/// A database, and a connection that looks at it behind the store's back.
struct Bench {
    database: Database,
    connection: PgConnection,
}

impl Bench {
    /// Without tables.
    async fn empty() -> Self {
        let database = Database::postgres().await;
        let connection = PgConnection::connect(&database.url()).await.unwrap();
        Self { database, connection }
    }

    /// With the tables of the release before partitions.
    async fn of_the_release_before() -> Self {
        let mut bench = Self::empty().await;
        let migrations = migrations_before(PARTITIONS, "postgres");
        migrations.run_direct(None, &mut bench.connection, false).await.unwrap();
        bench
    }

    async fn execute(&mut self, sql: String) {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await.unwrap();
    }

    /// A text, or absent.
    async fn text(&mut self, sql: String) -> Option<String> {
        let text = sqlx::query_scalar::<_, Option<String>>(AssertSqlSafe(sql));
        text.fetch_optional(&mut self.connection).await.unwrap().flatten()
    }

    /// The partitions of a table, in order.
    async fn partitions(&mut self, table: &str) -> Vec<String> {
        let sql = format!(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = '{table}'::regclass ORDER BY 1"
        );
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut self.connection).await.unwrap()
    }

    /// Names of the partitions of the current month and those behind it.
    async fn months(&mut self, table: &str) -> Vec<String> {
        let sql = format!(
            "SELECT '{table}_' || to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + n * interval '1 month', 'YYYY_MM') \
             FROM generate_series(0, 2) AS n ORDER BY n"
        );
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut self.connection).await.unwrap()
    }

    /// When a month begins, of those that are made.
    async fn first(&mut self, month: u64) -> u64 {
        let sql = format!(
            "SELECT (extract(epoch FROM date_trunc('month', now() AT TIME ZONE 'UTC') + {month} * interval '1 month') * 1000)::bigint::text"
        );
        self.text(sql).await.unwrap().parse().unwrap()
    }

    /// Where the events of a run lie.
    async fn place(&mut self, id: &str) -> Option<String> {
        self.text(format!("SELECT min(tableoid::regclass::text) FROM run_events WHERE run_id = '{id}'")).await
    }

    /// A run with two events and a record, as programs of any release write it.
    async fn insert(&mut self, id: &str) {
        for sequence in 0..2_i64 {
            sqlx::query(
                "INSERT INTO run_events (run_id, sequence, writer, epoch, event) VALUES ($1, $2, '', 1, $3)",
            )
            .bind(id)
            .bind(sequence)
            .bind(encode(&Event::Cancelled).unwrap())
            .execute(&mut self.connection)
            .await
            .unwrap();
        }
        let outcome = serde_json::to_string(&some_record(id).outcome).unwrap();
        sqlx::query("INSERT INTO run_records (run_id, request_id, user_id, started_at, finished_at, outcome) VALUES ($1, 'r', 'u1', 1, 2, $2)")
            .bind(id)
            .bind(outcome)
            .execute(&mut self.connection)
            .await
            .unwrap();
    }

    fn retention(&self) -> SqlRetention {
        SqlRetention::new(self.database.pool(), RetainedKind::Runs)
    }
}

/// The id of a run that began then.
fn id_at(ms: u64, number: u64) -> String {
    format!("run_{ms:012x}7{number:019x}")
}

/// Like those of jobs on Redis.
fn digest() -> String {
    format!("run_{}", "f3".repeat(16))
}

/// All steps, and how many runs they dropped.
async fn drop_all(retention: &SqlRetention, before: SystemTime) -> u64 {
    let (mut from, mut removed) = (None, 0);
    loop {
        let step = retention.drop_partitions(before, from.as_deref()).await.unwrap();
        removed += step.removed;
        let Some(next) = step.next else { return removed };
        assert_ne!(from.as_ref(), Some(&next), "it does not get on");
        from = Some(next);
    }
}

/// The run has what [`Bench::insert`] wrote, and goes on under its fence.
async fn check_run(runs: &SqlRuns, id: &str) {
    assert_eq!(runs.read(id, 0).await.unwrap().len(), 2, "{id}");
    assert_eq!(runs.find(id).await.unwrap().unwrap().id, id);
    let event = [Event::from(says("another"))];
    let error = runs.append(id, Epoch(1), 1, &event).await.unwrap_err();
    assert!(matches!(error, JournalError::Conflict { sequence: 1, .. }), "{error:?}");
    runs.append(id, Epoch(3), 2, &event).await.unwrap();
    let error = runs.append(id, Epoch(2), 3, &event).await.unwrap_err();
    assert!(matches!(error, JournalError::Fenced { .. }), "{error:?}");
    runs.save(&RunRecord { request_id: "saved again".into(), ..some_record(id) }).await.unwrap();
    assert_eq!(runs.find(id).await.unwrap().unwrap().request_id, "saved again");
    assert_eq!(runs.read(id, 0).await.unwrap().len(), 3, "{id}");
}

#[tokio::test]
async fn a_database_of_the_release_before_is_partitioned_with_all_that_is_in_it() {
    let mut bench = Bench::of_the_release_before().await;
    let now = SystemTime::now();
    let [new, old] = [now, now - 70 * DAY].map(|time| id_at(ms(time), 1));
    for id in [&new, &old, &digest()] {
        bench.insert(id).await;
    }
    let file = "SELECT pg_relation_filenode('{}')::text";
    let before = bench.text(file.replace("{}", "run_events_pkey")).await;
    // As a program of the release before does that runs on: its statements were prepared on the old tables.
    let mut peer = PgConnection::connect(&bench.database.url()).await.unwrap();
    let insert = "INSERT INTO run_events (run_id, sequence, writer, epoch, event) VALUES ($1, 9, '', 1, '{}') \
                  ON CONFLICT DO NOTHING RETURNING run_id, sequence";
    let append = async |peer: &mut PgConnection, id: &str| {
        sqlx::query(insert).bind(id).fetch_all(peer).await.unwrap().len()
    };
    assert_eq!(append(&mut peer, "run_peer").await, 1);

    let (runs, _writing) = open_runs_of(&bench.database).await;
    assert_eq!((append(&mut peer, "run_peer").await, append(&mut peer, "run_of_peer").await), (0, 1));
    let after = bench.text(file.replace("{}", "run_events_rest_pkey")).await;
    assert_eq!(after, before, "the index was not built anew");
    let months = bench.months("run_events").await;
    let mut all = months.clone();
    all.push("run_events_rest".into());
    assert_eq!(bench.partitions("run_events").await, all);
    assert_eq!(bench.partitions("run_records").await.len(), 4);
    assert_eq!(bench.place(&new).await.unwrap(), months[0], "the small table was divided");
    for id in [&old, &digest()] {
        assert_eq!(bench.place(id).await.unwrap(), "run_events_rest");
    }
    for id in [&new, &old, &digest()] {
        check_run(&runs, id).await;
    }
    for (number, month) in (0..).zip(&months) {
        // The first id of it that there can be, and one before the next.
        for ms in [bench.first(number).await, bench.first(number + 1).await - 1] {
            let id = id_at(ms, 2);
            bench.insert(&id).await;
            assert_eq!(bench.place(&id).await.as_ref(), Some(month));
        }
    }
}

#[tokio::test]
async fn months_are_made_from_a_large_table_without_those_that_have_begun() {
    let mut bench = Bench::of_the_release_before().await;
    bench
        .execute(
            "INSERT INTO run_events (run_id, sequence, writer, epoch, event) \
             SELECT 'run_f' || md5(n::text), 0, '', 1, repeat('x', 1500) FROM generate_series(1, 14000) AS n"
                .into(),
        )
        .await;
    // A digest may begin like a time that is to come.
    let (now, digest) = (id_at(ms(SystemTime::now()), 1), id_at(bench.first(2).await + 5, 2));
    bench.insert(&now).await;
    bench.insert(&digest).await;
    let (runs, _writing) = open_runs_of(&bench.database).await;
    assert_eq!(bench.partitions("run_events").await, ["run_events_rest"], "a start reads no large table");
    assert_eq!(bench.partitions("run_records").await.len(), 4);
    // What one leaves behind that was killed in the middle.
    let left = "ALTER TABLE run_events_rest ADD CONSTRAINT run_events_rest_without_2019_01 \
                CHECK (run_id <> 'run_left') NOT VALID";
    bench.execute(left.into()).await;

    let (one, two) = (bench.retention(), bench.retention());
    let before = UNIX_EPOCH + DAY;
    assert_eq!(futures::join!(drop_all(&one, before), drop_all(&two, before)), (0, 0));
    let months = bench.months("run_events").await;
    // On the last day of a month it is too late for the next one.
    let is_last_day = bench.first(1).await < ms(SystemTime::now() + DAY);
    let mut made = months[if is_last_day { 2 } else { 1 }..].to_vec();
    made.push("run_events_rest".into());
    assert_eq!(bench.partitions("run_events").await, made);
    assert_eq!(drop_all(&one, before).await, 0);
    assert_eq!(bench.partitions("run_events").await, made, "twice is once");
    let constraints = "SELECT count(*)::text FROM pg_constraint WHERE conrelid = 'run_events_rest'::regclass AND contype = 'c'";
    assert_eq!(bench.text(constraints.into()).await.unwrap(), "0");
    assert_eq!(bench.place(&now).await.unwrap(), "run_events_rest");
    assert_eq!(bench.place(&digest).await.unwrap(), months[2]);
    for id in [&now, &digest] {
        check_run(&runs, id).await;
    }
}

/// Waits until so many wait for a lock in this database.
async fn until_waiting(bench: &mut Bench, count: &str) {
    let sql = "SELECT count(*)::text FROM pg_locks \
               WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    while bench.text(sql.into()).await.unwrap() != count {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// By the plan that it was given before, it would look for the fence in the default partition, which the run
/// has left.
#[tokio::test]
async fn who_waits_while_a_month_is_made_is_still_fenced() {
    let mut bench = Bench::of_the_release_before().await;
    bench.execute(include_str!("../../migrations/postgres/0015_partitions_of_runs.sql").into()).await;
    let id = id_at(ms(SystemTime::now()), 1);
    let insert = "INSERT INTO run_events (run_id, sequence, writer, epoch, event)";
    bench.execute(format!("{insert} VALUES ('{id}', 0, '', 5, '{{}}')")).await;
    let [mut holder, mut replaced] = [
        PgConnection::connect(&bench.database.url()).await.unwrap(),
        PgConnection::connect(&bench.database.url()).await.unwrap(),
    ];
    sqlx::raw_sql("BEGIN; SELECT FROM run_events_rest").execute(&mut holder).await.unwrap();
    let retention = bench.retention();
    let append = format!(
        "{insert} SELECT run_id, 1, '', 1, '{{}}' FROM UNNEST($1::text[]) AS a (run_id) \
         WHERE NOT EXISTS (SELECT 1 FROM run_events e WHERE e.run_id = a.run_id AND e.epoch > 1)"
    );
    let appending = async {
        until_waiting(&mut bench, "1").await;
        let append = sqlx::query(AssertSqlSafe(append)).bind(vec![id.clone()]).execute(&mut replaced);
        let release = async {
            until_waiting(&mut bench, "2").await;
            holder.close().await.unwrap();
        };
        futures::join!(append, release).0.unwrap().rows_affected()
    };
    let (made, appended) = futures::join!(retention.drop_partitions(UNIX_EPOCH + DAY, None), appending);
    assert_eq!((made.unwrap(), appended), (DropStep::default(), 0));
    assert_eq!(bench.place(&id).await.unwrap(), bench.months("run_events").await[0]);
}

/// A month that is long over, which nobody makes.
async fn make_january(bench: &mut Bench) {
    for table in ["run_events", "run_records"] {
        let [first, next] = [JANUARY, JANUARY + ms(UNIX_EPOCH + MONTH)].map(|ms| format!("run_{ms:012x}"));
        let sql = format!(
            "CREATE TABLE {table}_2020_01 PARTITION OF {table} FOR VALUES FROM ('{first}') TO ('{next}')"
        );
        bench.execute(sql).await;
    }
}

/// Somebody reads when the month is to be dropped for the first time. Says how many runs went with it.
async fn drop_while_it_is_read(bench: &Bench, retention: &SqlRetention, before: SystemTime) -> u64 {
    let looked = retention.drop_partitions(before, None).await.unwrap();
    let mut reader = PgConnection::connect(&bench.database.url()).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT FROM run_events").execute(&mut reader).await.unwrap();
    let locked = retention.drop_partitions(before, looked.next.as_deref()).await.unwrap();
    assert_eq!((locked.removed, locked.next.is_some()), (0, true), "somebody reads it");
    reader.close().await.unwrap();
    let dropped = retention.drop_partitions(before, locked.next.as_deref()).await.unwrap();
    let end = retention.drop_partitions(before, dropped.next.as_deref()).await.unwrap();
    assert_eq!(end, DropStep::default());
    dropped.removed
}

#[tokio::test]
async fn a_month_that_is_over_is_dropped_and_what_has_not_ended_stays() {
    let mut bench = Bench::empty().await;
    let (runs, _writing) = open_runs_of(&bench.database).await;
    make_january(&mut bench).await;
    let [ended, without_events, unended, late, waiting] = [1, 2, 3, 4, 5].map(|n| id_at(JANUARY + n, n));
    for id in [&ended, &unended, &late, &waiting] {
        runs.append(id, Epoch(1), 0, &[Event::Cancelled, Event::Cancelled]).await.unwrap();
        assert_eq!(bench.place(id).await.unwrap(), "run_events_2020_01");
    }
    let then = UNIX_EPOCH + Duration::from_millis(JANUARY + 60_000);
    for (id, finished_at) in
        [(&ended, then), (&without_events, then), (&late, SystemTime::now()), (&waiting, then)]
    {
        runs.save(&RunRecord { finished_at, ..some_record(id) }).await.unwrap();
    }
    bench
        .execute(format!(
            "INSERT INTO jobs (id, run_id, user_id, query, status, due_at, created_at) \
             VALUES ('j', '{waiting}', 'u1', 'q', 'waiting', 1, 1)"
        ))
        .await;
    let recordings = SqlHttpRecordings::new(bench.database.pool());
    let recording = [HttpRecording { call_id: "c".into(), exchange: b"{}".to_vec() }];
    // Of one whose journal and record were never written, and of one of another month.
    let [lost, other] = [id_at(JANUARY + 6, 6), id_at(JANUARY - 1, 7)];
    for id in [&ended, &waiting, &unended, &lost, &other] {
        recordings.append(id, &recording).await.unwrap();
    }

    let retention = bench.retention();
    let before = SystemTime::now() - 30 * DAY;
    // The month is over a day after its end.
    let too_early = UNIX_EPOCH + Duration::from_millis(JANUARY) + MONTH;
    assert_eq!(retention.drop_partitions(too_early, None).await.unwrap(), DropStep::default());
    assert_eq!(drop_while_it_is_read(&bench, &retention, before).await, 2);

    for table in ["run_events", "run_records"] {
        assert_eq!(bench.partitions(table).await.len(), 4, "the month is gone");
    }
    for id in [&ended, &without_events] {
        assert!(runs.read(id, 0).await.unwrap().is_empty() && runs.find(id).await.unwrap().is_none());
    }
    for (id, has_record) in [(&unended, false), (&late, true), (&waiting, true)] {
        assert_eq!(bench.place(id).await.unwrap(), "run_events_rest");
        assert_eq!(runs.find(id).await.unwrap().is_some(), has_record);
        let error = runs.append(id, Epoch(1), 0, &[Event::from(says("x"))]).await.unwrap_err();
        assert!(matches!(error, JournalError::Conflict { .. }), "{error:?}");
        runs.append(id, Epoch(1), 2, &[Event::Cancelled]).await.unwrap();
    }
    for id in [&ended, &lost] {
        assert_eq!(recordings.read(id).await.unwrap(), []);
    }
    for id in [&waiting, &unended, &other] {
        assert_eq!(recordings.read(id).await.unwrap().len(), 1);
    }
}

/// As where jobs are on Redis: an attempt may have failed before its job's run went on to wait for somebody.
#[tokio::test]
async fn a_run_that_failed_for_a_job_of_another_store_goes_with_no_month() {
    let mut bench = Bench::empty().await;
    let (runs, _writing) = open_runs_of(&bench.database).await;
    let recordings = SqlHttpRecordings::new(bench.database.pool());
    let recording = [HttpRecording { call_id: "c".into(), exchange: b"{}".to_vec() }];
    let [failed, ended] = [1, 2].map(|n| id_at(JANUARY + n, n));
    let finished_at = UNIX_EPOCH + Duration::from_millis(JANUARY + 60_000);
    let before = SystemTime::now() - 30 * DAY;
    for (has_jobs_elsewhere, removed, kept) in [(false, 2, 0), (true, 1, 1)] {
        make_january(&mut bench).await;
        let (usage, kind) = Default::default();
        let failure = RunOutcome::Failed { error: "e".into(), iterations: 1, usage, kind };
        for (id, outcome) in [(&failed, failure), (&ended, some_record(&ended).outcome)] {
            runs.append(id, Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
            let job_id = Some("j".into());
            runs.save(&RunRecord { job_id, finished_at, outcome, ..some_record(id) }).await.unwrap();
            recordings.append(id, &recording).await.unwrap();
        }
        let retention = bench.retention().with_jobs_elsewhere(has_jobs_elsewhere);
        assert_eq!(drop_all(&retention, before).await, removed);
        assert_eq!(bench.partitions("run_events").await.len(), 4, "January is gone");
        assert_eq!(runs.read(&failed, 0).await.unwrap().len(), kept);
        assert_eq!(recordings.read(&failed).await.unwrap().len(), kept);
        let page = retention.ended_before(before, None, 10).await.unwrap();
        let asked: Vec<_> = page.items.iter().map(|item| (&item.id, item.job_id.as_deref())).collect();
        assert_eq!(asked, [(&failed, Some("j"))][..kept], "the sweep asks the queue of its job");
    }
}

/// As a number of runs to keep once was, when runs that wait were counted among those that have ended.
#[tokio::test]
async fn a_bound_that_lies_ahead_drops_no_month_that_is_not_over_and_nothing_that_has_not_ended() {
    let mut bench = Bench::empty().await;
    let (runs, _writing) = open_runs_of(&bench.database).await;
    make_january(&mut bench).await;
    let [ended, streamed, waiting] = [1, 2, 3].map(|n| id_at(JANUARY + n, n));
    let this_month = id_at(bench.first(0).await, 1);
    for id in [&ended, &this_month] {
        bench.insert(id).await;
    }
    let recordings = SqlHttpRecordings::new(bench.database.pool());
    let recording = [HttpRecording { call_id: "c".into(), exchange: b"{}".to_vec() }];
    let now = SystemTime::now();
    for (id, job_id, finished_at) in [(&streamed, None, now), (&waiting, Some("j"), now + 30 * DAY)] {
        runs.append(id, Epoch(1), 0, &[Event::Cancelled, Event::Cancelled]).await.unwrap();
        let job_id = job_id.map(str::to_owned);
        let record = RunRecord { job_id, finished_at, outcome: RunOutcome::Running, ..some_record(id) };
        runs.save(&record).await.unwrap();
        recordings.append(id, &recording).await.unwrap();
    }
    assert_eq!(drop_all(&bench.retention(), now + 400 * DAY).await, 1);
    assert_eq!(bench.partitions("run_events").await.len(), 4, "January is gone and nothing else");
    assert_eq!(bench.place(&this_month).await.unwrap(), bench.months("run_events").await[0]);
    assert!(runs.find(&this_month).await.unwrap().is_some() && runs.find(&ended).await.unwrap().is_none());
    for id in [&streamed, &waiting] {
        assert_eq!(bench.place(id).await.unwrap(), "run_events_rest");
        assert_eq!(runs.find(id).await.unwrap().unwrap().outcome, RunOutcome::Running);
        assert_eq!(recordings.read(id).await.unwrap().len(), 1);
        runs.append(id, Epoch(1), 2, &[Event::Cancelled]).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_month_cannot_be_dropped_with_goes_row_by_row_and_others_wait_for_theirs() {
    let mut bench = Bench::empty().await;
    let (runs, _writing) = open_runs_of(&bench.database).await;
    make_january(&mut bench).await;
    let insert = format!(
        "INSERT INTO run_events (run_id, sequence, writer, epoch, event) \
         SELECT '{}' || n, 0, '', 1, '{{}}' FROM generate_series(1000, 2000) AS n",
        &id_at(JANUARY, 0)[..32]
    );
    bench.execute(insert).await;
    let ended = id_at(JANUARY + 1, 1);
    let this_month = id_at(bench.first(0).await, 1);
    for id in [&ended, &this_month, &digest()] {
        bench.insert(id).await;
    }
    let before = SystemTime::now() - DAY;
    let of_a_month = RetentionBounds { age: Some(30 * DAY), count: None };
    let whole = bench.retention().with_bounds(of_a_month);
    assert_eq!(drop_all(&whole, before).await, 0);
    assert_eq!(bench.partitions("run_events").await.len(), 5, "more than 1000 runs have not ended");
    for (bounds, expected) in [
        (of_a_month, vec![&ended, &digest()]),
        (RetentionBounds { age: Some(27 * DAY), count: None }, vec![&ended, &this_month, &digest()]),
        (RetentionBounds { count: Some(1), ..of_a_month }, vec![&ended, &this_month, &digest()]),
    ] {
        let retention = bench.retention().with_bounds(bounds);
        let page = retention.ended_before(before, None, 10).await.unwrap();
        let ids: Vec<_> = page.items.iter().map(|item| &item.id).collect();
        assert_eq!(ids, expected, "{bounds:?}");
    }
    let page = whole.ended_before(before, None, 1).await.unwrap();
    assert_eq!(whole.ended_before(before, page.next.as_deref(), 1).await.unwrap().items[0].id, digest());
    assert_eq!(whole.remove(&[ended.clone(), digest()]).await.unwrap(), 2);
    assert!(runs.find(&ended).await.unwrap().is_none() && runs.read(&ended, 0).await.unwrap().is_empty());
    assert_eq!(runs.read(&this_month, 0).await.unwrap().len(), 2);
}

//! The stores of a lane, and what they hold when the service is dead: read with their own clients, past the
//! service.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use acceptance::{Builder, Postgres, Redis};
use futures::TryStreamExt as _;
use mongodb::bson::{Document, doc};
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, SqliteConnection};
use tempfile::TempDir;
use test_servers::Mongo;

use super::place::JobState;
use super::plan::{PlannedKill, StoreKind};

/// BullMQ's keys of the queue.
const QUEUE: &str = "bull:agent-tasks:";

/// The service's database on a document store whose address names none.
const MONGO_DATABASE: &str = "agent_host";

/// How long a process that runs keeps others from writing to its file, at most.
const LONGEST_WRITE: Duration = Duration::from_millis(500);

/// The stores of one lane. They outlive its processes.
pub(super) struct Stores(acceptance::Stores);

/// Whether a living process has the SQLite file open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opened {
    ByNobody,
    ByAnother,
}

/// The SQL database, as a reader sees it.
enum Database {
    Sqlite { connection: SqliteConnection, _copy: Option<TempDir> },
    Postgres(PgConnection),
}

impl Stores {
    pub(super) async fn start(kind: StoreKind) -> Self {
        Self(match kind {
            StoreKind::Sqlite => acceptance::Stores::embedded(),
            StoreKind::Postgres => acceptance::Stores::postgres().await,
            StoreKind::Redis => acceptance::Stores::redis().await,
            StoreKind::Mongo => acceptance::Stores::redis_and_mongo().await,
        })
    }

    /// A service on these stores.
    pub(super) fn service(&self) -> Builder {
        self.0.service_without_model()
    }

    /// What the queue says of a job.
    pub(super) async fn job(&self, id: &str, opened: Opened) -> JobState {
        if let Some(redis) = &self.0.redis {
            return job_on_redis(redis, id);
        }
        let status = self.database(opened).await.texts("SELECT status FROM jobs WHERE id = $1", id).await;
        match status.first().map(String::as_str) {
            None => JobState::Missing,
            Some("waiting" | "parked") => JobState::Waiting,
            Some("active") => JobState::Active,
            Some(_) => JobState::Ended,
        }
    }

    /// The journals of all runs that were begun for that query, of which there should be one at most, and
    /// those of the child runs of such a run.
    pub(super) async fn journals(&self, query: &str, opened: Opened) -> Journals {
        let (own, others): (BTreeMap<_, _>, BTreeMap<_, _>) = self
            .journals_with(query, opened)
            .await
            .into_iter()
            .partition(|(_, events)| input_of(events) == Some(query));
        let of_step = |events: Vec<Value>| Some((PlannedKill::step_in(input_of(&events)?)?, events));
        Journals { own, children: others.into_values().filter_map(of_step).collect() }
    }

    /// The journals of all runs whose beginning has this text.
    async fn journals_with(&self, query: &str, opened: Opened) -> BTreeMap<String, Vec<Value>> {
        let texts = match &self.0.mongo {
            Some(mongo) => journals_on_mongo(mongo, query).await,
            None => self.database(opened).await.journals(query).await,
        };
        let parsed = |text: &String| serde_json::from_str(text).expect("events are JSON");
        texts.into_iter().map(|(run, events)| (run, events.iter().map(parsed).collect())).collect()
    }

    /// The ids of the runs that have a record and are of that job.
    pub(super) async fn records(&self, job: &str) -> Vec<String> {
        let Some(mongo) = &self.0.mongo else {
            let sql = "SELECT run_id FROM run_records WHERE job_id = $1";
            return self.database(Opened::ByNobody).await.texts(sql, job).await;
        };
        let records = documents(mongo, "run_records", doc! { "job_id": job }).await;
        let id = |record: &Document| record.get_str("_id").expect("the key of a record").to_owned();
        records.iter().map(id).collect()
    }

    /// How often the queue has announced the end of a job, if it announces any.
    pub(super) fn ends_announced(&self, job: &str) -> usize {
        self.0.redis.as_ref().map_or(0, |redis| ends_on_redis(redis, job))
    }

    /// Whether nobody holds a transaction open.
    pub(super) async fn can_be_written(&self) -> bool {
        if let Some(postgres) = &self.0.postgres {
            let mut connection = connect_to(postgres).await;
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
            let open = sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut connection).await;
            return open.expect("an answer of PostgreSQL") == 0;
        }
        let options = SqliteConnectOptions::new().filename(self.0.sqlite_file()).busy_timeout(LONGEST_WRITE);
        let mut connection = options.connect().await.expect("a file that can be read");
        let begun = connection.begin_with("BEGIN IMMEDIATE").await;
        begun.is_ok()
    }

    /// A file that nobody has open is read as a copy: opening it would do the work of the next process that
    /// does, which finds commits in the write-ahead log that the dead one was not told of. A process that has
    /// the file open does not find these, so then it is read in its place.
    async fn database(&self, opened: Opened) -> Database {
        if let Some(postgres) = &self.0.postgres {
            return Database::Postgres(connect_to(postgres).await);
        }
        if opened == Opened::ByAnother {
            let options = SqliteConnectOptions::new().filename(self.0.sqlite_file());
            let connection = options.connect().await.expect("a file that can be read");
            return Database::Sqlite { connection, _copy: None };
        }
        let copy = tempfile::tempdir().expect("a folder for the copy");
        for name in ["agent.db", "agent.db-wal"] {
            let from = self.0.sqlite_file().with_file_name(name);
            if from.exists() {
                fs::copy(from, copy.path().join(name)).expect("a file can be copied");
            }
        }
        let url = format!("sqlite://{}", copy.path().join("agent.db").display());
        let connection = SqliteConnection::connect(&url).await.expect("a copy that can be read");
        Database::Sqlite { connection, _copy: Some(copy) }
    }
}

impl Database {
    /// The one column of the rows that a statement finds.
    async fn texts(&mut self, sql: &'static str, parameter: &str) -> Vec<String> {
        let found = match self {
            Self::Sqlite { connection, .. } => {
                sqlx::query_scalar(sql).bind(parameter).fetch_all(connection).await
            }
            Self::Postgres(connection) => sqlx::query_scalar(sql).bind(parameter).fetch_all(connection).await,
        };
        found.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    async fn journals(&mut self, query: &str) -> Vec<(String, Vec<String>)> {
        let runs = "SELECT run_id FROM run_events WHERE sequence = 0 AND event LIKE '%' || $1 || '%'";
        let mut journals = Vec::new();
        for run in self.texts(runs, query).await {
            let events = "SELECT event FROM run_events WHERE run_id = $1 ORDER BY sequence";
            let events = self.texts(events, &run).await;
            journals.push((run, events));
        }
        journals
    }
}

/// Journals by the ids of their runs, and of child runs by the step that began each.
pub(super) struct Journals {
    pub(super) own: BTreeMap<String, Vec<Value>>,
    pub(super) children: BTreeMap<usize, Vec<Value>>,
}

/// What a run is asked, as its journal begins.
fn input_of(events: &[Value]) -> Option<&str> {
    events.first()?.pointer("/task/input")?.as_str()
}

async fn connect_to(postgres: &Postgres) -> PgConnection {
    PgConnection::connect(&postgres.url()).await.expect("a connection to PostgreSQL")
}

fn job_on_redis(redis: &Redis, id: &str) -> JobState {
    let mut connection = connect(redis);
    let is_in = |set: &str, connection: &mut redis::Connection| {
        let score =
            redis::cmd("ZSCORE").arg(format!("{QUEUE}{set}")).arg(id).query::<Option<f64>>(connection);
        score.expect("an answer of Redis").is_some()
    };
    if is_in("completed", &mut connection) || is_in("failed", &mut connection) {
        return JobState::Ended;
    }
    let active =
        redis::cmd("LPOS").arg(format!("{QUEUE}active")).arg(id).query::<Option<u64>>(&mut connection);
    if active.expect("an answer of Redis").is_some() {
        return JobState::Active;
    }
    let exists = redis::cmd("EXISTS").arg(format!("{QUEUE}{id}")).query::<bool>(&mut connection);
    if exists.expect("an answer of Redis") { JobState::Waiting } else { JobState::Missing }
}

/// How often BullMQ's events say that a job has completed or failed.
fn ends_on_redis(redis: &Redis, job: &str) -> usize {
    type Entry = (String, Vec<(String, String)>);
    let mut connection = connect(redis);
    let entries = redis::cmd("XRANGE")
        .arg(format!("{QUEUE}events"))
        .arg("-")
        .arg("+")
        .query::<Vec<Entry>>(&mut connection);
    let entries = entries.expect("an answer of Redis");
    let has = |fields: &[(String, String)], name: &str, values: &[&str]| {
        fields.iter().any(|(field, value)| field == name && values.contains(&value.as_str()))
    };
    let is_end =
        |(_, fields): &&Entry| has(fields, "jobId", &[job]) && has(fields, "event", &["completed", "failed"]);
    entries.iter().filter(is_end).count()
}

fn connect(redis: &Redis) -> redis::Connection {
    let client = redis::Client::open(redis.url()).expect("an address of Redis");
    client.get_connection().expect("a connection to Redis")
}

async fn journals_on_mongo(mongo: &Mongo, query: &str) -> Vec<(String, Vec<String>)> {
    let event = |document: &Document| document.get_str("event").expect("an event is text").to_owned();
    let firsts = documents(mongo, "run_events", doc! { "_id.sequence": 0_i64 }).await;
    let mut journals = Vec::new();
    for first in firsts.iter().filter(|first| event(first).contains(query)) {
        let id = first.get_document("_id").expect("the key of an event");
        let run = id.get_str("run").expect("a run's id is text");
        let mut events = documents(mongo, "run_events", doc! { "_id.run": run }).await;
        events.sort_by_key(|event| event.get_document("_id").ok().and_then(|id| id.get_i64("sequence").ok()));
        journals.push((run.to_owned(), events.iter().map(event).collect()));
    }
    journals
}

async fn documents(mongo: &Mongo, collection: &str, filter: Document) -> Vec<Document> {
    let client = mongodb::Client::with_uri_str(mongo.url()).await.expect("an address of the document store");
    let collection = client.database(MONGO_DATABASE).collection::<Document>(collection);
    let found = collection.find(filter).await.expect("an answer of the document store");
    let found = found.try_collect().await.expect("documents");
    client.shutdown().await;
    found
}

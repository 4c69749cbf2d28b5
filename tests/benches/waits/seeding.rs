//! Copies the job, the run and the wait that the service has written, under ids and for users of their own.

use acceptance::{Builder, Postgres};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use tempfile::TempDir;

/// What differs between the copies of a row.
const COLUMNS: &str = "query, status, place, attempts_made, losses, cancel_asked, worker, token, result, error, \
     created_at, started_at, finished_at, traceparent, claims, user_tier, user_role, conversation_id, waits, waits_since";

/// Where jobs and runs are.
pub(crate) enum Store {
    Sqlite(TempDir),
    Postgres(Postgres),
}

impl Store {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Postgres::start().await)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    pub(crate) fn around(&self, builder: Builder) -> Builder {
        match self {
            Self::Sqlite(folder) => builder.sqlite_in(folder.path()),
            Self::Postgres(postgres) => builder.postgres(postgres),
        }
    }

    /// Transactions that were committed so far, where the database counts them.
    pub(crate) async fn commits(&self) -> Option<i64> {
        let Self::Postgres(postgres) = self else { return None };
        let mut connection = PgConnection::connect(&postgres.url()).await.unwrap();
        let count = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
        Some(sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap())
    }

    /// So many more of that job, of so many users.
    pub(crate) async fn multiply(&mut self, job: &str, waiting: u64, users: u64) {
        match self {
            Self::Sqlite(folder) => {
                let url = format!("sqlite://{}", folder.path().join("agent.db").display());
                let mut connection = SqliteConnection::connect(&url).await.unwrap();
                let copies =
                    "WITH RECURSIVE copy (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copy WHERE n < ";
                let copies = Copies {
                    with: format!("{copies}{waiting}) "),
                    id: "printf('0000000000007000%s%012x', '8000', n)",
                    from: "copy".to_owned(),
                };
                for sql in statements(job, users, &copies) {
                    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
                }
                sqlx::raw_sql("ANALYZE").execute(&mut connection).await.unwrap();
            }
            Self::Postgres(postgres) => {
                let mut connection = PgConnection::connect(&postgres.url()).await.unwrap();
                let copies = Copies {
                    with: String::new(),
                    id: "('00000000000070008000' || lpad(to_hex(n), 12, '0'))",
                    from: format!("generate_series(1, {waiting}) AS copy (n)"),
                };
                for sql in statements(job, users, &copies) {
                    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
                }
                for sql in ["VACUUM ANALYZE jobs", "VACUUM ANALYZE run_events"] {
                    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
                }
            }
        }
    }
}

/// Numbers of copies, in the words of a database.
struct Copies {
    with: String,
    /// A job's id, made of its number.
    id: &'static str,
    from: String,
}

/// Each job expires a millisecond after the one before it.
fn statements(job: &str, users: u64, copies: &Copies) -> [String; 2] {
    let Copies { with, id, from: copies } = copies;
    [
        format!(
            "INSERT INTO jobs (id, run_id, user_id, due_at, {COLUMNS}) {with}\
             SELECT {id}, 'run_' || {id}, 'user-' || (n % {users}), due_at + n, {COLUMNS} \
             FROM {copies}, (SELECT * FROM jobs WHERE id = '{job}') AS original"
        ),
        format!(
            "INSERT INTO run_events (run_id, sequence, writer, epoch, event) {with}\
             SELECT 'run_' || {id}, sequence, writer, epoch, \
                    replace(replace(replace(event, original.run_id, 'run_' || {id}), '{job}:', {id} || ':'), \
                            '\"user-0\"', '\"user-' || (n % {users}) || '\"') \
             FROM {copies}, (SELECT e.* FROM run_events e JOIN jobs j ON j.run_id = e.run_id WHERE j.id = '{job}') \
                  AS original"
        ),
    ]
}

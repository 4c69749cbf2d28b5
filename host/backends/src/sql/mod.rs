//! The relational database: PostgreSQL, or SQLite in a file of ours.
//!
//! Statements are written once for both. What differs is in the migrations, in how a job is claimed, and in
//! how many rows are written at once.

mod commit;
mod conversations;
mod error;
mod from_row;
mod http_recordings;
mod idempotency;
mod key_value;
mod lease;
mod listener;
mod listening;
mod migrate;
mod opened_file;
mod pooler;
mod postgres;
mod postgres_address;
mod probe;
mod queue;
mod retention;
#[cfg(test)]
mod row_locks;
mod runs;
mod server_check;
mod server_settings;
mod sqlite;
#[cfg(test)]
mod sqlite_plans;
mod text_columns;
mod time_limit;
mod tool_versions;
mod transaction;
mod webhooks;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::TryFutureExt as _;
use sqlx::sqlite::SqliteConnectOptions;

pub use conversations::SqlConversations;
pub use http_recordings::SqlHttpRecordings;
pub use idempotency::SqlIdempotency;
pub use key_value::SqlKeyValues;
pub use lease::SqlLeases;
pub use migrate::SetupError;
pub use postgres::Postgres;
pub use probe::SqlProbe;
pub use queue::SqlQueue;
pub use retention::SqlRetention;
pub use runs::SqlRuns;
pub use server_check::PostgresCheck;
pub use sqlite::Sqlite;
pub use tool_versions::SqlToolVersions;
pub use webhooks::SqlWebhooks;

use commit::Lane;
use time_limit::in_time;

/// The settings that name the database, for what is said about their values.
const URL: &str = "DATABASE_URL";
const DIRECT_URL: &str = "DATABASE_DIRECT_URL";

/// How long the database may take to answer until it counts as gone. Less than a lease, so that a worker
/// hears of it while it holds its job.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A pool of connections. Clones are the same pool.
#[derive(Clone)]
pub enum SqlPool {
    /// PostgreSQL.
    Postgres(Postgres),
    Sqlite(Sqlite),
}

/// An address that names no database. It is not quoted: it may hold a password. A file's path does not.
#[derive(Debug, thiserror::Error)]
#[error("{variable} cannot be used: {reason}")]
pub struct AddressError {
    variable: &'static str,
    reason: String,
}

/// Asks PostgreSQL, in a loop: again when a kept connection was dead and the statement's repetition is
/// allowed.
macro_rules! on_postgres {
    ($pool:expr, $repeat:ident, $db:ident => $query:expr) => {
        loop {
            let mut borrowed = match $pool.acquire($crate::sql::postgres::Repeat::$repeat).await {
                Ok(borrowed) => borrowed,
                Err(error) => break Err(error),
            };
            let $db = borrowed.connection();
            let answer = $query.await;
            if let $crate::sql::postgres::Settled::Done(answer) =
                borrowed.settle(answer, $crate::sql::postgres::Repeat::$repeat)
            {
                break answer;
            }
        }
    };
}

/// Asks either database. The expression is a future of a `Result`, and is compiled for each.
macro_rules! asking {
    ($pool:expr, $repeat:ident, $sqlite:ident, $db:ident => $query:expr) => {
        match $pool {
            $crate::sql::SqlPool::Postgres(postgres) => {
                let asked = async { $crate::sql::on_postgres!(postgres, $repeat, $db => $query) };
                $crate::sql::answer(asked).await
            }
            $crate::sql::SqlPool::Sqlite(pools) => {
                let $db = pools.$sqlite();
                $crate::sql::answer($query).await
            }
        }
    };
}

/// Asks for what changes nothing.
macro_rules! reading {
    ($pool:expr, $db:ident => $query:expr) => {
        $crate::sql::asking!($pool, Allowed, readers, $db => $query)
    };
}

/// Asks for a change that is not made twice.
macro_rules! writing {
    ($pool:expr, $db:ident => $query:expr) => {
        $crate::sql::asking!($pool, Forbidden, writer, $db => $query)
    };
}

/// Asks for a change that may be made twice: the second time it changes nothing, or what it answers then does
/// no harm.
macro_rules! rewriting {
    ($pool:expr, $db:ident => $query:expr) => {
        $crate::sql::asking!($pool, Allowed, writer, $db => $query)
    };
}

use {asking, on_postgres, reading, rewriting, writing};

impl SqlPool {
    /// A pool for `postgres://…`. Nothing is connected yet: a database that is down at start-up is a matter
    /// of health, not of configuration.
    pub fn postgres(url: &str) -> Result<Self, AddressError> {
        Self::postgres_with(url, None)
    }

    /// A pool for `postgres://…` behind a pooler: `direct` is the address of the server behind it, where
    /// migrations take their lock and the queue listens.
    pub fn postgres_with(url: &str, direct: Option<&str>) -> Result<Self, AddressError> {
        let parse = |url: &str, variable| {
            postgres_address::parse(url, variable).map_err(|error| unusable(variable, error))
        };
        let direct = direct.map(|direct| parse(direct, DIRECT_URL)).transpose()?;
        Ok(Self::Postgres(Postgres::new(parse(url, URL)?, direct)))
    }

    /// A pool for `sqlite://path`, whose file is created if absent. Its folder has to be there, and this
    /// process has to be able to write in both: neither mends itself while the service waits.
    pub fn sqlite(url: &str) -> Result<Self, AddressError> {
        Ok(Self::Sqlite(Sqlite::new(sqlite_options(url, sqlite::check_path)?)))
    }

    /// A pool as [`Self::sqlite`] makes it, for a file that has to be there: none is created.
    pub fn existing_sqlite(url: &str) -> Result<Self, AddressError> {
        Ok(Self::Sqlite(Sqlite::existing(sqlite_options(url, sqlite::check_file)?)))
    }

    /// The file that a `sqlite://path` names; none where it names one in memory.
    pub fn sqlite_file(url: &str) -> Option<PathBuf> {
        // silent-ok: what is wrong with an address is said where it is opened.
        let options = SqliteConnectOptions::from_str(url).ok()?;
        file_of(url, &options).map(Path::to_owned)
    }

    /// Closes every connection, waiting for those in use.
    pub async fn close(&self) {
        match self {
            Self::Postgres(pool) => pool.close().await,
            Self::Sqlite(pools) => pools.close().await,
        }
    }

    /// The one commit lane of this database in this process.
    fn lane(&self) -> &Lane {
        match self {
            Self::Postgres(pool) => pool.lane(),
            Self::Sqlite(pools) => pools.lane(),
        }
    }

    async fn run_trivial_query(&self) -> sqlx::Result<()> {
        reading!(self, db => sqlx::query("SELECT 1").execute(db).map_ok(drop))
    }
}

/// The answer, if it comes in time.
async fn answer<T>(query: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    in_time(ANSWER_TIMEOUT, query).await
}

/// What a `sqlite://path` names, if `check` has nothing against its file.
fn sqlite_options(
    url: &str,
    check: fn(&Path) -> Result<(), String>,
) -> Result<SqliteConnectOptions, AddressError> {
    let options = SqliteConnectOptions::from_str(url).map_err(|error| unusable(URL, error))?;
    check_is_shared(url).map_err(|reason| AddressError { variable: URL, reason })?;
    if let Some(file) = file_of(url, &options) {
        check(file).map_err(|reason| AddressError { variable: URL, reason })?;
    }
    Ok(options)
}

/// Refuses a database in memory of which every connection would have its own: only SQLite's `:memory:` is
/// shared by the connections of a process, unless a parameter says otherwise.
fn check_is_shared(url: &str) -> Result<(), String> {
    let (path, parameters) = url.split_once('?').unwrap_or((url, ""));
    let private = if path == "sqlite://:memory:" { "cache=private" } else { "mode=memory" };
    if parameters.split('&').any(|parameter| parameter == private) {
        return Err(format!(
            "with {private} every connection has a database of its own: name a file, \
             or sqlite://:memory: for one that is lost when the process ends"
        ));
    }
    Ok(())
}

/// The file of an address. One in memory has none, which is not told by the options.
fn file_of<'a>(url: &str, options: &'a SqliteConnectOptions) -> Option<&'a Path> {
    let is_in_memory = url.contains(":memory:") || url.contains("mode=memory");
    (!is_in_memory).then(|| options.get_filename())
}

fn unusable(variable: &'static str, error: sqlx::Error) -> AddressError {
    let reason = match error {
        sqlx::Error::Configuration(reason) => reason.to_string(),
        _ => "it is not an address of a database".into(),
    };
    AddressError { variable, reason }
}

/// A time as columns have it: milliseconds since 1970.
fn to_ms(time: SystemTime) -> i64 {
    let ms = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// A length of time as statements have it.
fn ms(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

/// The time by the database's clock.
async fn now(pool: &SqlPool) -> sqlx::Result<SystemTime> {
    let now = reading!(pool, db => sqlx::query_scalar("SELECT ms FROM clock").fetch_one(db))?;
    Ok(from_ms(now))
}

fn from_ms(ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms.unsigned_abs())
}

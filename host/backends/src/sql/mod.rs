//! The relational database: PostgreSQL, or SQLite in a file of ours.
//!
//! Statements are written once for both. What differs is in the migrations, in how a job is claimed, and in how
//! many rows are written at once.

mod commit;
mod error;
mod key_value;
mod migrate;
mod probe;
mod queue;
mod runs;
mod sqlite;
mod text_columns;

use std::io::ErrorKind;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::TryFutureExt as _;
use sqlx::Connection as _;
use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};
use sqlx::sqlite::SqliteConnectOptions;
use tokio::time::timeout;

pub use key_value::SqlKeyValues;
pub use migrate::SetupError;
pub use probe::SqlProbe;
pub use queue::SqlQueue;
pub use runs::SqlRuns;
pub use sqlite::Sqlite;

/// Most connections of one process (interface, Limits, "Database pool").
const MOST_CONNECTIONS: u32 = 20;

/// How long a connection may be idle before it is closed (interface, Limits, "Database pool").
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long getting a connection may take (interface, Limits, "Database pool").
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the database may take to answer until it counts as gone. Less than a lease, so that a worker hears
/// of it while it holds its job.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A pool of connections. Clones are the same pool.
#[derive(Debug, Clone)]
pub enum SqlPool {
    /// PostgreSQL.
    Postgres(PgPool),
    /// SQLite.
    Sqlite(Sqlite),
}

/// An address that names no database. It is not quoted: it may hold a password. A file's path does not.
#[derive(Debug, thiserror::Error)]
#[error("DATABASE_URL cannot be used: {0}")]
pub struct AddressError(String);

/// Asks the pool of either database for what changes nothing. The expression is a future of a `Result`, and is
/// compiled for each.
macro_rules! reading {
    ($pool:expr, $db:ident => $query:expr) => {
        match $pool {
            $crate::sql::SqlPool::Postgres($db) => $crate::sql::answer($query).await,
            $crate::sql::SqlPool::Sqlite(pools) => {
                let $db = pools.readers();
                $crate::sql::answer($query).await
            }
        }
    };
}

/// The same for what changes something.
macro_rules! writing {
    ($pool:expr, $db:ident => $query:expr) => {
        match $pool {
            $crate::sql::SqlPool::Postgres($db) => $crate::sql::answer($query).await,
            $crate::sql::SqlPool::Sqlite(pools) => {
                let $db = pools.writer();
                $crate::sql::answer($query).await
            }
        }
    };
}

use {reading, writing};

impl SqlPool {
    /// A pool for `postgres://…`. Nothing is connected yet: a database that is down at start-up is a matter
    /// of health, not of configuration.
    pub fn postgres(url: &str) -> Result<Self, AddressError> {
        let options = PgConnectOptions::from_str(url).map_err(unusable)?;
        let pool = pool_options().after_release(|connection, _| Box::pin(is_alive(connection)));
        Ok(Self::Postgres(pool.connect_lazy_with(options)))
    }

    /// A pool for `sqlite://path`, whose file is created if absent. Its folder has to be there, and this process has
    /// to be able to write in both: neither mends itself while the service waits.
    pub fn sqlite(url: &str) -> Result<Self, AddressError> {
        let options = SqliteConnectOptions::from_str(url).map_err(unusable)?;
        // One in memory has no file. That is not told by the options.
        if !url.contains(":memory:") && !url.contains("mode=memory") {
            sqlite::check_path(options.get_filename()).map_err(AddressError)?;
        }
        Ok(Self::Sqlite(Sqlite::new(options)))
    }

    /// Closes every connection, waiting for those in use.
    pub async fn close(&self) {
        match self {
            Self::Postgres(pool) => pool.close().await,
            Self::Sqlite(pools) => pools.close().await,
        }
    }

    async fn run_trivial_query(&self) -> Result<(), sqlx::Error> {
        reading!(self, db => sqlx::query("SELECT 1").execute(db).map_ok(drop))
    }
}

fn pool_options<D: sqlx::Database>() -> PoolOptions<D> {
    PoolOptions::new()
        .max_connections(MOST_CONNECTIONS)
        .idle_timeout(IDLE_TIMEOUT)
        .acquire_timeout(CONNECT_TIMEOUT)
}

/// Asked of every connection that comes back. One whose network swallows everything would never come back
/// otherwise, and twenty of them would be the whole pool.
async fn is_alive(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    in_time(CONNECT_TIMEOUT, connection.ping()).await.map(|()| true)
}

/// The answer, if it comes in time.
async fn answer<T>(query: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    in_time(ANSWER_TIMEOUT, query).await
}

async fn in_time<T>(
    patience: Duration,
    query: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let too_late = || Err(sqlx::Error::Io(ErrorKind::TimedOut.into()));
    timeout(patience, query).await.unwrap_or_else(|_elapsed| too_late())
}

fn unusable(error: sqlx::Error) -> AddressError {
    AddressError(match error {
        sqlx::Error::Configuration(reason) => reason.to_string(),
        _ => "it is not an address of a database".into(),
    })
}

/// A time as columns have it: milliseconds since 1970.
fn to_ms(time: SystemTime) -> i64 {
    let ms = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn from_ms(ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms.unsigned_abs())
}

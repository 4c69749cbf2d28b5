//! The relational database: PostgreSQL, or SQLite in a file of ours.
//!
//! Statements are written once for both. What differs is in the migrations, in how a job is taken, and in how
//! many rows are written at once.

mod commit;
mod failure;
mod migrate;
mod probe;
mod queue;
mod runs;
mod sqlite;
mod text;

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::sqlite::SqliteConnectOptions;

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

/// A pool of connections. Clones are the same pool.
#[derive(Debug, Clone)]
pub enum SqlPool {
    /// PostgreSQL.
    Postgres(PgPool),
    /// SQLite.
    Sqlite(Sqlite),
}

/// An address that names no database. It is not quoted: it may hold a password.
#[derive(Debug, thiserror::Error)]
#[error("DATABASE_URL cannot be used: {0}")]
pub struct AddressError(String);

/// What is done with a pool of either database, for what changes nothing. The expression is compiled for each.
macro_rules! reading {
    ($pool:expr, $db:ident => $body:expr) => {
        match $pool {
            $crate::sql::SqlPool::Postgres($db) => $body,
            $crate::sql::SqlPool::Sqlite(pools) => {
                let $db = pools.readers();
                $body
            }
        }
    };
}

/// The same for what changes something.
macro_rules! writing {
    ($pool:expr, $db:ident => $body:expr) => {
        match $pool {
            $crate::sql::SqlPool::Postgres($db) => $body,
            $crate::sql::SqlPool::Sqlite(pools) => {
                let $db = pools.writer();
                $body
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
        Ok(Self::Postgres(pool_options().connect_lazy_with(options)))
    }

    /// A pool for `sqlite://path`, whose file is created if absent.
    pub fn sqlite(url: &str) -> Result<Self, AddressError> {
        let options = SqliteConnectOptions::from_str(url).map_err(unusable)?;
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
        reading!(self, db => sqlx::query("SELECT 1").execute(db).await.map(drop))
    }
}

fn pool_options<D: sqlx::Database>() -> PoolOptions<D> {
    PoolOptions::new()
        .max_connections(MOST_CONNECTIONS)
        .idle_timeout(IDLE_TIMEOUT)
        .acquire_timeout(CONNECT_TIMEOUT)
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

//! The relational database: PostgreSQL, or SQLite in a file of ours.

mod probe;

use std::str::FromStr;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool};

pub use probe::SqlProbe;

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
    Sqlite(SqlitePool),
}

/// An address that names no database. It is not quoted: it may hold a password.
#[derive(Debug, thiserror::Error)]
#[error("DATABASE_URL cannot be used: {0}")]
pub struct AddressError(String);

impl SqlPool {
    /// A pool for `postgres://…`. Nothing is connected yet: a database that is down at start-up is a matter
    /// of health, not of configuration.
    pub fn postgres(url: &str) -> Result<Self, AddressError> {
        let options = PgConnectOptions::from_str(url).map_err(unusable)?;
        Ok(Self::Postgres(pool_options().connect_lazy_with(options)))
    }

    /// A pool for `sqlite://path`, whose file is created if absent.
    pub fn sqlite(url: &str) -> Result<Self, AddressError> {
        let options = SqliteConnectOptions::from_str(url)
            .map_err(unusable)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(CONNECT_TIMEOUT);
        Ok(Self::Sqlite(pool_options().connect_lazy_with(options)))
    }

    /// Closes every connection, waiting for those in use.
    pub async fn close(&self) {
        match self {
            Self::Postgres(pool) => pool.close().await,
            Self::Sqlite(pool) => pool.close().await,
        }
    }

    async fn run_trivial_query(&self) -> Result<(), sqlx::Error> {
        match self {
            Self::Postgres(pool) => sqlx::query("SELECT 1").execute(pool).await.map(drop),
            Self::Sqlite(pool) => sqlx::query("SELECT 1").execute(pool).await.map(drop),
        }
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

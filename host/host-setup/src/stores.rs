//! What runs and tools keep, opened: the choice that both programs make between the stores that are named.

use std::path::Path;
use std::sync::Arc;

use agent_core::ports::{HttpRecordings, KeyValueStore, RunStore};
use agent_core::secret::Secret;
use backends::Writer;
use backends::mongo::MongoStore;
use backends::sql::{AddressError, SqlHttpRecordings, SqlKeyValues, SqlPool, SqlRuns};

use crate::settings::Stores;
use crate::settings::stores::Database;

/// Why a store cannot be opened. Every text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database's address cannot be used.
    #[error("the database cannot be set up")]
    Database(#[source] AddressError),
    /// The database holds something else.
    #[error("DATABASE_URL names a database that this program cannot use")]
    Migration(#[source] backends::sql::SetupError),
    /// The document store's address cannot be used.
    #[error("the document store cannot be set up")]
    Mongo(#[source] backends::mongo::MongoAddressError),
}

/// Where runs are recorded.
pub struct Runs {
    pub store: Arc<dyn RunStore>,
    /// Writes for the store. It ends when the store has been dropped and everything is written.
    pub writer: Writer,
}

/// What any service and any command may have.
pub struct Opened {
    /// The relational database.
    pub database: Option<SqlPool>,
    /// The document store.
    pub mongo: Option<MongoStore>,
    /// Where runs are recorded: in the document store, else in the database.
    pub runs: Option<Runs>,
}

/// Opens the stores that are named. Nothing is connected yet: a store that is down when the service starts is
/// a matter of health, not of configuration.
pub async fn open(config: &Stores) -> Result<Opened, StoreError> {
    open_with(config, SqlPool::sqlite).await
}

/// As [`open`], for a command that looks at what a service keeps: an SQLite file that is not there is an
/// error, and is not made.
pub async fn open_existing(config: &Stores) -> Result<Opened, StoreError> {
    open_with(config, SqlPool::existing_sqlite).await
}

async fn open_with(
    config: &Stores,
    sqlite: fn(&str) -> Result<SqlPool, AddressError>,
) -> Result<Opened, StoreError> {
    let database = match &config.database {
        Some(Database::Postgres(url)) => {
            let direct = config.database_direct.as_ref().map(Secret::expose);
            Some(SqlPool::postgres_with(url.expose(), direct))
        }
        Some(Database::Sqlite(url)) => Some(sqlite(url.expose())),
        None => None,
    };
    let database = database.transpose().map_err(StoreError::Database)?;
    let mongo = match &config.mongodb {
        Some(url) => Some(MongoStore::open(url.expose()).await.map_err(StoreError::Mongo)?),
        None => None,
    };
    let runs = match (&mongo, &database) {
        (Some(mongo), _) => {
            let (store, writer) = mongo.runs();
            Some(Runs { store, writer })
        }
        (None, Some(database)) => {
            let (store, writer) = SqlRuns::new(database.clone());
            Some(Runs { store: Arc::new(store), writer })
        }
        (None, None) => None,
    };
    Ok(Opened { database, mongo, runs })
}

/// A database of its own for what tools keep, in a file that is thrown away.
pub async fn values_in(file: &Path) -> Result<Arc<dyn KeyValueStore>, StoreError> {
    let database = SqlPool::sqlite(&format!("sqlite://{}", file.display())).map_err(StoreError::Database)?;
    database.migrate().await.map_err(StoreError::Migration)?;
    Ok(Arc::new(SqlKeyValues::new(database)))
}

/// Where HTTP of tools is recorded: in the database, else nowhere.
pub fn http_recordings(opened: &Opened) -> Option<Arc<dyn HttpRecordings>> {
    let database = opened.database.clone()?;
    Some(Arc::new(SqlHttpRecordings::new(database)))
}

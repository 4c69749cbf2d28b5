//! Whether a PostgreSQL server is set up so that it keeps what is written, and has room for our connections;
//! and whether a pooler stands before it that works with us. `server_settings.rs` has the rules.

use agent_core::ports::{StoreCheck, StoreCheckError, StoreWarning};
use boxed_async::boxed_async;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Row as _};

use super::error::describe;
use super::pooler::{Pooling, find_pooling};
use super::postgres::Postgres;
use super::server_settings::{Direct, ServerSettings, judge, judge_addresses};
use super::time_limit::in_time;
use super::{ANSWER_TIMEOUT, SqlPool};

/// Asked without a prepared statement, which some poolers do not understand. Sessions of the same user are
/// told apart by where they come from; those of other users are not shown, and not ours.
const SETTINGS: &str = "\
    SELECT current_setting('server_version'), current_setting('server_version_num'), \
           current_setting('synchronous_commit'), current_setting('statement_timeout'), \
           current_setting('transaction_isolation'), \
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int, \
           (SELECT COUNT(DISTINCT application_name) FROM pg_stat_activity \
            WHERE datname = current_database() AND application_name LIKE 'agent-host %')";

/// What only one server answers.
const IDENTITY: &str = "SELECT current_database() || ' ' || pg_postmaster_start_time()";

/// Checks a PostgreSQL server.
pub struct PostgresCheck(Postgres);

impl SqlPool {
    /// The check of the database's server. SQLite has none.
    pub fn check(&self) -> Option<PostgresCheck> {
        match self {
            Self::Postgres(postgres) => Some(PostgresCheck(postgres.clone())),
            Self::Sqlite(_) => None,
        }
    }
}

#[boxed_async]
impl StoreCheck for PostgresCheck {
    fn store(&self) -> &'static str {
        "database"
    }

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreCheckError> {
        let found = in_time(ANSWER_TIMEOUT, self.look()).await;
        let found = found.map_err(|error| StoreCheckError::Away { detail: describe(&error) })?;
        let ServerState { settings, pooling, direct } = found;
        let judged = judge_addresses(pooling, direct).and_then(|mut warnings| {
            warnings.extend(judge(&settings, pooling)?);
            Ok(warnings)
        });
        judged.map_err(|problem| StoreCheckError::Unfit { problem })
    }
}

/// What was seen of the server.
struct ServerState {
    settings: ServerSettings,
    pooling: Pooling,
    direct: Direct,
}

impl PostgresCheck {
    async fn look(&self) -> sqlx::Result<ServerState> {
        let mut connection = self.0.connect().await?;
        // One more than is needed for anything else, so a server that has no room for it is no reason to
        // stop.
        let pooling = match self.0.connect().await {
            Ok(mut another) => {
                let pooling = find_pooling(&mut connection, &mut another).await?;
                close(another).await;
                pooling
            }
            Err(_full) => Pooling::None,
        };
        let settings = read_settings(&mut connection).await?;
        let direct = self.look_at_direct_address(&mut connection).await?;
        close(connection).await;
        Ok(ServerState { settings, pooling, direct })
    }

    async fn look_at_direct_address(&self, connection: &mut PgConnection) -> sqlx::Result<Direct> {
        if !self.0.has_direct_address() {
            return Ok(Direct::Unset);
        }
        let (Ok(mut direct), Ok(mut another)) =
            (self.0.connect_directly().await, self.0.connect_directly().await)
        else {
            return Ok(Direct::Away);
        };
        let is_same = identity(connection).await? == identity(&mut direct).await?;
        let pooling = find_pooling(&mut direct, &mut another).await?;
        close(direct).await;
        close(another).await;
        Ok(match (is_same, pooling) {
            (false, _) => Direct::Another,
            (true, Pooling::None) => Direct::Same,
            (true, _) => Direct::Pooled,
        })
    }
}

async fn read_settings(connection: &mut PgConnection) -> sqlx::Result<ServerSettings> {
    let row = sqlx::raw_sql(SETTINGS).fetch_one(connection).await?;
    let number = |column: usize| row.try_get::<&str, _>(column).map(|text| text.parse::<i64>().ok());
    Ok(ServerSettings {
        version: row.try_get::<String, _>(0)?,
        version_number: number(1)?.unwrap_or(i64::MAX),
        synchronous_commit: row.try_get::<String, _>(2)?,
        statement_timeout: row.try_get::<String, _>(3)?,
        isolation: row.try_get::<String, _>(4)?,
        connections: i64::from(row.try_get::<i32, _>(5)?),
        replicas: row.try_get::<i64, _>(6)?,
    })
}

async fn identity(connection: &mut PgConnection) -> sqlx::Result<String> {
    sqlx::raw_sql(IDENTITY).fetch_one(connection).await?.try_get(0)
}

/// Its answers have been heard: whether it ends well is of no matter.
async fn close(connection: PgConnection) {
    let _ended = connection.close().await;
}

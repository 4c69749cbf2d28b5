//! The tables. They are made and changed by migrations that are part of the binary and run when it starts.

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{Connection as _, PgConnection, SqlSafeStr as _};

use super::error::{describe, is_locked};
use super::retention::partitions::{LIMIT_LOCKS, LargeTables, make_months_ahead};
use super::time_limit::NO_LIMIT;
use super::{Postgres, SqlPool, Sqlite};

/// `(version, name, SQL for PostgreSQL, SQL for SQLite)`. One that was released is never changed.
const MIGRATIONS: [(i64, &str, &str, &str); 25] = [
    (
        1,
        "runs and jobs",
        include_str!("../../migrations/postgres/0001_runs_and_jobs.sql"),
        include_str!("../../migrations/sqlite/0001_runs_and_jobs.sql"),
    ),
    (
        2,
        "traces of jobs",
        include_str!("../../migrations/postgres/0002_traces_of_jobs.sql"),
        include_str!("../../migrations/sqlite/0002_traces_of_jobs.sql"),
    ),
    (
        3,
        "journal epochs",
        include_str!("../../migrations/postgres/0003_journal_epochs.sql"),
        include_str!("../../migrations/sqlite/0003_journal_epochs.sql"),
    ),
    (
        4,
        "key values",
        include_str!("../../migrations/postgres/0004_key_values.sql"),
        include_str!("../../migrations/sqlite/0004_key_values.sql"),
    ),
    (
        5,
        "submitters of jobs",
        include_str!("../../migrations/postgres/0005_submitters_of_jobs.sql"),
        include_str!("../../migrations/sqlite/0005_submitters_of_jobs.sql"),
    ),
    (
        6,
        "tool versions",
        include_str!("../../migrations/postgres/0006_tool_versions.sql"),
        include_str!("../../migrations/sqlite/0006_tool_versions.sql"),
    ),
    (
        7,
        "http recordings",
        include_str!("../../migrations/postgres/0007_http_recordings.sql"),
        include_str!("../../migrations/sqlite/0007_http_recordings.sql"),
    ),
    (
        9,
        "indexes of open jobs",
        include_str!("../../migrations/postgres/0009_indexes_of_open_jobs.sql"),
        include_str!("../../migrations/sqlite/0009_indexes_of_open_jobs.sql"),
    ),
    (
        10,
        "retention",
        include_str!("../../migrations/postgres/0010_retention.sql"),
        include_str!("../../migrations/sqlite/0010_retention.sql"),
    ),
    (
        11,
        "idempotency keys",
        include_str!("../../migrations/postgres/0011_idempotency_keys.sql"),
        include_str!("../../migrations/sqlite/0011_idempotency_keys.sql"),
    ),
    (
        12,
        "webhooks",
        include_str!("../../migrations/postgres/0012_webhooks.sql"),
        include_str!("../../migrations/sqlite/0012_webhooks.sql"),
    ),
    (
        13,
        "conversations",
        include_str!("../../migrations/postgres/0013_conversations.sql"),
        include_str!("../../migrations/sqlite/0013_conversations.sql"),
    ),
    (
        14,
        "traces of webhooks",
        include_str!("../../migrations/postgres/0014_traces_of_webhooks.sql"),
        include_str!("../../migrations/sqlite/0014_traces_of_webhooks.sql"),
    ),
    (
        15,
        "partitions of runs",
        include_str!("../../migrations/postgres/0015_partitions_of_runs.sql"),
        include_str!("../../migrations/sqlite/0015_partitions_of_runs.sql"),
    ),
    (
        16,
        "webhooks of users",
        include_str!("../../migrations/postgres/0016_webhooks_of_users.sql"),
        include_str!("../../migrations/sqlite/0016_webhooks_of_users.sql"),
    ),
    (
        17,
        "signatures by name",
        include_str!("../../migrations/postgres/0017_signatures_by_name.sql"),
        include_str!("../../migrations/sqlite/0017_signatures_by_name.sql"),
    ),
    (
        18,
        "first calls of versions",
        include_str!("../../migrations/postgres/0018_first_calls.sql"),
        include_str!("../../migrations/sqlite/0018_first_calls.sql"),
    ),
    (
        19,
        "indexes of parked jobs",
        include_str!("../../migrations/postgres/0019_indexes_of_parked_jobs.sql"),
        include_str!("../../migrations/sqlite/0019_indexes_of_parked_jobs.sql"),
    ),
    (
        20,
        "options of jobs",
        include_str!("../../migrations/postgres/0020_options_of_jobs.sql"),
        include_str!("../../migrations/sqlite/0020_options_of_jobs.sql"),
    ),
    (
        21,
        "parents of jobs",
        include_str!("../../migrations/postgres/0021_parents_of_jobs.sql"),
        include_str!("../../migrations/sqlite/0021_parents_of_jobs.sql"),
    ),
    (
        22,
        "waits of parked jobs",
        include_str!("../../migrations/postgres/0022_waits_of_parked_jobs.sql"),
        include_str!("../../migrations/sqlite/0022_waits_of_parked_jobs.sql"),
    ),
    (
        23,
        "indexes of what has ended",
        include_str!("../../migrations/postgres/0023_indexes_of_what_has_ended.sql"),
        include_str!("../../migrations/sqlite/0023_indexes_of_what_has_ended.sql"),
    ),
    (
        24,
        "runs of users",
        include_str!("../../migrations/postgres/0024_runs_of_users.sql"),
        include_str!("../../migrations/sqlite/0024_runs_of_users.sql"),
    ),
    (
        25,
        "ended jobs of users",
        include_str!("../../migrations/postgres/0025_ended_jobs_of_users.sql"),
        include_str!("../../migrations/sqlite/0025_ended_jobs_of_users.sql"),
    ),
    (
        26,
        "settled webhooks and waiting jobs",
        include_str!("../../migrations/postgres/0026_settled_webhooks_and_waiting_jobs.sql"),
        include_str!("../../migrations/sqlite/0026_settled_webhooks_and_waiting_jobs.sql"),
    ),
];

/// Why the tables could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The database failed or refused.
    #[error("the database could not be prepared: {detail}")]
    Store {
        /// What it says. It holds no address and no secret.
        detail: String,
    },
    /// A table could not be locked in time, because others have been using it for long.
    #[error("the database could not be prepared: {detail}")]
    Locked {
        /// The database's own text of why.
        detail: String,
    },
    /// A newer binary was here before.
    #[error("the database is newer than this program: it has migration {version}, which is not known here")]
    Newer {
        /// The first migration that is not known.
        version: i64,
    },
    /// The tables are not those of any release.
    #[error("migration {version} of the database is not the one that this program knows")]
    Foreign {
        /// The migration.
        version: i64,
    },
}

impl SqlPool {
    /// Makes the tables or brings them up to date. Any number of processes may do so at once: one does, and
    /// the others wait.
    pub async fn migrate(&self) -> Result<(), SetupError> {
        let migrated = match self {
            Self::Postgres(pool) => migrate_postgres(pool).await,
            Self::Sqlite(pools) => migrate_sqlite(pools).await,
        };
        migrated.map_err(|error| match error {
            MigrateError::VersionMissing(version) => SetupError::Newer { version },
            MigrateError::VersionMismatch(version) | MigrateError::Dirty(version) => {
                SetupError::Foreign { version }
            }
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
                let detail = describe(&error);
                if is_locked(&error) { SetupError::Locked { detail } } else { SetupError::Store { detail } }
            }
            _ => SetupError::Store { detail: "the migrations failed".into() },
        })
    }

    /// Whether [`migrate`](Self::migrate) would take the tables for its own. It only reads: tables that are
    /// missing are no error, and are not made.
    pub async fn check_migrations(&self) -> Result<(), SetupError> {
        let run = match self {
            Self::Postgres(pool) => run_on_postgres(pool).await,
            Self::Sqlite(pools) => run_on_sqlite(pools).await,
        };
        let run = run.map_err(|error| SetupError::Store { detail: describe(&error) })?;
        let known = match self {
            Self::Postgres(_) => migrator(|(version, name, sql, _)| (version, name, sql)),
            Self::Sqlite(_) => migrator(|(version, name, _, sql)| (version, name, sql)),
        };
        judge(&known, &run)
    }
}

/// A migration that was run: its version, whether it succeeded, and the digest of its SQL.
type Run = (i64, bool, Vec<u8>);

const RUN: &str = "SELECT version, success, checksum FROM _sqlx_migrations ORDER BY version";

async fn run_on_postgres(pool: &Postgres) -> sqlx::Result<Vec<Run>> {
    let mut connection = pool.connect_directly().await?;
    let is_there = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL");
    let is_there: bool = is_there.fetch_one(&mut connection).await?;
    let run = if is_there { sqlx::query_as(RUN).fetch_all(&mut connection).await? } else { vec![] };
    connection.close().await?;
    Ok(run)
}

async fn run_on_sqlite(pools: &Sqlite) -> sqlx::Result<Vec<Run>> {
    let tables = sqlx::query_scalar("SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'");
    let tables: i64 = tables.fetch_one(pools.readers()).await?;
    if tables == 0 {
        return Ok(vec![]);
    }
    sqlx::query_as(RUN).fetch_all(pools.readers()).await
}

/// What the migrator refuses, in the order in which it looks.
fn judge(known: &Migrator, run: &[Run]) -> Result<(), SetupError> {
    let find = |version: i64| known.iter().find(|migration| migration.version == version);
    let failed = run.iter().find(|(_, success, _)| !success);
    let unknown = run.iter().find(|(version, ..)| find(*version).is_none());
    let is_another = |(version, _, checksum): &&Run| {
        find(*version).is_some_and(|migration| &*migration.checksum != checksum.as_slice())
    };
    match (failed, unknown, run.iter().find(is_another)) {
        (None, None, None) => Ok(()),
        (None, Some((version, ..)), _) => Err(SetupError::Newer { version: *version }),
        (Some((version, ..)), ..) | (None, None, Some((version, ..))) => {
            Err(SetupError::Foreign { version: *version })
        }
    }
}

/// Up to which migration each transaction goes. A lock is held until the end of its transaction, and what
/// changes a table keeps its readers out as well: the 15th, and the 20th to the 22nd. What is behind these
/// makes indexes, for which a large table is read for long.
const STEPS: [Option<i64>; 3] = [Some(15), Some(22), None];

/// On a connection of its own, to the server itself. Partitions of the coming months, which no migration can
/// name, are made after it.
async fn migrate_postgres(pool: &Postgres) -> Result<(), MigrateError> {
    let mut connection = pool.connect_directly().await?;
    for step in STEPS {
        migrate_up_to(step, &mut connection).await?;
    }
    connection.close().await?;
    make_months_ahead(pool, LargeTables::Leave).await;
    Ok(())
}

/// In one transaction, whose lock ends with it: the migrator's own lock belongs to a session, and behind a
/// pooler nobody knows whose that is. With more isolation the transaction would not see what others made
/// while it waited for the lock.
async fn migrate_up_to(step: Option<i64>, connection: &mut PgConnection) -> Result<(), MigrateError> {
    let mut transaction = connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    sqlx::raw_sql(NO_LIMIT).execute(&mut *transaction).await?;
    let database: String =
        sqlx::query_scalar("SELECT current_database()").fetch_one(&mut *transaction).await?;
    let lock = sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(lock_id(&database));
    lock.execute(&mut *transaction).await?;
    let mut migrator = migrator(|(version, name, sql, _)| (version, name, sql));
    migrator.set_locking(false);
    // From here on everybody waits behind it for tables. A service that starts tries again. Migration 15 ends
    // with the limit that it found taken away, and its step with it.
    if !is_migrated(&migrator, &mut transaction).await? {
        sqlx::raw_sql(LIMIT_LOCKS).execute(&mut *transaction).await?;
        migrator.run_direct(step, &mut *transaction, false).await?;
    }
    transaction.commit().await?;
    Ok(())
}

/// Whether exactly these migrations were run, in a database that can be written to. The migrator cannot be
/// asked by a role that may create nothing: it begins with a table of its own, which PostgreSQL refuses even
/// where that exists.
async fn is_migrated(migrator: &Migrator, connection: &mut PgConnection) -> sqlx::Result<bool> {
    const CAN_TELL: &str = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL \
        AND NOT current_setting('transaction_read_only')::boolean";
    let can_tell = sqlx::query_scalar(CAN_TELL);
    if !can_tell.fetch_one(&mut *connection).await? {
        return Ok(false);
    }
    let run: Vec<Run> = sqlx::query_as(RUN).fetch_all(connection).await?;
    let known = migrator.iter().map(|migration| (migration.version, true, migration.checksum.to_vec()));
    Ok(known.eq(run))
}

/// The lock that the migrator itself takes, by which programs of earlier releases wait for this one.
fn lock_id(database: &str) -> i64 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let crc = database.bytes().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(byte),
            |crc, _| {
                if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 }
            },
        )
    });
    0x3d32_ad9e * i64::from(!crc)
}

/// All in one transaction that keeps other writers out from its beginning: the migrator has no lock of its
/// own here.
async fn migrate_sqlite(pools: &Sqlite) -> Result<(), MigrateError> {
    pools.switch_to_write_ahead_log().await?;
    let mut transaction = pools.writer().begin_with("BEGIN IMMEDIATE").await?;
    migrator(|(version, name, _, sql)| (version, name, sql))
        .run_direct(None, &mut *transaction, false)
        .await?;
    // A file that may only be read is of no use, and had better say so before somebody wants to write.
    sqlx::query("DELETE FROM jobs WHERE FALSE").execute(&mut *transaction).await?;
    transaction.commit().await?;
    pools.file().remember();
    Ok(())
}

type Row = (i64, &'static str, &'static str, &'static str);

fn migrator(of_dialect: impl Fn(Row) -> (i64, &'static str, &'static str)) -> Migrator {
    let migrations = MIGRATIONS.into_iter().map(of_dialect).map(|(version, name, sql)| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    Migrator::with_migrations(migrations.collect())
}

#[cfg(test)]
mod tests {
    use test_servers::{Postgres, within};

    use super::*;

    #[tokio::test]
    async fn a_start_that_runs_the_fifteenth_waits_for_no_table_of_those_behind_it_either() {
        let server = Postgres::start().await;
        let mut reader = PgConnection::connect(&server.url()).await.unwrap();
        let migrator = migrator(|(version, name, sql, _)| (version, name, sql));
        migrator.run_direct(Some(14), &mut reader, false).await.unwrap();
        // The next one to change this table is the twentieth.
        sqlx::raw_sql("BEGIN; SELECT FROM jobs").execute(&mut reader).await.unwrap();
        let pool = SqlPool::postgres(&server.url()).unwrap();
        let error = within("the migration to give up", pool.migrate()).await.unwrap_err();
        assert!(matches!(error, SetupError::Locked { .. }), "{error:?}");
        reader.close().await.unwrap();
        assert_eq!(pool.migrate().await, Ok(()));
    }

    #[tokio::test]
    async fn what_changes_a_table_holds_it_no_longer_when_indexes_are_made() {
        let server = Postgres::start().await;
        let mut writer = PgConnection::connect(&server.url()).await.unwrap();
        let migrator = migrator(|(version, name, sql, _)| (version, name, sql));
        migrator.run_direct(Some(19), &mut writer, false).await.unwrap();
        let write = sqlx::raw_sql("BEGIN; LOCK TABLE run_records IN ROW EXCLUSIVE MODE");
        write.execute(&mut writer).await.unwrap();
        let pool = SqlPool::postgres(&server.url()).unwrap();
        let error = within("the migration to give up", pool.migrate()).await.unwrap_err();
        assert!(matches!(error, SetupError::Locked { .. }), "{error:?}");
        let last = sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations");
        let last: i64 = last.fetch_one(&mut writer).await.unwrap();
        assert_eq!(last, 22);
        writer.close().await.unwrap();
        assert_eq!(pool.migrate().await, Ok(()));
    }
}

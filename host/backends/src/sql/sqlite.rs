//! SQLite in a file of ours. It lets one connection write at a time, so there is only one that does: writers
//! queue up in front of it in the order they came, instead of being told that the database is locked.
//!
//! A future that waits for the writer or has it has to be polled until it ends. It is given the writer when
//! its turn comes, whether it is polled or not, and whoever leaves it lie to wait for another write waits for
//! himself.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use sqlx::pool::{PoolConnection, PoolOptions};
use sqlx::query::QueryAs;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqlitePool, SqliteQueryResult, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{Connection as _, FromRow};
use tokio::time::{Instant, sleep};

use super::answer;
use super::commit::Lane;
use super::opened_file::OpenedFile;

/// Most connections of one process (host/docs/interface/errors-and-limits.md#limits).
const MOST_CONNECTIONS: u32 = 20;

/// How long a connection may be idle before it is closed (host/docs/interface/errors-and-limits.md#limits).
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection that reads is kept. The pool gives out the one that was idle the longest, so that
/// one look a second keeps all connections that a rush has opened from ever being idle for [`IDLE_TIMEOUT`];
/// each has a thread and a cache. Closed at this age, a connection is opened again only if another one is
/// wanted.
const READER_LIFETIME: Duration = Duration::from_secs(120);

/// The cache of a connection that reads, in KiB (SQLite's own default is 2,000). It is void after each write
/// of another connection, and the file's pages are in the cache of the system.
const READER_CACHE_KIB: u32 = 512;

/// How long getting a connection may take (host/docs/interface/errors-and-limits.md#limits).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a writer waits for its turn, and for another process that writes.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);

/// How soon switching to the write-ahead log is tried again.
const SWITCH_PAUSE: Duration = Duration::from_millis(10);

/// What `PRAGMA auto_vacuum` answers for a file whose free pages can be given back.
const INCREMENTAL: i64 = 2;

/// Gives 1,000 pages back, which are 4 MB.
const VACUUM_SOME: &str = "PRAGMA incremental_vacuum(1000)";

/// The connections to one file. Clones are the same connections.
#[derive(Debug, Clone)]
pub struct Sqlite {
    readers: SqlitePool,
    writer: SqlitePool,
    lane: Arc<Lane>,
    file: Arc<OpenedFile>,
}

/// The writer during an exchange that begins and ends a transaction. Dropped half-way, the connection is
/// closed, which ends the transaction.
struct Exchange(Option<PoolConnection<sqlx::Sqlite>>);

impl Sqlite {
    /// Nothing is opened yet, and the file is created if absent.
    pub(super) fn new(options: SqliteConnectOptions) -> Self {
        Self::with(options.create_if_missing(true))
    }

    /// Nothing is opened yet, and no file is created.
    pub(super) fn existing(options: SqliteConnectOptions) -> Self {
        Self::with(options.create_if_missing(false))
    }

    fn with(options: SqliteConnectOptions) -> Self {
        let file = Arc::new(OpenedFile::new(options.get_filename()));
        let options = options
            // With anything less, what was acknowledged could be gone after a power loss.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(TURN_TIMEOUT);
        let writer = PoolOptions::new()
            .max_connections(1)
            // A database in memory goes with the last connection to it, and readers are closed now and then.
            .idle_timeout(None)
            .max_lifetime(None)
            .acquire_timeout(TURN_TIMEOUT)
            // There is no network that could have gone, and asking costs as much as a statement.
            .test_before_acquire(false)
            // On a full disk SQLite ends the transaction by itself. The driver then still counts one, which
            // nobody can end any more, and begins no other on that connection.
            .before_acquire(|connection: &mut SqliteConnection, _about| {
                let is_usable = !connection.is_in_transaction();
                Box::pin(async move { Ok(is_usable) })
            })
            .connect_lazy_with(options.clone());
        Self { readers: readers(options, READER_LIFETIME), writer, lane: Arc::default(), file }
    }

    /// Connections for what changes nothing.
    pub(super) fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// The one connection for what changes something.
    pub(super) fn writer(&self) -> &SqlitePool {
        &self.writer
    }

    /// The commit lane of the file in this process.
    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// The file that was opened.
    pub(super) fn file(&self) -> &Arc<OpenedFile> {
        &self.file
    }

    /// Carries out statements in one exchange with SQLite's thread and answers all their rows. Where there
    /// are several, the first one begins a transaction and the last one commits it. The driver does not know
    /// of that transaction.
    pub(super) async fn exchange<R>(
        &self,
        query: QueryAs<'_, sqlx::Sqlite, R, SqliteArguments>,
    ) -> sqlx::Result<Vec<R>>
    where
        R: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
    {
        let mut exchange = Exchange(None);
        let writer = &mut **exchange.0.insert(self.writer.acquire().await?);
        let answer = query.fetch_all(&mut *writer).await;
        let is_ended = answer.is_ok() || is_rolled_back(sqlx::raw_sql("ROLLBACK").execute(writer).await);
        if is_ended {
            drop(exchange.0.take());
        }
        answer
    }

    /// Has readers and the writer not wait for each other. The file remembers that, so it is not asked of
    /// every connection: switching wants the file for itself, and SQLite's own waiting does not cover it.
    pub(super) async fn switch_to_write_ahead_log(&self) -> sqlx::Result<()> {
        let deadline = Instant::now() + TURN_TIMEOUT;
        loop {
            match self.try_switch().await {
                Err(error) if is_locked(&error) && Instant::now() < deadline => sleep(SWITCH_PAUSE).await,
                switched => return switched,
            }
        }
    }

    /// In a new file, pages that become free can be given back to the disk. That is decided before anything
    /// is written to it, the switch included, and asked of a file that has pages it would be a write of every
    /// connection.
    async fn try_switch(&self) -> sqlx::Result<()> {
        let mut connection = self.writer.acquire().await?;
        let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut *connection).await?;
        if pages == 0 {
            sqlx::query("PRAGMA auto_vacuum = INCREMENTAL").execute(&mut *connection).await?;
        }
        sqlx::query("PRAGMA journal_mode = WAL").execute(&mut *connection).await.map(drop)
    }

    /// Gives pages that are free back to the disk, some at a time because nobody else writes meanwhile. True
    /// when there are more. A file that an older version made keeps its pages and uses them again.
    pub(super) async fn give_back_room(&self) -> sqlx::Result<bool> {
        answer(async {
            let mode: i64 = sqlx::query_scalar("PRAGMA auto_vacuum").fetch_one(&self.writer).await?;
            if mode != INCREMENTAL {
                return Ok(false);
            }
            sqlx::query(VACUUM_SOME).execute(&self.writer).await?;
            let free: i64 = sqlx::query_scalar("PRAGMA freelist_count").fetch_one(&self.writer).await?;
            Ok(free > 0)
        })
        .await
    }

    /// Frees the pages that the writer keeps in memory. For whoever has written much that nobody reads soon.
    pub(super) async fn shrink_memory(&self) -> sqlx::Result<()> {
        sqlx::query("PRAGMA shrink_memory").execute(&self.writer).await.map(drop)
    }

    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

fn readers(options: SqliteConnectOptions, lifetime: Duration) -> SqlitePool {
    PoolOptions::new()
        .max_connections(MOST_CONNECTIONS - 1)
        .idle_timeout(IDLE_TIMEOUT)
        .max_lifetime(lifetime)
        .acquire_timeout(CONNECT_TIMEOUT)
        .test_before_acquire(false)
        .connect_lazy_with(options.pragma("cache_size", format!("-{READER_CACHE_KIB}")))
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(connection) = &mut self.0 {
            connection.close_on_drop();
        }
    }
}

/// Whether there can be a database at that path, and if not, why and what to do.
pub(super) fn check_path(file: &Path) -> Result<(), String> {
    let folder = match file.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Err(format!("{} is a folder: name a file in it", file.display())),
    };
    let shown = folder.display();
    match fs::metadata(folder) {
        Ok(found) if !found.is_dir() => return Err(format!("{shown} is no folder: name another one")),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(format!("the folder {shown} does not exist: create it, or name another one"));
        }
        Err(error) => return Err(format!("the folder {shown} cannot be looked into: {error}")),
    }
    if file.is_dir() {
        return Err(format!("{} is a folder: name a file in it", file.display()));
    }
    // Beside the file SQLite writes its log, so the folder has to be writable as well.
    match access(folder, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        // A disk that may only be read can be made writable while the service waits for that.
        Ok(()) | Err(Errno::ROFS) => {}
        Err(error) => {
            return Err(format!("this process may not read and write in the folder {shown}: {error}"));
        }
    }
    match access(file, Access::READ_OK | Access::WRITE_OK) {
        Ok(()) | Err(Errno::NOENT | Errno::ROFS) => Ok(()),
        Err(error) => Err(format!("this process may not read and write {}: {error}", file.display())),
    }
}

/// Whether there is such a file, in a folder that [`check_path`] has nothing against.
pub(super) fn check_file(file: &Path) -> Result<(), String> {
    check_path(file)?;
    match file.try_exists() {
        Ok(false) => Err(format!(
            "there is no file {}: name the one that the service has, which it makes when it starts",
            file.display()
        )),
        Ok(true) | Err(_) => Ok(()),
    }
}

/// Whether no transaction is open after a `ROLLBACK`, which is an error where there was none any more or
/// never had been.
fn is_rolled_back(answer: sqlx::Result<SqliteQueryResult>) -> bool {
    const SQLITE_ERROR: i32 = 1;
    answer.map_or_else(|error| code(&error) == Some(SQLITE_ERROR), |_done| true)
}

fn is_locked(error: &sqlx::Error) -> bool {
    const SQLITE_BUSY: i32 = 5;
    code(error) == Some(SQLITE_BUSY)
}

/// What went wrong, without what stands above the low byte: where it came up.
fn code(error: &sqlx::Error) -> Option<i32> {
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok());
    code.map(|code| code & 0xff)
}

#[cfg(test)]
mod tests {
    use agent_core::ports::{Epoch, Journal as _, JournalError};
    use agent_core::testing::says;
    use agent_core::words::Event;
    use sqlx::ConnectOptions as _;
    use test_servers::Task;
    use tokio::time::timeout;

    use super::*;
    use crate::sql::{SqlPool, SqlRuns};

    #[test]
    fn a_path_that_can_never_be_a_database_is_refused_by_name() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        for (path, problem) in [
            (home.path().join("no/such/x.db"), "no/such does not exist"),
            (file.join("x.db"), "file is no folder"),
            (home.path().to_owned(), "is a folder: name a file in it"),
        ] {
            let error = SqlPool::sqlite(&format!("sqlite://{}", path.display())).err().unwrap().to_string();
            assert!(error.contains(problem) && error.contains("DATABASE_URL"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_file_that_has_to_be_there_is_not_made() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("x.db");
        let url = format!("sqlite://{}", file.display());
        let error = SqlPool::existing_sqlite(&url).err().unwrap().to_string();
        assert!(error.contains(&format!("there is no file {}", file.display())), "{error}");
        assert!(!file.exists());
        SqlPool::sqlite(&url).unwrap().migrate().await.unwrap();
        SqlPool::existing_sqlite(&url).unwrap().run_trivial_query().await.unwrap();
        // One that goes before its first use is not made anew either.
        let pool = SqlPool::existing_sqlite(&url).unwrap();
        fs::remove_file(&file).unwrap();
        pool.run_trivial_query().await.unwrap_err();
        assert!(!file.exists());
    }

    #[test]
    fn the_file_of_an_address_is_the_one_that_is_opened() {
        for (url, file) in [
            ("sqlite://agent.db?mode=rwc", Some("agent.db")),
            ("sqlite:///var/lib/agent.db", Some("/var/lib/agent.db")),
            ("sqlite:////var/lib/agent.db", Some("//var/lib/agent.db")),
            ("sqlite://my%20agent.db", Some("my agent.db")),
            ("sqlite://:memory:", None),
            ("sqlite://some.db?mode=memory", None),
        ] {
            assert_eq!(SqlPool::sqlite_file(url).as_deref(), file.map(Path::new), "{url}");
        }
    }

    #[tokio::test]
    async fn one_in_memory_and_one_in_the_current_folder_need_no_folder() {
        for url in ["sqlite://:memory:", "sqlite://:memory:?mode=memory", "sqlite://some.db"] {
            SqlPool::sqlite(url).unwrap();
        }
    }

    #[tokio::test]
    async fn one_in_memory_is_kept_by_the_connection_that_writes() {
        let SqlPool::Sqlite(pools) = SqlPool::sqlite("sqlite://:memory:").unwrap() else { unreachable!() };
        let writer = pools.writer().options();
        assert_eq!((writer.get_idle_timeout(), writer.get_max_lifetime()), (None, None));
    }

    #[test]
    fn one_in_memory_that_connections_would_not_share_is_refused() {
        for (url, parameter) in [
            ("sqlite://some.db?mode=memory", "with mode=memory"),
            ("sqlite://some.db?cache=shared&mode=memory", "with mode=memory"),
            ("sqlite://:memory:?cache=private", "with cache=private"),
        ] {
            let error = SqlPool::sqlite(url).err().unwrap().to_string();
            assert!(error.contains(parameter) && error.contains("or sqlite://:memory: for one"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_full_disk_is_said_to_be_full_and_costs_nothing_that_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = SqliteConnectOptions::new().filename(folder.path().join("small.db"));
        let pool = SqlPool::Sqlite(Sqlite::new(file.clone().pragma("max_page_count", "100")));
        pool.migrate().await.unwrap();
        let (runs, writing) = SqlRuns::new(pool.clone());
        let event = Event::from(says(&"x".repeat(10_000)));
        let writing = Task::begin(writing.run());
        let mut written = 0;
        let error = loop {
            match runs.append("run_1", Epoch(1), written, std::slice::from_ref(&event)).await {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error, JournalError::Store { detail: "the disk is full (code 13)".into() });
        assert_eq!(
            runs.append("run_1", Epoch(1), written, std::slice::from_ref(&event)).await,
            Err(error),
            "as often as it is tried"
        );
        assert!(written > 0);
        let SqlPool::Sqlite(pools) = &pool else { unreachable!() };
        let make_room = sqlx::query("DELETE FROM run_events WHERE sequence > 0");
        make_room.execute(pools.writer()).await.unwrap();
        for sequence in 1..written {
            runs.append("run_1", Epoch(1), sequence, std::slice::from_ref(&event)).await.unwrap();
        }
        assert_eq!(runs.read("run_1", 0).await.unwrap().len() as u64, written);
        drop(runs);
        writing.ended().await;
        pool.close().await;

        let pool = SqlPool::Sqlite(Sqlite::new(file));
        let (runs, writing) = SqlRuns::new(pool.clone());
        let _writing = Task::begin(writing.run());
        runs.append("run_1", Epoch(1), written, std::slice::from_ref(&event)).await.unwrap();
        assert_eq!(runs.read("run_1", 0).await.unwrap().len() as u64, written + 1, "with room again");
        let SqlPool::Sqlite(pools) = pool else { unreachable!() };
        let check = sqlx::query_scalar::<_, String>("PRAGMA integrity_check");
        assert_eq!(check.fetch_one(pools.readers()).await.unwrap(), "ok");
    }

    #[tokio::test]
    async fn connections_of_a_rush_are_closed_though_somebody_looks_all_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let file =
            SqliteConnectOptions::new().filename(folder.path().join("some.db")).create_if_missing(true);
        let pool = readers(file, Duration::from_millis(300));
        let rush = futures::future::join_all((0..8).map(|_| pool.acquire())).await;
        assert_eq!((rush.iter().filter(|taken| taken.is_ok()).count(), pool.size()), (8, 8));
        drop(rush);
        let looks = async {
            while pool.size() > 1 {
                let cache: i64 = sqlx::query_scalar("PRAGMA cache_size").fetch_one(&pool).await.unwrap();
                assert_eq!(cache, -512);
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(20), looks).await.expect("one is enough for one who looks");
    }

    /// Otherwise nobody could write to the file any more.
    #[tokio::test]
    async fn an_exchange_that_fails_or_is_dropped_half_way_leaves_no_transaction_open() {
        let folder = tempfile::tempdir().unwrap();
        let file = SqliteConnectOptions::new().filename(folder.path().join("some.db"));
        let pools = Sqlite::new(file.clone());
        SqlPool::Sqlite(pools.clone()).migrate().await.unwrap();
        let mut other = file.connect().await.unwrap();
        let write = || sqlx::query_as("BEGIN IMMEDIATE; DELETE FROM sweeps; SELECT 1; COMMIT");
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
        let dropped = timeout(Duration::from_millis(50), pools.exchange::<(i64,)>(write())).await;
        assert!(dropped.is_err(), "it waits for the other one: {dropped:?}");
        sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
        assert_eq!(pools.exchange::<(i64,)>(write()).await.unwrap(), [(1,)]);
        let failing = "BEGIN IMMEDIATE; DELETE FROM sweeps; SELECT 1 FROM nothing; COMMIT";
        pools.exchange::<(i64,)>(sqlx::query_as(failing)).await.unwrap_err();
        // `other` waits up to 5 s for the lock and fails if the failed exchange still holds it.
        sqlx::raw_sql("BEGIN IMMEDIATE; ROLLBACK").execute(&mut other).await.unwrap();
        assert_eq!(pools.exchange::<(i64,)>(write()).await.unwrap(), [(1,)]);
    }
}

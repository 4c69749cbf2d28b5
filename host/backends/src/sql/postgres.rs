//! Connections to PostgreSQL, with one round trip for a statement: nothing is asked before it and nothing
//! after it.
//!
//! This is not the pool of the crate `sqlx`, because that one pings each connection that comes back, which no
//! option turns off: it has to, because it takes back connections whose statements were dropped half-way.
//! Here a connection comes back only when its statement has ended; any other is closed, which also ends its
//! transaction. A kept connection may have died unnoticed. Then a statement that may be repeated is sent once
//! more on a new one ([`Borrowed::settle`]), and one that may not is preceded by a ping when the connection
//! has been silent for a while.
//!
//! What does not belong here: what is asked, and whether it may be repeated: the macros in `mod.rs`.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_core::backoff::Backoff;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgDatabaseError, PgSeverity};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::commit::Lane;
use super::error::is_full_pooler;
use super::listener::Listener;
use super::time_limit::in_time;

/// Most connections of one process (host/docs/interface/errors-and-limits.md#limits).
const MOST_CONNECTIONS: u32 = 20;

/// Most connections of one process, with the one that listens for jobs.
pub(super) const CONNECTIONS_OF_A_PROCESS: i64 = MOST_CONNECTIONS as i64 + 1;

/// How long a connection may be idle before it is closed (host/docs/interface/errors-and-limits.md#limits).
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection is used: so that a name which leads elsewhere by now is looked up again.
const LIFETIME: Duration = Duration::from_secs(30 * 60);

/// How long getting a connection may take (host/docs/interface/errors-and-limits.md#limits).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a connection counts as alive after an answer.
const ALIVE: Duration = Duration::from_secs(1);

/// How long the server works on a statement: a little longer than it is waited for, so that nothing goes on
/// for a caller who has been told that it failed. A transaction that waits for us as long is taken back.
const STATEMENT_TIMEOUT: &str = "6s";

/// The isolation that statements are written for: of two that change the same rows, the second one waits for
/// the first. With more isolation it fails, and with it everything that is committed together.
pub(super) const ISOLATION: &str = "read committed";

/// How long to wait before another attempt at a server that refuses connections, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// The connections to one server. Clones are the same connections.
#[derive(Clone)]
pub struct Postgres(Arc<Shared>);

struct Shared {
    /// How to connect: with our options for the session, and without, for poolers that refuse them.
    options: PgConnectOptions,
    plain: PgConnectOptions,
    /// Where the server itself listens, when `options` name a pooler before it.
    direct: Option<PgConnectOptions>,
    refuses_options: AtomicBool,
    permits: Arc<Semaphore>,
    /// The one that was used last is at the back.
    idle: Mutex<VecDeque<IdleConnection>>,
    is_closing: AtomicBool,
    lane: Lane,
    /// Hears what other processes announce.
    listener: Listener,
}

/// A connection on which nothing is under way.
struct IdleConnection {
    connection: PgConnection,
    made_at: Instant,
    answered_at: Instant,
}

/// A connection in use. Dropped, it is closed; [`Self::settle`] gives it back.
pub(super) struct Borrowed {
    kept: IdleConnection,
    /// Whether nothing was asked on it before.
    is_new: bool,
    permit: OwnedSemaphorePermit,
    silence: Silence,
}

/// For how long a connection in use has not answered. One that is given up after a while says something about
/// the others: they are closed, so that a network which swallows everything is waited for once, and not once
/// for each connection.
struct Silence {
    pool: Postgres,
    /// Absent once it has answered.
    since: Option<Instant>,
}

/// Whether a statement may be carried out twice without anybody noticing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    Allowed,
    Forbidden,
}

/// What came of a statement.
pub(super) enum Settled<T> {
    /// The statement's result.
    Done(sqlx::Result<T>),
    /// Nothing: a kept connection was dead. It is to be sent again.
    Again,
}

impl Postgres {
    /// Nothing is connected yet. `direct` is where migrations and listeners connect; where the others do, if
    /// absent.
    pub(super) fn new(options: PgConnectOptions, direct: Option<PgConnectOptions>) -> Self {
        let process = format!("agent-host {}", Uuid::now_v7().simple());
        let plain = with_plain_session(options, &process);
        Self(Arc::new(Shared {
            options: with_session(plain.clone()),
            plain,
            direct: direct.map(|direct| with_plain_session(direct, &process)),
            refuses_options: AtomicBool::new(false),
            permits: Arc::new(Semaphore::new(MOST_CONNECTIONS as usize)),
            idle: Mutex::default(),
            is_closing: AtomicBool::new(false),
            lane: Lane::default(),
            listener: Listener::default(),
        }))
    }

    /// What listens to announcements in this process.
    pub(super) fn listener(&self) -> &Listener {
        &self.0.listener
    }

    /// The commit lane of the database in this process.
    pub(super) fn lane(&self) -> &Lane {
        &self.0.lane
    }

    /// A connection for one statement or one transaction, kept or new, within [`CONNECT_TIMEOUT`].
    pub(super) async fn acquire(&self, repeat: Repeat) -> sqlx::Result<Borrowed> {
        if self.0.is_closing.load(Ordering::Acquire) {
            return Err(sqlx::Error::PoolClosed);
        }
        let acquired = timeout(CONNECT_TIMEOUT, async {
            let permit = self.0.permits.clone().acquire_owned().await;
            let permit = permit.map_err(|_closed| sqlx::Error::PoolClosed)?;
            while let Some(mut kept) = self.take_idle() {
                let is_silent = kept.answered_at.elapsed() > ALIVE;
                if repeat == Repeat::Allowed
                    || !is_silent
                    || in_time(ALIVE, kept.connection.ping()).await.is_ok()
                {
                    return Ok(Borrowed { kept, is_new: false, permit, silence: Silence::begin(self) });
                }
                self.close_idle();
            }
            let connection = self.connect_patiently().await?;
            let now = Instant::now();
            let kept = IdleConnection { connection, made_at: now, answered_at: now };
            Ok(Borrowed { kept, is_new: true, permit, silence: Silence::begin(self) })
        });
        acquired.await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }

    /// A connection on which a transaction has begun. [`Borrowed::end`] ends it.
    pub(super) async fn begin(&self) -> sqlx::Result<Borrowed> {
        loop {
            let mut borrowed = self.acquire(Repeat::Allowed).await?;
            let Err(error) = sqlx::raw_sql("BEGIN").execute(borrowed.connection()).await else {
                return Ok(borrowed);
            };
            if let Settled::Done(Err(error)) = borrowed.settle::<()>(Err(error), Repeat::Allowed) {
                return Err(error);
            }
        }
    }

    /// A connection that is nobody else's, as those in the pool are made. One attempt.
    pub(super) async fn connect(&self) -> sqlx::Result<PgConnection> {
        if !self.0.refuses_options.load(Ordering::Acquire) {
            // What a driver keeps while it connects is large, and every statement may have to.
            match in_time(CONNECT_TIMEOUT, Box::pin(self.0.options.connect())).await {
                Err(error) if is_unknown_option(&error) => {
                    self.0.refuses_options.store(true, Ordering::Release)
                }
                connected => return connected,
            }
        }
        in_time(CONNECT_TIMEOUT, Box::pin(self.0.plain.connect())).await
    }

    /// A connection to the server itself, that is nobody else's, on which statements may take as long as they
    /// do.
    pub(super) async fn connect_directly(&self) -> sqlx::Result<PgConnection> {
        in_time(CONNECT_TIMEOUT, Box::pin(self.direct_options().connect())).await
    }

    /// How to connect to the server itself.
    pub(super) fn direct_options(&self) -> &PgConnectOptions {
        self.0.direct.as_ref().unwrap_or(&self.0.plain)
    }

    /// Whether the server itself has an address of its own.
    pub(super) fn has_direct_address(&self) -> bool {
        self.0.direct.is_some()
    }

    /// Closes every connection, waiting for those in use.
    pub(super) async fn close(&self) {
        self.0.is_closing.store(true, Ordering::Release);
        let _nobody_uses_any = self.0.permits.acquire_many(MOST_CONNECTIONS).await;
        self.0.permits.close();
        let idle = std::mem::take(&mut *self.0.idle.lock());
        for kept in idle {
            let _gone_already = in_time(CONNECT_TIMEOUT, kept.connection.close()).await;
        }
    }

    /// A server that refuses connections may be starting: it is tried again until whoever waits has waited
    /// long enough.
    async fn connect_patiently(&self) -> sqlx::Result<PgConnection> {
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            match self.connect().await {
                Err(error) if may_pass(&error) => sleep(pauses.next()).await,
                connected => return connected,
            }
        }
    }

    /// The connection that was used last, of those that may still be used. The others are closed.
    fn take_idle(&self) -> Option<IdleConnection> {
        let mut idle = self.0.idle.lock();
        idle.retain(|kept| kept.answered_at.elapsed() < IDLE_TIMEOUT && kept.made_at.elapsed() < LIFETIME);
        idle.pop_back()
    }

    fn keep(&self, kept: IdleConnection) {
        let mut idle = self.0.idle.lock();
        idle.push_back(kept);
        idle.retain(|kept| kept.answered_at.elapsed() < IDLE_TIMEOUT);
    }

    /// What ended one connection has most likely ended the others.
    pub(super) fn close_idle(&self) {
        let _closed = std::mem::take(&mut *self.0.idle.lock());
    }
}

impl Borrowed {
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.kept.connection
    }

    /// Gives the connection back if it answered, whatever it answered but that its server is read-only, and
    /// says whether the statement has to be sent again because the connection was of no use.
    pub(super) fn settle<T>(self, answer: sqlx::Result<T>, repeat: Repeat) -> Settled<T> {
        match &answer {
            Err(error) if is_lost(error) => {
                self.silence.pool.close_idle();
                if repeat == Repeat::Allowed && !self.is_new { Settled::Again } else { Settled::Done(answer) }
            }
            _ => {
                self.give_back();
                Settled::Done(answer)
            }
        }
    }

    /// Ends the transaction, by `COMMIT` or `ROLLBACK`.
    pub(super) async fn end(mut self, how: &'static str) -> sqlx::Result<()> {
        sqlx::raw_sql(how).execute(self.connection()).await?;
        self.give_back();
        Ok(())
    }

    /// Keeps the connection for the next statement. Nothing may be under way on it, and no transaction open.
    fn give_back(self) {
        let Self { kept, permit, mut silence, .. } = self;
        silence.since = None;
        silence.pool.keep(IdleConnection { answered_at: Instant::now(), ..kept });
        drop(permit);
    }
}

impl Silence {
    fn begin(pool: &Postgres) -> Self {
        Self { pool: pool.clone(), since: Some(Instant::now()) }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        if self.since.is_some_and(|since| since.elapsed() > ALIVE) {
            self.pool.close_idle();
        }
    }
}

/// Whether nothing more can be asked on a connection, or nothing can be written on it: it leads to a server
/// that was the primary one before a failover, whose name leads elsewhere by now or soon will.
fn is_lost(error: &sqlx::Error) -> bool {
    const READ_ONLY: &str = "25006";
    match error {
        sqlx::Error::Database(error) => postgres_error(&**error).is_none_or(|error| {
            matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic) || error.code() == READ_ONLY
        }),
        // What was not sent, and what came and could not be read.
        sqlx::Error::Encode(_)
        | sqlx::Error::RowNotFound
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::Decode(_) => false,
        _ => true,
    }
}

/// Whether a server refuses connections that will take some in a moment.
fn may_pass(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(error) => error.kind() == ErrorKind::ConnectionRefused,
        sqlx::Error::Database(error) => error.is_transient_in_connect_phase(),
        _ => false,
    }
}

/// Whether a pooler refuses what we would like the session to be. PostgreSQL itself knows all of it.
fn is_unknown_option(error: &sqlx::Error) -> bool {
    const PROTOCOL_VIOLATION: &str = "08P01";
    error.as_database_error().is_some_and(|error| {
        error.code().is_some_and(|code| code == PROTOCOL_VIOLATION) && !is_full_pooler(error)
    })
}

fn postgres_error(error: &dyn DatabaseError) -> Option<&PgDatabaseError> {
    error.try_downcast_ref::<PgDatabaseError>()
}

/// What every pooler passes on. Floating-point numbers, which the driver would configure, are in no column of
/// ours. The name tells processes apart for `server_check.rs`, and for whoever looks at the server's
/// sessions.
fn with_plain_session(options: PgConnectOptions, process: &str) -> PgConnectOptions {
    let options = options.extra_float_digits(None);
    if options.get_application_name().is_some() { options } else { options.application_name(process) }
}

/// Limits of the session and its isolation, unless the address sets them: whatever the server, the database
/// or the role would give it.
fn with_session(options: PgConnectOptions) -> PgConnectOptions {
    let session = [
        ("statement_timeout", STATEMENT_TIMEOUT),
        ("idle_in_transaction_session_timeout", STATEMENT_TIMEOUT),
        ("default_transaction_isolation", ISOLATION),
    ];
    session.into_iter().fold(options, |options, (name, value)| {
        if options.get_options().is_some_and(|set| set.contains(name)) {
            options
        } else {
            options.options([(name, value)])
        }
    })
}

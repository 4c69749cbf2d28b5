//! Jobs that other processes add are announced by PostgreSQL (`LISTEN`, `NOTIFY`), on a connection of its own to the
//! server itself. While nothing can be heard, the workers poll once a second. Jobs that others end are heard of on the same
//! connection (`ended.rs`).
//!
//! Whoever adds a job or hands one back announces it in the same statement (`statements.rs`). Before this process relies on
//! that, it listens to an announcement of its own.
//!
//! Nothing listens through a pooler in transaction mode. `LISTEN` succeeds there and belongs to a session that the next client
//! gets: what is announced then arrives in the middle of that client's statements, which fail.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::health::StoreFindings;
use agent_core::ports::StoreWarning;
use futures::future::pending;
use sqlx::Connection as _;
use sqlx::pool::PoolOptions;
use sqlx::postgres::PgListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::claim_wakeup::ClaimWakeup;
use super::ended::{self, EndedJobs};
use crate::sql::error::describe;
use crate::sql::pooler::{Pooling, find_pooling};
use crate::sql::time_limit::in_time;
use crate::sql::{ANSWER_TIMEOUT, Postgres, SqlPool, answer, on_postgres};

/// Where jobs are announced, in each database by itself.
pub(super) const CHANNEL: &str = "agent_host_jobs";

/// Announces on [`CHANNEL`]: `$1` is the text.
const ANNOUNCE: &str = "SELECT pg_notify('agent_host_jobs', $1)";

/// How often workers look for jobs that nobody announced: those of other processes while nothing can be heard, or on SQLite.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The same while announcements are heard: for jobs that programs of earlier releases add, who announce nothing.
const UNANNOUNCED_INTERVAL: Duration = Duration::from_secs(5);

/// How long an announcement may be on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

/// After how much silence the connection is tried.
const SILENCE: Duration = Duration::from_secs(10);

/// How long to wait before listening is tried again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The key of what is found, among other sources.
const SOURCE: &str = "jobs";

/// What this process announces and hears.
#[derive(Debug)]
pub(super) struct Announcements {
    pool: SqlPool,
    claim_wakeup: Arc<ClaimWakeup>,
    ended: Arc<EndedJobs>,
    findings: StoreFindings,
    /// What this process' own announcements begin with: they wake nobody here, because they have already.
    process: Arc<str>,
    is_heard: AtomicBool,
    /// Whether anybody claims jobs here, or waits for one.
    is_wanted: watch::Sender<bool>,
}

/// Why nothing is heard.
#[derive(Debug)]
enum Deaf {
    /// The connection failed.
    Failed(sqlx::Error),
    /// It holds, and what was announced did not arrive.
    Unheard,
    /// It leads to a pooler whose clients share sessions.
    Pooled,
}

impl From<sqlx::Error> for Deaf {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(error)
    }
}

impl Announcements {
    pub(super) fn new(
        pool: SqlPool,
        claim_wakeup: Arc<ClaimWakeup>,
        ended: Arc<EndedJobs>,
        findings: StoreFindings,
    ) -> Self {
        let process = Uuid::now_v7().simple().to_string().into();
        let (is_wanted, _) = watch::channel(false);
        Self { pool, claim_wakeup, ended, findings, process, is_heard: AtomicBool::new(false), is_wanted }
    }

    /// What this process announces.
    pub(super) fn text(&self) -> &Arc<str> {
        &self.process
    }

    /// Somebody claims jobs here, or waits for one. From now on announcements are listened to.
    pub(super) fn want(&self) {
        self.is_wanted.send_if_modified(|is_wanted| !std::mem::replace(is_wanted, true));
    }

    /// How long workers may rely on being woken.
    pub(super) fn poll_interval(&self) -> Duration {
        if self.is_heard.load(Ordering::Acquire) { UNANNOUNCED_INTERVAL } else { POLL_INTERVAL }
    }

    /// Announces jobs that were not announced in the statement that changed them.
    pub(super) async fn announce(&self) {
        let SqlPool::Postgres(postgres) = &self.pool else { return };
        if let Err(error) = notify(postgres, &self.process).await {
            tracing::debug!(
                error = describe(&error),
                "jobs are not announced; others find them when they poll"
            );
        }
    }

    /// Announces the jobs that end in this process, for ever.
    pub(super) async fn announce_ended(&self) {
        self.ended.announce(&self.pool, &self.process).await;
    }

    /// Listens for ever, once anybody claims jobs here or waits for one.
    pub(super) async fn listen(&self) {
        let SqlPool::Postgres(postgres) = &self.pool else { return pending().await };
        let mut is_wanted = self.is_wanted.subscribe();
        // It cannot fail: the sender is ours.
        drop(is_wanted.wait_for(|is_wanted| *is_wanted).await);
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let Err(deaf) = self.hear(postgres, &mut pauses).await;
            self.is_heard.store(false, Ordering::Release);
            self.ended.listening(false);
            // What was announced meanwhile was not heard.
            self.claim_wakeup.wake();
            self.report(&deaf).await;
            sleep(pauses.next()).await;
        }
    }

    async fn hear(&self, postgres: &Postgres, pauses: &mut Backoff) -> Result<Infallible, Deaf> {
        // Some forty round trips.
        if in_time(ANSWER_TIMEOUT, find_pooling_before(postgres)).await? != Pooling::None {
            return Err(Deaf::Pooled);
        }
        let one = PoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
        let one = one.acquire_timeout(ON_ITS_WAY).connect_lazy_with(postgres.direct_options().clone());
        let mut listener = in_time(ON_ITS_WAY, PgListener::connect_with(&one)).await?;
        listener.eager_reconnect(false);
        in_time(ON_ITS_WAY, listener.listen_all([CHANNEL, ended::CHANNEL])).await?;
        self.prove(postgres, &mut listener).await?;
        self.is_heard.store(true, Ordering::Release);
        self.ended.listening(true);
        self.findings.set(SOURCE, Ok(vec![]));
        pauses.reset();
        // What was announced before was not heard.
        self.claim_wakeup.wake();
        loop {
            match timeout(SILENCE, listener.try_recv()).await {
                Ok(Ok(Some(announcement))) if announcement.channel() == ended::CHANNEL => {
                    self.ended.hear(announcement.payload(), &self.process);
                }
                Ok(Ok(Some(announcement))) if announcement.payload() == &*self.process => {}
                Ok(Ok(Some(_of_another))) => self.claim_wakeup.wake(),
                Ok(Ok(None)) => {
                    return Err(Deaf::Failed(sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into())));
                }
                Ok(Err(error)) => return Err(error.into()),
                Err(_silence) => {
                    in_time(ON_ITS_WAY, sqlx::raw_sql("SELECT 1").execute(&mut listener)).await?;
                }
            }
        }
    }

    /// Hears an announcement of its own, made on another connection.
    async fn prove(&self, postgres: &Postgres, listener: &mut PgListener) -> Result<(), Deaf> {
        let text = format!("{} hears", self.process);
        notify(postgres, &text).await?;
        let heard = timeout(ON_ITS_WAY, async {
            while listener.recv().await?.payload() != text {}
            Ok(())
        });
        let heard = heard.await.unwrap_or(Err(Deaf::Unheard));
        if matches!(heard, Err(Deaf::Unheard)) {
            // Behind a pooler that was not found out, the session that listens goes to others.
            in_time(ON_ITS_WAY, listener.unlisten_all()).await?;
        }
        heard
    }

    /// Says that workers poll. While the database is down that goes without saying.
    async fn report(&self, deaf: &Deaf) {
        let why = match deaf {
            Deaf::Pooled => "a pooler gives one session to several clients in turns".to_owned(),
            Deaf::Unheard => "what is announced does not arrive".to_owned(),
            Deaf::Failed(_) if self.pool.run_trivial_query().await.is_err() => return,
            Deaf::Failed(error) => describe(error),
        };
        let problem = format!(
            "jobs that other processes add are looked for once a second, because they cannot be listened for: {why}; set \
             DATABASE_DIRECT_URL to PostgreSQL's own address"
        );
        let warning = StoreWarning { store: "database", setting: "DATABASE_DIRECT_URL", problem };
        self.findings.set(SOURCE, Ok(vec![warning]));
    }
}

/// What stands before the server where this process would listen.
async fn find_pooling_before(postgres: &Postgres) -> Result<Pooling, sqlx::Error> {
    let (mut one, mut other) = (postgres.connect_directly().await?, postgres.connect_directly().await?);
    let pooling = find_pooling(&mut one, &mut other).await?;
    // Dropped, they would be reported as connections that broke.
    let _ended = (one.close().await, other.close().await);
    Ok(pooling)
}

async fn notify(postgres: &Postgres, text: &str) -> Result<(), sqlx::Error> {
    let announced =
        async { on_postgres!(postgres, Allowed, db => sqlx::query(ANNOUNCE).bind(text).execute(db)) };
    answer(announced).await?;
    Ok(())
}

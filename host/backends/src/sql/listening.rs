//! The connection on which a process hears what others announce on PostgreSQL (`LISTEN`, `NOTIFY`): to the
//! server itself, one for all stores of a database. Before they rely on it, it hears an announcement of its
//! own.
//!
//! Nothing listens through a pooler in transaction mode. `LISTEN` succeeds there and belongs to a session
//! that the next client gets: what is announced then arrives in the middle of that client's statements, which
//! fail.
//!
//! What does not belong here: what is announced, and what a store does while nothing is heard
//! (`queue/announcements.rs`, `tool_versions/announcements.rs`).

use std::convert::Infallible;
use std::time::Duration;

use agent_core::backoff::Backoff;
use sqlx::Connection as _;
use sqlx::pool::PoolOptions;
use sqlx::postgres::PgListener;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::error::describe;
use super::listener::{ENDED_JOBS, JOBS, TOOLS};
use super::pooler::{Pooling, find_pooling};
use super::time_limit::in_time;
use super::{ANSWER_TIMEOUT, Postgres, answer, on_postgres};

/// Where this process announces to itself that it hears.
const PROOF: &str = "agent_host_proof";

const ANNOUNCE: &str = "SELECT pg_notify($1, $2)";

/// How long an announcement may be on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

/// After how much silence the connection is tried.
const SILENCE: Duration = Duration::from_secs(10);

/// How long to wait before listening is tried again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why nothing is heard.
#[derive(Debug)]
enum Deaf {
    /// The connection failed.
    Failed(sqlx::Error),
    /// The connection holds, and what was announced did not arrive.
    Unheard,
    /// The address leads to a pooler whose clients share sessions.
    Pooled,
}

impl From<sqlx::Error> for Deaf {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(error)
    }
}

/// Listens for ever. Of several callers one does, and the others wait for its end.
pub(super) async fn listen(postgres: &Postgres) {
    let stores = postgres.listener();
    let _turn = stores.turn.lock().await;
    let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        let Err(deaf) = hear(postgres, &mut pauses).await;
        stores.each(|store| store.listening(false));
        if let Some(why) = why(postgres, &deaf).await {
            stores.each(|store| store.deaf(&why));
        }
        sleep(pauses.next()).await;
    }
}

async fn hear(postgres: &Postgres, pauses: &mut Backoff) -> Result<Infallible, Deaf> {
    let stores = postgres.listener();
    // Some forty round trips.
    if in_time(ANSWER_TIMEOUT, find_pooling_before(postgres)).await? != Pooling::None {
        return Err(Deaf::Pooled);
    }
    let one = PoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
    let one = one.acquire_timeout(ON_ITS_WAY).connect_lazy_with(postgres.direct_options().clone());
    let mut listener = in_time(ON_ITS_WAY, PgListener::connect_with(&one)).await?;
    listener.eager_reconnect(false);
    in_time(ON_ITS_WAY, listener.listen_all([PROOF, JOBS, ENDED_JOBS, TOOLS])).await?;
    prove(postgres, &mut listener).await?;
    pauses.reset();
    // What was announced before was not heard.
    stores.each(|store| store.listening(true));
    loop {
        match timeout(SILENCE, listener.try_recv()).await {
            Ok(Ok(Some(announcement))) => {
                stores.each(|store| store.hear(announcement.channel(), announcement.payload()));
            }
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

/// Announces a text on a channel, outside of the statement that changed what it is about.
pub(super) async fn announce(postgres: &Postgres, channel: &str, text: &str) -> sqlx::Result<()> {
    let announced = async {
        on_postgres!(postgres, Allowed, db => sqlx::query(ANNOUNCE).bind(channel).bind(text).execute(db))
    };
    answer(announced).await?;
    Ok(())
}

/// Hears an announcement of its own, made on another connection.
async fn prove(postgres: &Postgres, listener: &mut PgListener) -> Result<(), Deaf> {
    let text = Uuid::now_v7().simple().to_string();
    announce(postgres, PROOF, &text).await?;
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

/// What stands before the server where this process would listen.
async fn find_pooling_before(postgres: &Postgres) -> sqlx::Result<Pooling> {
    let (mut one, mut other) = (postgres.connect_directly().await?, postgres.connect_directly().await?);
    let pooling = find_pooling(&mut one, &mut other).await?;
    // Dropped, they would be reported as connections that broke.
    let _ended = (one.close().await, other.close().await);
    Ok(pooling)
}

/// Why nothing is heard, in words. While the database is down that goes without saying.
async fn why(postgres: &Postgres, deaf: &Deaf) -> Option<String> {
    match deaf {
        Deaf::Pooled => Some("a pooler gives one session to several clients in turns".to_owned()),
        Deaf::Unheard => Some("what is announced does not arrive".to_owned()),
        Deaf::Failed(error) => {
            let pool = super::SqlPool::Postgres(postgres.clone());
            pool.run_trivial_query().await.is_ok().then(|| describe(error))
        }
    }
}

//! A shard of the queue as it lies in Redis: the connections to it and the scripts that work on it. Ids of
//! jobs are those of the shard, but for those in a [`Claim`](agent_core::ports::Claim) and in what is read
//! for others (`shard.rs`).
//!
//! What is done with them stands in a file for each concern, as methods of [`Store`].

use parking_lot::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use agent_core::ports::QueueError;
use agent_core::ports::queue::QUEUE;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bullmq::QueueKeys;
use redis::{Cmd, FromRedisValue, Pipeline, ScriptInvocation};
use tokio::time::Instant;

use super::official_scripts::OfficialScripts;
use super::own_keys::OwnKeys;
use super::own_scripts::OwnScripts;
use super::renewals::Renewals;
use super::shard::Shard;
use super::time::{from_millis, millis, now};
use crate::redis::{QueryError, Redis, ask};

/// How long an answer may take. A job is worth more patience than a cached result, but the request that adds
/// one waits for it.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a process that claims looks for stalled jobs while jobs are active: one whose worker was killed
/// is claimed again after a lease and this long.
pub(super) const STALLED_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How often it looks while none is, for a lease of that long. What is claimed behind such a look is seen
/// active before its lease can have ended, and from then on it is looked at as often as above. A new job is
/// announced by BullMQ's marker.
fn idle_check_interval(lease: Duration) -> Duration {
    (lease * 2 / 3).max(STALLED_CHECK_INTERVAL)
}

/// How far the clocks of those who add jobs may be ahead of this one.
const CLOCKS_APART: Duration = Duration::from_secs(10);

pub(super) struct Store {
    pub(super) shard: Shard,
    pub(super) redis: Redis,
    /// On this connection a command may block until there is a job. It has the name of a BullMQ worker.
    pub(super) waiting: Redis,
    pub(super) keys: QueueKeys,
    pub(super) own_keys: OwnKeys,
    /// How often to look for stalled jobs while none is active.
    pub(super) idle_check_interval: Duration,
    pub(super) official: OfficialScripts,
    pub(super) own: OwnScripts,
    /// On this connection the stream of events is read.
    pub(super) events: Redis,
    pub(super) renewals: Renewals,
    /// The last poll failed, or the last wait for a job. Who waits for somebody else's poll looks here.
    pub(super) is_failing: AtomicBool,
    /// When this process last stood for the election that `scripts/claim.lua` holds.
    looked_for_stalled: Mutex<Option<Instant>>,
    /// Which connection was used last, and since when (ms).
    connected: Mutex<(u64, u64)>,
    /// For how long what expires by itself is kept: lists of jobs, and that a job was cancelled or is to be.
    pub(super) kept_for: Duration,
}

impl Store {
    /// A shard of the queue in that Redis, on connections of its own.
    pub(super) fn new(redis: &Redis, shard: Shard, lease: Duration, kept_for: Duration) -> Self {
        let prefix = shard.prefix(redis.is_cluster());
        let keys = QueueKeys::new(QUEUE, prefix.as_deref());
        let own_keys = OwnKeys::new(prefix.as_deref());
        let redis = redis.at(&keys.key_prefix());
        Self {
            shard,
            redis: redis.another(ANSWER_TIMEOUT),
            waiting: redis.another_named(ANSWER_TIMEOUT, &worker_name(prefix.as_deref())),
            events: redis.another(ANSWER_TIMEOUT),
            idle_check_interval: idle_check_interval(lease),
            is_failing: AtomicBool::default(),
            looked_for_stalled: Mutex::default(),
            connected: Mutex::default(),
            renewals: Renewals::default(),
            official: OfficialScripts::new(keys.clone(), own_keys.clone(), lease, kept_for),
            own: OwnScripts::new(keys.clone(), own_keys.clone(), lease, kept_for),
            kept_for,
            keys,
            own_keys,
        }
    }

    /// Whether it is time to look for stalled jobs again. Asked for each claim that is going to do so then.
    pub(super) fn is_stalled_check_due(&self) -> bool {
        let is_due = self.stalled_check_in().is_zero();
        if is_due {
            *self.looked_for_stalled.lock() = Some(Instant::now());
        }
        is_due
    }

    /// In how long it is time to look for stalled jobs again.
    pub(super) fn stalled_check_in(&self) -> Duration {
        let last = *self.looked_for_stalled.lock();
        last.map_or(Duration::ZERO, |last| STALLED_CHECK_INTERVAL.saturating_sub(last.elapsed()))
    }

    /// Whether the server that has just answered has known everything about a job since it was added at that
    /// time (ms). One that was restarted, or took the place of another one, may have lost that the job was
    /// claimed; whoever it talks to has to connect anew.
    pub(super) fn has_known_since(&self, added: u64) -> bool {
        let Some(number) = self.redis.connection_number() else { return false };
        let mut connected = self.connected.lock();
        if connected.0 != number {
            *connected = (number, now());
        }
        added > connected.1 + millis(CLOCKS_APART)
    }

    pub(super) async fn run<T: FromRedisValue + Send>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, QueueError> {
        self.redis.script(script).await.map_err(store_error)
    }

    pub(super) async fn command<T: FromRedisValue + Send>(&self, command: &Cmd) -> Result<T, QueueError> {
        self.redis.command(command).await.map_err(store_error)
    }

    pub(super) async fn pipeline<T: FromRedisValue + Send>(
        &self,
        commands: &Pipeline,
    ) -> Result<T, QueueError> {
        self.redis.pipeline(commands).await.map_err(store_error)
    }

    /// The id that the server has given itself when it was started; empty where it does not say.
    pub(super) async fn server_id(&self) -> Result<String, QueryError> {
        let info = ask::<String>(&self.redis, &["INFO", "server"]).await?.unwrap_or_default();
        let id = info.lines().find_map(|line| line.trim().strip_prefix("run_id:"));
        Ok(id.unwrap_or_default().to_owned())
    }

    /// The time by the server's clock.
    pub(super) async fn now(&self) -> Result<SystemTime, QueryError> {
        let (seconds, micros): (u64, u64) = self.redis.command(&redis::cmd("TIME")).await?;
        Ok(from_millis(seconds.saturating_mul(1000).saturating_add(micros / 1000)))
    }
}

/// The name under which BullMQ's workers connect: by it Bull Board and `Queue.getWorkers` see that somebody
/// works on the queue.
fn worker_name(prefix: Option<&str>) -> String {
    format!("{}:{}", prefix.unwrap_or("bull"), BASE64_STANDARD.encode(QUEUE))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
pub(super) fn store_error(error: QueryError) -> QueueError {
    QueueError::Store { detail: error.to_string() }
}

/// What could not be written down for Redis.
pub(super) fn broken(error: impl std::error::Error) -> QueueError {
    QueueError::Store { detail: error.to_string() }
}

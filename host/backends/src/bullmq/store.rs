//! The queue as it lies in Redis: the connections to it and the scripts that work on it.
//!
//! What is done with them stands in a file for each concern, as methods of [`Store`].

use std::time::Duration;

use agent_core::ports::QueueError;
use agent_core::ports::queue::QUEUE;
use bullmq::QueueKeys;
use redis::{FromRedisValue, ScriptInvocation};

use super::official_scripts::OfficialScripts;
use super::own_scripts::OwnScripts;
use crate::redis::{QueryError, Redis};

/// How long an answer may take. A job is worth more patience than a cached result, but whoever adds one
/// waits for it.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Store {
    pub(super) redis: Redis,
    /// On this connection a command may block until there is a job.
    pub(super) waiting: Redis,
    pub(super) keys: QueueKeys,
    pub(super) official: OfficialScripts,
    pub(super) own: OwnScripts,
}

impl Store {
    /// The queue in that Redis, on connections of its own.
    pub(super) fn new(redis: &Redis, lease: Duration) -> Self {
        let keys = QueueKeys::new(QUEUE, None);
        Self {
            redis: redis.another(ANSWER_TIMEOUT),
            waiting: redis.another(ANSWER_TIMEOUT),
            official: OfficialScripts::new(keys.clone(), lease),
            own: OwnScripts::new(keys.clone(), lease),
            keys,
        }
    }

    pub(super) async fn run<T: FromRedisValue + Send>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, QueueError> {
        let run = |mut redis| async move { script.invoke_async(&mut redis).await };
        self.redis.query(run).await.map_err(store_error)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
pub(super) fn store_error(error: QueryError) -> QueueError {
    QueueError::Store { detail: error.to_string() }
}

/// What could not be written down for Redis.
pub(super) fn broken(error: impl std::error::Error) -> QueueError {
    QueueError::Store { detail: error.to_string() }
}

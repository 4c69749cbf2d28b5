//! Whether Redis answers.

use std::time::Duration;

use agent_core::ports::{Probe, ProbeError};
use boxed_async::boxed_async;

use super::Redis;

/// Pings: the check named `redis` in `/health` and `cache` in `/ready`
/// (host/docs/interface/endpoints.md#variant-b).
pub struct RedisProbe(pub Redis);

#[boxed_async]
impl Probe for RedisProbe {
    fn name(&self) -> &'static str {
        "redis"
    }

    async fn check(&self) -> Result<Option<Duration>, ProbeError> {
        self.0.ping().await.map(|()| None).map_err(|error| ProbeError(error.to_string()))
    }
}

//! Runs probes side by side, each with a time limit, and collects what they say.

mod fresh;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;

pub use fresh::Fresh;

use crate::ports::{Probe, ProbeError};

/// What one probe said.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// The probe's name.
    pub name: &'static str,
    /// How long it took when it passed, or why it failed.
    pub outcome: Result<Duration, ProbeError>,
}

/// Runs every probe at once. One that fails does not keep the others from running, and one that hangs counts
/// as failed after `limit`.
pub async fn check_all(probes: &[Arc<dyn Probe>], limit: Duration) -> Vec<Check> {
    join_all(
        probes
            .iter()
            .map(async |probe| Check { name: probe.name(), outcome: check_within(&**probe, limit).await }),
    )
    .await
}

async fn check_within(probe: &dyn Probe, limit: Duration) -> Result<Duration, ProbeError> {
    let start = Instant::now();
    match tokio::time::timeout(limit, probe.check()).await {
        Ok(Ok(latency)) => Ok(latency.unwrap_or_else(|| start.elapsed())),
        Ok(Err(error)) => Err(error),
        Err(_elapsed) => Err(ProbeError(format!("no answer within {} ms", limit.as_millis()))),
    }
}

//! Runs probes side by side, each with a time limit, and collects what they say.

mod fresh;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
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

/// Runs every probe at once. One that fails or panics does not keep the others from running, and one that
/// hangs counts as failed after `limit`.
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
    // Nothing of the probe is used after a panic but the fact.
    let check = AssertUnwindSafe(probe.check()).catch_unwind();
    match tokio::time::timeout(limit, check).await {
        Ok(Ok(Ok(latency))) => Ok(latency.unwrap_or_else(|| start.elapsed())),
        Ok(Ok(Err(error))) => Err(error),
        Ok(Err(_panic)) => Err(ProbeError("the check broke off".into())),
        Err(_elapsed) => Err(ProbeError(format!("no answer within {} ms", limit.as_millis()))),
    }
}

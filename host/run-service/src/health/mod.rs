//! Runs probes side by side, each with a time limit, and collects what they say.

mod cached;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{Probe, ProbeError};
use futures::FutureExt;
use futures::future::join_all;

pub use cached::{CachedProbe, Checks};

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

#[cfg(test)]
mod tests {
    use boxed_async::boxed_async;

    use super::*;

    /// Answers, hangs or panics.
    struct Scripted(&'static str);

    #[boxed_async]
    impl Probe for Scripted {
        fn name(&self) -> &'static str {
            self.0
        }

        async fn check(&self) -> Result<Option<Duration>, ProbeError> {
            match self.0 {
                "hangs" => std::future::pending().await,
                "panics" => panic!("a bug in a probe"),
                _ => Ok(Some(Duration::from_millis(7))),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_or_panics_fails_and_the_others_still_run() {
        let probes: Vec<Arc<dyn Probe>> =
            ["hangs", "panics", "passes"].map(|name| Arc::new(Scripted(name)) as Arc<dyn Probe>).into();
        let failed = |text: &str| Err(ProbeError(text.into()));
        let checks = check_all(&probes, Duration::from_secs(5)).await;
        assert_eq!(
            checks.into_iter().map(|check| check.outcome).collect::<Vec<_>>(),
            [failed("no answer within 5000 ms"), failed("the check broke off"), Ok(Duration::from_millis(7))]
        );
    }
}

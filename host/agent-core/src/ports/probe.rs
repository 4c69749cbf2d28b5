//! A dependency whose health can be asked for.

use std::sync::Arc;
use std::time::Duration;

use boxed_async::boxed_async;

/// Checks one dependency.
#[boxed_async]
pub trait Probe: Send + Sync {
    /// The check's key in health reports.
    fn name(&self) -> &'static str;

    /// Asks the dependency for a sign of life. An answer that was kept from an earlier check says how long
    /// that one took; a probe that asked just now may leave the measuring to its caller.
    async fn check(&self) -> Result<Option<Duration>, ProbeError>;
}

#[boxed_async]
impl<P: Probe + ?Sized> Probe for Arc<P> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    async fn check(&self) -> Result<Option<Duration>, ProbeError> {
        (**self).check().await
    }
}

/// Why a dependency counts as unhealthy. The text is shown in health reports, so it holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProbeError(pub String);

//! Retries of calls that fail for a reason that may pass.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Model, ModelError, ModelRequest, Observer, Unobserved};
use agent_core::words::ModelReply;
use boxed_async::boxed_async;
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::retry_schedule::RetryPolicy;

/// Retries a model's calls after timeouts, broken connections, 408, 409, 429 and 5xx, errors in the body of a
/// 200 and half replies included. Never after another 4xx, a 429 because the account's quota is used up, or a
/// complete reply that cannot be read: the same request would fail again, and a reply is billed.
///
/// A retry that could not begin before the request's deadline is not waited for: the last error is returned
/// at once.
pub struct Retry<M> {
    model: M,
    policy: RetryPolicy,
    observer: Arc<dyn Observer>,
}

impl<M: Model> Retry<M> {
    /// Retries with the default [`RetryPolicy`].
    pub fn new(model: M) -> Self {
        Self::with_policy(model, RetryPolicy::default())
    }

    /// Retries with another number of attempts, or other delays.
    pub fn with_policy(model: M, policy: RetryPolicy) -> Self {
        Self { model, policy, observer: Arc::new(Unobserved) }
    }

    /// Tells an observer of each retry.
    #[must_use]
    pub fn observed_by(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer, ..self }
    }
}

#[boxed_async]
impl<M: Model> Model for Retry<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let mut delays = self.policy.delays();
        let mut attempt = 0;
        loop {
            let error = match self.model.complete(request).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            attempt += 1;
            let left = Instant::from_std(request.deadline).saturating_duration_since(Instant::now());
            let delay = match classify(&error) {
                FaultKind::Permanent => None,
                FaultKind::Transient { retry_after } => delays.next(retry_after, left, fastrand::f64()),
            };
            let Some(delay) = delay else { return Err(error) };
            debug!(
                model = self.name(),
                request_id = request.request_id,
                attempt,
                wait_ms = delay.as_millis(),
                %error,
                "the model call failed and is made again",
            );
            self.observer.model_asked_again(self.name());
            sleep(delay).await;
        }
    }
}

enum FaultKind {
    /// An equal request will fail again.
    Permanent,
    /// Another attempt may succeed, after the time that the provider asks for if it does.
    Transient { retry_after: Option<Duration> },
}

fn classify(error: &ModelError) -> FaultKind {
    match error {
        ModelError::Refused { .. }
        | ModelError::TooLong { .. }
        | ModelError::RefusedFunctions { .. }
        | ModelError::Malformed { .. }
        | ModelError::RateLimited { quota_exhausted: true, .. } => FaultKind::Permanent,
        ModelError::Timeout { .. } | ModelError::Unreachable { .. } => {
            FaultKind::Transient { retry_after: None }
        }
        ModelError::Unavailable { retry_after, .. } | ModelError::RateLimited { retry_after, .. } => {
            FaultKind::Transient { retry_after: *retry_after }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{self, Scripted};

    const NO_DELAYS: RetryPolicy =
        RetryPolicy { retries: 3, first_delay: Duration::ZERO, longest_delay: Duration::ZERO };

    #[tokio::test]
    async fn a_transient_fault_is_tried_four_times_and_any_other_once() {
        for (error, calls) in [
            (scripted::timeout(), 4),
            (scripted::unreachable(), 4),
            (scripted::unavailable(None), 4),
            (scripted::rate_limited(None), 4),
            (scripted::quota_exhausted(), 1),
            (scripted::refused(), 1),
            (scripted::malformed(), 1),
        ] {
            let retry = Retry::with_policy(Scripted::failing("m", &error), NO_DELAYS);
            assert_eq!(retry.complete(scripted::request()).await, Err(error));
            assert_eq!(retry.model.calls(), calls);
        }
    }

    #[tokio::test]
    async fn the_first_success_is_the_answer() {
        let script = vec![Err(scripted::timeout()), Ok(scripted::reply("m")), Err(scripted::timeout())];
        let retry = Retry::with_policy(Scripted::new("m", script), NO_DELAYS);
        assert_eq!(retry.complete(scripted::request()).await, Ok(scripted::reply("m")));
        assert_eq!(retry.model.calls(), 2);
    }

    // With the clock paused, sleeps take no real time.

    #[tokio::test(start_paused = true)]
    async fn a_retry_after_that_fits_into_the_time_left_is_honoured() {
        let error = scripted::rate_limited(Some(Duration::from_secs(7)));
        let retry = Retry::new(Scripted::new("m", vec![Err(error), Ok(scripted::reply("m"))]));
        let start = Instant::now();
        let request = scripted::request_until(start + Duration::from_secs(30));
        assert_eq!(retry.complete(request).await, Ok(scripted::reply("m")));
        assert!(start.elapsed() >= Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_after_beyond_the_deadline_is_an_error_at_once() {
        let error = scripted::unavailable(Some(Duration::from_secs(31)));
        let retry = Retry::new(Scripted::failing("m", &error));
        let start = Instant::now();
        let request = scripted::request_until(start + Duration::from_secs(30));
        assert_eq!(retry.complete(request).await, Err(error));
        assert_eq!((retry.model.calls(), start.elapsed()), (1, Duration::ZERO));
    }
}

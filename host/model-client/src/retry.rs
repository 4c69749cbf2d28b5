//! Asks again when that may help.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_core::observe::{Observer, Unobserved};
use agent_core::ports::{Model, ModelError, ModelRequest};
use agent_core::words::ModelReply;
use async_trait::async_trait;
use tokio::time::{Instant, sleep};
use tracing::debug;

use crate::schedule::Schedule;

/// Repeats the calls of a model that fail by timeouts, broken connections, 408, 409, 429 or 5xx, an error in the body
/// of a 200 or half a reply included. Never after another 4xx or a whole reply that cannot be read: the same request
/// would come to the same end, and the second one was paid for.
///
/// All of it happens before the request's deadline: a retry that could not begin before it is none.
pub struct Retry<M> {
    model: M,
    schedule: Schedule,
    observer: Arc<dyn Observer>,
}

impl<M: Model> Retry<M> {
    /// 3 retries with the default waits.
    pub fn new(model: M) -> Self {
        Self::with_schedule(model, Schedule::default())
    }

    /// Other retries, or other waits.
    pub fn with_schedule(model: M, schedule: Schedule) -> Self {
        Self { model, schedule, observer: Arc::new(Unobserved) }
    }

    /// The same, telling an observer of each retry.
    #[must_use]
    pub fn observed_by(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer, ..self }
    }
}

#[async_trait]
impl<M: Model> Model for Retry<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let mut failures = 0;
        loop {
            let error = match self.model.complete(request).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            failures += 1;
            let left = Instant::from_std(request.deadline).saturating_duration_since(Instant::now());
            let wait = match verdict(&error) {
                Verdict::Hopeless => None,
                Verdict::MayPass { retry_after } => {
                    self.schedule.wait(failures, retry_after, left, fastrand::f64())
                }
            };
            let Some(wait) = wait else { return Err(error) };
            debug!(
                model = self.name(),
                request_id = request.request_id,
                attempt = failures,
                wait_ms = wait.as_millis(),
                %error,
                "the model call failed and is made again",
            );
            self.observer.model_asked_again(self.name());
            sleep(wait).await;
        }
    }
}

impl<M: fmt::Debug> fmt::Debug for Retry<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("model", &self.model)
            .field("schedule", &self.schedule)
            .finish_non_exhaustive()
    }
}

enum Verdict {
    /// The same request will fail again.
    Hopeless,
    /// It may not, after a while.
    MayPass { retry_after: Option<Duration> },
}

fn verdict(error: &ModelError) -> Verdict {
    match error {
        ModelError::Refused { .. } | ModelError::Malformed { .. } => Verdict::Hopeless,
        ModelError::Timeout { .. } | ModelError::Unreachable { .. } => Verdict::MayPass { retry_after: None },
        ModelError::Unavailable { retry_after, .. } | ModelError::RateLimited { retry_after, .. } => {
            Verdict::MayPass { retry_after: *retry_after }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{self, Scripted};

    const EAGER: Schedule = Schedule { retries: 3, base: Duration::ZERO, cap: Duration::ZERO };

    #[tokio::test]
    async fn a_passing_fault_is_tried_four_times_and_any_other_once() {
        for (error, calls) in [
            (scripted::timeout(), 4),
            (scripted::unreachable(), 4),
            (scripted::unavailable(None), 4),
            (scripted::rate_limited(None), 4),
            (scripted::refused(), 1),
            (scripted::malformed(), 1),
        ] {
            let retry = Retry::with_schedule(Scripted::failing("m", &error), EAGER);
            assert_eq!(retry.complete(scripted::request()).await, Err(error));
            assert_eq!(retry.model.calls(), calls);
        }
    }

    #[tokio::test]
    async fn the_first_success_is_the_answer() {
        let script = vec![Err(scripted::timeout()), Ok(scripted::reply("m")), Err(scripted::timeout())];
        let retry = Retry::with_schedule(Scripted::new("m", script), EAGER);
        assert_eq!(retry.complete(scripted::request()).await, Ok(scripted::reply("m")));
        assert_eq!(retry.model.calls(), 2);
    }

    // The clock of these two stands still except for sleeps, which take no time: no test waits.

    #[tokio::test(start_paused = true)]
    async fn a_wish_that_fits_into_the_time_left_is_obeyed() {
        let error = scripted::rate_limited(Some(Duration::from_secs(7)));
        let retry = Retry::new(Scripted::new("m", vec![Err(error), Ok(scripted::reply("m"))]));
        let start = Instant::now();
        let request = scripted::request_until(start + Duration::from_secs(30));
        assert_eq!(retry.complete(request).await, Ok(scripted::reply("m")));
        assert!(start.elapsed() >= Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wish_beyond_the_deadline_ends_it_at_once() {
        let error = scripted::unavailable(Some(Duration::from_secs(31)));
        let retry = Retry::new(Scripted::failing("m", &error));
        let start = Instant::now();
        let request = scripted::request_until(start + Duration::from_secs(30));
        assert_eq!(retry.complete(request).await, Err(error));
        assert_eq!((retry.model.calls(), start.elapsed()), (1, Duration::ZERO));
    }
}

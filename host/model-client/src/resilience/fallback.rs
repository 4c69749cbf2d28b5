//! The second provider, which is asked when the first one fails.

use agent_core::circuit_breaker::{DEFAULT_MIN_VOLUME, SharedCircuit, Transition, Verdict};
use agent_core::ports::{Model, ModelError, ModelRequest};
use agent_core::words::ModelReply;
use boxed_async::boxed_async;
use tokio::time::Instant;
use tracing::{debug, info, warn};

/// Asks the secondary model whenever the primary gives no reply, whatever the reason, as long as there is
/// time.
///
/// Both are asked with the same request but for its deadline, and each does its own retries: `Fallback` is
/// built around `Retry`.
///
/// A circuit breaker guards the primary: while it is open, the secondary is asked at once. The secondary has
/// none, because nothing could take its place.
///
/// The primary, its retries included, gets at most two thirds of the time that is left. By default a call may
/// take as long as a whole run, so that a primary which hangs would otherwise leave no time to ask the
/// secondary.
///
/// Refusals (4xx) count as a reason too. Most are the primary's alone: a revoked key, an empty account, a
/// retired model, a conversation longer than its context. If the request itself is wrong, the secondary
/// refuses it too, which costs a moment and no tokens. They do not count as failures for the circuit, so that
/// a caller cannot open it for everybody. Every use of the secondary is a warning in the log, so that a
/// broken key does not hide behind it; while the circuit is open, one warning stands for all of them.
///
/// When both fail, the error of the secondary is returned, and that of the primary is in the warning.
#[derive(Debug)]
pub struct Fallback<P, S> {
    primary: P,
    secondary: S,
    circuit: SharedCircuit,
}

impl<P: Model, S: Model> Fallback<P, S> {
    /// `secondary` is the fallback of `primary`, which is guarded by a new circuit.
    pub fn new(primary: P, secondary: S) -> Self {
        let circuit = SharedCircuit::new(DEFAULT_MIN_VOLUME, || Instant::now().into_std());
        Self { primary, secondary, circuit }
    }

    /// The circuit of the primary, for metrics.
    pub fn circuit(&self) -> SharedCircuit {
        self.circuit.clone()
    }

    /// Asks the primary; `None` when its circuit is open.
    async fn ask_primary(&self, request: ModelRequest<'_>) -> Option<Result<ModelReply, ModelError>> {
        let pass = self.circuit.enter().ok()?;
        let reply = self.primary.complete(request).await;
        let (model, fallback) = (self.primary.name(), self.secondary.name());
        match pass.end(verdict(&reply)) {
            Some(Transition::Opened) => {
                warn!(model, fallback, "the circuit of the model has opened: it fails too often")
            }
            Some(Transition::Closed) => info!(model, "the circuit of the model has closed: it replies again"),
            None => {}
        }
        Some(reply)
    }
}

/// Whether a reply counts as a failure for the circuit.
fn verdict(reply: &Result<ModelReply, ModelError>) -> Verdict {
    match reply {
        Ok(_)
        | Err(
            ModelError::Refused { .. } | ModelError::TooLong { .. } | ModelError::RefusedFunctions { .. },
        ) => Verdict::Success,
        Err(
            ModelError::Timeout { .. }
            | ModelError::Unreachable { .. }
            | ModelError::Unavailable { .. }
            | ModelError::RateLimited { .. }
            | ModelError::Malformed { .. },
        ) => Verdict::Failure,
    }
}

#[boxed_async]
impl<P: Model, S: Model> Model for Fallback<P, S> {
    /// The primary's name. A reply names the one that made it.
    fn name(&self) -> &str {
        self.primary.name()
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let left = Instant::from_std(request.deadline).saturating_duration_since(Instant::now());
        // Not `now` plus a share, which would extend a deadline that has passed.
        let deadline = request.deadline.checked_sub(left / 3).unwrap_or(request.deadline);
        let (model, fallback) = (self.primary.name(), self.secondary.name());
        let request_id = request.request_id;
        match self.ask_primary(ModelRequest { deadline, ..request }).await {
            Some(Ok(reply)) => return Ok(reply),
            Some(Err(error)) if Instant::from_std(request.deadline) <= Instant::now() => return Err(error),
            Some(Err(error)) => {
                warn!(model, fallback, request_id, %error, "the model failed: the second one is asked");
            }
            None => {
                debug!(
                    model,
                    fallback, request_id, "the circuit of the model is open: the second one is asked"
                )
            }
        }
        self.secondary.complete(request).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agent_core::circuit_breaker::RESET_TIMEOUT;
    use tokio::time::sleep_until;

    use super::*;
    use crate::resilience::retry::Retry;
    use crate::scripted::{self, Scripted};

    /// Replies at the deadline, with a timeout.
    #[derive(Debug)]
    struct Hanging;

    #[boxed_async]
    impl Model for Hanging {
        fn name(&self) -> &str {
            "hanging"
        }

        async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
            sleep_until(Instant::from_std(request.deadline)).await;
            Err(scripted::timeout())
        }
    }

    #[tokio::test]
    async fn the_second_model_is_asked_after_any_failure_of_the_first() {
        for error in [
            scripted::timeout(),
            scripted::unreachable(),
            scripted::unavailable(None),
            scripted::rate_limited(None),
            scripted::refused(),
            scripted::malformed(),
        ] {
            let second = Scripted::new("b", vec![Ok(scripted::reply("b"))]);
            let both = Fallback::new(Scripted::failing("a", &error), second);
            assert_eq!(both.complete(scripted::request()).await, Ok(scripted::reply("b")));
            assert_eq!((both.primary.calls(), both.secondary.calls()), (1, 1));
        }
    }

    #[tokio::test]
    async fn the_second_model_is_not_asked_while_the_first_one_replies() {
        let first = Scripted::new("a", vec![Ok(scripted::reply("a"))]);
        let both = Fallback::new(first, Scripted::new("b", vec![]));
        assert_eq!(both.complete(scripted::request()).await, Ok(scripted::reply("a")));
        assert_eq!(both.name(), "a");
    }

    #[tokio::test]
    async fn when_both_fail_the_second_error_is_the_answer() {
        let (timeout, limited) = (scripted::timeout(), scripted::rate_limited(None));
        let both = Fallback::new(Scripted::failing("a", &timeout), Scripted::failing("b", &limited));
        assert_eq!(both.complete(scripted::request()).await, Err(limited));
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_model_that_fails_too_often_is_not_asked_while_its_circuit_is_open() {
        for (error, opens) in [
            (scripted::timeout(), true),
            (scripted::unreachable(), true),
            (scripted::unavailable(None), true),
            (scripted::rate_limited(None), true),
            (scripted::malformed(), true),
            (scripted::refused(), false),
        ] {
            let second = Scripted::new("b", vec![Ok(scripted::reply("b"))]);
            let both = Fallback::new(Scripted::failing("a", &error), second);
            for _ in 0..10 {
                let request = scripted::request_until(Instant::now() + Duration::from_secs(30));
                assert_eq!(both.complete(request).await, Ok(scripted::reply("b")));
            }
            assert_eq!(both.primary.calls(), if opens { 5 } else { 10 }, "{error}");
            tokio::time::advance(RESET_TIMEOUT).await;
            let request = scripted::request_until(Instant::now() + Duration::from_secs(30));
            assert_eq!(both.complete(request).await, Ok(scripted::reply("b")));
            assert_eq!(both.primary.calls(), if opens { 6 } else { 11 }, "{error}: tried again");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_model_that_hangs_leaves_time_for_the_second() {
        let second = Scripted::new("b", vec![Ok(scripted::reply("b"))]);
        let both = Fallback::new(Retry::new(Hanging), second);
        let start = Instant::now();
        let request = scripted::request_until(start + Duration::from_secs(30));
        assert_eq!(both.complete(request).await, Ok(scripted::reply("b")));
        // The timer counts whole milliseconds and rounds up.
        assert!((20_000..=20_002).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_model_gets_all_the_time_that_is_left() {
        let both = Fallback::new(Scripted::failing("a", &scripted::refused()), Hanging);
        let start = Instant::now();
        let request = scripted::request_until(start + Duration::from_secs(30));
        assert_eq!(both.complete(request).await, Err(scripted::timeout()));
        assert!(start.elapsed() >= Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_time_is_up_nobody_is_asked_any_more() {
        let both = Fallback::new(Scripted::failing("a", &scripted::timeout()), Scripted::new("b", vec![]));
        let request = scripted::request_until(Instant::now());
        assert_eq!(both.complete(request).await, Err(scripted::timeout()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(both.secondary.calls(), 0);
    }
}

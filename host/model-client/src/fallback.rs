//! A second provider for when the first one fails.

use agent_core::circuit::{DEFAULT_MIN_VOLUME, SharedCircuit, Turn, Verdict};
use agent_core::ports::{Model, ModelError, ModelRequest};
use agent_core::words::ModelReply;
use async_trait::async_trait;
use tokio::time::Instant;
use tracing::{debug, info, warn};

/// Asks a second model whenever the first one gives no reply, whatever the reason, as long as there is time.
///
/// The two are asked with the same request but for its deadline, so each should do its own retries:
/// `Fallback` goes around `Retry`.
///
/// The first one stands behind a circuit: when it fails too often, the second one is asked at once for a
/// while. The second one needs none, because nobody is there to stand in for it.
///
/// The first one, its retries included, gets at most two thirds of the time that is left. A call may take as
/// long as a whole run by default, so that a first provider which hangs would use up all the time, and the
/// second one would never be asked in the very case it is there for.
///
/// Refusals (4xx) are included on purpose. Most are the first provider's alone: a revoked key, an empty
/// account, a retired model, a conversation longer than its context. If it is the request that is wrong, the
/// second one refuses it too, which costs a moment and no tokens. They do not count as failures for the
/// circuit, so that a caller cannot open it for everybody. Every use of the second provider is a warning in
/// the log, so that a broken key does not hide behind it; while the circuit is open, one warning stands for
/// all of them.
///
/// When both fail, the second one's error is the answer and the first one's stands in that warning.
#[derive(Debug)]
pub struct Fallback<P, S> {
    primary: P,
    secondary: S,
    circuit: SharedCircuit,
}

impl<P: Model, S: Model> Fallback<P, S> {
    /// `secondary` stands in for `primary`, which gets a circuit of its own.
    pub fn new(primary: P, secondary: S) -> Self {
        Self::with_circuit(primary, secondary, SharedCircuit::new(DEFAULT_MIN_VOLUME))
    }

    /// `secondary` stands in for `primary`, which stands behind `circuit`.
    pub fn with_circuit(primary: P, secondary: S, circuit: SharedCircuit) -> Self {
        Self { primary, secondary, circuit }
    }

    /// The circuit before the first one, for metrics.
    pub fn circuit(&self) -> SharedCircuit {
        self.circuit.clone()
    }

    /// Asks the first one, if its circuit lets the call through.
    async fn ask_primary(&self, request: ModelRequest<'_>) -> Option<Result<ModelReply, ModelError>> {
        let pass = self.circuit.enter().ok()?;
        let reply = self.primary.complete(request).await;
        let (model, fallback) = (self.primary.name(), self.secondary.name());
        match pass.end(judge(&reply)) {
            Some(Turn::Opened) => {
                warn!(model, fallback, "the model fails too often and is left alone for a while")
            }
            Some(Turn::Closed) => info!(model, "the model replies again"),
            None => {}
        }
        Some(reply)
    }
}

/// What a reply says about the model.
fn judge(reply: &Result<ModelReply, ModelError>) -> Verdict {
    match reply {
        Ok(_) | Err(ModelError::Refused { .. }) => Verdict::Success,
        Err(
            ModelError::Timeout { .. }
            | ModelError::Unreachable { .. }
            | ModelError::Unavailable { .. }
            | ModelError::RateLimited { .. }
            | ModelError::Malformed { .. },
        ) => Verdict::Failure,
    }
}

#[async_trait]
impl<P: Model, S: Model> Model for Fallback<P, S> {
    /// The first model's name; a reply says which of the two made it.
    fn name(&self) -> &str {
        self.primary.name()
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let left = Instant::from_std(request.deadline).saturating_duration_since(Instant::now());
        // Not `now` plus a share: a deadline that has passed must not be put off.
        let deadline = request.deadline.checked_sub(left / 3).unwrap_or(request.deadline);
        let (model, fallback) = (self.primary.name(), self.secondary.name());
        let request_id = request.request_id;
        match self.ask_primary(ModelRequest { deadline, ..request }).await {
            Some(Ok(reply)) => return Ok(reply),
            Some(Err(error)) if Instant::from_std(request.deadline) <= Instant::now() => return Err(error),
            Some(Err(error)) => {
                warn!(model, fallback, request_id, %error, "the model failed and the second one is asked");
            }
            None => {
                debug!(model, fallback, request_id, "the model is left alone and the second one is asked")
            }
        }
        self.secondary.complete(request).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agent_core::circuit::RESET_TIMEOUT;
    use tokio::time::sleep_until;

    use super::*;
    use crate::retry::Retry;
    use crate::scripted::{self, Scripted};

    /// Takes all the time it is given.
    #[derive(Debug)]
    struct Hanging;

    #[async_trait]
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
    async fn the_second_model_rests_while_the_first_one_replies() {
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
    async fn a_first_model_that_fails_too_often_is_left_alone_for_a_while() {
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

//! Ends a run that takes too long, wherever it stands.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::{Answer, Ask, Invoke, InvokeError};

/// How much later than here the deadline is for whoever is asked inside.
const MARGIN: Duration = Duration::from_millis(100);

/// Gives every run the same time.
#[derive(Debug)]
pub struct Deadline<I> {
    inner: I,
    limit: Duration,
}

impl<I> Deadline<I> {
    /// Runs may take `limit`.
    pub fn new(inner: I, limit: Duration) -> Self {
        Self { inner, limit }
    }
}

#[async_trait]
impl<I: Invoke> Invoke for Deadline<I> {
    async fn invoke(&self, mut ask: Ask) -> Result<Answer, InvokeError> {
        // The run knows its deadline as well: a retry that could not end before it is not begun. It is told a
        // little more, or a model call that gives up at that very moment would pass for the provider's failure.
        ask.deadline = Some(Instant::now() + self.limit + MARGIN);
        match tokio::time::timeout(self.limit, self.inner.invoke(ask)).await {
            Ok(result) => result,
            Err(_elapsed) => Err(InvokeError::TimedOut { limit: self.limit, retry_after: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Endless;

    #[async_trait]
    impl Invoke for Endless {
        async fn invoke(&self, ask: Ask) -> Result<Answer, InvokeError> {
            assert!(ask.deadline.is_some());
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_takes_too_long_is_ended() {
        let ask = Ask::new("r".into(), "hi".into());
        let error = Deadline::new(Endless, Duration::from_secs(30)).invoke(ask).await.unwrap_err();
        assert_eq!(error.to_string(), "the agent run took longer than 30000 ms");
    }
}

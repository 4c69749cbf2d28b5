//! Refuses runs that would begin while the service stops and could not end before it has stopped.

use std::time::Duration;

use boxed_async::boxed_async;

use super::{Ask, Invoke, InvokeError, RunAnswer};
use crate::shutdown::Shutdown;

/// Begins no run of a stopping service that the shutdown would cut off: it would be paid for, and its caller
/// could only ask again.
#[derive(Debug)]
pub struct ShutdownChecked<I> {
    inner: I,
    shutdown: Shutdown,
    limit: Duration,
}

impl<I: Invoke> ShutdownChecked<I> {
    /// Passes runs on to `inner`, each of which may take up to `limit`.
    pub fn new(inner: I, shutdown: Shutdown, limit: Duration) -> Self {
        Self { inner, shutdown, limit }
    }
}

#[boxed_async]
impl<I: Invoke> Invoke for ShutdownChecked<I> {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        if !self.shutdown.leaves_time_for(self.limit) {
            return Err(InvokeError::Stopping);
        }
        self.inner.invoke(ask).await
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::testing::ScriptedInvoke;

    #[tokio::test(start_paused = true)]
    async fn a_stopping_service_begins_only_runs_that_can_end() {
        let limit = Duration::from_secs(30);
        for (left, begins) in [(None, true), (Some(28), true), (Some(14), false)] {
            let (agent, shutdown) = (ScriptedInvoke::answering("4"), Shutdown::default());
            if let Some(left) = left {
                shutdown.begin(Instant::now() + Duration::from_secs(left));
            }
            let checked = ShutdownChecked::new(agent.clone(), shutdown, limit);
            let answer = checked.invoke(Ask::new("r".into(), "q".into())).await;
            assert_eq!((answer.is_ok(), agent.asked().len()), (begins, usize::from(begins)), "{left:?}");
            assert!(begins || matches!(answer, Err(InvokeError::Stopping)));
        }
    }
}

//! Ends a run that takes too long, wherever it stands.

use std::time::Duration;

use boxed_async::boxed_async;
use tokio::time::{Instant, timeout_at};

use super::{Ask, Invoke, InvokeError, RunAnswer};
use crate::loop_driver::RunError;

/// How much later the deadline is that the run itself is told of.
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

#[boxed_async]
impl<I: Invoke> Invoke for Deadline<I> {
    async fn invoke(&self, mut ask: Ask) -> Result<RunAnswer, InvokeError> {
        let until = Instant::now() + self.limit;
        let calls_tools = ask.control.calls_tools.clone();
        let late = || {
            let in_tools = calls_tools.is_set();
            Err(InvokeError::TimedOut { limit: self.limit, retry_after: None, in_tools })
        };
        // The run knows its deadline as well: a retry that could not end before it is not begun. It is told a
        // little more, or a model call that gives up at that very moment would pass for the provider's
        // failure.
        ask.control.deadline = Some((until + MARGIN).into_std());
        match timeout_at(until, self.inner.invoke(ask)).await {
            // The provider's own time limit may end in the same tick of the clock, and the run is looked at
            // first. Whoever was waited for, it took too long
            // (host/docs/interface/decisions-http.md#capacity-and-time).
            Ok(Err(InvokeError::Run(RunError::Model(_)))) if Instant::now() >= until => late(),
            Ok(result) => result,
            Err(_elapsed) => late(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent_core::ports::ModelError;
    use agent_core::testing::{EchoTools, ScriptedModel, TestRuns, asks_for};
    use serde_json::json;

    use super::*;
    use crate::layers::Agent;

    struct Endless;

    #[boxed_async]
    impl Invoke for Endless {
        async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
            assert!(ask.control.deadline.is_some());
            std::future::pending().await
        }
    }

    /// Fails after a while as a model does.
    struct Silent(Duration);

    #[boxed_async]
    impl Invoke for Silent {
        async fn invoke(&self, _ask: Ask) -> Result<RunAnswer, InvokeError> {
            tokio::time::sleep(self.0).await;
            Err(RunError::Model(ModelError::Timeout { provider: "p".into() }).into())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_model_call_that_times_out_together_with_the_run_is_the_runs_timeout() {
        let limit = Duration::from_secs(30);
        for (after, timed_out) in [(limit - Duration::from_millis(1), false), (limit, true)] {
            let ask = Ask::new("r".into(), "hi".into());
            let error = Deadline::new(Silent(after), limit).invoke(ask).await.unwrap_err();
            assert_eq!(matches!(error, InvokeError::TimedOut { .. }), timed_out, "{after:?}: {error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_took_too_long_is_a_tool_or_the_model() {
        let calling = ScriptedModel::new([Ok(asks_for(&[("1", "echo", json!({}))]))]);
        for (model, is_tool) in [(calling, true), (ScriptedModel::hanging(), false)] {
            let tools = Arc::new(EchoTools::new(&["echo"]).hanging());
            let agent = Agent::new(Arc::new(model), tools, Arc::<TestRuns>::default());
            let ask = Ask::new("r".into(), "hi".into());
            let error = Deadline::new(agent, Duration::from_secs(30)).invoke(ask).await.unwrap_err();
            let InvokeError::TimedOut { in_tools, .. } = error else { panic!("{error}") };
            assert_eq!(in_tools, is_tool);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_takes_too_long_is_ended() {
        let ask = Ask::new("r".into(), "hi".into());
        let error = Deadline::new(Endless, Duration::from_secs(30)).invoke(ask).await.unwrap_err();
        assert_eq!(error.to_string(), "the agent run took longer than the 30000 ms of AGENT_TIMEOUT_MS");
    }
}

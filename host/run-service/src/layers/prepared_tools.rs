//! Readiness of the tools: a request that comes before the tools are prepared waits for them, so that no run
//! and no list is made of a part of the tool set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_core::ports::Toolbox;
use boxed_async::boxed_async;
use tokio::time::{Instant, timeout};

use super::{Ask, Invoke, InvokeError, JsonAnswer, RunAnswer};

/// Waits until the tools are prepared. Once they are, a wait costs one atomic load. Clones share what was
/// seen.
#[derive(Clone)]
pub struct PreparedTools {
    toolbox: Arc<dyn Toolbox>,
    patience: Duration,
    seen: Arc<AtomicBool>,
}

impl PreparedTools {
    /// Callers wait for up to `patience`; [`Duration::MAX`] has no end.
    pub fn new(toolbox: Arc<dyn Toolbox>, patience: Duration) -> Self {
        Self { toolbox, patience, seen: Arc::default() }
    }

    /// Waits, and fails with [`InvokeError::ToolsNotPrepared`] when the tools are not prepared in time.
    /// Cancellation-safe.
    pub async fn wait(&self) -> Result<(), InvokeError> {
        if self.seen.load(Ordering::Acquire) {
            return Ok(());
        }
        let start = Instant::now();
        let prepared = timeout(self.patience, self.toolbox.prepared()).await;
        prepared.map_err(|_elapsed| InvokeError::ToolsNotPrepared { waited: start.elapsed() })?;
        self.seen.store(true, Ordering::Release);
        Ok(())
    }
}

/// Begins runs when the tools are prepared. It stands outside of the cache, whose keys depend on the tool
/// set.
pub struct WithPreparedTools<I> {
    inner: I,
    tools: PreparedTools,
}

impl<I> WithPreparedTools<I> {
    /// Runs of `inner` wait for these tools.
    pub fn new(inner: I, tools: PreparedTools) -> Self {
        Self { inner, tools }
    }
}

#[boxed_async]
impl<I: Invoke> Invoke for WithPreparedTools<I> {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        self.tools.wait().await?;
        self.inner.invoke(ask).await
    }

    async fn invoke_for_json(&self, ask: Ask) -> Result<JsonAnswer, InvokeError> {
        self.tools.wait().await?;
        self.inner.invoke_for_json(ask).await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use agent_core::ports::{ToolFault, ToolSet};
    use agent_core::testing::EchoTools;
    use agent_core::words::Principal;
    use futures::FutureExt;
    use tokio::sync::watch;

    use super::*;
    use crate::testing::ScriptedInvoke;

    const PATIENCE: Duration = Duration::from_secs(5);

    /// Has its tools when it is told so.
    struct Loading(EchoTools, watch::Receiver<bool>);

    #[boxed_async]
    impl Toolbox for Loading {
        fn current_for(&self, caller: &Principal) -> Arc<dyn ToolSet> {
            self.0.current_for(caller)
        }

        fn everything(&self) -> Arc<dyn ToolSet> {
            self.0.everything()
        }

        fn faults(&self) -> Vec<ToolFault> {
            Vec::new()
        }

        async fn prepared(&self) {
            self.1.clone().wait_for(|prepared| *prepared).await.unwrap();
        }
    }

    fn loading() -> (watch::Sender<bool>, WithPreparedTools<ScriptedInvoke>) {
        let (sender, receiver) = watch::channel(false);
        let tools = PreparedTools::new(Arc::new(Loading(EchoTools::new(&["add"]), receiver)), PATIENCE);
        (sender, WithPreparedTools::new(ScriptedInvoke::answering("hi"), tools))
    }

    fn ask() -> Ask {
        Ask::new("r".into(), "q".into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_begins_when_the_tools_are_prepared() {
        let (prepared, agent) = loading();
        let mut run = pin!(agent.invoke_for_json(ask()));
        tokio::time::advance(PATIENCE / 2).await;
        assert!(run.as_mut().now_or_never().is_none(), "it waits");
        prepared.send_replace(true);
        run.await.unwrap();
        drop(prepared);
        agent.invoke(ask()).now_or_never().expect("nobody waits any more").unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_turned_away_when_they_are_not_in_time() {
        let (prepared, agent) = loading();
        let error = agent.invoke(ask()).await.unwrap_err();
        assert!(matches!(error, InvokeError::ToolsNotPrepared { waited } if waited >= PATIENCE), "{error}");
        prepared.send_replace(true);
        agent.invoke(ask()).await.unwrap();
    }
}

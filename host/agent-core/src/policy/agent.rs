//! The innermost `Invoke`: a caller's text becomes a run, driven to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tracing::Instrument as _;

use super::{Answer, Ask, Invoke, InvokeError};
use crate::driver::{Driver, RunError, gen_ai};
use crate::ports::{Journal, Model, Toolbox};
use crate::words::{Limits, Task};

/// How long a run may take when nobody set a deadline: long enough to be none.
const NO_DEADLINE: Duration = Duration::from_hours(24);

/// Runs the agent. The run of a job goes on where its journal ends.
pub struct Agent {
    /// Who is asked.
    pub model: Arc<dyn Model>,
    /// Where each run gets its tool set from.
    pub toolbox: Arc<dyn Toolbox>,
    /// Where the runs' histories go.
    pub journal: Arc<dyn Journal>,
    /// What one run may use up.
    pub limits: Limits,
}

#[async_trait]
impl Invoke for Agent {
    async fn invoke(&self, ask: Ask) -> Result<Answer, InvokeError> {
        let tools = self.toolbox.current();
        let task = Task {
            id: ask.run_id,
            input: ask.input,
            options: ask.options,
            limits: self.limits,
            model: self.model.name().to_owned(),
            principal: ask.principal,
            grants: ask.grants,
        };
        let driver = Driver {
            request_id: &ask.request_id,
            deadline: ask.deadline.unwrap_or_else(|| Instant::now() + NO_DEADLINE),
            model: &*self.model,
            tools: &*tools,
            journal: &*self.journal,
            epoch: ask.epoch,
            stop: ask.stop.as_ref(),
            cancel: ask.cancel.as_ref(),
            meter: &ask.meter,
        };
        // Only jobs are taken up again. The run of a request ends with it, so nothing is read for it.
        let history = match &ask.job_id {
            Some(_) => self.journal.read(&task.id, 0).await.map_err(RunError::Journal)?,
            None => Vec::new(),
        };
        let span = gen_ai::invoke_agent(&task);
        let driven = async {
            if history.is_empty() { driver.start(task).await } else { driver.resume(history).await }
        };
        let ended = driven.instrument(span.clone()).await;
        gen_ai::agent_ended(&span, &ended);
        Ok(Answer { result: Arc::new(ended?), cached: None })
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("limits", &self.limits).finish_non_exhaustive()
    }
}

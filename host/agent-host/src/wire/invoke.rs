//! The stack around an agent run, top to bottom as a request goes through it.

use std::sync::Arc;

use agent_core::invoke::{self, Deadline, Invoke};
use agent_core::ports::{Journal, Model, Toolbox};
use agent_core::run::{Limits, MAX_ITERATIONS};

use crate::config;
use crate::metrics::Metrics;

/// What a request is given to.
pub(crate) fn stack(
    config: &config::Agent,
    metrics: &Metrics,
    model: Arc<dyn Model>,
    toolbox: Arc<dyn Toolbox>,
    journal: Arc<dyn Journal>,
) -> Arc<dyn Invoke> {
    let limits = Limits { iterations: MAX_ITERATIONS, tokens: config.token_budget };
    let agent = invoke::Agent { model, toolbox, journal, limits };
    // Inside the metrics, so that a run that took too long is counted with the time it took.
    let bounded = Deadline::new(agent, config.timeout);
    Arc::new(metrics.metered(bounded))
}

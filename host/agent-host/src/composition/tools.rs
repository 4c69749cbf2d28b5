//! What the tool host reports, counted; and its administrators' side.

use std::sync::Arc;

use agent_core::ports::ToolAdmin;
use tool_host::{CallReport, Observer, SetReport, ToolHost};

use crate::metrics::ToolMetrics;

/// An observer that counts in these metrics.
pub(super) fn counted(metrics: Arc<ToolMetrics>) -> Arc<dyn Observer> {
    Arc::new(Counted(metrics))
}

/// What administrators look after the tools by.
pub(super) fn administered(tools: &Arc<ToolHost>) -> Option<Arc<dyn ToolAdmin>> {
    Some(tools.clone())
}

/// Counts what the tool host reports.
struct Counted(Arc<ToolMetrics>);

impl Observer for Counted {
    fn call_ended(&self, call: &CallReport<'_>) {
        self.0.call_ended(call);
    }

    fn set_changed(&self, change: &SetReport<'_>) {
        let loaded: Vec<_> = change
            .tools
            .iter()
            .map(|tool| (tool.tool.as_str(), tool.component.as_str(), tool.digest.as_str()))
            .collect();
        self.0.set_changed(&loaded, change.faults);
    }

    fn version_withdrawn(&self, component: &str) {
        self.0.version_withdrawn(component);
    }
}

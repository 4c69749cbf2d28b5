//! What the tool host reports, counted.

use tool_host::{CallReport, Observer, SetReport};

use crate::metrics::ToolMetrics;

impl Observer for ToolMetrics {
    fn call_ended(&self, call: &CallReport<'_>) {
        self.call_ended(call);
    }

    fn set_changed(&self, change: &SetReport<'_>) {
        let loaded: Vec<_> = change
            .tools
            .iter()
            .map(|tool| (tool.tool.as_str(), tool.component.as_str(), tool.digest.as_str()))
            .collect();
        self.set_changed(&loaded, change.faults);
    }

    fn version_withdrawn(&self, component: &str) {
        self.version_withdrawn(component);
    }

    fn secrets_met(&self, component: &str, times: u64) {
        self.secrets_met(component, times);
    }
}

//! The observer of calls and swaps, for metrics.

use std::time::Duration;

use agent_core::ports::ToolFault;
use agent_core::words::ToolOutcome;
use serde::Serialize;
use serde_json::Value;

/// Is told of every call and every change of the tool set. Must not block.
pub trait Observer: Send + Sync {
    /// A call ended, however it did.
    fn call_ended(&self, call: &CallReport<'_>);

    /// Another tool set serves, or another component cannot be loaded.
    fn set_changed(&self, change: &SetReport<'_>);

    /// The version of a component that served was withdrawn by this replica, because its calls trapped.
    fn version_withdrawn(&self, component: &str);

    /// So many values of secrets were met in one call of a component where they are not used: the guest wrote
    /// them, or they were in answers to requests that did not have them.
    fn secrets_met(&self, component: &str, times: u64);
}

/// What one call came to and what it cost.
#[derive(Debug, Clone, Copy)]
pub struct CallReport<'a> {
    pub tool: &'a str,
    /// Name of its component, without the digest.
    pub component: &'a str,
    /// How the call ended.
    pub outcome: ToolOutcome,
    /// From the host's acceptance of the call to its answer.
    pub duration: Duration,
    /// What the call used up.
    pub cost: Cost,
}

/// What a guest used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Making store and instance.
    pub instantiate: Duration,
    /// Running the guest, host functions included.
    pub run: Duration,
    /// Most bytes its memories had together.
    pub peak_memory_bytes: usize,
    /// Fuel, when metering is on.
    pub fuel: Option<u64>,
}

/// The tool set after a change.
#[derive(Debug, Clone, Copy)]
pub struct SetReport<'a> {
    pub tools: &'a [ToolListing],
    /// The components that could not be loaded.
    pub faults: &'a [ToolFault],
    /// Whether other tools serve than before.
    pub swapped: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolListing {
    pub tool: String,
    /// Name of its component: the file's name without `.wasm`.
    pub component: String,
    /// `sha256:…` of the component's bytes.
    pub digest: String,
    /// What the model is told.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the answers, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What the tool says of itself, key and value.
    pub hints: Vec<(String, String)>,
    /// What is odd about how it describes itself, and no reason to refuse it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub oddities: Vec<String>,
}

/// Observes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn call_ended(&self, _call: &CallReport<'_>) {}

    fn set_changed(&self, _change: &SetReport<'_>) {}

    fn version_withdrawn(&self, _component: &str) {}

    fn secrets_met(&self, _component: &str, _times: u64) {}
}

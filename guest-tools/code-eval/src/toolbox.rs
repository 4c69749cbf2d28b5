//! The run's other tools, as a script's calls reach them: a trait, and the host's interface
//! `agent:tool/toolbox` behind it.

use agent_tool_sdk::toolbox;

/// Tools that a script may call.
pub(crate) trait Tools {
    /// Calls a tool with a JSON object and returns its answer, JSON text.
    fn call(&self, name: &str, arguments: &str) -> Result<String, ToolFailure>;

    /// The names of the tools, sorted.
    fn names(&self) -> Vec<String>;
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolFailure {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// The tools of the run that makes the call.
#[derive(Debug)]
pub(crate) struct RunTools;

impl Tools for RunTools {
    fn call(&self, name: &str, arguments: &str) -> Result<String, ToolFailure> {
        toolbox::call_json(name, arguments)
            .map_err(|failure| ToolFailure { code: failure.code, message: failure.message })
    }

    fn names(&self) -> Vec<String> {
        toolbox::names()
    }
}

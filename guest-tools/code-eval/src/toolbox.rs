//! The run's other tools, as a script's calls reach them: a trait, and the host's interface `agent:tool/toolbox` behind it.

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

#[cfg(target_arch = "wasm32")]
mod bindings {
    //! What `wit-bindgen` makes of the world `calling` of `wit/tool.wit`.

    wit_bindgen::generate!({ path: "../../wit", world: "calling" });
}

#[cfg(target_arch = "wasm32")]
impl Tools for RunTools {
    fn call(&self, name: &str, arguments: &str) -> Result<String, ToolFailure> {
        bindings::agent::tool::toolbox::call(name, arguments)
            .map_err(|fault| ToolFailure { code: fault.code, message: fault.message })
    }

    fn names(&self) -> Vec<String> {
        bindings::agent::tool::toolbox::names()
    }
}

/// Natively there is no run, and so no other tools: tests bring their own.
#[cfg(not(target_arch = "wasm32"))]
impl Tools for RunTools {
    fn call(&self, name: &str, _arguments: &str) -> Result<String, ToolFailure> {
        Err(ToolFailure {
            code: "unknown-tool".to_owned(),
            message: format!("there is no tool `{name}` here"),
        })
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

//! The other tools of the run, for components that the operator's policy grants it (`toolbox = true`). A tool
//! that is called so runs under its own grants, cannot call further tools, and counts against the limits of
//! the run.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Failure;

#[cfg(target_arch = "wasm32")]
use crate::bindings::agent::tool::toolbox as host;
#[cfg(not(target_arch = "wasm32"))]
use double as host;

/// The codes of failures that the contract names for this interface, beside `invalid-arguments` and `denied`.
pub mod code {
    /// There is no tool of that name.
    pub const UNKNOWN_TOOL: &str = "unknown-tool";
    /// The run has no further calls.
    pub const LIMIT_EXCEEDED: &str = "limit-exceeded";
    /// The tool broke its sandbox's rules or its own; the message is what a model would have been told.
    pub const TOOL_FAILED: &str = "tool-failed";
}

/// Calls a tool and reads what it answered as a `T`.
///
/// # Errors
/// The tool's own failure with its code, what [`code`] lists, and `tool-failed` when the answer is no `T`.
pub fn call<T: DeserializeOwned>(name: &str, arguments: &impl Serialize) -> Result<T, Failure> {
    let arguments = serde_json::to_string(arguments).map_err(|problem| {
        Failure::invalid_arguments(format!("the arguments of `{name}` cannot be put as JSON: {problem}"))
    })?;
    let answer = call_json(name, &arguments)?;
    serde_json::from_str(&answer).map_err(|problem| {
        let message = format!("`{name}` answered something other than was expected: {problem}");
        Failure::new(code::TOOL_FAILED, message)
    })
}

/// Calls a tool with the JSON text of an object and returns the JSON text that it answered.
///
/// # Errors
/// As [`call`].
pub fn call_json(name: &str, arguments: &str) -> Result<String, Failure> {
    Ok(host::call(name, arguments)?)
}

/// The names of the tools that can be called, sorted.
#[must_use]
pub fn names() -> Vec<String> {
    host::names()
}

/// A native test's tools: what the test offers, on its own thread.
#[cfg(not(target_arch = "wasm32"))]
pub mod double {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    use serde_json::Value;

    use crate::Failure;
    use crate::bindings::agent::tool::types::Fault;

    type Tool = Rc<dyn Fn(Value) -> Result<Value, Failure>>;

    thread_local! {
        static TOOLS: RefCell<BTreeMap<String, Tool>> = const { RefCell::new(BTreeMap::new()) };
    }

    /// Offers a tool from now on.
    pub fn offer(name: &str, tool: impl Fn(Value) -> Result<Value, Failure> + 'static) {
        TOOLS.with_borrow_mut(|tools| tools.insert(name.to_owned(), Rc::new(tool)));
    }

    pub(super) fn call(name: &str, arguments: &str) -> Result<String, Fault> {
        let fault = |code: &str, message: String| Fault { code: code.to_owned(), message };
        let unknown = || fault(super::code::UNKNOWN_TOOL, format!("there is no tool `{name}`"));
        let tool = TOOLS.with_borrow(|tools| tools.get(name).cloned()).ok_or_else(unknown)?;
        let arguments = serde_json::from_str(arguments)
            .map_err(|problem| fault(crate::code::INVALID_ARGUMENTS, problem.to_string()))?;
        let answer = tool(arguments).map_err(|failure| fault(&failure.code, failure.message))?;
        Ok(answer.to_string())
    }

    pub(super) fn names() -> Vec<String> {
        TOOLS.with_borrow(|tools| tools.keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{call, double, names};
    use crate::Failure;

    #[test]
    fn tools_are_called_with_values_and_their_failures_keep_their_codes() {
        double::offer("double", |arguments| match arguments["n"].as_i64() {
            Some(n) => Ok(json!(n * 2)),
            None => Err(Failure::invalid_arguments("`n` is missing")),
        });
        assert_eq!(names(), ["double"]);
        assert_eq!(call::<i64>("double", &json!({ "n": 21 })), Ok(42));
        assert_eq!(
            call::<i64>("double", &json!({})).unwrap_err(),
            Failure::invalid_arguments("`n` is missing")
        );
        assert_eq!(call::<i64>("triple", &json!({})).unwrap_err().code, "unknown-tool");
        assert_eq!(call::<String>("double", &json!({ "n": 1 })).unwrap_err().code, "tool-failed");
    }
}

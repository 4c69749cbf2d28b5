//! What runs when the host calls: from JSON arguments through an author's function to JSON output.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Failure, Output, ToolDef, log};

/// A component as the host sees it. [`export!`](crate::export!) implements it; write it by hand, and pass it
/// to [`export_component!`](crate::export_component!), only for what plain functions cannot say.
pub trait Component {
    /// The tools of this component. The host asks once, when it loads the component.
    fn describe() -> Vec<ToolDef>;

    /// Calls the tool `name` with `arguments`, JSON text that the host has checked against its schema.
    ///
    /// # Errors
    /// A [`Failure`], which is told to the model.
    fn call(name: String, arguments: String) -> Result<Output, Failure>;
}

/// The arguments of a tool that takes none.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

/// Runs one tool: reads its arguments, calls it, writes its answer.
///
/// # Errors
/// The tool's own [`Failure`] or what its error becomes, or `invalid-arguments` when they do not fit the
/// tool's type.
pub fn run_tool<Args, Answer, Error>(
    tool: fn(Args) -> Result<Answer, Error>,
    arguments: &str,
) -> Result<Output, Failure>
where
    Args: DeserializeOwned,
    Answer: Serialize,
    Error: Into<Failure>,
{
    let arguments = serde_json::from_str(arguments)
        .map_err(|problem| Failure::invalid_arguments(format!("the arguments do not fit: {problem}")))?;
    let answer = tool(arguments).map_err(Into::into)?;
    let value = serde_json::to_string(&answer).map_err(|problem| {
        Failure::new("internal", format!("the answer cannot be put as JSON: {problem}"))
    })?;
    Ok(Output { value, meta: Vec::new() })
}

/// Has a panic say its message in the operator's log before it traps: all that the host can see of a panic is
/// an `unreachable` instruction.
pub fn watch_for_panics() {
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|panic| log::error(&panic.to_string())));
    #[cfg(not(target_arch = "wasm32"))]
    let _ = log::error;
}

//! Tools whose output is not what they say: huge, no JSON, or not of their own schema.

use agent_tool_sdk::{Failure, NoArguments, Output, ToolDef, describe_tool};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::controls::Counted;

/// How large an output to return.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Size {
    /// In mebibytes.
    mb: usize,
}

impl Default for Size {
    fn default() -> Self {
        Self { mb: 100 }
    }
}

/// The descriptions of the lying tools.
pub(crate) fn describe() -> Vec<ToolDef> {
    vec![
        describe_tool::<Size, String>("return_100_mb", "Returns a JSON string of `mb` mebibytes.", &[]),
        describe_tool::<NoArguments, Counted>("return_bad_json", "Returns text that is not JSON.", &[]),
        describe_tool::<NoArguments, Counted>(
            "return_wrong_shape",
            "Returns JSON that is not of its own output schema.",
            &[],
        ),
    ]
}

/// Calls the lying tool of that name, if there is one.
pub(crate) fn tell(name: &str, arguments: &str) -> Option<Result<Output, Failure>> {
    let value = match name {
        "return_100_mb" => match serde_json::from_str(arguments) {
            Ok(size) => fill_a_string(&size),
            Err(problem) => return Some(Err(Failure::invalid_arguments(problem.to_string()))),
        },
        "return_bad_json" => r#"{"calls": 1"#.to_owned(),
        "return_wrong_shape" => r#"{"calls": "one"}"#.to_owned(),
        _ => return None,
    };
    Some(Ok(Output { value, meta: Vec::new() }))
}

/// A JSON string in one allocation of its own size, so that a limit on outputs can be tested apart from one
/// on memory.
fn fill_a_string(size: &Size) -> String {
    let length = size.mb << 20;
    let mut json = String::with_capacity(length + 2);
    json.push('"');
    json.extend(std::iter::repeat_n('x', length));
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::{Size, fill_a_string, tell};

    #[test]
    fn a_huge_output_is_json() {
        let json = fill_a_string(&Size { mb: 1 });
        assert_eq!(serde_json::from_str::<String>(&json).unwrap().len(), 1 << 20);
    }

    #[test]
    fn the_others_lie() {
        let bad = tell("return_bad_json", "{}").unwrap().unwrap().value;
        assert!(serde_json::from_str::<serde_json::Value>(&bad).is_err());
        let wrong = tell("return_wrong_shape", "{}").unwrap().unwrap().value;
        assert!(serde_json::from_str::<serde_json::Value>(&wrong).unwrap()["calls"].is_string());
    }
}

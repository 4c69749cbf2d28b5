//! What the model's replies of a run have to keep to, beside their length.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Rules of a run's replies. By default there are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplyRules {
    /// The form of the last reply. Absent: any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputFormat>,
    /// Texts at which a reply ends; none of them is part of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// What the first reply has to call. Of a caller with functions: all replies until it has one to carry
    /// out, unless the call has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_call: Option<RequiredCall>,
    /// Whether a reply may have one call at most.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub one_call: bool,
}

/// Rules that allow everything, for whoever needs a reference.
pub static NO_RULES: ReplyRules =
    ReplyRules { output: None, stop: Vec::new(), first_call: None, one_call: false };

impl ReplyRules {
    pub fn are_none(&self) -> bool {
        *self == NO_RULES
    }

    /// About how many bytes a model reads of them.
    pub(crate) fn prompt_bytes(&self) -> u64 {
        let schema = self.output.as_ref().and_then(|format| format.schema.as_ref());
        schema.map_or(0, |schema| schema.to_string().len() as u64)
    }
}

/// JSON that a caller wants for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputFormat {
    /// What the schema is called; providers want a name of letters, digits, `_` and `-`.
    pub name: String,
    /// The JSON Schema of the answer. Absent: any JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// Which tool a reply has to call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequiredCall {
    /// Whichever it chooses.
    Any,
    /// The one of that name.
    Tool(String),
}

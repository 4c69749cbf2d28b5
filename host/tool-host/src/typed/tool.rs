//! One function as a tool: its arguments are encoded for the call, what it returns is decoded.

use serde_json::Value;
use wasmtime::component::Val;

use super::mismatch::Mismatch;
use super::names::Export;
use super::wit_type::{Field, WitType};
use super::{decode, encode, numbers};

/// One exported function as a tool.
#[derive(Debug)]
pub(crate) struct TypedTool {
    /// `interface_function`, or the function's name alone where the world exports it.
    pub(crate) name: String,
    /// What the component's documentation says of the function, else which function it is.
    pub(crate) description: String,
    /// JSON Schema of the arguments: an object with a member for each parameter.
    pub(crate) input_schema: Value,
    /// JSON Schema of what [`TypedTool::decode`] returns for a call that did not fail.
    pub(crate) output_schema: Value,
    /// Where the function is found in the component.
    pub(crate) export: Export,
    pub(super) parameters: Vec<Field>,
    pub(super) result: Option<WitType>,
}

/// The function returned its `err`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The case, if the error is an enum or a variant: a word for programs, such as `not-found`.
    pub(crate) code: Option<String>,
    /// The error if it is a string, else its JSON. As long as the guest made it.
    pub(crate) message: String,
}

impl TypedTool {
    /// Whether what the function returns may have flags, each of which becomes a text of its own on its way.
    pub(crate) fn returns_flags(&self) -> bool {
        self.result.as_ref().is_some_and(WitType::has_flags)
    }

    /// The parameters of a call, in the function's order. Needs about 40 bytes for each element of a list.
    pub(crate) fn encode(&self, arguments: &Value) -> Result<Vec<Val>, Mismatch> {
        let fields = encode::members(&self.parameters, arguments)?;
        Ok(fields.into_iter().map(|(_name, value)| value).collect())
    }

    /// The arguments with numbers in the place of texts that are integers to the function: for rules, which
    /// would take them for texts.
    pub(crate) fn with_numbers(&self, arguments: &Value) -> Value {
        let mut arguments = arguments.clone();
        numbers::members(&self.parameters, &mut arguments);
        arguments
    }

    /// Room for what the function returns, as `Func::call` wants it.
    pub(crate) fn results(&self) -> Vec<Val> {
        self.result.iter().map(|_| Val::Bool(false)).collect()
    }

    /// What the function returned, or its failure. A mismatch is the component's or the host's fault, not the
    /// caller's.
    pub(crate) fn decode(&self, results: &[Val]) -> Result<Result<Value, Failed>, Mismatch> {
        match (&self.result, results) {
            (None, []) => Ok(Ok(Value::Null)),
            (Some(WitType::Result { ok, .. }), [Val::Result(Ok(value))]) => {
                decode::payload(ok.as_deref(), value.as_deref()).map(|value| Ok(value.unwrap_or(Value::Null)))
            }
            (Some(WitType::Result { err, .. }), [Val::Result(Err(value))]) => {
                let error = decode::payload(err.as_deref(), value.as_deref())?;
                Ok(Err(Failed::new(error, value.as_deref())))
            }
            (Some(result), [value]) => decode::value(result, value).map(Ok),
            _ => Err(Mismatch::new(format!("the function returned {} values", results.len()))),
        }
    }
}

impl Failed {
    fn new(error: Option<Value>, value: Option<&Val>) -> Self {
        let code = match value {
            Some(Val::Enum(case) | Val::Variant(case, _)) => Some(case.clone()),
            _ => None,
        };
        let message = match error {
            None => "the tool failed and did not say why".to_owned(),
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
        };
        Self { code, message }
    }
}

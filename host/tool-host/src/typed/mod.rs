//! Typed tools: what a component exports that was built for another host, mapped to JSON Schema and back.
//!
//! [`read`] turns each exported function into a [`TypedTool`]. A call is [`TypedTool::encode`] (arguments to values),
//! the function itself with [`TypedTool::results`] for its answer, then [`TypedTool::decode`]. Arguments are an object
//! with a member for each parameter; the mapping is the same in both directions:
//!
//! | WIT | JSON |
//! |---|---|
//! | `bool`, `string`, `char` | boolean, string, string of one character |
//! | `u8` to `u32`, `s8` to `s32` | integer |
//! | `u64`, `s64` | integer, or decimal string; we write the string where the number is above 2^53 in size |
//! | `f32`, `f64` | number; NaN and infinities are refused |
//! | `list<u8>` | base64 string |
//! | other lists, tuples | array |
//! | `map<string, T>`, other maps | object, array of `[key, value]` |
//! | record | object; a field that is an option may be absent |
//! | variant | `{"case": value}`, or `"case"` for a case without a value |
//! | enum, flags | string, array of strings |
//! | `option<T>` | null, or `T`; `{"some": T}` where `T` is an option itself |
//! | `result<T, E>` | the variant of `ok` and `err`; as what a function returns, the answer or the tool's failure |
//!
//! What JSON cannot carry (resources, streams, futures, `async` functions, error contexts) refuses the component, by
//! the name of the function and the place in it.
//!
//! Everything here is a stranger's: types are read within a budget of depth and number (`wit_type`), schemas are bounded
//! in bytes (`schema`), texts are shown only as far as they can be seen and are never a reason to refuse (`docs`), and
//! no argument and no answer can make `encode` and `decode` panic. What is elsewhere: arguments are held against the
//! schema by `definition`, time, memory and output are bounded by whoever calls the function.

mod decode;
mod docs;
mod encode;
mod mismatch;
mod names;
mod read;
mod refusal;
mod schema;
#[cfg(test)]
mod tests;
mod wit_type;

use serde_json::Value;
use wasmtime::component::Val;

use wit_type::{Field, WitType};

pub(crate) use mismatch::Mismatch;
pub(crate) use read::{imports_of_types, read};
pub(crate) use refusal::Refusal;

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
    parameters: Vec<Field>,
    result: Option<WitType>,
}

/// Which export of a component a tool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Export {
    /// The exported instance, by its full name; none where the function is exported by itself.
    pub(crate) interface: Option<String>,
    /// The function.
    pub(crate) function: String,
}

/// That the function returned its `err`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The case, if the error is an enum or a variant: a word for programs, such as `not-found`.
    pub(crate) code: Option<String>,
    /// The error if it is a string, else its JSON. As long as the guest made it.
    pub(crate) message: String,
}

impl TypedTool {
    /// The parameters of a call, in the function's order. Needs about 40 bytes for each element of a list.
    pub(crate) fn encode(&self, arguments: &Value) -> Result<Vec<Val>, Mismatch> {
        let fields = encode::members(&self.parameters, arguments)?;
        Ok(fields.into_iter().map(|(_name, value)| value).collect())
    }

    /// Room for what the function returns, as `Func::call` wants it.
    pub(crate) fn results(&self) -> Vec<Val> {
        self.result.iter().map(|_| Val::Bool(false)).collect()
    }

    /// What the function returned, or its failure. A mismatch is the component's or the host's fault, not the caller's.
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

impl Export {
    /// As people write it: `package:name/interface` without its version, and the function.
    fn shown(&self) -> String {
        match &self.interface {
            None => format!("`{}`", self.function),
            Some(interface) => format!("`{}` of `{}`", self.function, names::without_version(interface)),
        }
    }
}

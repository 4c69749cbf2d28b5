//! Whether a version that is tried answered a call as the one that serves did.

use agent_core::words::ToolOutcome;
use json_schema::Exact;
use serde_json::Value;

/// Longest answers that are compared as JSON; a value takes up to a hundred times the memory of its text.
/// Longer ones are compared as texts.
const JSON_BYTES: usize = 128 << 10;

/// How a call ended, as far as versions are compared by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// With an answer.
    Answered,
    /// With a failure that the tool itself reported.
    Reported,
    /// By its schema: nothing of it ran. A version that wants other arguments than models send it fails like
    /// this.
    Refused,
    /// Through the component: it crashed, took too long or too much, or returned what is no answer.
    Broken,
}

impl Class {
    /// Absent where the end says nothing of the component.
    pub(super) fn of(outcome: ToolOutcome) -> Option<Self> {
        match outcome {
            ToolOutcome::Ok => Some(Self::Answered),
            ToolOutcome::Failed => Some(Self::Reported),
            ToolOutcome::InvalidArguments => Some(Self::Refused),
            ToolOutcome::TimedOut
            | ToolOutcome::Trapped
            | ToolOutcome::MemoryLimit
            | ToolOutcome::OutputLimit
            | ToolOutcome::InvalidOutput => Some(Self::Broken),
            ToolOutcome::UnknownTool
            | ToolOutcome::Interrupted
            | ToolOutcome::NotRun
            | ToolOutcome::HostError
            | ToolOutcome::Cancelled => None,
        }
    }
}

/// What a version made of a call.
#[derive(Debug, Clone, Copy)]
pub struct ComparedAnswer<'a> {
    pub outcome: ToolOutcome,
    /// What the model is told.
    pub content: &'a str,
}

/// Whether both are the same answer; absent where one of them says nothing of its version, so that it is not
/// counted. Texts of the host, about a component that broke or arguments that it refused, are not compared.
pub fn agree(old: ComparedAnswer<'_>, new: ComparedAnswer<'_>) -> Option<bool> {
    let (before, after) = (Class::of(old.outcome)?, Class::of(new.outcome)?);
    let is_of_host = matches!(before, Class::Broken | Class::Refused);
    Some(before == after && (is_of_host || is_same_content(old.content, new.content)))
}

fn is_same_content(old: &str, new: &str) -> bool {
    let read = |text: &str| -> Option<Value> {
        if text.len() > JSON_BYTES { None } else { serde_json::from_str(text).ok() }
    };
    old == new || matches!((read(old), read(new)), (Some(old), Some(new)) if is_same_value(&old, &new))
}

/// Equal but for the order of members and for how a number is written. Neither value is deeper than the
/// reader allows.
fn is_same_value(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Number(old), Value::Number(new)) => Exact::of(old) == Exact::of(new),
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| is_same_value(old, new))
        }
        (Value::Object(old), Value::Object(new)) => {
            let is_same = |(key, old)| new.get(key).is_some_and(|new| is_same_value(old, new));
            old.len() == new.len() && old.iter().all(is_same)
        }
        (old, new) => old == new,
    }
}

//! What bounds the calls that a tool makes of other tools, in a run and outside of runs, and the answers to
//! those that are refused.

use agent_core::agent_loop::refusal;
use agent_core::ports::{DENIED, LIMIT_EXCEEDED};
use agent_core::words::{ToolCall, ToolOutcome, ToolReceipt, ToolReturn, cut};
use json_schema::MemoryBudget;
use serde_json::{Map, Value};

/// Most calls that one call may make of other tools: several times what a task in one script takes, and few
/// enough that the whole journal of a call can be read by a person.
pub(crate) const MOST_OF_A_CALL: u32 = 64;

/// Most bytes of arguments as a tool wrote them. They are read and hashed on the service's own threads.
const ARGUMENTS_BYTES: usize = 256 << 10;

/// Most bytes of a name as a tool wrote it. Those of tools are shorter.
const NAME_BYTES: usize = 100;

/// A name as a tool wrote it, not longer than names are.
pub(crate) fn shortened(name: &str) -> String {
    let mut name = name.to_owned();
    cut(&mut name, NAME_BYTES);
    name
}

/// The call that a tool wants to be made, or the answer to one that is not read.
pub(crate) fn read(id: String, name: String, arguments: &str) -> Result<ToolCall, ToolReturn> {
    if arguments.len() > ARGUMENTS_BYTES {
        let content = format!("Error: the arguments are too long: at most {ARGUMENTS_BYTES} bytes are read.");
        return Err(ToolReturn { content, receipt: ToolReceipt::new(&name, ToolOutcome::InvalidArguments) });
    }
    Ok(ToolCall::from_text(id, name, arguments.to_owned(), &mut MemoryBudget::default()))
}

/// The answer to a call of a tool that calls tools itself.
pub(crate) fn calls_tools_itself(call: &ToolCall) -> ToolReturn {
    refused(call, DENIED, "a tool that calls tools is not called by another one")
}

/// The answer to one call too many. `bounds` says what there may be.
pub(crate) fn one_too_many(name: String, bounds: &str) -> ToolReturn {
    let call = ToolCall { id: String::new(), name, arguments: Value::Object(Map::new()) };
    refused(&call, LIMIT_EXCEEDED, &format!("there are too many calls of tools by tools: {bounds}"))
}

fn refused(call: &ToolCall, code: &str, why: &str) -> ToolReturn {
    let mut refusal = refusal::not_run(call, why);
    refusal.receipt.detail_mut().code = Some(code.to_owned());
    refusal
}

//! What the author of a tool can do about a call that ended badly.

use agent_core::words::ToolOutcome;

/// What to do; nothing where the tool answered, or failed in its own words.
pub fn of(outcome: ToolOutcome) -> Option<&'static str> {
    Some(match outcome {
        ToolOutcome::Ok
        | ToolOutcome::Failed
        | ToolOutcome::Interrupted
        | ToolOutcome::NotRun
        | ToolOutcome::Cancelled => return None,
        ToolOutcome::InvalidArguments => {
            "call it with arguments that its input schema allows, or widen the schema"
        }
        ToolOutcome::UnknownTool => "`agent-tool inspect` lists the tools that the component describes",
        ToolOutcome::TimedOut => {
            "return sooner: bound what it takes (maxLength, maxItems, maximum in the schema), look at the time that is left \
             (context.remaining-ms), or raise its timeout-ms hint, limits.timeout-ms in the policy or TOOL_TIMEOUT_MS"
        }
        ToolOutcome::Trapped => {
            "return a failure with a code and a sentence in place of a panic or an unchecked index; a panic's message stands in \
             the log"
        }
        ToolOutcome::MemoryLimit => {
            "use less: bound what it takes in the schema, work on parts, or raise limits.memory-bytes in the policy or \
             TOOL_MEMORY_BYTES"
        }
        ToolOutcome::OutputLimit => {
            "return what was asked for and no more, offer a limit or a page as an argument, or raise limits.output-bytes in the \
             policy or TOOL_OUTPUT_BYTES"
        }
        ToolOutcome::InvalidOutput => {
            "return JSON, of its output schema where it has one, or change the schema to what it returns"
        }
        ToolOutcome::HostError => "this is the host's fault and no mistake of the tool: the log says why",
    })
}

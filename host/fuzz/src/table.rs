//! The table of targets.

use std::time::{Duration, Instant};

use crate::targets::{components, crates, edge, json, socket};

/// A parser, or several that are reached by one input.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Names it, and its file in `corpus/`.
    pub name: &'static str,
    /// Files with readers of strangers' bytes that it reaches, below `host/`; a folder ends with a slash.
    pub reads: &'static [&'static str],
    /// How many mutated cases a test makes of it, by what one costs without optimization.
    pub cases: u32,
    /// Panics when an input breaks a promise.
    pub run: fn(&[u8]),
}

/// How long one input may take without optimization, on a machine that does other things. Work that grows
/// with the square of an input takes longer.
const WITHIN: Duration = Duration::from_secs(10);

impl Target {
    /// Takes an input, and gives how long that took, or says that it was too long.
    ///
    /// # Panics
    /// When the input breaks a promise.
    pub fn take(&self, input: &[u8]) -> Result<Duration, String> {
        let began = Instant::now();
        (self.run)(input);
        let took = began.elapsed();
        if took < WITHIN { Ok(took) } else { Err(format!("an input of {} bytes took {took:?}", input.len())) }
    }
}

const MANY: u32 = 4_000;
const SOME: u32 = 1_000;
const FEW: u32 = 300;

const fn target(name: &'static str, reads: &'static [&'static str], cases: u32, run: fn(&[u8])) -> Target {
    Target { name, reads, cases, run }
}

/// Every target, in the order of the tests.
pub const TARGETS: [Target; 31] = [
    target("json", &["json-schema/src/memory_budget.rs"], MANY, json::text),
    target("schema", &["json-schema/src/validation/"], SOME, json::schema),
    target("nested_calls", &["run-service/src/loop_driver/nested_bounds.rs"], SOME, json::nested_calls),
    target("event_stream", &["agent-core/src/event_stream.rs"], MANY, json::events),
    target("journal", &["agent-core/src/journal_format.rs"], SOME, json::journal),
    target("tool_arguments", &["agent-core/src/words/message.rs"], MANY, json::arguments),
    target("compared_answers", &["tool-versions/src/verdicts/answer.rs"], MANY, json::compared),
    target("policy", &["tool-policy/src/file/"], SOME, components::policy),
    target("signature", &["tool-policy/src/signature.rs"], SOME, components::signature),
    target(
        "component",
        &["tool-host/src/load/contract.rs", "tool-host/src/typed/docs.rs"],
        MANY,
        components::contract,
    ),
    target("wit_types", &["tool-host/src/typed/"], FEW, components::wit_types),
    target(
        "typed_arguments",
        &["tool-host/src/component/call_interface.rs"],
        SOME,
        components::typed_arguments,
    ),
    target(
        "definition",
        &["tool-host/src/component/definition.rs", "tool-host/src/component/mends.rs"],
        SOME,
        components::definition,
    ),
    target(
        "mcp_messages",
        &["mcp-client/src/message.rs", "mcp-client/src/answer.rs", "mcp-client/src/connection/http.rs"],
        MANY,
        crates::mcp_messages,
    ),
    target("mcp_tool_list", &["mcp-client/src/tool_list.rs"], SOME, crates::mcp_tool_list),
    target("mcp_output", &["mcp-client/src/connection/child_output.rs"], SOME, crates::mcp_output),
    target("openai_reply", &["model-client/src/protocol/openai/"], MANY, crates::openai_reply),
    target("anthropic_reply", &["model-client/src/protocol/anthropic/"], MANY, crates::anthropic_reply),
    target(
        "openai_stream",
        &["model-client/src/protocol/openai/", "model-client/src/protocol/streamed_reply.rs"],
        SOME,
        crates::openai_stream,
    ),
    target(
        "anthropic_stream",
        &["model-client/src/protocol/anthropic/", "model-client/src/protocol/streamed_reply.rs"],
        SOME,
        crates::anthropic_stream,
    ),
    target(
        "provider_error",
        &["model-client/src/http/provider_error.rs", "model-client/src/negotiation/"],
        MANY,
        crates::provider_error,
    ),
    target("text_calls", &["model-client/src/protocol/text_tool_calls.rs"], MANY, crates::text_calls),
    target("job_hash", &["redis-stores/src/bullmq/"], SOME, crates::job_hash),
    target("manifest", &["tool-registry/src/manifest.rs"], MANY, crates::manifest),
    target(
        "registry_answers",
        &["tool-registry/src/session.rs", "tool-registry/src/session/challenge.rs"],
        MANY,
        crates::registry_answers,
    ),
    target("reference", &["tool-registry/src/reference.rs"], MANY, crates::reference),
    target("token", &["http-edge/src/tokens/"], MANY, edge::token),
    target("coded_body", &["http-edge/src/body/"], SOME, edge::coded_body),
    target("request_state", &["mcp-server/src/"], SOME, edge::request_state),
    // Whole requests: paths, queries, cursors, `Last-Event-ID`, `X-Forwarded-For`, keys, tags, traces,
    // bodies; and the outputs of the demo model in the form that they ask for.
    target(
        "requests",
        &[
            "http-edge/src/",
            "openai-edge/src/",
            "model-client/src/demo/",
            "run-service/src/output_check.rs",
            "agent-core/src/agent_loop/output.rs",
        ],
        FEW,
        edge::requests,
    ),
    target("websocket", &["openai-edge/src/socket/session.rs"], FEW, socket::messages),
];

/// Readers that take pieces in and hand them on: what they hold is bounded, and who parses it is a target's.
pub const HANDED_ON: [(&str, &str); 4] = [
    ("outbound/src/client.rs", "bytes of a body, for its caller"),
    ("model-client/src/http/transport.rs", "bytes of a reply, for `streamed_reply` and `read_reply`"),
    ("tool-registry/src/session/body.rs", "bytes of a body, for `manifest` and `session`"),
    (
        "tool-host/src/capability/wasi_http.rs",
        "texts of a guest's request, for the reader of the crate `http`",
    ),
];

//! The table of targets.

use crate::targets::{components, edge, json, providers, queue, registry, remote_tools, socket};

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

const MANY: u32 = 4_000;
const SOME: u32 = 1_000;
const FEW: u32 = 300;

/// Every target, in the order of the tests.
pub const TARGETS: [Target; 31] = [
    Target { name: "json", reads: &["json-schema/src/memory_budget.rs"], cases: MANY, run: json::text },
    Target { name: "schema", reads: &["json-schema/src/validation/"], cases: SOME, run: json::schema },
    Target {
        name: "nested_calls",
        reads: &["run-service/src/loop_driver/nested_bounds.rs"],
        cases: SOME,
        run: json::nested_calls,
    },
    Target {
        name: "event_stream",
        reads: &["agent-core/src/event_stream.rs"],
        cases: MANY,
        run: json::events,
    },
    Target { name: "journal", reads: &["agent-core/src/journal_format.rs"], cases: SOME, run: json::journal },
    Target {
        name: "tool_arguments",
        reads: &["agent-core/src/words/message.rs"],
        cases: MANY,
        run: json::arguments,
    },
    Target {
        name: "compared_answers",
        reads: &["tool-versions/src/canary_verdict/answer.rs"],
        cases: MANY,
        run: json::compared,
    },
    Target { name: "policy", reads: &["tool-policy/src/file/"], cases: SOME, run: components::policy },
    Target {
        name: "signature",
        reads: &["tool-policy/src/signature.rs"],
        cases: SOME,
        run: components::signature,
    },
    Target {
        name: "component",
        reads: &["tool-host/src/load/contract.rs", "tool-host/src/typed/docs.rs"],
        cases: MANY,
        run: components::contract,
    },
    Target { name: "wit_types", reads: &["tool-host/src/typed/"], cases: FEW, run: components::wit_types },
    Target {
        name: "typed_arguments",
        reads: &["tool-host/src/component/call_interface.rs"],
        cases: SOME,
        run: components::typed_arguments,
    },
    Target {
        name: "definition",
        reads: &["tool-host/src/component/definition.rs", "tool-host/src/component/mends.rs"],
        cases: SOME,
        run: components::definition,
    },
    Target {
        name: "mcp_messages",
        reads: &["tool-host/src/mcp/message.rs", "tool-host/src/mcp/answer.rs", "tool-host/src/mcp/http.rs"],
        cases: MANY,
        run: remote_tools::messages,
    },
    Target {
        name: "mcp_tool_list",
        reads: &["tool-host/src/mcp/tool_list.rs"],
        cases: SOME,
        run: remote_tools::tool_list,
    },
    Target {
        name: "mcp_output",
        reads: &["tool-host/src/mcp/child_output.rs"],
        cases: SOME,
        run: remote_tools::child_output,
    },
    Target {
        name: "openai_reply",
        reads: &["model-client/src/protocol/openai/"],
        cases: MANY,
        run: providers::openai_reply,
    },
    Target {
        name: "anthropic_reply",
        reads: &["model-client/src/protocol/anthropic/"],
        cases: MANY,
        run: providers::anthropic_reply,
    },
    Target {
        name: "openai_stream",
        reads: &["model-client/src/protocol/openai/", "model-client/src/protocol/streamed_reply.rs"],
        cases: SOME,
        run: providers::openai_stream,
    },
    Target {
        name: "anthropic_stream",
        reads: &["model-client/src/protocol/anthropic/", "model-client/src/protocol/streamed_reply.rs"],
        cases: SOME,
        run: providers::anthropic_stream,
    },
    Target {
        name: "provider_error",
        reads: &["model-client/src/http/provider_error.rs", "model-client/src/negotiation/"],
        cases: MANY,
        run: providers::error,
    },
    Target {
        name: "text_calls",
        reads: &["model-client/src/protocol/text_tool_calls.rs"],
        cases: MANY,
        run: providers::text_calls,
    },
    Target { name: "job_hash", reads: &["backends/src/bullmq/"], cases: SOME, run: queue::job_hash },
    Target {
        name: "manifest",
        reads: &["tool-registry/src/manifest.rs"],
        cases: MANY,
        run: registry::manifest,
    },
    Target {
        name: "registry_answers",
        reads: &["tool-registry/src/session.rs", "tool-registry/src/challenge.rs"],
        cases: MANY,
        run: registry::answers,
    },
    Target {
        name: "reference",
        reads: &["tool-registry/src/reference.rs"],
        cases: MANY,
        run: registry::reference,
    },
    Target { name: "token", reads: &["http-edge/src/tokens/"], cases: MANY, run: edge::token },
    Target { name: "coded_body", reads: &["http-edge/src/body/"], cases: SOME, run: edge::coded_body },
    Target { name: "request_state", reads: &["http-edge/src/mcp/"], cases: SOME, run: edge::request_state },
    // Whole requests: paths, queries, cursors, `Last-Event-ID`, `X-Forwarded-For`, keys, tags, traces,
    // bodies; and the outputs of the demo model in the form that they ask for.
    Target {
        name: "requests",
        reads: &[
            "http-edge/src/",
            "model-client/src/demo/",
            "run-service/src/output_check.rs",
            "agent-core/src/agent_loop/output.rs",
        ],
        cases: FEW,
        run: edge::requests,
    },
    Target {
        name: "websocket",
        reads: &["http-edge/src/variant_b/openai/socket_session.rs"],
        cases: FEW,
        run: socket::messages,
    },
];

/// Readers that take pieces in and hand them on: what they hold is bounded, and who parses it is a target's.
pub const HANDED_ON: [(&str, &str); 4] = [
    ("outbound/src/client.rs", "bytes of a body, for its caller"),
    ("model-client/src/http/transport.rs", "bytes of a reply, for `streamed_reply` and `read_reply`"),
    ("tool-registry/src/body.rs", "bytes of a body, for `manifest` and `session`"),
    (
        "tool-host/src/capability/wasi_http.rs",
        "texts of a guest's request, for the reader of the crate `http`",
    ),
];

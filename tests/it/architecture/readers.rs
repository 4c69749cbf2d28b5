//! Who reads JSON: by the metered reader (the crate `json-schema`), or in a place that is listed here with
//! the reason why what it reads cannot fill the memory.

use std::collections::BTreeMap;

use super::{code_of, service_sources, shown};

/// Ways to read JSON, or anything into values, without counting what they take.
const UNMETERED: [&str; 5] =
    ["serde_json::from_", "Deserializer::from_", "rmp_serde::from_", ".json::<", "into_iter::<Value>"];

/// Where that is done, in how many lines, and why it may be.
const LISTED: [(&str, usize, &str); 36] = [
    ("json-schema/src/memory_budget.rs", 2, "the metered reader"),
    // What this service wrote itself.
    ("agent-core/src/journal/format.rs", 2, "events that this service wrote"),
    ("agent-core/src/layers/cached.rs", 1, "results that this service wrote"),
    ("agent-core/src/ports/tool_versions/stored.rs", 3, "records that this service wrote"),
    ("agent-core/src/streams/recorded_result.rs", 1, "results that this service wrote"),
    (
        "agent-core/src/words/canonical_result.rs",
        3,
        "results that this service wrote; the types hold texts and numbers",
    ),
    ("agent-host/src/http_recordings/format.rs", 1, "exchanges that this service wrote; texts and bytes"),
    ("backends/src/mongo/conversations.rs", 1, "turns that this service wrote"),
    ("backends/src/sql/commit/claims.rs", 1, "columns that this service wrote"),
    ("backends/src/sql/conversations.rs", 1, "turns that this service wrote"),
    ("backends/src/sql/retention/months.rs", 1, "a place in a sweep that this service wrote"),
    (
        "backends/src/sql/retention/tool_audit.rs",
        1,
        "lines that this service wrote; one number of each is read",
    ),
    ("backends/src/sql/runs.rs", 1, "records that this service wrote"),
    ("backends/src/sql/webhooks.rs", 1, "attempts that this service wrote"),
    ("http-edge/src/middleware/idempotency/kept_answer.rs", 1, "heads of answers that this service wrote"),
    ("http-edge/src/variant_b/openai/references.rs", 1, "responses that this service wrote"),
    ("tool-host/src/inventory/memory.rs", 1, "its own file beside the compiled components"),
    // Programs of the operator, with the rights of one.
    ("agent-host/src/cli/chat/events.rs", 1, "a command: what the operator's own service sends"),
    ("agent-host/src/cli/replay/comparison.rs", 1, "a command: recorded answers of one run"),
    ("agent-host/src/cli/tools/call.rs", 1, "a command: arguments that the operator wrote"),
    (
        "backends/src/bullmq/options.rs",
        2,
        "options of a job scheduler, which producers with the password of Redis write",
    ),
    (
        "backends/src/bullmq/submitter.rs",
        1,
        "options of a job, which producers with the password of Redis write",
    ),
    (
        "backends/src/bullmq/trace_metadata.rs",
        2,
        "options of a job, which producers with the password of Redis write",
    ),
    ("tool-kit/src/expectation.rs", 1, "a command: an answer of the author's own tool"),
    // Strangers' texts whose size is bounded, or that become no values.
    ("model-client/src/demo/mod.rs", 1, "the demo model: at most a body's text, never in production"),
    ("model-client/src/http/provider_error.rs", 1, "errors of at most ERROR_LIMIT bytes"),
    ("model-client/src/protocol/openai/stream.rs", 1, "a value that the metered reader made"),
    ("model-client/src/protocol/text_tool_calls.rs", 5, "texts of at most MOST_BYTES"),
    ("tool-host/src/call_interface.rs", 1, "arguments that the metered reader made of a reply or a body"),
    ("tool-host/src/definition.rs", 1, "made into no values"),
    ("tool-host/src/mcp/answer.rs", 1, "made into no values"),
    ("tool-host/src/mcp/message.rs", 2, "parts of a message as they are written; a text"),
    ("tool-host/src/mcp/server.rs", 1, "arguments that the metered reader made of a reply or a body"),
    ("tool-host/src/versions/canary_verdict/answer.rs", 1, "answers of at most JSON_BYTES"),
    ("tool-registry/src/manifest.rs", 2, "manifests of bounded length; the types hold texts and numbers"),
    ("tool-registry/src/session.rs", 2, "tokens and errors of bounded length; the types hold texts"),
];

#[test]
fn json_of_strangers_is_read_by_the_metered_reader() {
    let mut found = BTreeMap::<String, usize>::new();
    for file in service_sources() {
        let lines = code_of(&file);
        let unmetered = lines.iter().filter(|(_, line)| UNMETERED.iter().any(|way| line.contains(way)));
        let count = unmetered.count();
        if count > 0 {
            found.insert(shown(&file), count);
        }
    }
    let listed = LISTED.iter().map(|(file, lines, _reason)| (format!("host/{file}"), *lines));
    let listed: BTreeMap<String, usize> = listed.collect();
    let unlisted: Vec<_> = found.iter().filter(|(file, lines)| listed.get(*file) != Some(lines)).collect();
    assert!(
        unlisted.is_empty(),
        "read JSON with `json_schema::MemoryBudget`, or say here why what is read is bounded: {unlisted:#?}"
    );
    let gone: Vec<_> = listed.keys().filter(|file| !found.contains_key(*file)).collect();
    assert!(gone.is_empty(), "these read no JSON any more: {gone:#?}");
}

/// A name that was imported would not be seen above.
#[test]
fn nobody_imports_a_function_that_reads_json() {
    let importing: Vec<_> = service_sources()
        .iter()
        .flat_map(|file| {
            let lines = code_of(file).into_iter().map(|(_, line)| line);
            lines
                .filter(|line| line.contains("use serde_json::") && line.contains("from_"))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(importing.is_empty(), "{importing:#?}");
}

//! Who reads JSON: by the metered reader (the crate `json-schema`), or in a place that is listed here with
//! the reason why what it reads cannot fill the memory. And who reads strangers' texts that are no JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{code_of, repository, service_sources, shown, sources_below};

/// Ways to read JSON, or anything into values, without counting what they take.
const UNMETERED: [&str; 8] = [
    "serde_json::from_",
    "Deserializer::from_",
    "rmp_serde::from_",
    ".json::<",
    ".json()",
    "into_iter::<Value>",
    "parse::<Value>",
    "parse::<serde_json::Value>",
];

/// Where that is done, in how many lines, and why it may be.
const LISTED: [(&str, usize, &str); 49] = [
    ("json-schema/src/memory_budget.rs", 2, "the metered reader"),
    // What this service wrote itself.
    ("agent-core/src/journal_format.rs", 2, "events that this service wrote"),
    (
        "agent-core/src/words/job.rs",
        1,
        "options that this service wrote; on Redis producers with its password write them as well",
    ),
    ("run-service/src/layers/cached.rs", 1, "results that this service wrote"),
    ("agent-core/src/ports/tool_versions/stored.rs", 3, "records that this service wrote"),
    ("run-service/src/streams/recorded_result.rs", 1, "results that this service wrote"),
    ("run-service/src/loop_driver/child_runs.rs", 1, "results that this service wrote"),
    ("run-service/src/waits/last_approved.rs", 2, "calls that this service kept, of 64 KiB at most"),
    (
        "agent-core/src/words/canonical_result.rs",
        3,
        "results that this service wrote; the types hold texts and numbers",
    ),
    ("model-client/src/protocol/anthropic/mod.rs", 1, "a tool that was rendered here, once for each catalog"),
    ("model-client/src/protocol/kept_beginnings.rs", 1, "a test: requests that were rendered here"),
    ("host-setup/src/http_exchange.rs", 1, "exchanges that this service wrote; texts and bytes"),
    ("backends/src/mongo/conversations.rs", 1, "turns that this service wrote"),
    ("backends/src/sql/commit/claims.rs", 1, "columns that this service wrote"),
    ("backends/src/sql/conversations.rs", 1, "turns that this service wrote"),
    ("backends/src/sql/retention/drop_partitions.rs", 1, "a place in a sweep that this service wrote"),
    (
        "backends/src/sql/retention/tool_audit.rs",
        1,
        "lines that this service wrote; one number of each is read",
    ),
    ("backends/src/sql/runs.rs", 1, "records that this service wrote"),
    ("backends/src/sql/webhooks.rs", 1, "attempts that this service wrote"),
    ("http-edge/src/middleware/idempotency/kept_answer.rs", 1, "heads of answers that this service wrote"),
    ("openai-edge/src/responses/current_response.rs", 2, "responses and results that this service wrote"),
    ("openai-edge/src/responses/references.rs", 1, "responses that this service wrote"),
    ("tool-host/src/folder/memory.rs", 1, "its own file beside the compiled components"),
    // Programs of the operator, with the rights of one.
    ("agent-host/src/cli/chat/events.rs", 1, "a command: what the operator's own service sends"),
    ("agent-tool/src/test/mod.rs", 1, "a command: an answer of its own command line"),
    ("agent-tool/src/replay/comparison.rs", 1, "a command: recorded answers of one run"),
    ("agent-host/src/cli/tools/call.rs", 1, "a command: arguments that the operator wrote"),
    ("agent-host/src/cli/waits.rs", 1, "a command: an answer that the operator wrote"),
    ("mcp-server/src/forms.rs", 2, "schemas that the metered reader made"),
    (
        "redis-stores/src/bullmq/options.rs",
        2,
        "options of a job scheduler, which producers with the password of Redis write",
    ),
    (
        "redis-stores/src/bullmq/submitter.rs",
        1,
        "options of a job, which producers with the password of Redis write",
    ),
    (
        "redis-stores/src/bullmq/trace_metadata.rs",
        2,
        "options of a job, which producers with the password of Redis write",
    ),
    ("tool-build/src/languages/javascript.rs", 1, "a command: the manifest of the author's own project"),
    ("tool-build/src/project.rs", 1, "a command: the manifest of the author's own project"),
    (
        "tool-build/src/languages/rust/modules.rs",
        1,
        "a command: lines of the author's own cargo, bounded in length",
    ),
    ("tool-kit/src/expectation.rs", 1, "a command: an answer of the author's own tool"),
    // Strangers' texts whose size is bounded, or that become no values.
    ("model-client/src/demo/mod.rs", 1, "the demo model: at most a body's text, never in production"),
    ("model-client/src/http/provider_error.rs", 1, "errors of at most ERROR_LIMIT bytes"),
    ("model-client/src/protocol/openai/stream.rs", 1, "a value that the metered reader made"),
    ("model-client/src/protocol/text_tool_calls.rs", 5, "texts of at most MOST_BYTES"),
    (
        "tool-host/src/component/call_interface.rs",
        1,
        "arguments that the metered reader made of a reply or a body",
    ),
    ("tool-host/src/component/definition.rs", 1, "made into no values"),
    ("model-client/src/protocol/openai/mod.rs", 1, "made into no values: whether arguments are an object"),
    ("mcp-client/src/answer.rs", 1, "made into no values"),
    ("mcp-client/src/message.rs", 2, "parts of a message as they are written; a text"),
    ("mcp-client/src/server.rs", 1, "arguments that the metered reader made of a reply or a body"),
    ("tool-versions/src/verdicts/answer.rs", 1, "answers of at most JSON_BYTES"),
    ("tool-registry/src/manifest.rs", 2, "manifests of bounded length; the types hold texts and numbers"),
    ("tool-registry/src/session.rs", 2, "tokens and errors of bounded length; the types hold texts"),
];

/// Readers of texts of strangers that are no JSON: of WebAssembly, of server-sent events, of the texts of a
/// guest's request, and of the pieces of an answer's body.
const OF_OTHER_TEXTS: [&str; 9] = [
    "Parser::new(0)",
    "EventStreamParser::new(",
    "SseStream::from_",
    ".set_method(",
    ".set_authority(",
    ".set_scheme(",
    ".set_path_with_query(",
    ".chunk()",
    "from_bytes_stream(",
];

/// Where that is done, in how many lines, and what bounds it.
const LISTED_OF_OTHER_TEXTS: [(&str, usize, &str); 12] = [
    ("agent-host/src/cli/chat/events.rs", 2, "a command: what the operator's own service sends"),
    ("model-client/src/http/transport.rs", 2, "a reply of at most the limit of its kind"),
    ("model-client/src/protocol/streamed_reply.rs", 1, "events of at most MOST_EVENT_BYTES"),
    ("outbound/src/client.rs", 1, "`read_into`: at most as many bytes as its caller says"),
    ("tool-build/src/component.rs", 1, "a command: what the author has just built"),
    ("tool-build/src/docs.rs", 1, "a command: what the author has just built"),
    (
        "tool-host/src/capability/wasi_http.rs",
        2,
        "texts of at most METHOD_BYTES and AUTHORITY_BYTES; the library bounds path and scheme",
    ),
    ("tool-host/src/load/contract.rs", 1, "names are borrowed and counted as they are read"),
    ("mcp-client/src/connection/http.rs", 1, "events of at most MOST_BYTES"),
    ("tool-host/src/typed/docs.rs", 1, "one section is borrowed, and its JSON is metered"),
    ("tool-registry/src/session/body.rs", 1, "bodies of at most the limit of their kind"),
    ("tool-registry/src/component_names.rs", 1, "a command: the component that is published"),
];

/// The service's sources, and those of the command that builds tools.
fn sources() -> Vec<PathBuf> {
    let of_builds = sources_below(&repository().join("host/tool-build/src"));
    service_sources().into_iter().chain(of_builds).collect()
}

/// The files with lines that read so, and in how many, which are not what the table says. Then those of the
/// table that have none.
fn differences(
    table: &[(&str, usize, &str)],
    reads: impl Fn(&str) -> bool,
) -> (Vec<(String, usize)>, Vec<String>) {
    let mut found = BTreeMap::<String, usize>::new();
    for file in sources() {
        let count = code_of(&file).iter().filter(|(_, line)| reads(line)).count();
        if count > 0 {
            found.insert(shown(&file), count);
        }
    }
    let listed = table.iter().map(|(file, lines, _reason)| (format!("host/{file}"), *lines));
    let listed: BTreeMap<String, usize> = listed.collect();
    let gone = listed.keys().filter(|file| !found.contains_key(*file)).cloned().collect();
    let is_unlisted = |(file, lines): &(String, usize)| listed.get(file) != Some(lines);
    (found.into_iter().filter(is_unlisted).collect(), gone)
}

/// Whether a line has these characters, and no name before them that they are the end of.
fn has_name(line: &str, name: &str) -> bool {
    let is_part = |before: &str| before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
    line.match_indices(name).any(|(at, _)| !is_part(&line[..at]))
}

/// Whether a line reads JSON without counting. axum's `Json` reads bodies so.
fn reads_unmetered(line: &str) -> bool {
    UNMETERED.iter().any(|way| line.contains(way))
        || has_name(line, "Value::from_str(")
        || line.contains("axum") && has_name(line, "Json")
}

#[test]
fn json_of_strangers_is_read_by_the_metered_reader() {
    let (unlisted, gone) = differences(&LISTED, reads_unmetered);
    assert!(
        unlisted.is_empty(),
        "read JSON with `json_schema::MemoryBudget`, or say here why what is read is bounded: {unlisted:#?}"
    );
    assert!(gone.is_empty(), "these read no JSON any more: {gone:#?}");
}

#[test]
fn other_texts_of_strangers_are_read_where_they_are_bounded() {
    let reads = |line: &str| OF_OTHER_TEXTS.iter().any(|way| line.contains(way));
    let (unlisted, gone) = differences(&LISTED_OF_OTHER_TEXTS, reads);
    assert!(unlisted.is_empty(), "say here what bounds what is read: {unlisted:#?}");
    assert!(gone.is_empty(), "these read no such texts any more: {gone:#?}");
}

#[test]
fn every_spelling_is_seen() {
    for line in [
        "let value = text.parse::<Value>()?;",
        "let value = Value::from_str(text)?;",
        "let value = serde_json::Value::from_str(text)?;",
        "use axum::Json;",
        "use axum::{Json, Router};",
        "async fn take(axum::extract::Json(body): axum::extract::Json<Body>) {}",
        "let value: Reply = response.json().await?;",
    ] {
        assert!(reads_unmetered(line), "{line}");
    }
    for line in ["HeaderValue::from_str(text)?", "Error::Json(error) => error", "RawValue::from_string(text)"]
    {
        assert!(!reads_unmetered(line), "{line}");
    }
}

/// How the metered reader is begun.
const METERED: [&str; 2] = ["MemoryBudget::default()", "MemoryBudget::new("];

/// What the tables above say of a reader that no stranger's bytes reach.
const NOT_OF_STRANGERS: [&str; 8] = [
    "that this service wrote",
    "what this service wrote",
    "that this service kept",
    "a command",
    "a test",
    "that was rendered here",
    "that the metered reader made",
    "its own file",
];

/// The files and folders that the targets of `host/fuzz` reach, or whose pieces these parse.
fn fuzzed() -> Vec<String> {
    let table = std::fs::read_to_string(repository().join("host/fuzz/src/table.rs")).unwrap();
    let texts = table.split('"').skip(1).step_by(2);
    let is_path = |text: &&str| text.contains("/src/") && (text.ends_with(".rs") || text.ends_with('/'));
    texts.filter(is_path).map(|path| format!("host/{path}")).collect()
}

#[test]
fn every_reader_of_strangers_bytes_is_fuzzed() {
    let fuzzed = fuzzed();
    assert!(fuzzed.len() > 30, "{fuzzed:?}");
    let gone: Vec<_> = fuzzed.iter().filter(|path| !repository().join(path).exists()).collect();
    assert!(gone.is_empty(), "the table of `host/fuzz` names what is not there any more: {gone:#?}");
    let reads = |line: &str| METERED.iter().any(|way| line.contains(way));
    let metered = sources().into_iter().filter(|file| code_of(file).iter().any(|(_, line)| reads(line)));
    let of_strangers =
        |(_, _, reason): &&(&str, usize, &str)| !NOT_OF_STRANGERS.iter().any(|ours| reason.contains(ours));
    let listed = LISTED.iter().chain(&LISTED_OF_OTHER_TEXTS).filter(of_strangers);
    let readers: Vec<_> =
        metered.map(|file| shown(&file)).chain(listed.map(|(file, ..)| format!("host/{file}"))).collect();
    assert!(readers.len() > 25, "{readers:?}");
    let missing: Vec<_> =
        readers.iter().filter(|file| !fuzzed.iter().any(|path| file.starts_with(path.as_str()))).collect();
    assert!(missing.is_empty(), "add a target to the table of `host/fuzz`, with a corpus: {missing:#?}");
}

/// A name that was imported would not be seen above.
#[test]
fn nobody_imports_a_function_that_reads_json() {
    let importing: Vec<_> = sources()
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

//! Parsers that their crates keep to themselves: how an input is told to their `testing` modules.

use model_client::testing::{self as providers, Sent};
use redis_stores::testing as queue;
use tool_host::testing as servers;
use tool_registry::{Reference, testing as registry};

use super::parts;

/// A body of OpenAI, or of a server that imitates it.
pub(crate) fn openai_reply(input: &[u8]) {
    providers::read_reply("openai", Sent::Whole(input));
}

/// A body of Anthropic, or of a server that imitates it.
pub(crate) fn anthropic_reply(input: &[u8]) {
    providers::read_reply("anthropic", Sent::Whole(input));
}

/// A stream of OpenAI, whole and byte by byte.
pub(crate) fn openai_stream(input: &[u8]) {
    providers::read_reply("openai", Sent::Streamed(input));
}

/// A stream of Anthropic, whole and byte by byte.
pub(crate) fn anthropic_stream(input: &[u8]) {
    providers::read_reply("anthropic", Sent::Streamed(input));
}

/// The body of a refusal, and what is done about it.
pub(crate) fn provider_error(input: &[u8]) {
    providers::read_error(input);
}

/// Calls in the text of a reply.
pub(crate) fn text_calls(input: &[u8]) {
    providers::read_text(&String::from_utf8_lossy(input));
}

/// A line is a message, until the answer is among them.
pub(crate) fn mcp_messages(input: &[u8]) {
    servers::take_in_messages(input.split(|byte| *byte == b'\n'));
}

/// A line is a tool of a list.
pub(crate) fn mcp_tool_list(input: &[u8]) {
    let [allowed, listed] = parts(input).map(String::from_utf8_lossy);
    let listed: Vec<_> = listed.lines().map(str::to_owned).collect();
    servers::list_tools(&listed, allowed.lines());
}

/// What a child process writes.
pub(crate) fn mcp_output(input: &[u8]) {
    servers::read_output(input);
}

/// A line is a field, `name=value`; `state` and `stacktrace` are among them.
pub(crate) fn job_hash(input: &[u8]) {
    let lines = input.split(|byte| *byte == b'\n');
    let field = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b'=')?;
        let name = String::from_utf8_lossy(line.get(..at)?).into_owned();
        Some((name, line.get(at + 1..)?.to_vec()))
    };
    queue::read_job(&lines.filter_map(field).collect());
}

/// A manifest with the type that it was sent as.
pub(crate) fn manifest(input: &[u8]) {
    let [content_type, manifest] = parts(input);
    registry::read_manifest(manifest, str::from_utf8(content_type).ok());
    registry::read_component(manifest);
}

/// What a registry and its token service answer.
pub(crate) fn registry_answers(input: &[u8]) {
    let [challenge, body] = parts(input);
    registry::read_answers(&String::from_utf8_lossy(challenge), body);
}

/// References are read back as they were.
pub(crate) fn reference(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for read in [Reference::parse, Reference::parse_destination] {
        if let Ok(reference) = read(&text) {
            assert_eq!(read(&reference.to_string()).as_ref(), Ok(&reference), "{text}");
        }
    }
}

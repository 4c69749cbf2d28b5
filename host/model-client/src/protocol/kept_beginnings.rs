//! Providers read what they have kept of earlier requests only while the beginning is the same, byte for
//! byte.

use std::sync::Arc;

use agent_core::ports::ModelRequest;
use agent_core::words::{Catalog, Message, ToolCall, ToolSpec};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use test_servers::provider_rules::blocks_read;
use url::Url;

use super::provider::Provider;
use super::{Prompt, Protocol};
use crate::rendered_tools::RenderedToolsCache;
use crate::scripted;

fn protocols() -> [&'static dyn Protocol; 2] {
    ["openai", "anthropic"].map(|prefix| Provider::with_prefix(prefix).unwrap().protocol())
}

/// A step of a run: a reply with calls, and what each of them returned.
fn step() -> impl Strategy<Value = Vec<Message>> {
    let call = ("\\PC{0,50}", prop_oneof!["[a-z_]{1,70}", "\\PC{0,8}"], any::<i64>(), "\\PC{0,20}");
    ("\\PC{0,20}", prop::collection::vec(call, 1..4)).prop_map(|(content, calls)| {
        let tool_calls = calls
            .iter()
            .map(|(id, name, number, text)| {
                let arguments = json!({ "z": number, "a": text, text.as_str(): [text] });
                ToolCall { id: id.clone(), name: name.clone(), arguments }
            })
            .collect();
        let answers = calls.iter().map(|(id, name, _, text)| Message::Tool {
            tool_call_id: id.clone(),
            name: name.clone(),
            content: text.clone(),
        });
        std::iter::once(Message::Assistant { content, tool_calls }).chain(answers).collect()
    })
}

/// What a provider reads of a request, in that order: tools, instructions, blocks of messages. Marks are no
/// part of it.
fn read(protocol: &dyn Protocol, messages: &[Message], tools: &RawValue) -> Vec<String> {
    let request = ModelRequest { messages, ..scripted::request() };
    let profile = protocol.initial_profile(&Url::parse(protocol.default_base()).unwrap());
    let prompt = Prompt { model: "m", request: &request, tools: Some(tools), profile, stream: false };
    let body: Value = serde_json::from_slice(&protocol.render_request(prompt).unwrap()).unwrap();
    blocks_read(&body).0
}

/// The tools of a catalog as a process renders them that has just started.
fn tools(protocol: &dyn Protocol, names: &[String]) -> Arc<RawValue> {
    let tool = |name: &String| {
        let input_schema = json!({ "type": "object", "properties": { "b": {}, "a": { "const": name } } });
        Arc::new(ToolSpec { name: name.clone(), input_schema, ..ToolSpec::default() })
    };
    let catalog = Catalog::new(names.iter().map(|name| (*tool(name)).clone()).collect(), "digest".into());
    RenderedToolsCache::default().get(&catalog, protocol).unwrap().list(|_| true, true).unwrap().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_request_begins_with_all_of_the_one_before_and_with_the_tools_of_every_run(
        instructions in prop::option::of("\\PC{1,20}"),
        question in "\\PC{1,20}",
        steps in prop::collection::vec(step(), 1..5),
        names in prop::collection::btree_set("[a-z]{1,8}", 1..6),
    ) {
        let names: Vec<_> = names.into_iter().collect();
        for protocol in protocols() {
            let tools = [tools(protocol, &names), tools(protocol, &names)];
            prop_assert_eq!(tools[0].get(), tools[1].get());
            let system = instructions.iter().map(|content| Message::System { content: content.clone() });
            let user = Message::User { content: question.as_str().into() };
            let mut messages: Vec<_> = system.chain([user]).collect();
            let mut before = read(protocol, &messages, &tools[0]);
            for step in &steps {
                messages.extend(step.iter().cloned());
                let now = read(protocol, &messages, &tools[1]);
                prop_assert!(now.starts_with(&before), "{before:#?}\n{now:#?}");
                before = now;
            }
        }
    }
}

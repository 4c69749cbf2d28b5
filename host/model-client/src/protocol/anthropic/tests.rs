//! Tables of conversations and replies.

use agent_core::words::{ImageDetail, OutputFormat, ReplyRules};

use super::*;
use crate::scripted;

fn call(id: &str, arguments: Value) -> ToolCall {
    ToolCall { id: id.into(), name: "add".into(), arguments }
}

fn tool(id: &str, content: &str) -> Message {
    Message::Tool { tool_call_id: id.into(), name: "add".into(), content: content.into() }
}

fn rendered(request: &ModelRequest<'_>, profile: ProviderProfile) -> Value {
    body_of(request, None, profile)
}

fn body_of(request: &ModelRequest<'_>, tools: Option<&RawValue>, profile: ProviderProfile) -> Value {
    let prompt = Prompt { model: "m", request, tools, profile, stream: false };
    serde_json::to_value(super::request(prompt)).unwrap()
}

fn messages(messages: &[Message]) -> Value {
    rendered(&ModelRequest { messages, ..scripted::request() }, ProviderProfile::OTHER)["messages"].take()
}

fn reply(body: &Value) -> ModelReply {
    super::reply(body.to_string().as_bytes(), &scripted::request(), "anthropic/m").unwrap()
}

fn problem(body: &str) -> String {
    super::reply(body.as_bytes(), &scripted::request(), "anthropic/m").unwrap_err().detail
}

#[test]
fn white_space_at_which_a_reply_ends_is_not_sent() {
    for (stop, sent) in [(vec!["\n", "END", " \t"], json!(["END"])), (vec!["\n\n"], Value::Null)] {
        let stop = stop.into_iter().map(str::to_owned).collect();
        let rules = ReplyRules { stop, ..ReplyRules::default() };
        let request = ModelRequest { rules: &rules, ..scripted::request() };
        assert_eq!(rendered(&request, ProviderProfile::OTHER)["stop_sequences"], sent);
    }
}

#[test]
fn several_answers_are_one_turn() {
    let calls = vec![call("a", json!({"x": 1})), call("b", json!("{\"x\":"))];
    let conversation = [
        Message::User { content: "1+2?".into() },
        Message::Assistant { content: "Well".into(), tool_calls: calls },
        tool("a", "3"),
        tool("b", "no JSON"),
        Message::Assistant { content: "3".into(), tool_calls: vec![] },
        Message::User { content: "Sure?".into() },
    ];
    assert_eq!(
        messages(&conversation),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "1+2?"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "Well"},
                {"type": "tool_use", "id": "a", "name": "add", "input": {"x": 1}},
                {"type": "tool_use", "id": "b", "name": "add", "input": {"_invalid": "{\"x\":"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "3"},
                {"type": "tool_result", "tool_use_id": "b", "content": "no JSON"},
            ]},
            {"role": "assistant", "content": [{"type": "text", "text": "3"}]},
            {"role": "user", "content": [{"type": "text", "text": "Sure?"}]},
        ])
    );
}

#[test]
fn instructions_stand_beside_the_turns_the_first_of_which_is_the_users() {
    let system = |content: &str| Message::System { content: content.into() };
    let said = |content: &str| Message::Assistant { content: content.into(), tool_calls: vec![] };
    let conversation = [system("be kind"), said("Hello!"), system(" "), system("be brief"), said("Well?")];
    let request = ModelRequest { messages: &conversation, ..scripted::request() };
    let mut sent = rendered(&request, ProviderProfile::OTHER);
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(sent["system"].take(), json!([text("be kind"), text("be brief")]));
    assert_eq!(
        sent["messages"].take(),
        json!([
            {"role": "user", "content": [text("(no text)")]},
            {"role": "assistant", "content": [text("Hello!"), text("Well?")]},
        ])
    );
    let plain = rendered(&scripted::request(), ProviderProfile::OTHER);
    assert_eq!(plain.get("system"), None);
}

#[test]
fn no_block_is_without_text_and_no_turn_without_blocks() {
    let conversation = [
        Message::User { content: " \n".into() },
        Message::Assistant { content: " ".into(), tool_calls: vec![] },
        Message::User { content: "Hello?".into() },
        Message::Assistant { content: "\n".into(), tool_calls: vec![call("a", json!({}))] },
        tool("a", ""),
    ];
    assert_eq!(
        messages(&conversation),
        json!([
            {"role": "user", "content": [
                {"type": "text", "text": "(no text)"}, {"type": "text", "text": "Hello?"},
            ]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "add", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
        ])
    );
}

#[test]
fn images_are_blocks_and_stand_where_the_user_put_them() {
    let image = |url: &str| ContentPart::Image(Image::new(url, Some(ImageDetail::High)).unwrap());
    let text = |text: &str| ContentPart::Text { text: text.into() };
    let remote = "https://example.com/a.gif?b=c";
    let parts = vec![text("this:"), image("data:image/webp;base64,AAA="), text(" "), image(remote)];
    let conversation = [Message::User { content: UserContent::of_parts(parts) }];
    assert_eq!(
        messages(&conversation),
        json!([{"role": "user", "content": [
            {"type": "text", "text": "this:"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": "AAA="}},
            {"type": "image", "source": {"type": "url", "url": remote}},
        ]}])
    );
}

#[test]
fn ids_and_names_of_another_provider_are_made_acceptable() {
    let odd = ToolCall { id: "call:1|é".into(), name: "functions.add".into(), arguments: json!({}) };
    let sent = messages(&[
        Message::Assistant { content: String::new(), tool_calls: vec![odd] },
        tool("call:1|é", "3"),
    ]);
    let tool_use = &sent[1]["content"][0];
    assert_eq!(tool_use["name"], "functions_add");
    assert_eq!(tool_use["id"], sent[2]["content"][0]["tool_use_id"]);
    assert!(tool_use["id"].as_str().unwrap().chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
}

#[test]
fn parameters_are_within_bounds() {
    let temperature = |temperature, profile| {
        rendered(&ModelRequest { temperature, ..scripted::request() }, profile)["temperature"].take()
    };
    assert_eq!(temperature(0.0, ProviderProfile::OTHER), 0.0);
    assert_eq!(temperature(0.7, ProviderProfile::OTHER), 0.7);
    assert_eq!(temperature(2.0, ProviderProfile::OTHER), 1.0);
    assert_eq!(
        temperature(2.0, ProviderProfile { temperature: false, ..ProviderProfile::OTHER }),
        Value::Null
    );
    let tokens = |most_tokens| {
        rendered(&scripted::request(), ProviderProfile { most_tokens, ..ProviderProfile::OTHER })["max_tokens"].take()
    };
    assert_eq!([None, Some(64), Some(4096)].map(tokens), [100, 64, 100]);
}

#[test]
fn tools_are_rendered() {
    let schema = json!({"type": "object"});
    let json: Value =
        serde_json::from_str(Anthropic.render_tool("add", "Adds.", &schema).unwrap().get()).unwrap();
    assert_eq!(json, json!({"name": "add", "description": "Adds.", "input_schema": schema}));
}

/// The table of replies: what is said, and why it ends there.
#[test]
fn every_reply_has_its_row() {
    let text = |text: &str| json!([{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": text}]);
    let explained = json!({"type": "refusal", "explanation": "It is dangerous."});
    for (body, content, finish) in [
        (json!({"content": text("hi"), "stop_reason": "end_turn"}), "hi", Finish::Done),
        (json!({"content": text("hi"), "stop_reason": "stop_sequence"}), "hi", Finish::Done),
        (json!({"content": text("hi"), "stop_reason": "pause_turn"}), "hi", Finish::Done),
        (json!({"content": [], "stop_reason": "end_turn"}), "", Finish::Done),
        (json!({"content": [], "stop_reason": null}), "", Finish::Done),
        (json!({"content": text("hi"), "stop_reason": "max_tokens"}), "hi", Finish::Length),
        (json!({"content": [], "stop_reason": "model_context_window_exceeded"}), "", Finish::Length),
        (json!({"content": text("I"), "stop_reason": "refusal"}), "I", Finish::ContentFilter),
        (json!({"content": [], "stop_reason": "refusal"}), "", Finish::ContentFilter),
        (json!({"content": null, "stop_reason": "refusal"}), "", Finish::ContentFilter),
        (json!({"content": [], "stop_reason": "refusal", "stop_details": explained}), "It is dangerous.", {
            Finish::ContentFilter
        }),
    ] {
        let reply = reply(&body);
        assert_eq!((reply.content.as_str(), reply.finish), (content, finish), "{body}");
    }
}

#[test]
fn a_reply_is_read() {
    let body = json!({
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Let me "},
            {"type": "text", "text": "see."},
            {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"x": 1}},
            {"type": "tool_use", "id": "toolu_1", "name": "add", "input": null},
            {"type": "tool_use", "name": "add", "input": [1]},
            {"type": "something_new", "x": [1]},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100,
                  "output_tokens": 5},
    });
    let calls =
        vec![call("toolu_1", json!({"x": 1})), call("call_2", json!({})), call("call_3", json!("[1]"))];
    assert_eq!(
        reply(&body),
        ModelReply {
            content: "Let me see.".into(),
            tool_calls: calls,
            usage: Some(Usage { cached_tokens: 100, kept_tokens: 10, ..Usage::of(111, 5) }),
            finish: Finish::Done,
            model: "anthropic/m".into(),
        }
    );
}

#[test]
fn usage_is_read_where_a_provider_counts_and_is_kept_plausible() {
    let most = Usage { cached_tokens: 10_000_000, ..Usage::of(10_000_000, 10_000_000) };
    for (usage, expected) in [
        (json!({"cache_read_input_tokens": 1}), None),
        (json!({"input_tokens": 0, "output_tokens": 4}), None),
        (
            json!({"input_tokens": 3, "cache_creation_input_tokens": null, "output_tokens": 4}),
            Some(Usage::of(3, 4)),
        ),
        (
            json!({"input_tokens": 1, "cache_read_input_tokens": u64::MAX, "output_tokens": u64::MAX}),
            Some(most),
        ),
    ] {
        assert_eq!(reply(&json!({"content": [], "usage": usage})).usage, expected, "{usage}");
    }
}

#[test]
fn a_reply_holds_no_more_than_128_calls() {
    let asking = |count| {
        let mut blocks = vec![json!({"type": "tool_use", "name": "add"}); count];
        // Other blocks do not count.
        blocks.push(json!({"type": "text", "text": "a"}));
        json!({ "content": blocks })
    };
    assert_eq!(reply(&asking(128)).tool_calls.len(), 128);
    insta::assert_snapshot!(problem(&asking(129).to_string()), @"it holds more than 128 tool calls");
}

#[test]
fn what_is_no_reply_is_named() {
    insta::assert_snapshot!(problem("{}"), @"it holds no content");
    insta::assert_snapshot!(problem("<html>"), @"it is not JSON: expected value at line 1 column 1");
    insta::assert_snapshot!(problem(r#"{"content":[{"text":"a"}]}"#), @"it has not the shape of a reply: missing field `type`");
}

/// Where blocks are marked, as JSON pointers.
fn marks(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("cache_control") {
                assert_eq!(fields["cache_control"], json!({ "type": "ephemeral" }));
                found.push(at.to_owned());
            }
            fields.iter().for_each(|(name, value)| marks(value, &format!("{at}/{name}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| marks(value, &format!("{at}/{index}"), found));
        }
        _ => {}
    }
}

#[test]
fn what_later_calls_begin_with_is_kept_and_is_the_same_from_call_to_call() {
    let conversation = [
        Message::System { content: "be kind".into() },
        Message::User { content: "1+2?".into() },
        Message::Assistant { content: String::new(), tool_calls: vec![call("a", json!({"x": 1}))] },
        tool("a", "3"),
    ];
    let tools = RawValue::from_string("[{}]".to_owned()).unwrap();
    let sent = |messages: &[Message], tools: Option<&RawValue>, prompt_cache: bool| {
        let request = ModelRequest { messages, ..scripted::request() };
        body_of(&request, tools, ProviderProfile { prompt_cache, ..ProviderProfile::OTHER })
    };
    let marked = |value: &Value| {
        let mut found = Vec::new();
        marks(value, "", &mut found);
        found
    };
    let (first, second) =
        (sent(&conversation[..2], Some(&tools), true), sent(&conversation, Some(&tools), true));
    assert_eq!(marked(&first), ["/messages/0/content/0", "/system/0"]);
    assert_eq!(marked(&second), ["/messages/2/content/0", "/system/0"]);
    for unmarked in [sent(&conversation, Some(&tools), false), sent(&conversation, None, true)] {
        assert_eq!(marked(&unmarked), [] as [&str; 0]);
    }
    // But for the mark, which providers do not count, the second call begins with all of the first.
    let bare = |messages: &[Message]| sent(messages, Some(&tools), false);
    let (first, second) = (bare(&conversation[..2]), bare(&conversation));
    assert_eq!((&first["system"], &first["messages"][0]), (&second["system"], &second["messages"][0]));
}

#[test]
fn what_replies_have_to_keep_to_is_asked_for_as_the_server_can() {
    let schema = json!({"type": "object"});
    let format = |schema| Some(OutputFormat { name: "sum".into(), schema });
    let rules =
        |output| ReplyRules { output, stop: vec!["END".into()], one_call: true, ..ReplyRules::default() };
    let tools = to_raw_value(&json!([])).unwrap();
    let native = Anthropic.initial_profile(&Url::parse("https://api.anthropic.com").unwrap());
    let rendered = |rules: &ReplyRules, tool_choice: ToolChoice<'_>, profile| {
        body_of(&ModelRequest { rules, tool_choice, ..scripted::request() }, Some(&tools), profile)
    };
    let wanted = rules(format(Some(schema.clone())));
    let own = rendered(&wanted, ToolChoice::Tool("add"), native);
    assert_eq!(own["output_config"], json!({"format": {"type": "json_schema", "schema": schema}}));
    let choice = json!({"type": "tool", "name": "add", "disable_parallel_tool_use": true});
    assert_eq!((&own["tool_choice"], &own["stop_sequences"]), (&choice, &json!(["END"])));
    assert_eq!(own["system"], json!(null));
    for (rules, profile) in
        [(rules(format(None)), native), (wanted, ProviderProfile { output_format: false, ..native })]
    {
        let told = rendered(&rules, ToolChoice::Auto, profile);
        assert_eq!(told["output_config"], json!(null));
        assert!(told["system"][0]["text"].as_str().unwrap().starts_with("Your final answer has to be"));
        assert_eq!(told["tool_choice"]["type"], "auto");
    }
}

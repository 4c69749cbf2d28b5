//! Tables of conversations and replies.

use agent_core::words::{Image, ReplyRules};
use serde_json::json;

use super::*;
use crate::scripted;

fn call(id: &str, arguments: Value) -> ToolCall {
    ToolCall { id: id.into(), name: "add".into(), arguments }
}

fn rendered(messages: &[Message], profile: ProviderProfile) -> Value {
    body_of(&ModelRequest { messages, ..scripted::request() }, None, profile)
}

fn body_of(request: &ModelRequest<'_>, tools: Option<&RawValue>, profile: ProviderProfile) -> Value {
    let prompt = Prompt { model: "m", request, tools, profile, stream: false };
    serde_json::to_value(super::request(prompt)).unwrap()
}

fn reply(body: &Value) -> ModelReply {
    super::reply(body.to_string().as_bytes(), &scripted::request(), "openai/m").unwrap()
}

fn message(message: &Value) -> ModelReply {
    reply(&json!({"choices": [{"message": message, "finish_reason": "stop"}]}))
}

fn problem(body: &str) -> String {
    super::reply(body.as_bytes(), &scripted::request(), "openai/m").unwrap_err().detail
}

#[test]
fn a_conversation_is_rendered() {
    let messages = [
        Message::System { content: "be kind".into() },
        Message::User { content: "1+2?".into() },
        Message::Assistant {
            content: String::new(),
            tool_calls: vec![call("a", json!({"x": 1})), call("b", json!("{\"x\":"))],
        },
        Message::Tool { tool_call_id: "a".into(), name: "add".into(), content: "3".into() },
        Message::Tool { tool_call_id: "b".into(), name: "add".into(), content: "no JSON".into() },
        Message::Assistant { content: String::new(), tool_calls: vec![] },
    ];
    let function = |arguments: &str| json!({"name": "add", "arguments": arguments});
    assert_eq!(
        rendered(&messages, ProviderProfile::OTHER),
        json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "be kind"},
                {"role": "user", "content": "1+2?"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "a", "type": "function", "function": function("{\"x\":1}")},
                    {"id": "b", "type": "function", "function": function(r#"{"_invalid":"{\"x\":"}"#)},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "3"},
                {"role": "tool", "tool_call_id": "b", "content": "no JSON"},
                {"role": "assistant", "content": ""},
            ],
            "max_tokens": 100,
            "temperature": 0.0,
        })
    );
}

#[test]
fn instructions_are_one_message() {
    let system = |content: &str| Message::System { content: content.into() };
    let messages = [system("You are Ada."), system("Be brief."), Message::User { content: "hi".into() }];
    assert_eq!(
        rendered(&messages, ProviderProfile::OTHER)["messages"],
        json!([
            {"role": "system", "content": "You are Ada.\n\nBe brief."},
            {"role": "user", "content": "hi"},
        ])
    );
}

#[test]
fn what_was_no_object_of_arguments_is_shown_in_one() {
    for (arguments, sent) in [
        (json!({"x": 1}), r#"{"x":1}"#),
        (json!("{\"x\":"), r#"{"_invalid":"{\"x\":"}"#),
        (json!("{} {}"), r#"{"_invalid":"{} {}"}"#),
        (json!("[1]"), r#"{"_invalid":"[1]"}"#),
        (json!(" {\"x\": 1}"), " {\"x\": 1}"),
    ] {
        assert_eq!(arguments_text(&arguments), sent);
    }
}

#[test]
fn images_are_parts_and_stand_where_the_user_put_them() {
    let image = |url: &str, detail| ContentPart::Image(Image::new(url, detail).unwrap());
    let text = |text: &str| ContentPart::Text { text: text.into() };
    let (inline, remote) = ("data:image/png;base64,AAAA", "https://example.com/a.gif?b=c");
    let parts = vec![
        text("this:"),
        image(inline, Some(ImageDetail::Low)),
        text(""),
        text("or this?"),
        image(remote, None),
    ];
    let content = UserContent::of_parts(parts);
    let sent = rendered(&[Message::User { content }], ProviderProfile::OTHER);
    assert_eq!(
        sent["messages"],
        json!([{"role": "user", "content": [
            {"type": "text", "text": "this:"},
            {"type": "image_url", "image_url": {"url": inline, "detail": "low"}},
            {"type": "text", "text": "or this?"},
            {"type": "image_url", "image_url": {"url": remote}},
        ]}])
    );
}

#[test]
fn the_profile_decides_about_parameters_and_ids() {
    let long = "x".repeat(41);
    let messages = [
        Message::Assistant { content: String::new(), tool_calls: vec![call(&long, json!({}))] },
        Message::Tool { tool_call_id: long.clone(), name: "add".into(), content: "3".into() },
    ];
    let own = rendered(&messages, ProviderProfile { temperature: false, ..ProviderProfile::OPENAI });
    assert_eq!(own["max_completion_tokens"], 100);
    assert!(own.get("max_tokens").is_none() && own.get("temperature").is_none());
    let sent = &own["messages"][0]["tool_calls"][0]["id"];
    assert!(sent.as_str().unwrap().len() <= 40);
    assert_eq!(*sent, own["messages"][1]["tool_call_id"]);
    let capped =
        |most| rendered(&messages, ProviderProfile { most_tokens: Some(most), ..ProviderProfile::OPENAI });
    assert_eq!(capped(64)["max_completion_tokens"], 64);
    assert_eq!(capped(4096)["max_completion_tokens"], 100);
    let other = rendered(&messages, ProviderProfile::OTHER);
    assert_eq!(other["messages"][0]["tool_calls"][0]["id"], long);
    let nine = rendered(&messages, ProviderProfile { nine_character_ids: true, ..ProviderProfile::OTHER });
    let sent = &nine["messages"][0]["tool_calls"][0]["id"];
    assert_eq!((sent.as_str().unwrap().len(), sent), (9, &nine["messages"][1]["tool_call_id"]));
}

#[test]
fn thoughts_that_are_not_kept_are_stood_in_for_where_a_provider_wants_them() {
    let calls = vec![call("a", json!({})), call("b", json!({}))];
    let messages = [
        Message::Assistant { content: String::new(), tool_calls: calls },
        Message::Assistant { content: "3".into(), tool_calls: vec![] },
    ];
    let sent = |thoughts| {
        let profile = ProviderProfile { thoughts, ..ProviderProfile::OTHER };
        rendered(&messages, profile)["messages"].take()
    };
    let text = sent(Some(Thoughts::Text));
    assert_eq!([&text[0], &text[1]].map(|message| &message["reasoning_content"]), [" ", " "]);
    assert!(text[0]["tool_calls"][0].get("extra_content").is_none());
    let signed = sent(Some(Thoughts::Signature));
    let signature = json!({"google": {"thought_signature": "skip_thought_signature_validator"}});
    assert_eq!(signed[0]["tool_calls"][0]["extra_content"], signature);
    assert!(signed[0]["tool_calls"][1].get("extra_content").is_none());
    assert!(signed[0].get("reasoning_content").is_none());
}

#[test]
fn tools_are_rendered() {
    let schema = json!({"type": "object"});
    let tool = OpenAi.render_tool("add", "Adds.", &schema).unwrap();
    let function = json!({"name": "add", "description": "Adds.", "parameters": schema});
    let rendered: Value = serde_json::from_str(tool.get()).unwrap();
    assert_eq!(rendered, json!({"type": "function", "function": function}));
}

#[test]
fn calls_are_read_in_every_form() {
    let asked =
        |id: Value, arguments: Value| json!({"id": id, "function": {"name": "add", "arguments": arguments}});
    let calls = json!([
        asked(json!("a"), json!("{\"x\":1}")),
        asked(json!("a"), json!("{\"x\":")),
        asked(json!(null), json!({"x": 2})),
        asked(json!(""), json!("")),
        {"function": {"name": "add"}},
        asked(json!("f"), json!([1])),
    ]);
    assert_eq!(
        message(&json!({"content": null, "tool_calls": calls})).tool_calls,
        [
            call("a", json!({"x": 1})),
            call("call_2", json!("{\"x\":")),
            call("call_3", json!({"x": 2})),
            call("call_4", json!({})),
            call("call_5", json!({})),
            call("f", json!("[1]")),
        ]
    );
    assert_eq!(message(&json!({"content": "a", "tool_calls": null})).tool_calls, []);
}

/// The table of replies: what is said, and why it ends there.
#[test]
fn every_reply_has_its_row() {
    let answer = |message: Value, finish: &str| {
        reply(&json!({"choices": [{"message": message, "finish_reason": finish}]}))
    };
    let part = |text: &str| json!({"type": "text", "text": text});
    for (message, finish, content, expected) in [
        (json!({"content": "hi"}), "stop", "hi", Finish::Done),
        (json!({"content": "hi", "reasoning_content": "hm", "reasoning": "hm"}), "stop", "hi", Finish::Done),
        (json!({"content": null, "reasoning_content": "hm"}), "stop", "", Finish::Done),
        (json!({"content": ""}), "stop", "", Finish::Done),
        (json!({}), "tool_calls", "", Finish::Done),
        (
            json!({"content": [{"type": "thinking", "thinking": []}, part("a"), part("b")]}),
            "stop",
            "ab",
            Finish::Done,
        ),
        (json!({"content": "It was a d"}), "length", "It was a d", Finish::Length),
        (json!({"content": "It was a d"}), "model_length", "It was a d", Finish::Length),
        (json!({"content": null}), "content_filter", "", Finish::ContentFilter),
        (json!(null), "content_filter", "", Finish::ContentFilter),
        (json!({"content": "It was"}), "content_filter", "It was", Finish::ContentFilter),
        (json!({"content": null}), "SAFETY", "", Finish::ContentFilter),
        (json!({"content": null, "refusal": "I won't."}), "stop", "I won't.", Finish::ContentFilter),
        (json!({"content": "", "refusal": "I won't."}), "stop", "I won't.", Finish::ContentFilter),
        (
            json!({"content": [{"type": "refusal", "refusal": "I won't."}]}),
            "stop",
            "I won't.",
            Finish::ContentFilter,
        ),
        (json!({"content": "hi", "refusal": null}), "stop", "hi", Finish::Done),
        (json!({"content": "hi", "refusal": {"odd": 1}}), "stop", "hi", Finish::Done),
        (json!({"content": "hi"}), "something_new", "hi", Finish::Done),
    ] {
        let reply = answer(message.clone(), finish);
        assert_eq!((reply.content.as_str(), reply.finish), (content, expected), "{message} {finish}");
        assert_eq!((reply.tool_calls, &*reply.model), (vec![], "openai/m"));
    }
}

#[test]
fn the_form_of_a_call_before_there_was_a_list_is_read() {
    let function = json!({"name": "add", "arguments": "{\"x\":1}"});
    let legacy = message(&json!({"content": null, "function_call": function}));
    assert_eq!(legacy.tool_calls, [call("call_1", json!({"x": 1}))]);
    let both = json!({"tool_calls": [{"id": "a", "function": function}], "function_call": function});
    assert_eq!(message(&both).tool_calls.len(), 1);
    assert_eq!(message(&json!({"content": "a", "function_call": null})).tool_calls, []);
}

#[test]
fn a_reply_that_holds_nothing_is_retryable() {
    let retryable =
        |body: &str| super::reply(body.as_bytes(), &scripted::request(), "openai/m").unwrap_err().retryable;
    for body in [
        "{}",
        r#"{"choices":[]}"#,
        r#"{"choices":null}"#,
        r#"{"choices":[{"message":null}]}"#,
        r#"{"choices":[{"message":{"content":""},"finish_reason":"error"}]}"#,
        r#"{"choices":[{"message":{"content":"It was a da"#,
    ] {
        assert!(retryable(body), "{body}");
    }
    for body in
        ["<html>", "[]", "null", r#"{"choices":7}"#, r#"{"choices":[{"message":{"content":{"a":1}}}]}"#]
    {
        assert!(!retryable(body), "{body}");
    }
}

#[test]
fn a_reply_without_a_choice_that_costs_something_is_an_empty_one() {
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 9});
    for choices in [json!([]), json!(null)] {
        let reply = reply(&json!({"choices": choices, "usage": usage, "error": null}));
        let expected = ("", Finish::Done, Some(Usage::of(7, 9)));
        assert_eq!((reply.content.as_str(), reply.finish, reply.usage), expected);
    }
    for body in [
        json!({"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}),
        json!({"choices": [], "usage": usage, "error": {"message": "busy"}}),
    ] {
        assert_eq!(problem(&body.to_string()), "it names no choice");
    }
}

#[test]
fn a_count_that_is_missing_or_a_float_leaves_the_others_known_and_is_kept_plausible() {
    let most = 10_000_000;
    for (usage, expected) in [
        (json!({"prompt_tokens": 3, "completion_tokens": 4}), Some(Usage::of(3, 4))),
        (json!({"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX}), Some(Usage::of(most, most))),
        (json!({"prompt_tokens": 900, "completion_tokens": null}), Some(Usage::of(900, 0))),
        (json!({"prompt_tokens": 900}), Some(Usage::of(900, 0))),
        (json!({"prompt_tokens": 900.0, "completion_tokens": 4.0}), Some(Usage::of(900, 4))),
        (json!({"prompt_tokens": 900, "completion_tokens": "few"}), Some(Usage::of(900, 0))),
        (json!({"prompt_tokens": 900, "completion_tokens": 1e300}), Some(Usage::of(900, most))),
        (json!({"prompt_tokens": null, "completion_tokens": 4}), None),
        (json!({"prompt_tokens": 0.5, "completion_tokens": 4}), None),
        (json!({"prompt_tokens": 0, "completion_tokens": 0}), None),
        (json!({"prompt_tokens": -1.0, "completion_tokens": 4}), None),
        (json!({"prompt_tokens": -1}), None),
        (json!({}), None),
        (json!("many"), None),
        (json!(null), None),
    ] {
        let body = json!({"choices": [{"message": {"content": "a"}, "finish_reason": null}], "usage": usage});
        let reply = reply(&body);
        assert_eq!((reply.usage, reply.finish), (expected, Finish::Done), "{usage}");
    }
}

#[test]
fn parts_of_what_was_counted_are_read_and_never_more_than_the_whole() {
    let usage = |cached: Value, reasoning: Value| {
        let usage = json!({"prompt_tokens": 3_000, "completion_tokens": 40,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": reasoning}});
        reply(&json!({"choices": [{"message": {"content": "a"}}], "usage": usage})).usage.unwrap()
    };
    let whole = Usage::of(3_000, 40);
    for (cached, reasoning) in [(json!(2_048), json!(32)), (json!(2_048.0), json!(32.0))] {
        let expected = Usage { cached_tokens: 2_048, reasoning_tokens: 32, ..whole };
        assert_eq!(usage(cached, reasoning), expected);
    }
    assert_eq!(
        usage(json!(u64::MAX), json!(41)),
        Usage { cached_tokens: 3_000, reasoning_tokens: 40, ..whole }
    );
    assert_eq!(usage(json!(null), json!("many")), whole);
}

#[test]
fn a_reply_holds_no_more_than_128_calls() {
    let asking = |count| json!({"tool_calls": vec![json!({"function": {"name": "add"}}); count]});
    assert_eq!(message(&asking(128)).tool_calls.len(), 128);
    let body = json!({"choices": [{"message": asking(129)}]}).to_string();
    insta::assert_snapshot!(problem(&body), @"it holds more than 128 tool calls");
}

#[test]
fn what_is_no_reply_is_named() {
    insta::assert_snapshot!(problem(r#"{"choices":[]}"#), @"it names no choice");
    insta::assert_snapshot!(problem(r#"{"choices":null}"#), @"it names no choice");
    insta::assert_snapshot!(problem("{}"), @"it names no choice");
    insta::assert_snapshot!(problem(r#"{"choices":[{"text":"a"}]}"#), @"its choice holds no message");
    insta::assert_snapshot!(problem("<html>"), @"it is not JSON: expected value at line 1 column 1");
    insta::assert_snapshot!(problem(""), @"it is not JSON: EOF while parsing a value at line 1 column 0");
    insta::assert_snapshot!(problem(r#"{"choices":7}"#), @"it has not the shape of a reply: invalid type: integer `7`, expected a sequence");
}

#[test]
fn the_own_address_is_recognized() {
    let own = |url: &str| is_own_address(&Url::parse(url).unwrap());
    assert!(own("https://api.openai.com/v1") && own("https://eu.api.openai.com/v1"));
    assert!(!own("https://notapi.openai.com/v1") && !own("http://api.openai.com.example/v1"));
}

#[test]
fn requests_that_begin_alike_have_one_cache_key() {
    let key = |instructions: &str, profile: ProviderProfile| {
        let messages =
            [Message::System { content: instructions.into() }, Message::User { content: "whatever".into() }];
        rendered(&messages, profile)["prompt_cache_key"].take()
    };
    let kind = key("be kind", ProviderProfile::OPENAI);
    assert!(kind.as_str().unwrap().starts_with("agent-host-"), "{kind}");
    assert_eq!(kind, key("be kind", ProviderProfile::OPENAI));
    assert_ne!(kind, key("be brief", ProviderProfile::OPENAI));
    assert_eq!(key("be kind", ProviderProfile::OTHER), Value::Null, "others may not know the parameter");
}

#[test]
fn what_replies_have_to_keep_to_is_asked_for_as_the_server_can() {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let output = Some(OutputFormat { name: "sum".into(), schema: Some(schema.clone()) });
    let rules = ReplyRules { output, stop: vec!["END".into()], one_call: true, ..ReplyRules::default() };
    let messages = [Message::System { content: "be kind".into() }, Message::User { content: "1+2?".into() }];
    let tools = to_raw_value(&json!([])).unwrap();
    let rendered = |tools: Option<&RawValue>, tool_choice: ToolChoice<'_>, profile| {
        let request = ModelRequest { messages: &messages, rules: &rules, tool_choice, ..scripted::request() };
        body_of(&request, tools, profile)
    };
    let native =
        json!({"type": "json_schema", "json_schema": {"name": "sum", "schema": schema, "strict": true}});
    let own = rendered(Some(&tools), ToolChoice::Tool("add"), ProviderProfile::OPENAI);
    assert_eq!(own["response_format"], native);
    assert_eq!(own["tool_choice"], json!({"type": "function", "function": {"name": "add"}}));
    assert_eq!((&own["stop"], &own["parallel_tool_calls"]), (&json!(["END"]), &json!(false)));
    assert_eq!(own["messages"].as_array().unwrap().len(), 2);
    // A grammar would keep the model from calling tools.
    let other = rendered(Some(&tools), ToolChoice::Required, ProviderProfile::OTHER);
    assert_eq!((&other["response_format"], &other["tool_choice"]), (&json!(null), &json!("required")));
    let roles: Vec<_> = other["messages"].as_array().unwrap().iter().map(|one| one["role"].clone()).collect();
    assert_eq!(roles, ["system", "user"]);
    let told = other["messages"][0]["content"].as_str().unwrap();
    assert!(
        told.starts_with("be kind\n\nYour final answer") && told.contains(r#""additionalProperties":false"#)
    );
    for free in [None, Some(&*tools)] {
        let asked = rendered(free, ToolChoice::None, ProviderProfile::OTHER);
        assert_eq!(asked["response_format"], native);
    }
    let poor =
        ProviderProfile { output_format: false, one_call: false, stop: false, ..ProviderProfile::OPENAI };
    let poor = rendered(Some(&tools), ToolChoice::Auto, poor);
    for absent in ["response_format", "tool_choice", "stop", "parallel_tool_calls"] {
        assert_eq!(poor[absent], json!(null), "{absent}");
    }
}

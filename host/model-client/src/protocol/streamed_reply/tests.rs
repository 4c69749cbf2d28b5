//! Streams of both providers are the replies that they would have sent at once. That pieces of any size give
//! the same is proved by the fuzz targets `openai_stream` and `anthropic_stream`.

use agent_core::words::{Finish, ModelReply, ToolCall, Usage};
use serde_json::{Value, json};

use super::*;
use crate::protocol::Protocol;
use crate::protocol::anthropic::Anthropic;
use crate::protocol::openai::OpenAi;
use crate::scripted;

/// What OpenAI sends for words and two calls at once.
fn openai() -> String {
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m",
               "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": null})
    };
    let call = |index: u64, id: Value, name: Value, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
    };
    let chunks = [
        chunk(json!({"role": "assistant", "content": "", "refusal": null}), json!(null)),
        chunk(json!({"content": "Let me "}), json!(null)),
        chunk(json!({"content": "sé."}), json!(null)),
        chunk(call(0, json!("a"), json!("add"), ""), json!(null)),
        chunk(call(0, json!(null), json!(null), "{\"x\":"), json!(null)),
        chunk(call(1, json!("b"), json!("add"), "{\"x\":2}"), json!(null)),
        chunk(call(0, json!(null), json!(null), "1}"), json!(null)),
        chunk(json!({}), json!("tool_calls")),
        json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16,
            "prompt_tokens_details": {"cached_tokens": 3}}}),
    ];
    let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    format!("{events}data: [DONE]\n\n")
}

/// What Anthropic sends for the same.
fn anthropic() -> String {
    let block = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let text = |text: &str| json!({"type": "text_delta", "text": text});
    let input = |json: &str| json!({"type": "input_json_delta", "partial_json": json});
    let tool = |id: &str| json!({"type": "tool_use", "id": id, "name": "add", "input": {}});
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": {
            "input_tokens": 4, "cache_read_input_tokens": 3, "output_tokens": 1}}}),
        block(0, json!({"type": "text", "text": ""})),
        json!({"type": "ping"}),
        delta(0, text("Let me ")),
        delta(0, text("sé.")),
        json!({"type": "content_block_stop", "index": 0}),
        block(1, tool("a")),
        delta(1, input("")),
        delta(1, input("{\"x\":")),
        delta(1, input("1}")),
        block(2, tool("b")),
        delta(2, input("{\"x\":2}")),
        block(3, json!({"type": "thinking", "thinking": ""})),
        delta(3, json!({"type": "thinking_delta", "thinking": "hm"})),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ];
    let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(event).collect()
}

type Read = (Result<ModelReply, UnreadableReply>, String);

/// The reply of a stream that came at once, and the text that came on the way.
fn whole(protocol: &dyn Protocol, stream: &str) -> Read {
    let mut reply = StreamedReply::new(protocol.assembler());
    let told = reply.push(stream.as_bytes());
    let body = reply.into_body();
    (body.and_then(|body| protocol.read_reply(&body, &scripted::request(), "m")), told)
}

fn expected() -> ModelReply {
    let call = |id: &str, x: u64| ToolCall { id: id.into(), name: "add".into(), arguments: json!({"x": x}) };
    ModelReply {
        content: "Let me sé.".into(),
        tool_calls: vec![call("a", 1), call("b", 2)],
        usage: Some(Usage { cached_tokens: 3, ..Usage::of(7, 9) }),
        finish: Finish::Done,
        model: "m".into(),
    }
}

fn both() -> [(&'static dyn Protocol, String); 2] {
    [(&OpenAi, openai()), (&Anthropic, anthropic())]
}

#[test]
fn a_stream_is_the_reply_that_would_have_been_sent_at_once() {
    for (protocol, stream) in both() {
        let (reply, told) = whole(protocol, &stream);
        assert_eq!((reply.unwrap(), told.as_str()), (expected(), "Let me sé."));
    }
}

#[test]
fn a_stream_that_ends_before_it_says_why_is_no_reply() {
    for (protocol, stream) in both() {
        let reason =
            if protocol.prefix() == "openai" { "\"finish_reason\":\"" } else { "\"stop_reason\":\"" };
        let end = stream.find(reason).unwrap();
        let (reply, _) = whole(protocol, &stream[..stream[..end].rfind("\n\n").unwrap() + 2]);
        let unreadable = reply.unwrap_err();
        assert!(unreadable.retryable && unreadable.truncated, "{unreadable:?}");
        // After it nothing is missed.
        let (reply, _) = whole(protocol, stream.trim_end_matches("data: [DONE]\n\n"));
        assert_eq!(reply.unwrap(), expected());
    }
}

#[test]
fn a_stream_of_nothing_but_its_usage_is_an_empty_reply_once_it_has_ended() {
    let count = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":9}}\n\n";
    let end = "data: [DONE]\n\n";
    let (reply, _) = whole(&OpenAi, &format!("{count}{end}"));
    let expected =
        ModelReply { content: String::new(), tool_calls: vec![], usage: Some(Usage::of(7, 9)), ..expected() };
    assert_eq!(reply.unwrap(), expected);
    let begun = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n";
    for broken in [count.to_owned(), end.to_owned(), format!("{begun}{count}{end}")] {
        assert!(whole(&OpenAi, &broken).0.unwrap_err().truncated, "{broken}");
    }
}

#[test]
fn half_an_event_behind_a_whole_reply_spoils_nothing() {
    for (protocol, stream) in both() {
        let reason =
            if protocol.prefix() == "openai" { "\"finish_reason\":\"" } else { "\"stop_reason\":\"" };
        let at = stream.find(reason).unwrap();
        let (before, behind) =
            (stream[..at].rfind("\n\n").unwrap() + 2, at + stream[at..].find("\n\n").unwrap() + 2);
        let is_whole = |stream: &str| {
            let mut reply = StreamedReply::new(protocol.assembler());
            reply.push(stream.as_bytes());
            reply.is_whole()
        };
        assert!(!is_whole(&stream[..before]) && is_whole(&stream[..behind]) && is_whole(&stream));
        let half = "data: {\"type\":\"mess";
        let (reply, _) = whole(protocol, &format!("{}{half}", &stream[..behind]));
        assert_eq!(reply.unwrap().tool_calls, expected().tool_calls);
        assert!(whole(protocol, &format!("{}{half}", &stream[..before])).0.is_err());
    }
}

#[test]
fn nothing_behind_a_whole_reply_spoils_it_but_the_error_that_it_ended_with() {
    let error = r#"{"error":{"type":"server_error","message":"the usage cannot be counted"}}"#;
    for (protocol, stream) in both() {
        let reason =
            if protocol.prefix() == "openai" { "\"finish_reason\":\"" } else { "\"stop_reason\":\"" };
        let at = stream.find(reason).unwrap();
        let behind = at + stream[at..].find("\n\n").unwrap() + 2;
        let garbage = "x".repeat(MOST_EVENT_BYTES + 1);
        for more in [error, r#"{"type":"error","error":{"message":"m"}}"#, "<html>", "", &garbage] {
            let mut reply = StreamedReply::new(protocol.assembler());
            reply.push(&stream.as_bytes()[..behind]);
            reply.push(format!("data: {more}\n\n").as_bytes());
            assert!(reply.is_whole(), "{more:.30}");
            let body = reply.into_body().unwrap();
            let reply = protocol.read_reply(&body, &scripted::request(), "m").unwrap();
            assert_eq!(reply.tool_calls, expected().tool_calls);
        }
    }
    let failed = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"},\"finish_reason\":\"error\"}]}\n\n";
    let (reply, told) = whole(&OpenAi, &format!("{failed}data: {error}\n\n"));
    assert_eq!((reply.is_err(), told.as_str()), (true, "half"));
}

#[test]
fn errors_within_a_stream_and_what_is_no_event_are_told_apart() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    for (protocol, stream) in both() {
        let mut reply = StreamedReply::new(protocol.assembler());
        reply.push(stream[..stream.len() / 2].rsplit_once("\n\n").unwrap().0.as_bytes());
        reply.push(format!("\n\ndata: {error}\n\n").as_bytes());
        assert!(reply.is_over());
        let body: Value = serde_json::from_slice(&reply.into_body().unwrap()).unwrap();
        assert_eq!(body["error"]["message"], "Overloaded");
        for broken in ["data: {\n\n", "data: <html>\n\n"] {
            assert!(whole(protocol, broken).0.is_err(), "{broken}");
        }
    }
}

#[test]
fn an_error_within_a_stream_may_be_a_list() {
    let error = r#"[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]"#;
    let mut reply = StreamedReply::new(OpenAi.assembler());
    reply.push(format!("data: {error}\n\n").as_bytes());
    assert_eq!(reply.into_body().unwrap(), error.as_bytes());
}

/// What OpenAI sends for these calls or parts of calls.
fn chunk_of_calls(calls: &[&str]) -> String {
    let calls = calls.join(",");
    format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{calls}]}},\"finish_reason\":null}}]}}\n\n")
}

const END_WITH_CALLS: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n";

#[test]
fn imitators_of_openai_are_understood() {
    // Without indexes, without ids, with arguments as JSON.
    for calls in [
        [
            r#"{"id":"a","function":{"name":"add","arguments":"{\"x\""}}"#,
            r#"{"function":{"arguments":":1}"}}"#,
            r#"{"id":"b","function":{"name":"add","arguments":{"x":2}}}"#,
        ],
        [
            r#"{"index":5,"id":"a","function":{"name":"add","arguments":"{\"x\""}}"#,
            r#"{"index":5,"id":"","function":{"name":"","arguments":":1}"}}"#,
            r#"{"index":7,"id":"b","function":{"name":"add","arguments":"{\"x\":2}"}}"#,
        ],
    ] {
        let stream: String = calls.iter().map(|call| chunk_of_calls(&[*call])).collect();
        let (reply, _) = whole(&OpenAi, &(stream + END_WITH_CALLS));
        assert_eq!(reply.unwrap().tool_calls, expected().tool_calls);
    }
    let repeated = concat!(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"other\"}}],\"usage\":{\"prompt_tokens\":-1}}\n\n",
    );
    let (reply, told) = whole(&OpenAi, repeated);
    let reply = reply.unwrap();
    assert_eq!((reply.content.as_str(), told.as_str(), reply.usage), ("hi", "hi", None));
}

/// Gemini's endpoint gives every call of a reply the index 0.
#[test]
fn calls_that_share_an_index_are_told_apart_by_their_ids() {
    let first = r#"{"index":0,"id":"a","function":{"name":"add","arguments":"{\"x\":1}"}}"#;
    let second = r#"{"index":0,"id":"b","function":{"name":"add","arguments":"{\"x\":2}"}}"#;
    let begins_first = r#"{"index":0,"id":"a","function":{"name":"add","arguments":"{\"x\""}}"#;
    let begins_second = r#"{"index":0,"id":"b","function":{"name":"add","arguments":"{\"x\""}}"#;
    let streams: [&[&[&str]]; 6] = [
        &[&[first, second]],
        &[&[first], &[second]],
        // The newest call of an index goes on where a delta names none, or the id of none.
        &[&[first], &[begins_second], &[r#"{"index":0,"function":{"arguments":":2}"}}"#]],
        &[&[first], &[begins_second], &[r#"{"index":0,"id":"","function":{"name":"","arguments":":2}"}}"#]],
        &[&[first], &[begins_second], &[r#"{"index":0,"id":"c","function":{"arguments":":2}"}}"#]],
        // Each delta says all that is known of its call.
        &[
            &[begins_first],
            &[begins_second],
            &[r#"{"index":0,"id":"b","function":{"name":"add","arguments":":2}"}}"#],
            &[r#"{"index":0,"id":"a","function":{"name":"add","arguments":":1}"}}"#],
        ],
    ];
    for chunks in streams {
        let stream: String = chunks.iter().map(|calls| chunk_of_calls(calls)).collect();
        let (reply, _) = whole(&OpenAi, &(stream + END_WITH_CALLS));
        assert_eq!(reply.unwrap().tool_calls, expected().tool_calls, "{chunks:?}");
    }
}

#[test]
fn too_many_calls_are_refused_while_they_come() {
    let many: String = (0..200)
        .map(|n| format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{n},\"function\":{{\"name\":\"a\"}}}}]}}}}]}}\n\n"))
        .collect();
    let mut reply = StreamedReply::new(OpenAi.assembler());
    reply.push(many.as_bytes());
    assert!(reply.is_over());
    assert_eq!(reply.into_body().unwrap_err().detail, "it holds more than 128 tool calls");
}

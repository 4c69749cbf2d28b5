//! Streamed replies over HTTP, and providers that stop, stall, repeat or lie on the way.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

use agent_core::ports::{Deltas, Model, ModelError, ModelRequest};
use agent_core::words::{Finish, ModelReply, Usage};
use model_client::Provider;
use serde_json::json;

use crate::call::{both, model, openai, request, retrying};
use crate::provider::{Answer, ScriptedProvider};

/// Collects what is told; a reset is `|`.
#[derive(Default)]
struct RecordedDeltas(Mutex<String>);

impl Deltas for RecordedDeltas {
    fn text(&self, text: &str) {
        self.0.lock().push_str(text);
    }

    fn reset(&self) {
        self.0.lock().push('|');
    }
}

impl RecordedDeltas {
    fn text(&self) -> String {
        self.0.lock().clone()
    }
}

/// The events of a reply, the reason for its end apart from the words.
fn events(protocol: Provider, words: &[&str]) -> (String, String) {
    match protocol.prefix() {
        "openai" => {
            let chunk = |word: &&str| json!({"choices": [{"index": 0, "delta": {"content": word}}]});
            let words = words.iter().map(|word| format!("data: {}\n\n", chunk(word))).collect();
            let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
                             "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
            (words, format!("data: {end}\n\ndata: [DONE]\n\n"))
        }
        _ => {
            let start = json!({"type": "message_start", "message": {"usage": {"input_tokens": 3}}});
            let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
            let delta = |word: &&str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}});
            let words = words.iter().map(|word| format!("data: {}\n\n", delta(word)));
            let words =
                [start, block].iter().map(|event| format!("data: {event}\n\n")).chain(words).collect();
            let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}});
            (words, format!("data: {end}\n\ndata: {{\"type\":\"message_stop\"}}\n\n"))
        }
    }
}

fn stream(body: &str) -> Answer {
    Answer::text(200, body).with("content-type", "text/event-stream; charset=utf-8")
}

/// A stream whose connection is closed, or kept open, after these bytes.
fn open_stream(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n",
        body.len()
    )
}

async fn ask(
    protocol: Provider,
    script: impl IntoIterator<Item = Answer>,
) -> (Result<ModelReply, ModelError>, String, usize) {
    let (told, provider) = (RecordedDeltas::default(), ScriptedProvider::start(protocol, script).await);
    let request = ModelRequest { deltas: Some(&told), ..request() };
    let reply = retrying(protocol, &provider).complete(request).await;
    let asked = provider.requests();
    assert!(asked.iter().any(|request| request.body["stream"] == true));
    (reply, told.text(), asked.len())
}

#[tokio::test]
async fn words_are_told_while_the_reply_is_written() {
    for protocol in both() {
        let (words, end) = events(protocol, &["Hel", "lo"]);
        let (reply, told, asked) = ask(protocol, [stream(&(words + &end))]).await;
        let reply = reply.unwrap();
        assert_eq!((reply.content.as_str(), told.as_str(), asked), ("Hello", "Hello", 1));
        assert_eq!(reply.usage, Some(Usage::of(3, 4)));
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_asked_for_again_and_what_was_told_is_taken_back() {
    for protocol in both() {
        let (words, end) = events(protocol, &["Hel", "lo"]);
        let whole = stream(&format!("{words}{end}"));
        for broken in [
            // The stream ends well, but without a reason.
            stream(&words),
            // The connection breaks.
            Answer::Raw(open_stream(&words)),
            stream(&format!(
                "{words}data: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}}}\n\n"
            )),
        ] {
            let (reply, told, asked) = ask(protocol, [broken.clone(), whole.clone()]).await;
            assert_eq!(reply.unwrap().content, "Hello", "{broken:?}");
            assert_eq!((told.as_str(), asked), ("Hello|Hello", 2), "{broken:?}");
        }
    }
}

#[tokio::test]
async fn a_filter_that_stops_a_stream_ends_the_reply_and_is_not_asked_again() {
    let said = "Output blocked by content filtering policy";
    for protocol in both() {
        let (words, _) = events(protocol, &["Hel"]);
        let error = json!({"type": "error", "error": {"message": said}});
        let (reply, told, asked) = ask(protocol, [stream(&format!("{words}data: {error}\n\n"))]).await;
        let reply = reply.unwrap();
        assert_eq!((reply.content.as_str(), reply.finish), (said, Finish::ContentFilter));
        assert_eq!((told.as_str(), asked), ("Hel", 1));
    }
}

#[tokio::test]
async fn a_stream_that_ends_with_a_call_nobody_can_read_is_asked_for_again() {
    let error = json!({"message": "Failed to call a function.", "type": "invalid_request_error",
                       "code": "tool_use_failed", "failed_generation": "<function=add"});
    let (words, end) = events(openai(), &["Hel", "lo"]);
    let failed = stream(&format!("{words}event: error\ndata: {}\n\n", json!({ "error": error })));
    let (reply, told, asked) = ask(openai(), [failed, stream(&format!("{words}{end}"))]).await;
    assert_eq!((reply.unwrap().content.as_str(), told.as_str(), asked), ("Hello", "Hello|Hello", 2));
}

/// The events of a whole reply, without those that may follow.
fn whole_reply(protocol: Provider) -> String {
    let (words, end) = events(protocol, &["Hel", "lo"]);
    let (reason, _last) = end.split_once("\n\n").unwrap();
    format!("{words}{reason}\n\n")
}

#[tokio::test]
async fn a_connection_that_breaks_behind_a_whole_reply_spoils_nothing() {
    for protocol in both() {
        for behind in ["", ": ping\n\n", "data: {\"choices\":[],\"us"] {
            let broken = Answer::Raw(open_stream(&(whole_reply(protocol) + behind)));
            let (reply, told, asked) = ask(protocol, [broken]).await;
            let reply = reply.unwrap();
            assert_eq!((reply.content.as_str(), told.as_str(), asked), ("Hello", "Hello", 1), "{behind}");
            assert_eq!(reply.usage, Some(Usage::of(3, 4)), "{behind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_keeps_the_connection_open_behind_a_whole_reply_is_not_waited_for() {
    for protocol in both() {
        let begun = tokio::time::Instant::now();
        let (reply, told, asked) =
            ask(protocol, [Answer::Stalled(open_stream(&whole_reply(protocol)))]).await;
        assert_eq!((reply.unwrap().content.as_str(), told.as_str(), asked), ("Hello", "Hello", 1));
        let took = begun.elapsed();
        assert!((2..30).contains(&took.as_secs()), "{took:?}");
    }
}

#[tokio::test]
async fn a_stream_that_stalls_is_given_up_at_the_deadline() {
    for protocol in both() {
        let (words, _) = events(protocol, &["Hel"]);
        let provider = ScriptedProvider::start(protocol, [Answer::Stalled(open_stream(&words))]).await;
        let told = RecordedDeltas::default();
        let deadline = Instant::now() + Duration::from_millis(300);
        let request = ModelRequest { deltas: Some(&told), deadline, ..request() };
        let error = retrying(protocol, &provider).complete(request).await.unwrap_err();
        assert!(matches!(error, ModelError::Timeout { .. }), "{error}");
        assert_eq!(told.text(), "Hel|");
    }
}

/// Local servers answer the head at once and read the prompt then; models that reason send nothing meanwhile.
#[tokio::test(start_paused = true)]
async fn a_provider_that_is_silent_within_the_deadline_is_waited_for() {
    for protocol in both() {
        let (words, end) = events(protocol, &["Hel", "lo"]);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let silent = Answer::Silent(head.into(), Duration::from_secs(25), format!("{words}{end}"));
        let (reply, told, asked) = ask(protocol, [silent]).await;
        assert_eq!((reply.unwrap().content.as_str(), told.as_str(), asked), ("Hello", "Hello", 1));
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let (reply, told, asked) = ask(openai(), [Answer::reply(openai(), "hi")]).await;
    assert_eq!((reply.unwrap().content.as_str(), told.as_str(), asked), ("hi", "", 1));
    let refused = Answer::error(400, "Unrecognized request argument supplied: stream_options");
    let (reply, told, asked) = ask(openai(), [refused, Answer::reply(openai(), "hi")]).await;
    assert_eq!((reply.unwrap().content.as_str(), told.as_str(), asked), ("hi", "", 2));
}

/// A refusal that is the same without a stream is not about that.
#[tokio::test]
async fn a_server_that_refuses_to_stream_is_not_asked_to_for_a_while() {
    for (words, times, expected) in [
        ("Unrecognized request argument supplied: stream_options", 1, &[true, false, false][..]),
        ("'temperature' is not supported, with 'stream' or without it", 2, &[true, false, false, true]),
    ] {
        let answers =
            [vec![Answer::error(400, words); times], vec![Answer::reply(openai(), "hi"); 2]].concat();
        let provider = ScriptedProvider::start(openai(), answers).await;
        let (model, told) = (model(openai(), &provider), RecordedDeltas::default());
        for _ in 0..2 {
            let request = ModelRequest { deltas: Some(&told), ..request() };
            assert_eq!(model.complete(request).await.unwrap().content, "hi");
        }
        let sent = provider.requests();
        let streamed: Vec<_> = sent.iter().map(|sent| sent.body["stream"] == true).collect();
        assert_eq!(streamed, expected, "{words}");
        let is_cold = sent.last().unwrap().body.get("temperature").is_none();
        assert_eq!(is_cold, words.contains("temperature"), "{words}");
    }
}

#[tokio::test]
async fn lies_about_usage_and_lines_without_end_do_no_harm() {
    let (words, _) = events(openai(), &["hi"]);
    let lie = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
                     "usage": {"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX}});
    let (reply, ..) = ask(openai(), [stream(&format!("{words}data: {lie}\n\n"))]).await;
    assert_eq!(reply.unwrap().usage, Some(Usage::of(10_000_000, 10_000_000)));
    let (reply, told, _) =
        ask(openai(), [stream(&format!("{words}data: {}\n\n", "x".repeat(2 << 20)))]).await;
    assert!(matches!(reply, Err(ModelError::Malformed { .. })), "{reply:?}");
    assert_eq!(told, "hi|");
}

//! Streams of readers that cannot resume, while the service stops: they go on as other requests under way do.
//! What readers that can resume are told is in `bad_days/streams.rs`.

use acceptance::{Model, Service, Signal, Token, User, asks_for, eventually, says};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::json;

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

fn streamed(user: &User, path: &str) -> RequestBuilder {
    let body = json!({
        "model": "agent", "stream": true, "input": "6 * 7?", "messages": [{ "role": "user", "content": "6 * 7?" }],
    });
    user.request(Method::POST, path).body(body.to_string())
}

/// Reads until there is that text.
async fn read_until(stream: &mut Response, text: &str) -> String {
    let mut read = String::new();
    while !read.contains(text) {
        let chunk = stream.chunk().await.unwrap().unwrap_or_else(|| panic!("{text:?} in {read}"));
        read.push_str(&String::from_utf8_lossy(&chunk));
    }
    read
}

async fn wait_until_stopping(service: &Service) {
    eventually("readiness to be denied", async || (service.get("/ready").await.status == 503).then_some(()))
        .await;
}

#[tokio::test]
async fn streams_of_openais_clients_go_on_to_their_end() {
    for path in [CHAT, RESPONSES] {
        let model = Model::openai().await;
        let gate = model.pauses(asks_for("calculate", json!({ "expression": "6 * 7" })));
        model.says("It is 42.");
        let mut service = Service::variant_b().model(&model).tools(["calculator"]).start().await;
        let user = service.user(Token::of("u").premium());
        let mut stream = streamed(&user, path).send().await.unwrap();
        model.was_asked(1).await;
        service.signal(Signal::TERM);
        service.refuses_connections().await;
        gate.open();
        let rest = read_until(&mut stream, "[DONE]").await;
        assert!(rest.contains("It is 42.") && !rest.contains("stopping"), "{path}: {rest}");
        drop(stream);
        assert_eq!(service.ended().await.code, Some(0));
    }
}

#[tokio::test]
async fn a_stream_of_variant_a_without_a_store_goes_on_to_its_end() {
    let model = Model::openai().await;
    let gate = model.pauses(says("forty two"));
    let mut service = Service::variant_a().model(&model).start().await;
    let mut stream = service.invoke_streamed("6 * 7?").await;
    stream.next_named("run.started").await;
    model.was_asked(1).await;
    service.signal(Signal::TERM);
    service.refuses_connections().await;
    gate.open();
    assert_eq!(stream.next_named("run.ended").await.data["result"]["output"], "forty two");
    assert_eq!(service.ended().await.code, Some(0));
}

#[tokio::test]
async fn what_comes_after_the_signal_is_answered_whole_or_refused_before_its_run_begins() {
    // A run of five minutes could not end in time.
    for (timeout, is_served) in [("30000", true), ("300000", false)] {
        let model = Model::always_saying("42").await;
        let builder = Service::variant_b().model(&model).env("SHUTDOWN_DRAIN_MS", "3000");
        let mut service = builder.env("AGENT_TIMEOUT_MS", timeout).start().await;
        let user = service.user(Token::of("u").premium());
        service.signal(Signal::TERM);
        wait_until_stopping(&service).await;
        let calls = model.calls().len();
        for path in [CHAT, RESPONSES] {
            let answer = user.send(streamed(&user, path)).await;
            if is_served {
                assert!(answer.status == 200 && answer.body.contains("[DONE]"), "{path}: {answer}");
                assert!(!answer.body.contains("stopping"), "{path}: {answer}");
            } else {
                assert_eq!((answer.status, answer.header("retry-after")), (503, "1"), "{path}: {answer}");
            }
        }
        let plain = user.agent("6 * 7?").await;
        assert_eq!(plain.status, if is_served { 200 } else { 503 }, "{plain}");
        assert_eq!(model.calls().len() > calls, is_served);
        assert_eq!(service.ended().await.code, Some(0));
    }
}

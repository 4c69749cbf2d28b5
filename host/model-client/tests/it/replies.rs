//! What a well-behaved provider says, and what it is sent.

use agent_core::ports::{Model, ModelRequest, ToolChoice};
use agent_core::words::{Catalog, Finish, Message, ModelReply, Usage};
use serde_json::{Value, json};

use crate::call::{anthropic, ask, both, model, openai, request, scripted};
use crate::provider::{Answer, ScriptedProvider};

#[tokio::test]
async fn a_plain_reply_is_a_text_with_its_usage() {
    for protocol in both() {
        let provider = ScriptedProvider::start(protocol, [Answer::reply(protocol, "3")]).await;
        let expected = ModelReply {
            content: "3".into(),
            tool_calls: vec![],
            usage: Some(Usage::of(3, 4)),
            finish: Finish::Done,
            model: format!("{protocol}/test-model"),
        };
        assert_eq!(ask(&model(protocol, &provider)).await, Ok(expected));
        let sent = &provider.requests()[0].body;
        assert_eq!((&sent["temperature"], &sent["max_tokens"]), (&json!(0.0), &json!(100)));
        assert_eq!((sent["tools"].as_array().unwrap().len(), sent.get("stream")), (1, None));
    }
}

#[tokio::test]
async fn a_reply_of_a_megabyte_is_read_whole() {
    for protocol in both() {
        let long = "0123456789".repeat(100_000);
        let provider = ScriptedProvider::start(protocol, [Answer::reply(protocol, &long)]).await;
        assert_eq!(ask(&model(protocol, &provider)).await.unwrap().content.len(), long.len());
    }
}

#[tokio::test]
async fn a_first_question_needs_neither_tools_nor_history() {
    for protocol in both() {
        let provider = ScriptedProvider::start(protocol, [Answer::reply(protocol, "hi")]).await;
        let (messages, tools) = ([Message::User { content: "hi".into() }], Catalog::default());
        let request = ModelRequest { messages: &messages, tools: &tools, ..request() };
        assert_eq!(model(protocol, &provider).complete(request).await.unwrap().content, "hi");
        assert!(provider.requests()[0].body.get("tools").is_none());
    }
}

#[tokio::test]
async fn arguments_that_cannot_be_read_are_kept_and_sent_back_within_an_object() {
    let broken = "{\"a\": 1,";
    let calls = json!([{"id": "new", "function": {"name": "add", "arguments": broken}}]);
    let asking = json!({"choices": [{"message": {"tool_calls": calls}}]});
    let script = [Answer::json(&asking), Answer::reply(openai(), "3")];
    let (provider, model) = scripted(openai(), script).await;
    let ModelReply { content, tool_calls, .. } = ask(&model).await.unwrap();
    assert_eq!(tool_calls[0].arguments, json!(broken));
    let mut messages = request().messages.to_vec();
    messages.push(Message::Assistant { content, tool_calls });
    messages.push(Message::Tool { tool_call_id: "new".into(), name: "add".into(), content: "no".into() });
    model.complete(ModelRequest { messages: &messages, ..request() }).await.unwrap();
    let sent = &provider.requests()[1].body["messages"][4]["tool_calls"][0]["function"];
    assert_eq!(sent["arguments"], json!({ "_invalid": broken }).to_string());
}

#[tokio::test]
async fn a_call_that_is_to_end_in_words_shows_the_tools_and_forbids_them() {
    for (protocol, none) in [(openai(), json!("none")), (anthropic(), json!({ "type": "none" }))] {
        let script = vec![Answer::reply(protocol, "3"); 3];
        let (provider, model) = scripted(protocol, script).await;
        let (last, no_tools) = (ToolChoice::None, Catalog::default());
        model.complete(ModelRequest { tool_choice: last, ..request() }).await.unwrap();
        model.complete(ModelRequest { tool_choice: last, tools: &no_tools, ..request() }).await.unwrap();
        ask(&model).await.unwrap();
        let sent: Vec<_> = provider.requests().into_iter().map(|request| request.body).collect();
        let seen = |body: &Value| (body.get("tools").is_some(), body.get("tool_choice").cloned());
        assert_eq!(
            sent.iter().map(seen).collect::<Vec<_>>(),
            [(true, Some(none)), (false, None), (true, None)]
        );
    }
}

#[tokio::test]
async fn a_server_that_refuses_to_forbid_tools_is_not_shown_them_in_such_a_call() {
    for protocol in both() {
        let refusal = Answer::error(422, "tool_choice: Input should be 'auto' or 'any'");
        let script = [refusal].into_iter().chain(vec![Answer::reply(protocol, "3"); 3]);
        let (provider, model) = scripted(protocol, script).await;
        for tool_choice in [ToolChoice::None, ToolChoice::None, ToolChoice::Auto] {
            model.complete(ModelRequest { tool_choice, ..request() }).await.unwrap();
        }
        let requests = provider.requests();
        let shown: Vec<_> = requests.iter().map(|sent| sent.body.get("tools").is_some()).collect();
        assert_eq!(shown, [true, false, false, true]);
    }
}

#[tokio::test]
async fn one_connection_serves_many_calls() {
    for protocol in both() {
        let script = vec![Answer::reply(protocol, "3"); 3];
        let (provider, model) = scripted(protocol, script).await;
        for _ in 0..3 {
            ask(&model).await.unwrap();
        }
        assert_eq!(provider.connections(), 1);
    }
}

#[tokio::test]
async fn a_reply_that_ends_with_its_connection_is_whole() {
    let body = json!({"choices": [{"message": {"content": "3"}}]});
    let script = [Answer::Raw(format!("HTTP/1.0 200 OK\r\n\r\n{body}"))];
    let provider = ScriptedProvider::start(openai(), script).await;
    assert_eq!(ask(&model(openai(), &provider)).await.unwrap().content, "3");
}

#[tokio::test]
async fn a_model_that_takes_no_temperature_is_asked_again_without_and_remembered() {
    for protocol in both() {
        let refusal = Answer::error(400, "`temperature` is deprecated for this model.");
        let script = [refusal, Answer::reply(protocol, "3"), Answer::reply(protocol, "4")];
        let (provider, model) = scripted(protocol, script).await;
        assert_eq!(ask(&model).await.unwrap().content, "3");
        assert_eq!(ask(&model).await.unwrap().content, "4");
        let sent: Vec<_> =
            provider.requests().iter().map(|request| request.body.get("temperature").is_some()).collect();
        assert_eq!(sent, [true, false, false]);
    }
}

#[tokio::test]
async fn a_model_that_writes_less_is_asked_again_for_less_and_remembered() {
    for (protocol, refusal, most) in [
        (
            openai(),
            {
                "max_tokens is too large: 20000. This model supports at most 16384 completion tokens, whereas you \
             provided 20000."
            },
            16_384,
        ),
        (
            anthropic(),
            {
                "max_tokens: 20000 > 4096, which is the maximum allowed number of output tokens for \
             claude-3-haiku-20240307"
            },
            4096,
        ),
    ] {
        let reply = Answer::reply(protocol, "3");
        let script = [Answer::error(400, refusal), reply.clone(), reply.clone(), reply];
        let (provider, model) = scripted(protocol, script).await;
        for max_tokens in [20_000, 30_000, 100] {
            model.complete(ModelRequest { max_tokens, ..request() }).await.unwrap();
        }
        let requests = provider.requests();
        let sent: Vec<_> = requests.iter().map(|request| &request.body["max_tokens"]).collect();
        assert_eq!(sent, [20_000, most, most, 100]);
    }
}

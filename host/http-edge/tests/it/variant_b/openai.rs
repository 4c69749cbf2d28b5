//! The agent for clients of OpenAI: the same promises as under `/api/`, in OpenAI's words.

use std::sync::Arc;

use agent_core::testing::{EchoTools, asks_for, says};
use agent_core::words::{Finish, Message, ModelReply, Options, StopReason};
use http::StatusCode;
use run_service::layers::InvokeError;
use run_service::testing::{ScriptedInvoke, run_stores, scripted_agent, streams_of};
use serde_json::{Value, json};

use super::window_headers;
use crate::harness::{Answer, Answers, Fakes, Keys, Panics, b, bearer, idempotency_over, request, with};

pub(super) const CHAT: &str = "/v1/chat/completions";
pub(super) const RESPONSES: &str = "/v1/responses";

pub(super) fn chat(more: &Value) -> String {
    merged(json!({"model": "agent", "messages": [{"role": "user", "content": "hi"}]}), more)
}

pub(super) fn response(more: &Value) -> String {
    merged(json!({"model": "agent", "input": "hi"}), more)
}

pub(super) fn merged(mut body: Value, more: &Value) -> String {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body.to_string()
}

/// Says a word, calls a tool that there is and one that there is not, and says another word.
fn script() -> [ModelReply; 2] {
    let calls = asks_for(&[("1", "echo", json!({"a": 1})), ("2", "nope", json!({}))]);
    [ModelReply { content: "Let me see.".into(), ..calls }, says("done")]
}

/// A Variant B whose runs do that, streamed or not.
fn working() -> Fakes {
    saying(script())
}

/// A Variant B whose runs have these replies, streamed or not.
pub(super) fn saying(script: impl IntoIterator<Item = ModelReply>) -> Fakes {
    let script: Vec<_> = script.into_iter().collect();
    let kept = run_stores(&Arc::default());
    let journal = kept.journal.clone();
    let replies = || script.clone().into_iter().map(Ok);
    let agent = || scripted_agent(replies(), EchoTools::new(&["echo"]), journal.clone());
    let streams = streams_of(agent(), kept);
    Fakes::configured(agent(), |edge| b(edge).streams = Some(streams))
}

fn error(answer: &Answer) -> Value {
    answer.json()["error"].clone()
}

/// The data of a stream's events.
pub(super) fn data(answer: &Answer) -> Vec<&str> {
    answer.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect()
}

/// The events of a response's stream, which ends with a word of its own.
pub(super) fn events(answer: &Answer) -> Vec<Value> {
    let mut data = data(answer);
    assert_eq!(data.pop(), Some("[DONE]"), "{}", answer.body);
    data.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
}

/// What two calls of the scripted model used, of which it kept nothing.
fn used() -> Value {
    json!({
        "prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0},
    })
}

#[tokio::test]
async fn the_agent_is_the_one_model_there_is() {
    let fakes = Fakes::with_invoke(Answers);
    let model = json!({"id": "agent", "object": "model", "created": 0, "owned_by": "agent-host"});
    assert_eq!(fakes.get("/v1/models").await.json(), json!({"object": "list", "data": [model]}));
    assert_eq!(fakes.get("/v1/models/agent").await.json(), model);
    let unknown = [
        fakes.get("/v1/models/gpt-5").await,
        fakes.post(CHAT, chat(&json!({"model": "gpt-5"}))).await,
        fakes.post(RESPONSES, response(&json!({"model": "gpt-5"}))).await,
    ];
    for answer in unknown {
        let told = json!({
            "message": "The model 'gpt-5' does not exist. The agent is the model 'agent'.",
            "type": "invalid_request_error", "param": "model", "code": "model_not_found",
        });
        assert_eq!((answer.status, error(&answer)), (StatusCode::NOT_FOUND, told));
    }
}

#[tokio::test]
async fn whatever_goes_wrong_is_told_in_openais_form() {
    let told = |answer: &Answer| {
        let error = error(answer);
        assert!(error["message"].is_string() && error.as_object().unwrap().len() == 4, "{}", answer.body);
        assert!(answer.header("content-type").unwrap().starts_with("application/json"));
        assert!(!window_headers(answer, "ratelimit-").is_empty());
        let text = |name: &str| error[name].as_str().unwrap_or("-").to_owned();
        format!("{} {} {} {}", answer.status.as_u16(), text("type"), text("code"), text("param"))
    };
    let fakes = Fakes::with_invoke(Answers);
    let wrong_method = fakes.get(CHAT).await;
    assert_eq!(told(&wrong_method), "405 invalid_request_error method_not_supported -");
    assert_eq!(wrong_method.header("allow"), Some("POST"));
    assert_eq!(fakes.ask("OPTIONS", CHAT, "").await.status, StatusCode::OK);
    assert_eq!(told(&fakes.get("/v1/embeddings").await), "404 invalid_request_error unknown_url -");
    assert_eq!(told(&fakes.post(CHAT, "{").await), "400 invalid_request_error - -");
    assert_eq!(
        told(&fakes.post(CHAT, "").await),
        "400 invalid_request_error missing_required_parameter model"
    );
    for path in [CHAT, RESPONSES] {
        let body = match path {
            CHAT => chat(&json!({"tool_choice": "sometimes"})),
            _ => response(&json!({"tool_choice": "sometimes"})),
        };
        assert_eq!(
            told(&fakes.post(path, body).await),
            "400 invalid_request_error unsupported_value tool_choice"
        );
    }
    let small = Fakes::configured(Answers, |edge| edge.settings.max_body_bytes = 10);
    assert_eq!(told(&small.post(CHAT, chat(&json!({}))).await), "413 invalid_request_error - -");
    // Where larger bodies are let in, as for images, their values are bounded all the same.
    let large = Fakes::configured(Answers, |edge| edge.settings.max_body_bytes = 10 << 20);
    let dense = json!({ "metadata": vec![json!({ "": 0 }); 30_000] });
    for (path, body) in [(CHAT, chat(&dense)), (RESPONSES, response(&dense))] {
        assert_eq!(told(&large.post(path, body).await), "413 invalid_request_error - -", "{path}");
    }
    let busy =
        Fakes::with_invoke(ScriptedInvoke::new([Err(InvokeError::Busy { waited: Default::default() })]));
    let answer = busy.post(CHAT, chat(&json!({}))).await;
    assert_eq!(
        (told(&answer).as_str(), answer.header("retry-after")),
        ("503 server_error service_unavailable -", Some("1"))
    );
    let panicking = Fakes::with_invoke(Panics);
    assert_eq!(told(&panicking.post(CHAT, chat(&json!({}))).await), "500 server_error server_error -");
}

#[tokio::test]
async fn the_windows_are_those_of_the_api() {
    let fakes = Fakes::with_invoke(Answers);
    fakes.windows.fill("user:u1", 8);
    assert_eq!(fakes.post("/api/agent", r#"{"query":"hi"}"#).await.status, StatusCode::OK);
    assert_eq!(fakes.get("/v1/models").await.header("x-ratelimit-remaining"), Some("0"));
    let limited = fakes.post(CHAT, chat(&json!({}))).await;
    assert_eq!((limited.status, limited.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, Some("60")));
    let told = json!({
        "message": "Rate limit exceeded", "type": "rate_limit_error", "param": null, "code": "rate_limit_exceeded",
    });
    assert_eq!(error(&limited), told);
    fakes.windows.fill("ip:unknown", 100);
    for path in [CHAT, "/v1/nope"] {
        let limited = fakes.post(path, "").await;
        assert_eq!(limited.status, StatusCode::TOO_MANY_REQUESTS, "{path}");
        assert_eq!(error(&limited)["message"], "Too many requests from this IP", "{path}");
    }
}

#[tokio::test]
async fn the_conversation_and_what_may_be_chosen_reach_the_agent() {
    let agent = ScriptedInvoke::answering("hello");
    let fakes = Fakes::with_invoke(agent.clone());
    let said = |content: &str| Message::Assistant { content: content.into(), tool_calls: vec![] };
    let (told, asked) =
        (Message::System { content: "be kind".into() }, Message::User { content: "a".into() });
    let history = vec![told, asked, said("b")];
    // Longer than any query may be.
    let long = "x".repeat(5_000);
    let messages = json!([
        {"role": "system", "content": "be kind"}, {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"}, {"role": "user", "content": long},
    ]);
    let body = json!({"messages": messages, "max_tokens": 77, "temperature": 0.5, "top_p": 0.1});
    let answer = fakes.post(CHAT, chat(&body)).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let body = json!({"input": messages, "max_output_tokens": 77, "temperature": 0.5});
    assert_eq!(fakes.post(RESPONSES, response(&body)).await.status, StatusCode::OK);
    for ask in agent.asked() {
        assert_eq!((&ask.input, ask.principal.user_id.as_deref()), (&long, Some("u1")));
        let options = Options {
            max_tokens: Some(77),
            temperature: Some(0.5),
            history: history.clone(),
            ..Options::default()
        };
        assert_eq!(ask.options, options);
    }
    assert_eq!(agent.asked().len(), 2);
}

#[tokio::test]
async fn a_completion_is_the_agents_last_words() {
    let answer = working().post(CHAT, chat(&json!({}))).await;
    let mut body = answer.json();
    let (id, created) = (body["id"].take(), body["created"].take());
    assert!(id.as_str().unwrap().starts_with("chatcmpl-0") && created.as_u64().unwrap() > 1_700_000_000);
    assert_eq!(
        body,
        json!({
            "id": null, "object": "chat.completion", "created": null, "model": "agent",
            "choices": [{
                "index": 0, "message": {"role": "assistant", "content": "done", "refusal": null},
                "logprobs": null, "finish_reason": "stop",
            }],
            "usage": used(),
        })
    );
}

#[tokio::test]
async fn a_run_that_was_cut_off_says_so() {
    for (reason, finish, status, incomplete) in [
        (StopReason::Completed, "stop", "completed", json!(null)),
        (StopReason::MaxTokens, "length", "incomplete", json!({"reason": "max_output_tokens"})),
        (StopReason::TokenBudget, "length", "incomplete", json!({"reason": "max_output_tokens"})),
        (StopReason::MaxIterations, "length", "incomplete", json!({"reason": "max_output_tokens"})),
        (StopReason::ContentFilter, "content_filter", "incomplete", json!({"reason": "content_filter"})),
    ] {
        let fakes = Fakes::with_invoke(ScriptedInvoke::new([Ok(ScriptedInvoke::ended("half", reason))]));
        let completion = fakes.post(CHAT, chat(&json!({}))).await.json();
        assert_eq!(completion["choices"][0]["finish_reason"], finish, "{reason:?}");
        let response_of = fakes.post(RESPONSES, response(&json!({}))).await.json();
        assert_eq!(
            (&response_of["status"], &response_of["incomplete_details"]),
            (&json!(status), &incomplete)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_chat_is_streamed_as_its_words_are_written() {
    let body = json!({"stream": true, "stream_options": {"include_usage": true}});
    let answer = working().post(CHAT, chat(&body)).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let location = answer.header("content-location").unwrap();
    assert!(location.starts_with("/api/agent/runs/run_"), "{location}");
    let chunks = events(&answer);
    for chunk in &chunks {
        assert_eq!((&chunk["id"], &chunk["object"]), (&chunks[0]["id"], &json!("chat.completion.chunk")));
    }
    let (usage, spoken) = chunks.split_last().unwrap();
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"], used());
    let deltas: Vec<_> = spoken.iter().map(|chunk| &chunk["choices"][0]["delta"]).collect();
    assert_eq!(
        deltas,
        [
            &json!({"role": "assistant", "content": ""}),
            &json!({"content": "Let me see."}),
            &json!({"content": "\n\ndone"}),
            &json!({}),
        ]
    );
    assert_eq!(spoken.last().unwrap()["choices"][0]["finish_reason"], "stop");
    assert!(spoken.iter().all(|chunk| chunk.as_object().unwrap().contains_key("usage")));
}

#[tokio::test(start_paused = true)]
async fn a_response_is_the_same_streamed_or_not() {
    let whole = working().post(RESPONSES, response(&json!({"instructions": "be kind"}))).await.json();
    let brief = |response: &Value| -> Vec<String> {
        let output = response["output"].as_array().unwrap();
        let brief = |item: &Value| match item["type"].as_str().unwrap() {
            "message" => format!("message {} {}", item["status"], item["content"][0]["text"]),
            kind => format!(
                "{kind} {} {} {} {} {}",
                item["status"], item["name"], item["arguments"], item["output"], item["error"]
            ),
        };
        output.iter().map(brief).collect()
    };
    let [said, called, refused, done] = &brief(&whole)[..] else { panic!("{whole:#}") };
    assert_eq!(
        (said.as_str(), done.as_str()),
        (r#"message "completed" "Let me see.""#, r#"message "completed" "done""#)
    );
    assert!(
        called.starts_with(r#"mcp_call "completed" "echo" "{\"a\":1}" "#) && called.ends_with(" null"),
        "{called}"
    );
    assert!(refused.starts_with(r#"mcp_call "failed" "nope" "{}" null {"content":[{"text":"#), "{refused}");
    assert_eq!((&whole["status"], &whole["instructions"]), (&json!("completed"), &json!("be kind")));
    assert_eq!(whole["usage"]["total_tokens"], 30);

    let streamed = working().post(RESPONSES, response(&json!({"stream": true}))).await;
    let events = events(&streamed);
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let names: Vec<_> = streamed.body.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, events.iter().map(|event| event["type"].as_str().unwrap()).collect::<Vec<_>>());
    assert_eq!(names[..2], ["response.created", "response.in_progress"]);
    let message = [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ];
    assert_eq!(names[2..8], message);
    let begun = [
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
    ];
    assert_eq!((&names[8..12], &names[12..16]), (&begun[..], &begun[..]));
    let mut ended = names[16..20].to_vec();
    ended.sort_unstable();
    let mut expected = ["response.mcp_call.completed", "response.mcp_call.failed"].to_vec();
    expected.extend(["response.output_item.done"; 2]);
    assert_eq!(ended, expected);
    assert_eq!(names[20..26], message);
    assert_eq!(names[26..], ["response.completed"]);
    let completed = &events[26]["response"];
    assert_eq!(brief(completed), brief(&whole));
    assert_eq!((&completed["id"], &completed["usage"]), (&events[0]["response"]["id"], &whole["usage"]));
}

#[tokio::test(start_paused = true)]
async fn a_call_of_the_clients_function_ends_the_run_and_is_the_clients_to_make() {
    let script = || vec![asks_for(&[("1", "look", json!({"at": "it"})), ("2", "look", json!({}))])];
    let function = json!({"name": "look", "parameters": {"type": "object"}});
    let of_chat = json!({"tools": [{"type": "function", "function": function}]});
    let mut flat = function.clone();
    flat["type"] = json!("function");
    let of_response = json!({ "tools": [flat] });
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}});
    let calls = [call("1", r#"{"at":"it"}"#), call("2", "{}")];

    let whole = saying(script()).post(CHAT, chat(&of_chat)).await.json();
    let choice = &whole["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &json!(null))
    );
    assert_eq!(choice["message"]["tool_calls"], json!(calls));
    let streamed = chat(&json!({"tools": of_chat["tools"], "stream": true}));
    let chunks = events(&saying(script()).post(CHAT, streamed).await);
    let mut indexed = calls.clone();
    indexed[0]["index"] = json!(0);
    indexed[1]["index"] = json!(1);
    assert_eq!(chunks[1]["choices"][0]["delta"]["tool_calls"], json!(indexed));
    assert_eq!(chunks[2]["choices"][0]["finish_reason"], "tool_calls");

    let whole = saying(script()).post(RESPONSES, response(&of_response)).await.json();
    let items = |response: &Value| -> Vec<_> {
        let output = response["output"].as_array().unwrap().iter();
        output
            .map(|item| {
                [&item["type"], &item["status"], &item["call_id"], &item["arguments"]].map(Value::clone)
            })
            .collect()
    };
    let item = |id: &str, arguments: &str| ["function_call", "completed", id, arguments].map(Value::from);
    assert_eq!(items(&whole), [item("1", r#"{"at":"it"}"#), item("2", "{}")]);
    let mut repeated = of_response["tools"].clone();
    repeated[0]["description"] = json!(null);
    repeated[0]["strict"] = json!(false);
    assert_eq!((&whole["status"], &whole["tools"]), (&json!("completed"), &repeated));
    let streamed = response(&json!({"tools": of_response["tools"], "stream": true}));
    let last = events(&saying(script()).post(RESPONSES, streamed).await).pop().unwrap();
    assert_eq!((&last["type"], items(&last["response"])), (&json!("response.completed"), items(&whole)));

    // The answer comes with the conversation, and the model goes on from there.
    let messages = json!([
        {"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": "seen"}, {"role": "tool", "tool_call_id": "2", "content": "seen"},
    ]);
    let next = saying(vec![says("I see")])
        .post(CHAT, chat(&json!({"messages": messages, "tools": of_chat["tools"]})))
        .await;
    assert_eq!(next.json()["choices"][0]["message"]["content"], "I see", "{}", next.body);
    // Nobody could tell it from a tool of the agent.
    let named = json!({"tools": [{"type": "function", "function": {"name": "echo"}}]});
    let fakes = Fakes::configured(Answers, |edge| b(edge).toolbox = Arc::new(EchoTools::new(&["echo"])));
    let refused = fakes.post(CHAT, chat(&named)).await;
    refused.check_error(400, "param", "tools[0]");
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_was_cut_off_asks_the_client_for_nothing() {
    let cut = || [ModelReply { finish: Finish::Length, ..asks_for(&[("1", "look", json!({}))]) }];
    for stream in [false, true] {
        let tools = json!([{"type": "function", "name": "look"}]);
        let answer =
            saying(cut()).post(RESPONSES, response(&json!({"tools": tools, "stream": stream}))).await;
        let ended = if stream { events(&answer).pop().unwrap()["response"].take() } else { answer.json() };
        assert_eq!((&ended["status"], &ended["output"]), (&json!("incomplete"), &json!([])), "{ended:#}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_while_it_is_streamed_ends_its_stream_with_the_error() {
    let failing = || {
        let kept = run_stores(&Arc::default());
        // Asked once more, the model has no answer.
        let script = [Ok(asks_for(&[("1", "echo", json!({}))]))];
        let agent = scripted_agent(script, EchoTools::new(&["echo"]), kept.journal.clone());
        Fakes::configured(Answers, |edge| b(edge).streams = Some(streams_of(agent, kept)))
    };
    let error = json!({"message": "Internal server error", "type": "server_error", "param": null, "code": "server_error"});
    let chat = failing().post(CHAT, chat(&json!({"stream": true}))).await;
    assert_eq!(chat.status, StatusCode::OK);
    let last = data(&chat).pop().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&last).unwrap(), json!({ "error": error }));
    let streamed = failing().post(RESPONSES, response(&json!({"stream": true}))).await;
    let last = events(&streamed).pop().unwrap();
    assert_eq!(last["type"], "response.failed");
    let failed = &last["response"];
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!("server_error")));
}

#[tokio::test]
async fn a_request_under_a_key_is_carried_out_once() {
    let keys = Arc::<Keys>::default();
    let fakes = Fakes::configured(Answers, |edge| edge.idempotency = idempotency_over(&keys));
    for body in [chat(&json!({})), chat(&json!({"n": 2}))] {
        let key = format!("key-{}", body.len());
        let send = async || {
            let request = with(bearer("u1", request("POST", CHAT, body.clone())), "idempotency-key", &key);
            fakes.service.send(request).await
        };
        let (first, again) = (send().await, send().await);
        assert_eq!((first.status, &first.body), (again.status, &again.body));
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
    }
    let odd = with(bearer("u1", request("POST", CHAT, chat(&json!({})))), "idempotency-key", "a b");
    let odd = fakes.service.send(odd).await;
    odd.check_error(400, "type", "invalid_request_error");
}

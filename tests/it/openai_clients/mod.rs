//! Clients of OpenAI find the agent under `/v1/` (host/docs/api/openai.md): the official SDKs, frameworks on
//! them, and an application.
//!
//! What every route answers is tested beside the code; here are the SDKs' own readers, which refuse what is
//! not as they expect, and what a client sees of the whole service.

mod approvals;
mod open_responses;
mod open_webui;
mod sockets;
mod structured;
mod ui_chat;

use std::fs;
use std::path::PathBuf;

use acceptance::{Ended, Model, Play, Process, Request, Service, Token, User, asks_for, repository, says};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

/// Where `cargo xtask test` puts what the Python programs use.
fn runtime(program: &str) -> PathBuf {
    let place = match program {
        "instructor_client.py" => "instructor",
        python if python.ends_with(".py") => "openai",
        _ => return PathBuf::from("node"),
    };
    repository().join("target/test-servers").join(place).join("bin/python3")
}

/// Runs one of the programs of `tests/clients/`: what it reports.
async fn report(program: &str, service: &Service, user: &User) -> Value {
    let clients = repository().join("tests/clients");
    let mut command = Command::new(runtime(program));
    command
        .arg(clients.join(program))
        .env("OPENAI_BASE_URL", format!("http://{}/v1", service.address()))
        .env("OPENAI_API_KEY", user.token())
        .env_remove("HTTP_PROXY")
        .env_remove("http_proxy")
        .env_remove("ALL_PROXY");
    let mut process = Process::spawn(&mut command);
    let Ended { code, stdout, stderr } = process.ended().await;
    assert_eq!(code, Some(0), "{program}: {stdout}{stderr}");
    serde_json::from_str(stdout.trim()).unwrap_or_else(|error| panic!("{program}: {error}: {stdout}"))
}

/// What the programs ask, in their order.
fn plays(model: &Model) {
    let calculates = || asks_for("calculate", json!({ "expression": "6 * 7" }));
    model.plays(says("hello"));
    model.plays(calculates()).plays(says("42"));
    model.plays(calculates()).plays(says("42"));
    model.plays(says("bye"));
}

/// What the SDKs' programs ask beyond that: they offer a function, which is called twice, are part of a
/// conversation, have one put in fewer words and go on with it, and show an image twice.
fn calls_functions_and_sees(model: &Model) {
    for said in ["a cat it is", "a dog it is"] {
        model.asks_for("look", json!({})).says(said);
    }
    model.says("Ada").says("Ada said hi.").says("yes");
    model.says("a dot").says("the same dot");
}

/// The events of a response that is one message.
const EVENTS: [&str; 9] = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
];

fn expected() -> Value {
    let mut expected = json!({
        "models": ["agent"],
        "model": "agent",
        "chat": ["hello", "stop", 110],
        "stream": ["42", "stop", 220],
        "response": ["42", "completed", ["mcp_call", "message"], 220],
        "events": [EVENTS, "bye", ["message"]],
        "function": ["tool_calls", "look", "a cat it is"],
        "function_call": ["function_call", "look", "{}", "a dog it is"],
        "conversation": ["Ada", ["I am Ada.", "Hi, Ada.", "who?", "Ada"], "Hi, Ada.", { "order": "4711" }, true, 3, true],
        "input_items": ["I am Ada.", "Hi, Ada.", "who?"],
        "compact": [["message", "compaction"], "yes"],
        "image": ["a dot", "the same dot"],
        "unknown_model": ["NotFoundError", 404, "model_not_found", "model"],
        "unsupported": ["BadRequestError", 400, "unsupported_value", "n"],
        "nobody": ["AuthenticationError", 401, "invalid_api_key", null],
    });
    structured::expect_of_sdks(&mut expected);
    expected
}

#[tokio::test]
async fn the_official_sdks_read_what_they_are_answered() {
    let model = Model::openai().await;
    // A summary is written without them.
    model.expects_any_tools();
    let folder = tempfile::tempdir().unwrap();
    let instructions = folder.path().join("instructions.md");
    fs::write(&instructions, "You are Ada.").unwrap();
    let service = Service::variant_b()
        .model(&model)
        .tools(["calculator"])
        .env("AGENT_INSTRUCTIONS", &instructions)
        // The programs ask the same.
        .env("RESULT_CACHE", "off")
        .start()
        .await;
    for program in ["openai.mjs", "openai_client.py"] {
        plays(&model);
        calls_functions_and_sees(&model);
        structured::plays_for_sdks(&model);
        let asked = model.calls().len();
        let user = service.user(Token::of(program).premium());
        assert_eq!(report(program, &service, &user).await, expected(), "{program}");
        let calls = &model.calls()[asked..];
        let [chat, _, _, first, _, last, _, _, _, _, told, _summary, goes_on, seen, shown, structured @ ..] =
            calls
        else {
            panic!("{program}: {}", calls.len())
        };
        assert_eq!(chat.instructions(), ["You are Ada.\n\nBe brief."], "{program}");
        assert_eq!(chat.max_tokens(), 300, "{program}");
        assert_eq!(first.instructions(), ["You are Ada.\n\nBe kind."], "{program}");
        // What the tool returned in the response before is part of the conversation.
        let said = |request: &Request| request.body["messages"].as_array().unwrap().len();
        assert_eq!((said(last), last.tool_results().len()), (6, 1), "{program}");
        // The conversation is the one that was begun before, and the summary is what the model wrote.
        let contents = |request: &Request| -> Vec<String> {
            let messages = request.body["messages"].as_array().unwrap().iter();
            messages
                .skip(1)
                .map(|message| message["content"].as_str().unwrap_or_default().to_owned())
                .collect()
        };
        assert_eq!(contents(told), ["I am Ada.", "Hi, Ada.", "who?"], "{program}");
        let summary = "Summary of what was said and done before:\nAda said hi.";
        assert_eq!(contents(goes_on), ["I am Ada.", summary, "and?"], "{program}");
        // Both forms are one image to the model.
        let newest = |call: &Request| call.body["messages"].as_array().unwrap().last().cloned();
        let parts = &newest(seen).unwrap()["content"];
        assert_eq!((&parts[0]["text"], &parts[1]["image_url"]["detail"]), (&json!("seven"), &json!("low")));
        let url = parts[1]["image_url"]["url"].as_str().unwrap();
        assert!(url.starts_with("data:image/png;base64,iVBORw0KGgo"), "{program}: {url}");
        assert_eq!(newest(seen), newest(shown), "{program}");
        structured::check_calls_of_sdks(structured);
    }
    service.stop().await;
}

/// What the program of the Vercel AI SDK asks beyond that, plainly and streamed: two turns, of which the
/// second names what was said in the first, and a function of the client beside words; then two turns, of
/// which the first calls a tool of the agent.
fn goes_on_by_ids(model: &Model) {
    for _ in 0..2 {
        model.says("one").says("two");
        let calls = vec![("look".to_owned(), json!({}))];
        model.plays(Play::Reply { text: "Let me see.".to_owned(), calls, usage: Some((100, 10)) });
        model.says("a cat");
    }
    for _ in 0..2 {
        model.plays(asks_for("calculate", json!({ "expression": "6 * 7" })));
        model.says("42").says("it still is");
    }
}

#[tokio::test]
async fn the_frameworks_read_what_they_are_answered() {
    let model = Model::openai().await;
    let service =
        Service::variant_b().model(&model).tools(["calculator"]).env("RESULT_CACHE", "off").start().await;
    for (program, response, events) in [
        // A tool that the server called is shown, and nobody is asked to call it.
        ("ai_sdk.mjs", json!(["42", "stop", [true]]), json!(["bye", "stop"])),
        ("langchain_client.py", json!(["42", "completed", 0]), json!(["bye"])),
    ] {
        plays(&model);
        let user = service.user(Token::of(program).premium());
        let mut expected = json!({
            "chat": ["hello", "stop", 110], "stream": ["42", "stop", 220], "response": response, "events": events,
        });
        let asked = model.calls().len();
        if program == "ai_sdk.mjs" {
            goes_on_by_ids(&model);
            expected["turns"] = json!([["one", "two"], ["one", "two"]]);
            expected["looked"] = json!([[2, "Let me see.", "a cat"], [2, "Let me see.", "a cat"]]);
            expected["called"] = json!([["42", "it still is"], ["42", "it still is"]]);
            structured::plays_for_ai_sdk(&model);
            structured::expect_of_ai_sdk(&mut expected);
        } else {
            structured::plays_for_langchain(&model);
            structured::expect_of_langchain(&mut expected);
        }
        assert_eq!(report(program, &service, &user).await, expected, "{program}");
        if program == "ai_sdk.mjs" {
            let calls = model.calls();
            for [_, second, _, looked] in calls[asked + 6..asked + 14].as_chunks().0 {
                // What the ids stand for is what the model reads.
                let said: Vec<_> = second.body["messages"].as_array().unwrap().iter().collect();
                let contents: Vec<_> = said.iter().map(|message| &message["content"]).collect();
                assert_eq!(contents, ["five", "one", "six"]);
                let messages = looked.body["messages"].as_array().unwrap();
                assert_eq!(
                    (messages.len(), &messages[1]["content"]),
                    (3, &json!("Let me see.")),
                    "{messages:?}"
                );
                assert_eq!(looked.tool_results(), ["fur"]);
            }
            for [_, answered, second] in calls[asked + 14..asked + 20].as_chunks().0 {
                let roles: Vec<_> =
                    second.body["messages"].as_array().unwrap().iter().map(|it| &it["role"]).collect();
                assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
                assert_eq!(second.tool_results(), answered.tool_results(), "what the tool returned is known");
                assert_eq!(second.tool_results().len(), 1);
            }
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn instructor_makes_values_of_what_it_is_answered() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).env("RESULT_CACHE", "off").start().await;
    structured::plays_for_instructor(&model);
    let user = service.user(Token::of("u").premium());
    let reported = report("instructor_client.py", &service, &user).await;
    assert_eq!(reported, structured::expected_of_instructor());
    service.stop().await;
}

#[tokio::test]
async fn whoever_stops_reading_stops_the_run_and_answers_are_kept_per_conversation() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).start().await;
    let user = service.user(Token::of("u").premium());
    let chat = |messages: Value, stream: bool| {
        let body = json!({ "model": "agent", "messages": messages, "stream": stream });
        user.request(Method::POST, "/v1/chat/completions").body(body.to_string())
    };
    let asked = |content: &str| json!({ "role": "user", "content": content });

    let gate = model.pauses(says("It is"));
    let mut stream = chat(json!([asked("a long story")]), true).send().await.unwrap();
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("It is") {
        read.extend(stream.chunk().await.unwrap().expect("the words of the reply"));
    }
    drop(stream);
    gate.is_abandoned().await;

    let content = async |request| user.send(request).await.json()["choices"][0]["message"]["content"].take();
    model.says("one").says("two");
    let before = json!([asked("hi"), { "role": "assistant", "content": "hello" }, asked("who?")]);
    assert_eq!(content(chat(json!([asked("who?")]), false)).await, "one");
    assert_eq!(content(chat(before.clone(), false)).await, "two");
    // Both are kept, apart, and by themselves: the model is not asked again. The native route finds the same.
    assert_eq!(content(chat(before, false)).await, "two");
    assert_eq!(content(chat(json!([asked("who?")]), false)).await, "one");
    assert_eq!(user.result_of("who?").await["output"], "one");
    let history = json!([{ "role": "user", "content": "hi" }, { "role": "assistant", "content": "hello" }]);
    let native = user.agent_with(json!({ "query": "who?", "options": { "history": history } })).await.json();
    assert_eq!((&native["output"], &native["cached"]), (&json!("two"), &json!(true)));
    assert_eq!(model.calls().len(), 3);
}

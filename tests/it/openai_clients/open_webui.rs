//! Open WebUI is an application and no package that a test could install. `tests/clients/open_webui.json` has
//! the requests that its backend sends, with what the model says to each, and here its reading of the answers
//! is done as its source does it.

use std::fs;

use acceptance::{Answer, Model, Play, Service, Token, asks_for_all, repository, says};
use serde_json::{Value, json};

/// The data of a stream's events, which ends with a word of its own. Comments are passed over, like anything
/// that is no data.
fn chunks(answer: &Answer) -> Vec<Value> {
    assert!(answer.header("content-type").contains("text/event-stream"), "{answer}");
    let mut data: Vec<_> = answer.body.lines().filter_map(|line| line.strip_prefix("data:")).collect();
    assert_eq!(data.pop().map(str::trim), Some("[DONE]"), "{answer}");
    data.into_iter().map(|data| serde_json::from_str(data.trim()).unwrap()).collect()
}

/// The deltas of the one choice, and what the whole has cost.
fn deltas(answer: &Answer) -> Vec<Value> {
    let chunks = chunks(answer);
    let used = chunks.iter().filter(|chunk| chunk["usage"]["total_tokens"] == 110).count();
    assert_eq!(used, 1, "{answer}");
    let choices = chunks.into_iter().filter_map(|mut chunk| chunk["choices"].get_mut(0).map(Value::take));
    choices.map(|mut choice| choice["delta"].take()).collect()
}

/// Calls are put together by their index.
fn calls(answer: &Answer) -> Value {
    let mut calls: Vec<(String, String)> = vec![];
    for delta in deltas(answer) {
        for part in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(part["index"].as_u64().unwrap()).unwrap();
            if calls.len() <= index {
                assert!(part["id"].is_string(), "{part}");
                calls.push(Default::default());
            }
            let (name, arguments) = &mut calls[index];
            name.push_str(part["function"]["name"].as_str().unwrap_or_default());
            arguments.push_str(part["function"]["arguments"].as_str().unwrap_or_default());
        }
    }
    let read = |(name, arguments): (String, String)| (name, serde_json::from_str(&arguments).unwrap());
    Value::Object(calls.into_iter().map(read).collect())
}

/// The member of the JSON between the first and the last brace of a text.
fn member(text: &str, name: &str) -> Value {
    let (from, to) = (text.find('{').unwrap(), text.rfind('}').unwrap());
    let mut object: Value = serde_json::from_str(&text[from..=to]).unwrap();
    assert!(!object[name].is_null(), "{text}");
    object[name].take()
}

/// What Open WebUI reads from the answer to one of its requests, and what it should be.
fn check(recorded: &Value, answer: &Answer) {
    assert_eq!(answer.status, 200, "{}: {answer}", recorded["does"]);
    let said = recorded["says"].as_str().unwrap_or_default();
    let (read, expected) = match recorded["reads"].as_str().unwrap() {
        "models" => {
            let models = answer.json()["data"].take();
            (models[0]["id"].clone(), json!("agent"))
        }
        "stream" => {
            let deltas = deltas(answer);
            let words: String = deltas.iter().filter_map(|delta| delta["content"].as_str()).collect();
            (words.into(), said.into())
        }
        "calls" => (calls(answer), recorded["calls"].clone()),
        name => {
            let answer = answer.json();
            assert_eq!(answer["choices"].as_array().map(Vec::len), Some(1), "{answer}");
            let content = answer["choices"][0]["message"]["content"].as_str().unwrap();
            (member(content, name), member(said, name))
        }
    };
    assert_eq!(read, expected, "{}: {answer}", recorded["does"]);
}

fn play(recorded: &Value) -> Option<Play> {
    match recorded["calls"].as_object() {
        Some(calls) => Some(asks_for_all(calls.iter().map(|(name, arguments)| (&**name, arguments.clone())))),
        None => recorded["says"].as_str().map(says),
    }
}

#[tokio::test]
async fn the_requests_of_open_webui_are_answered_as_it_reads_them() {
    let model = Model::openai().await;
    model.expects_any_temperature();
    let service = Service::variant_b().model(&model).tools(["calculator"]).start().await;
    let user = service.user(Token::of("u").premium());
    let recorded = fs::read_to_string(repository().join("tests/clients/open_webui.json")).unwrap();
    let recorded: Vec<Value> = serde_json::from_str(&recorded).unwrap();
    for request in &recorded {
        if let Some(play) = play(request) {
            model.plays(play);
        }
        let answer = match request.get("body") {
            Some(body) => user.post("/v1/chat/completions", body.to_string()).await,
            None => user.get(request["path"].as_str().unwrap()).await,
        };
        check(request, &answer);
    }
    let asked = model.calls();
    assert_eq!(asked.len(), recorded.len() - 1, "each but the list is one question to the model");
    let [chat, seen, ..] = asked.as_slice() else { panic!("{}", asked.len()) };
    assert_eq!((&chat.body["stop"], chat.max_tokens()), (&json!(["###"]), 500));
    let last = seen.body["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["content"][1]["type"], "image_url", "{last}");
    service.stop().await;
}

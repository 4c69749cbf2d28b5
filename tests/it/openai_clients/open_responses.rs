//! The scenarios of the Open Responses compliance suite, whose package nobody publishes: what the whole
//! service answers has the form that its own document gives it, which is as strict as the suite's. What
//! streams come to besides is tested in http-edge.

use acceptance::{Answer, Model, Play, Service, Token, User, asks_for, says};
use serde_json::{Value, json};

/// The function that the suite offers.
fn weather() -> Value {
    json!([{
        "type": "function", "name": "get_weather", "description": "Get the current weather for a location",
        "parameters": {
            "type": "object", "required": ["location"], "properties": { "location": { "type": "string" } },
        },
    }])
}

/// Each with what the model says to it, and what the first item of its output is to be.
fn scenarios() -> [(Value, Play, Value); 4] {
    let said = |role: &str, content: &str| json!({ "type": "message", "role": role, "content": content });
    let mut thought = said("assistant", "Who is it?");
    thought["phase"] = json!("commentary");
    let place = json!({ "location": "San Francisco, CA" });
    let asked = said("user", "What's the weather like in San Francisco?");
    [
        (json!({ "input": [said("user", "Count from 1 to 5.")] }), says("1 2 3 4 5"), json!("1 2 3 4 5")),
        (
            json!({ "input": [said("system", "Be a pirate."), said("user", "Say hello.")] }),
            says("Ahoy!"),
            json!("Ahoy!"),
        ),
        (
            json!({ "input": [said("user", "I am Alice."), thought, said("assistant", "Hello Alice!"), said("user", "Who am I?")] }),
            says("Alice."),
            json!("Alice."),
        ),
        (json!({ "input": [asked], "tools": weather() }), asks_for("get_weather", place.clone()), place),
    ]
}

/// What the first item of a response says or asks for.
fn gist(response: &Value) -> Value {
    assert_eq!(response["status"], "completed", "{response:#}");
    let item = &response["output"][0];
    match item["arguments"].as_str() {
        Some(arguments) => serde_json::from_str(arguments).unwrap(),
        None => item["content"][0]["text"].clone(),
    }
}

/// The data of a stream's events, each of which is named by its type and numbered. The stream ends with a
/// word of its own.
fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.header("content-type"), "text/event-stream", "{answer}");
    let blocks: Vec<_> =
        answer.body.split_terminator("\n\n").filter(|block| !block.starts_with(':')).collect();
    let (last, blocks) = blocks.split_last().unwrap();
    assert_eq!(*last, "data: [DONE]");
    let read = |(number, block): (usize, &&str)| {
        let (name, data) = block.split_once('\n').unwrap();
        let event: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), event["type"].as_str(), "{answer}");
        assert_eq!(event["sequence_number"], number, "{answer}");
        event
    };
    blocks.iter().enumerate().map(read).collect()
}

async fn ask(user: &User, scenario: &Value, stream: bool) -> Answer {
    let mut body = scenario.clone();
    body["model"] = json!("agent");
    body["stream"] = json!(stream);
    let answer = user.post("/v1/responses", body.to_string()).await;
    assert_eq!(answer.status, 200, "{answer}");
    answer
}

#[tokio::test]
async fn the_scenarios_of_the_open_responses_suite_are_answered_in_its_forms() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).env("RESULT_CACHE", "off").start().await;
    let document = service.get("/openapi.json").await.json();
    let check = |form: &str, value: &Value| {
        let mut schema = json!({ "$ref": format!("#/components/schemas/{form}") });
        schema["components"] = document["components"].clone();
        let faults: Vec<_> = jsonschema::validator_for(&schema)
            .unwrap()
            .iter_errors(value)
            .map(|fault| format!("{}: {fault}", fault.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{form}: {faults:#?} {value:#}");
    };
    let user = service.user(Token::of("u").premium());
    for (scenario, play, expected) in scenarios() {
        model.plays(play.clone()).plays(play);
        let whole = ask(&user, &scenario, false).await.json();
        check("OpenAiResponse", &whole);
        assert_eq!(gist(&whole), expected);
        let events = events(&ask(&user, &scenario, true).await);
        events.iter().for_each(|event| check("OpenAiResponseEvent", event));
        let (first, last) = (&events[0], events.last().unwrap());
        assert_eq!(
            (&first["type"], &last["type"]),
            (&json!("response.created"), &json!("response.completed"))
        );
        assert_eq!(gist(&last["response"]), expected);
        // What comes in pieces is what it is in the end.
        let pieces: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
        let said = expected.as_str().map_or_else(|| expected.to_string(), str::to_owned);
        assert_eq!(pieces, said);
    }
    service.stop().await;
}

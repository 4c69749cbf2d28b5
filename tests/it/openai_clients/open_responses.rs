//! The scenarios of the Open Responses compliance suite, whose package nobody publishes: what the whole
//! service answers has the form that its own document gives it, which is as strict as the suite's. What
//! streams come to besides is tested in http-edge.

use acceptance::{Answer, Model, Play, Service, Token, User, asks_for, says};
use futures::{SinkExt as _, StreamExt as _};
use reqwest::header::{AUTHORIZATION, HeaderValue};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{WebSocketStream, client_async};

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

/// Holds a value against the form of that name in the service's own document.
fn check(document: &Value, form: &str, value: &Value) {
    let mut schema = json!({ "$ref": format!("#/components/schemas/{form}") });
    schema["components"] = document["components"].clone();
    let faults: Vec<_> = jsonschema::validator_for(&schema)
        .unwrap()
        .iter_errors(value)
        .map(|fault| format!("{}: {fault}", fault.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{form}: {faults:#?} {value:#}");
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
    let check = |form: &str, value: &Value| check(&document, form, value);
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

/// A WebSocket as the suite opens it.
struct Socket {
    stream: WebSocketStream<TcpStream>,
    document: Value,
}

impl Socket {
    async fn open(service: &Service, user: &User) -> Self {
        let mut request = format!("ws://{}/v1/responses", service.address()).into_client_request().unwrap();
        let token = HeaderValue::try_from(format!("Bearer {}", user.token())).unwrap();
        request.headers_mut().insert(AUTHORIZATION, token);
        let stream = TcpStream::connect(service.address()).await.unwrap();
        let (stream, _answer) = client_async(request, stream).await.unwrap();
        Self { stream, document: service.get("/openapi.json").await.json() }
    }

    /// The next message that is no ping.
    async fn next(&mut self) -> Message {
        loop {
            match self.stream.next().await.unwrap().unwrap() {
                Message::Ping(_) => {}
                message => return message,
            }
        }
    }

    /// The last event of a response, all of which are held against their form.
    async fn ask(&mut self, more: Value) -> Value {
        let mut message = json!({ "type": "response.create", "model": "agent" });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.stream.send(Message::text(message.to_string())).await.unwrap();
        loop {
            let event: Value = serde_json::from_str(self.next().await.to_text().unwrap()).unwrap();
            if event["type"] == "error" {
                check(&self.document, "OpenAiSocketError", &event);
                return event;
            }
            check(&self.document, "OpenAiResponseEvent", &event);
            if !event["response"]["completed_at"].is_null() {
                return event;
            }
        }
    }

    /// What a completed response says.
    async fn said(&mut self, more: Value) -> (Value, Value) {
        let mut response = self.ask(more).await["response"].take();
        check(&self.document, "OpenAiResponse", &response);
        (gist(&response), response["id"].take())
    }
}

#[tokio::test]
async fn the_websocket_checks_of_the_open_responses_suite_pass() {
    let model = Model::openai().await;
    model.expects_any_tools();
    let service = Service::variant_b().model(&model).env("RESULT_CACHE", "off").start().await;
    let user = service.user(Token::of("u").premium());
    let missing =
        |event: &Value| assert_eq!(event["error"]["code"], "previous_response_not_found", "{event}");
    let unstored = |input: &str| json!({ "store": false, "input": input });
    let behind =
        |id: &Value, input: Value| json!({ "store": false, "input": input, "previous_response_id": id });

    // websocket-response, websocket-sequential-responses
    let mut socket = Socket::open(&service, &user).await;
    model.says("1 2 3").says("first").says("second");
    let input = json!([{ "type": "message", "role": "user", "content": "Count from 1 to 3." }]);
    assert_eq!(socket.said(json!({ "input": input })).await.0, "1 2 3");
    assert_eq!(socket.said(unstored("Reply with exactly: first")).await.0, "first");
    assert_eq!(socket.said(unstored("Reply with exactly: second")).await.0, "second");

    // websocket-continuation
    model.says("OK").says("cobalt");
    let (_, id) = socket.said(unstored("Remember the code word: cobalt.")).await;
    assert_eq!(socket.said(behind(&id, json!("What is the code word?"))).await.0, "cobalt");
    let messages = model.calls().pop().unwrap().body["messages"].clone();
    let contents: Vec<_> = messages.as_array().unwrap().iter().map(|message| &message["content"]).collect();
    assert_eq!(contents, ["Remember the code word: cobalt.", "OK", "What is the code word?"]);

    // websocket-reconnect-store-false-recovery, websocket-previous-response-not-found
    model.says("OK").says("recovered");
    let (_, id) = socket.said(unstored("Remember the code word: copper.")).await;
    let mut again = Socket::open(&service, &user).await;
    missing(&again.ask(behind(&id, json!("Try to continue."))).await);
    assert_eq!(again.said(unstored("Reply with exactly: recovered")).await.0, "recovered");
    missing(&again.ask(behind(&json!("resp_openresponses_missing_1"), json!("hi"))).await);

    // websocket-failed-continuation-evicts-cache
    let output =
        json!([{ "type": "function_call_output", "call_id": "call_openresponses_missing", "output": "x" }]);
    assert_eq!(socket.ask(behind(&id, output)).await["type"], "error");
    missing(&socket.ask(behind(&id, json!("Try to continue."))).await);

    // websocket-compact-new-chain
    model.says("The word is slate.").says("compacted");
    let long = json!([{ "role": "user", "content": "The word is slate." }, { "role": "assistant", "content": "OK." }]);
    let body = json!({ "model": "agent", "input": long }).to_string();
    let mut output = user.post("/v1/responses/compact", body).await.json()["output"].take();
    output.as_array_mut().unwrap().push(json!({ "type": "message", "role": "user", "content": "Continue." }));
    assert_eq!(socket.said(json!({ "store": false, "input": output, "tools": [] })).await.0, "compacted");

    // A service that stops says so.
    let ((), message) = tokio::join!(service.stop(), socket.next());
    assert!(matches!(message, Message::Close(Some(frame)) if frame.code == CloseCode::Away));
}

//! `options.outputSchema` over both variants and both protocols: what the provider is asked for, how often
//! the model may correct itself, and what the caller reads (host/docs/api/runs.md#answers-of-a-form).

use acceptance::{Answer, Events, Model, Request, Service, Token, User};
use reqwest::Method;
use serde_json::{Value, json};

const RIGHT: &str = r#"{"answer": 42}"#;
const ASKED_AGAIN: &str = "Reply with the corrected JSON, and with nothing else.";

fn schema() -> Value {
    json!({ "type": "object", "properties": { "answer": { "type": "number" } }, "required": ["answer"] })
}

/// A service, and whoever asks it by one of its variants.
struct Asking {
    service: Service,
    user: User,
    is_b: bool,
}

impl Asking {
    async fn start(model: &Model, is_b: bool) -> Self {
        model.expects_any_tools();
        let service = if is_b { Service::variant_b() } else { Service::variant_a() };
        let service = service.model(model).start().await;
        let user = service.user(Token::of("u").premium());
        Self { service, user, is_b }
    }

    fn request(&self, options: &Value) -> (&'static str, Value) {
        match self.is_b {
            true => ("/api/agent", json!({ "query": "6 * 7?", "options": options })),
            false => ("/agent/invoke", json!({ "input": "6 * 7?", "options": options })),
        }
    }

    async fn ask(&self, options: Value) -> Answer {
        let (path, body) = self.request(&options);
        self.user.post(path, body.to_string()).await
    }

    async fn result_of(&self, options: Value) -> Value {
        let answer = self.ask(options).await;
        assert_eq!(answer.status, 200, "{answer}");
        let mut answer = answer.json();
        if self.is_b { answer } else { answer["result"].take() }
    }

    /// The events of the same request as a stream.
    async fn events_of(&self, options: Value) -> Vec<(String, Value)> {
        let (path, body) = self.request(&options);
        let request = self.user.request(Method::POST, path).header("accept", "text/event-stream");
        let request = request.header("content-type", "application/json").body(body.to_string());
        let events = Events::open(request).await.rest().await;
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }
}

/// The form that the provider itself was asked for, and what the model was told of one.
fn asked_for(request: &Request) -> (Value, Option<&str>) {
    let native = ["/response_format", "/output_config/format"];
    let native = native.iter().find_map(|place| request.body.pointer(place)).cloned();
    let told =
        request.instructions().into_iter().find(|text| text.starts_with("Your final answer has to be"));
    (native.unwrap_or_default(), told)
}

/// The only model with a mode for it that this test can be is one of no known address, which takes a format
/// in place of tools if it speaks OpenAI's protocol.
fn check_first(request: &Request, is_anthropic: bool) {
    let (native, told) = asked_for(request);
    if is_anthropic {
        assert_eq!((native, told), (json!({ "type": "json_schema", "schema": schema() }), None));
    } else {
        assert_eq!(native, Value::Null);
        assert!(told.is_some_and(|told| told.contains(&schema().to_string())), "{told:?}");
    }
    assert_eq!(request.tools(), ["calculate"]);
}

fn last_words(request: &Request) -> &str {
    let last = request.body["messages"].as_array().and_then(|messages| messages.last());
    let content = last.map(|message| &message["content"]);
    content.and_then(|content| content.as_str().or(content[0]["text"].as_str())).unwrap_or_default()
}

async fn check_corrected(asking: &Asking, model: &Model, is_anthropic: bool) {
    model.says("It is 42.").says(RIGHT);
    let result = asking.result_of(json!({ "outputSchema": schema() })).await;
    assert_eq!((&result["output"], &result["outputValue"]), (&json!(RIGHT), &json!({ "answer": 42 })));
    assert_eq!((&result["stopReason"], &result["iterations"]), (&json!("completed"), &json!(2)));
    assert_eq!(result.get("outputError"), None);
    let said: Vec<_> =
        result["messages"].as_array().unwrap().iter().map(|it| it["content"].as_str()).collect();
    let [Some("6 * 7?"), Some("It is 42."), Some(correction), Some(RIGHT)] = said[..] else {
        panic!("{said:?}")
    };
    assert!(correction.starts_with("The reply is not JSON: "), "{correction}");
    let calls = model.calls();
    let [.., first, second] = calls.as_slice() else { panic!("{}", calls.len()) };
    check_first(first, is_anthropic);
    assert_eq!(last_words(second), correction);
    assert!(correction.ends_with(ASKED_AGAIN), "{correction}");
}

async fn check_never_right(asking: &Asking, model: &Model) {
    model.says("It is 42.").says("42").says(r#"{"answer": "42"}"#);
    let mut schema = schema();
    // No answer to another question of this test is one to this.
    schema["title"] = json!("never");
    let result = asking.result_of(json!({ "outputSchema": schema })).await;
    assert_eq!((&result["stopReason"], &result["iterations"]), (&json!("invalid_output"), &json!(3)));
    assert_eq!((&result["output"], result.get("outputValue")), (&json!(r#"{"answer": "42"}"#), None));
    let fault = result["outputError"].as_str().unwrap();
    assert!(fault.starts_with("The reply does not match the schema of the output: "), "{fault}");
    assert!(fault.contains("answer"), "{fault}");
    // Nobody who asks the same is given that.
    model.says(RIGHT);
    let again = asking.result_of(json!({ "outputSchema": schema })).await;
    assert_eq!((&again["stopReason"], &again["outputValue"]["answer"]), (&json!("completed"), &json!(42)));
}

/// Without tools each protocol's own mode is asked for, and words that may have to be corrected are not
/// streamed.
async fn check_streamed(asking: &Asking, model: &Model, is_anthropic: bool) {
    model.says("It is 42.").says(RIGHT);
    let events = asking.events_of(json!({ "outputSchema": schema(), "tools": [] })).await;
    let names: Vec<_> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["run.started", "model.replied", "model.replied", "run.ended"]);
    let ended = &events.last().unwrap().1;
    let result = if asking.is_b { ended } else { &ended["result"] };
    assert_eq!(result["outputValue"], json!({ "answer": 42 }), "{ended}");
    let calls = model.calls();
    let (native, told) = asked_for(&calls[calls.len() - 2]);
    let expected = match is_anthropic {
        true => json!({ "type": "json_schema", "schema": schema() }),
        false => {
            json!({ "type": "json_schema", "json_schema": { "name": "output", "schema": schema(), "strict": false } })
        }
    };
    assert_eq!((native, told), (expected, None));
}

async fn check_refused(asking: &Asking, model: &Model) {
    let asked = model.calls().len();
    for schema in [json!({ "type": "number-ish" }), json!({ "pattern": "(" }), json!("object")] {
        let answer = asking.ask(json!({ "outputSchema": schema })).await;
        assert_eq!(answer.status, 400, "{answer}");
        let body = answer.json();
        if asking.is_b {
            assert_eq!(body["error"][0]["path"], json!(["options", "outputSchema"]), "{answer}");
        } else {
            assert!(body["error"].as_str().unwrap().starts_with("Invalid input"), "{answer}");
        }
    }
    assert_eq!(model.calls().len(), asked);
}

#[tokio::test]
async fn an_answer_matches_the_schema_that_its_caller_sends_or_says_why_not() {
    for (is_anthropic, is_b) in [(false, false), (false, true), (true, false), (true, true)] {
        let model = if is_anthropic { Model::anthropic().await } else { Model::openai().await };
        let asking = Asking::start(&model, is_b).await;
        check_corrected(&asking, &model, is_anthropic).await;
        check_never_right(&asking, &model).await;
        check_streamed(&asking, &model, is_anthropic).await;
        check_refused(&asking, &model).await;
        asking.service.stop().await;
    }
}

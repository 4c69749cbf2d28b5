//! What the tests rely on: a fake model that notices what a real provider would refuse, and guards that end
//! what they started. Without these a green run would mean little.

use acceptance::{Caller, Exposition, Model, Process, Service, eventually};
use serde_json::{Value, json};

/// Sends a request to a model as if a service did.
async fn ask(model: &Model, change: impl FnOnce(&mut Value)) -> u16 {
    let mut body = json!({
        "model": "test-model", "temperature": 0.0, "max_tokens": 100,
        "messages": [{ "role": "user", "content": "hi" }],
        "tools": [{ "type": "function", "function": {
            "name": "calculate", "description": "Calculates.", "parameters": { "type": "object" },
        }}],
    });
    change(&mut body);
    let address = model.base_url().trim_start_matches("http://").parse().unwrap();
    let caller = Caller::new(address);
    let request = caller.request(reqwest::Method::POST, "/v1/chat/completions");
    let request = request.bearer_auth(model.key()).header("content-type", "application/json");
    caller.send(request.header("user-agent", "agent-host/0").body(body.to_string())).await.status
}

#[tokio::test]
async fn a_request_that_keeps_the_rules_is_answered() {
    let model = Model::saying("hello").await;
    assert_eq!(ask(&model, |_| {}).await, 200);
}

#[tokio::test]
#[should_panic(expected = "one request too many")]
async fn a_model_that_is_asked_too_often_fails_its_test() {
    let model = Model::openai().await;
    ask(&model, |_| {}).await;
}

#[tokio::test]
#[should_panic(expected = "1 parts of the script were not asked for")]
async fn a_model_that_is_asked_too_rarely_fails_its_test() {
    Model::openai().await.says("hello");
}

#[tokio::test]
#[should_panic(expected = "temperature")]
async fn a_model_that_is_asked_at_another_temperature_fails_its_test() {
    let model = Model::saying("hello").await;
    ask(&model, |body| body["temperature"] = json!(0.7)).await;
}

#[tokio::test]
#[should_panic(expected = "every call is answered before anything else is said")]
async fn a_model_whose_call_is_not_answered_fails_its_test() {
    let model = Model::saying("hello").await;
    let call =
        json!({ "id": "1", "type": "function", "function": { "name": "calculate", "arguments": "{}" } });
    let silence = json!([
        { "role": "user", "content": "hi" },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "user", "content": "well?" },
    ]);
    ask(&model, |body| body["messages"] = silence).await;
}

#[tokio::test]
#[should_panic(expected = "authorization")]
async fn a_model_that_is_asked_with_another_key_fails_its_test() {
    let model = Model::saying("hello").await;
    let service = Service::variant_a().model(&model).env("LLM_API_KEY", "sk-another").start().await;
    service.invoke("hi").await;
}

#[tokio::test]
#[should_panic(expected = "offers the tools []")]
async fn a_model_that_is_offered_no_tools_fails_its_test() {
    let model = Model::saying("hello").await;
    let service = Service::variant_a().model(&model).tools([] as [&str; 0]).start().await;
    service.invoke("hi").await;
}

#[tokio::test]
#[should_panic(expected = "without the address it listens on")]
async fn a_service_that_does_not_start_fails_its_test_with_what_it_said() {
    Service::variant_a().start().await;
}

#[tokio::test]
async fn a_process_does_not_outlive_its_guard() {
    let process =
        Process::spawn(tokio::process::Command::new("/bin/sh").args(["-c", "echo $$; exec sleep 600"]));
    let id: i32 = process.log().find("its id", |line| line.parse().ok()).await;
    drop(process);
    let id = rustix::process::Pid::from_raw(id).unwrap();
    let is_gone = async || rustix::process::test_kill_process(id).is_err().then_some(());
    eventually("the process to be gone", is_gone).await;
}

#[test]
fn metrics_are_read_with_all_their_labels() {
    let text = "# HELP a_total What it is: counted\n# TYPE a_total counter\n\
                a_total{x=\"1\",y=\"two, \\\"three\\\" = {4}\"} 5\na_total{x=\"2\",y=\"\"} 1.5\nb +Inf\n";
    let metrics = Exposition::read(text);
    assert_eq!(metrics.describe("a_total"), "counter: What it is: counted");
    assert_eq!(metrics.value("a_total", &[("y", "two, \"three\" = {4}")]), Some(5.0));
    assert_eq!(metrics.value("a_total", &[]), Some(6.5));
    assert_eq!(metrics.value("b", &[]), Some(f64::INFINITY));
    assert_eq!(metrics.value("a_total", &[("x", "3")]), None);
}

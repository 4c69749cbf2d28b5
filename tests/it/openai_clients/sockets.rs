//! Responses over a WebSocket, by OpenAI's Python SDK and by Node's own client, and tools that a request
//! limits.

use acceptance::{Model, Request, Service, Token, asks_for};
use serde_json::{Value, json};

use super::{EVENTS, report};

#[tokio::test]
async fn clients_create_responses_over_a_websocket_and_limit_tools() {
    let model = Model::openai().await;
    model.expects_any_tools();
    let service =
        Service::variant_b().model(&model).tools(["calculator"]).env("RESULT_CACHE", "off").start().await;
    let shared = json!({
        "events": [EVENTS, "uno", false],
        "went_on": ["due", true],
        "missing": ["error", 400, "previous_response_not_found", "previous_response_id"],
    });
    for (program, more) in [
        ("openai_sockets.mjs", json!({ "closed": true })),
        ("openai_sockets.py", json!({ "allowed": [["look"], "allowed_tools"], "allowed_chat": "cinque" })),
    ] {
        let asked = model.calls().len();
        model.says("uno").says("due");
        if program.ends_with(".py") {
            model.plays(asks_for("look", json!({}))).says("cinque");
        }
        let mut expected = shared.clone();
        expected.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let user = service.user(Token::of(program).premium());
        assert_eq!(report(program, &service, &user).await, expected, "{program}");
        let calls = &model.calls()[asked..];
        assert_eq!(calls[1].body["messages"].as_array().unwrap().len(), 3, "{program}");
        if let [_, _, required, limited] = calls {
            assert_eq!((tools(required), &required.body["tool_choice"]), (vec!["look"], &json!("required")));
            assert_eq!((tools(limited), limited.body.get("tool_choice")), (vec!["calculate"], None));
        }
    }
    service.stop().await;
}

/// The names of the tools that the model is told of.
fn tools(request: &Request) -> Vec<&str> {
    let tools = request.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().filter_map(|tool: &Value| tool["function"]["name"].as_str()).collect()
}

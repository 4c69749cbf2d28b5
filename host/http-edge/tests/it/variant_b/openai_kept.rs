//! Responses that go on from what is kept, and responses that are read and forgotten.

use std::sync::Arc;

use agent_core::ports::{ClaimTerms, ConversationStore as _};
use agent_core::testing::{EchoTools, ScriptedModel, TestRuns, answer, asks_for, reply, says, user};
use agent_core::words::{ConversationKey, Message, ModelReply, ToolCall};
use axum::body::Body;
use http::StatusCode;
use run_service::layers::Agent;
use run_service::testing::ScriptedInvoke;
use serde_json::{Value, json};

use super::openai::{RESPONSES, events, response as body};
use crate::harness::{Answers, Fakes, bearer, request};

fn history(agent: &ScriptedInvoke) -> Vec<Message> {
    agent.asked().pop().unwrap().options.history
}

/// As the cache does, the agent answers before a window is known to be full.
#[tokio::test(start_paused = true)]
async fn responses_that_a_full_window_refuses_push_no_other_out() {
    let fakes = Fakes::with_invoke(Answers);
    let first = fakes.post(RESPONSES, body(&json!({}))).await.json();
    fakes.windows.fill("user:u1", 10);
    for seed in 0..150 {
        fakes.windows.switch.pause_by(seed);
        let refused = fakes.post(RESPONSES, body(&json!({}))).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    }
    for window in ["user:u1", "ip:unknown"] {
        fakes.windows.fill(window, 0);
    }
    let kept = fakes.get(&format!("/v1/responses/{}", first["id"].as_str().unwrap())).await;
    assert_eq!(kept.status, StatusCode::OK, "{kept}");
}

#[tokio::test]
async fn a_response_goes_on_from_another_is_read_and_is_forgotten() {
    let agent = ScriptedInvoke::answering("hello");
    let fakes = Fakes::conversing(agent.clone());
    let input = json!([{"role": "user", "content": "I am Ada."}, {"role": "assistant", "content": "Well?"},
                       {"role": "user", "content": "hi"}]);
    let first = fakes.post(RESPONSES, body(&json!({"input": input, "instructions": "be kind"}))).await.json();
    assert_eq!((&first["store"], &first["previous_response_id"]), (&json!(true), &Value::Null));
    let goes_on = body(&json!({"previous_response_id": first["id"]}));
    let streamed = body(&json!({"previous_response_id": first["id"], "stream": true}));
    // From one response any number of others goes on, and what told the model about the first is not said
    // again.
    let said = [user("I am Ada."), reply("Well?"), reply("hello")];
    let second = fakes.post(RESPONSES, goes_on).await.json();
    assert_eq!((&second["previous_response_id"], history(&agent)), (&first["id"], said.to_vec()));
    let third = events(&fakes.post(RESPONSES, streamed).await).pop().unwrap();
    assert_eq!(history(&agent), said);
    assert_eq!(third["response"]["store"], json!(true), "{third}");

    let path = |response: &Value| format!("/v1/responses/{}", response["id"].as_str().unwrap());
    let read = fakes.get(&path(&second)).await;
    assert_eq!((read.status, read.json()), (StatusCode::OK, second.clone()));
    assert_eq!(fakes.get(&path(&third["response"])).await.json()["output"][0]["content"][0]["text"], "hello");
    let deleted = fakes.ask("DELETE", &path(&first), Body::empty()).await.json();
    assert_eq!(deleted, json!({"id": first["id"], "object": "response", "deleted": true}));
    assert_eq!(fakes.get(&path(&first)).await.status, StatusCode::NOT_FOUND);
    let goes_on = fakes.post(RESPONSES, body(&json!({"previous_response_id": second["id"]}))).await;
    assert_eq!((goes_on.status, history(&agent).len()), (StatusCode::OK, 4));
}

/// Clients name conversations as they like, but for those that the service has named.
#[tokio::test]
async fn a_conversation_of_the_services_name_has_to_be_there() {
    let fakes = Fakes::conversing(ScriptedInvoke::answering("hello"));
    let unknown = fakes.post(RESPONSES, body(&json!({"conversation": "conv_1"}))).await;
    unknown.check_error(404, "code", "conversation_not_found");
    unknown.check_error(404, "param", "conversation");
    let begun = fakes.post("/v1/conversations", "{}").await.json();
    for known in [begun["id"].clone(), json!("trip")] {
        let answered = fakes.post(RESPONSES, body(&json!({"conversation": known}))).await;
        assert_eq!(answered.status, StatusCode::OK, "{answered}");
    }
}

#[tokio::test]
async fn what_is_not_kept_or_is_somebody_elses_does_not_exist() {
    let agent = ScriptedInvoke::answering("hello");
    let fakes = Fakes::conversing(agent.clone());
    let unkept = fakes.post(RESPONSES, body(&json!({"store": false}))).await.json();
    assert_eq!(unkept["store"], json!(false));
    let kept = fakes.post(RESPONSES, body(&json!({}))).await.json();
    let theirs = format!("/v1/responses/{}", kept["id"].as_str().unwrap());
    let theirs = fakes.service.send(bearer("u2", request("GET", &theirs, Body::empty()))).await;
    let unkept_id = unkept["id"].as_str().unwrap();
    for answer in [theirs, fakes.get(&format!("/v1/responses/{unkept_id}")).await] {
        answer.check_error(404, "code", "response_not_found");
    }
    for id in [unkept_id, "../x", ""] {
        let answer = fakes.post(RESPONSES, body(&json!({"previous_response_id": id}))).await;
        answer.check_error(400, "code", "previous_response_not_found");
    }
    // An answer is given although it cannot be kept, and says so.
    fakes.conversations.switch.fail(true);
    let answer = fakes.post(RESPONSES, body(&json!({}))).await;
    assert_eq!((answer.status, &answer.json()["store"]), (StatusCode::OK, &json!(false)));
}

#[tokio::test]
async fn a_conversation_is_that_of_the_api() {
    let agent = ScriptedInvoke::answering("hello");
    let fakes = Fakes::conversing(agent.clone());
    let first = fakes.post(RESPONSES, body(&json!({"conversation": "trip"}))).await.json();
    assert_eq!(first["conversation"], json!({"id": "trip"}));
    fakes.post("/api/agent", r#"{"query":"hi","options":{"conversationId":"trip"}}"#).await;
    assert_eq!(history(&agent), [reply("hello")]);
    fakes.post(RESPONSES, body(&json!({"conversation": {"id": "trip"}}))).await;
    assert_eq!(history(&agent), [reply("hello"), reply("hello")]);
    // A response of a conversation can be gone on from beside it.
    fakes.post(RESPONSES, body(&json!({"previous_response_id": first["id"]}))).await;
    assert_eq!(history(&agent), [reply("hello")]);
    let kept = fakes.get("/api/agent/conversations/trip").await.json();
    assert_eq!(kept["turns"].as_array().unwrap().len(), 3);
    let key = ConversationKey::conversation("u1", "trip");
    fakes.conversations.claim(key, "another run", ClaimTerms::default()).await.unwrap();
    let busy = fakes.post(RESPONSES, body(&json!({"conversation": "trip"}))).await;
    busy.check_error(409, "type", "invalid_request_error");
}

#[tokio::test]
async fn the_answer_of_a_function_is_all_that_a_client_sends() {
    let flat = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
    let model = Arc::new(ScriptedModel::new([
        Ok(asks_for(&[("c1", "look", json!({}))])),
        Ok(says("a cat")),
        Ok(says("never mind")),
    ]));
    let agent = Agent::new(model.clone(), Arc::new(EchoTools::new(&[])), Arc::new(TestRuns::default()));
    let fakes = Fakes::conversing(agent);
    let first = fakes.post(RESPONSES, body(&json!({"tools": flat}))).await.json();
    assert_eq!(first["output"][0]["type"], "function_call", "{first}");
    let output = json!([{"type": "function_call_output", "call_id": "c1", "output": "fur"}]);
    let goes_on = body(&json!({"previous_response_id": first["id"], "input": output, "tools": flat}));
    let second = fakes.post(RESPONSES, goes_on).await.json();
    assert_eq!(second["output"][0]["content"][0]["text"], "a cat", "{second}");
    let answered = Message::Tool { tool_call_id: "c1".into(), name: "look".into(), content: "fur".into() };
    let shown = model.asked().remove(1);
    assert_eq!((shown.len(), &shown[0], &shown[2]), (3, &user("hi"), &answered));
    // A client that says something else instead is no reason to fail.
    let third = fakes.post(RESPONSES, body(&json!({"previous_response_id": first["id"]}))).await;
    assert_eq!(third.status, StatusCode::OK, "{third}");
    assert_eq!(model.asked()[2].len(), 4);
}

/// The run answers the call of its own tool, and the client that of its function.
#[tokio::test]
async fn a_reply_that_calls_a_function_and_a_tool_is_gone_on_from() {
    let flat = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
    let asks = || Ok(asks_for(&[("c1", "look", json!({})), ("c2", "echo", json!({}))]));
    let script = [asks(), Ok(says("a cat")), Ok(says("a cat")), asks(), Ok(says("a cat"))];
    let model = Arc::new(ScriptedModel::new(script));
    let tools = Arc::new(EchoTools::new(&["echo"]));
    let fakes = Fakes::conversing(Agent::new(model.clone(), tools, Arc::new(TestRuns::default())));
    let send = async |more: Value| {
        let mut more = more;
        more["tools"] = flat.clone();
        let answer = fakes.post(RESPONSES, body(&more)).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer}");
        answer.json()
    };
    let first = send(json!({})).await;
    let items = first["output"].as_array().unwrap();
    let kinds: Vec<_> = items.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["function_call", "mcp_call"]);
    let output = json!({"type": "function_call_output", "call_id": "c1", "output": "fur"});
    send(json!({"previous_response_id": first["id"], "input": [output]})).await;
    let mut whole = vec![json!({"role": "user", "content": "hi"})];
    whole.extend(items.iter().chain([&output]).cloned());
    send(json!({ "input": whole })).await;
    send(json!({"conversation": "trip"})).await;
    send(json!({"conversation": "trip", "input": [output]})).await;
    // Also in the order of the calls, as the scripted model checks.
    for shown in [1, 2, 4].map(|index| model.asked().remove(index)) {
        let [hi, Message::Assistant { tool_calls, .. }, answers @ ..] = &shown[..] else {
            panic!("{shown:?}")
        };
        let names: Vec<_> = tool_calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!((hi, names), (&user("hi"), vec!["look", "echo"]));
        let [Message::Tool { content: seen, .. }, Message::Tool { content: not_run, .. }] = answers else {
            panic!("{answers:?}")
        };
        assert!(seen == "fur" && not_run.starts_with("Error: not run"), "{answers:?}");
    }
}

#[tokio::test]
async fn calls_of_the_agent_between_calls_of_functions_are_of_the_same_reply() {
    let agent = ScriptedInvoke::answering("hello");
    let fakes = Fakes::conversing(agent.clone());
    let calls = |id: &str| json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"});
    let answers = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "fur"});
    let own = json!({"type": "mcp_call", "id": "m1", "name": "echo", "arguments": "{}", "error": "not run"});
    let hi = json!({"role": "user", "content": "hi"});
    let call = |id: &str, name: &str| ToolCall { id: id.into(), name: name.into(), arguments: json!({}) };
    let reply = |tool_calls| Message::Assistant { content: String::new(), tool_calls };
    let (look, echo) = (answer("c1", "look", "fur"), answer("m1", "echo", "not run"));
    let between = [hi.clone(), calls("c1"), own.clone(), calls("c3"), answers("c1"), answers("c3")];
    let all = vec![call("c1", "look"), call("m1", "echo"), call("c3", "look")];
    let expected = [user("hi"), reply(all), echo.clone(), look.clone(), answer("c3", "look", "fur")];
    let answered = fakes.post(RESPONSES, body(&json!({ "input": between }))).await;
    assert_eq!((answered.status, history(&agent)), (StatusCode::OK, expected.to_vec()), "{answered}");
    let behind = [hi, calls("c1"), own, answers("c1")];
    let both = vec![call("c1", "look"), call("m1", "echo")];
    let answered = fakes.post(RESPONSES, body(&json!({ "input": behind }))).await;
    let expected = [user("hi"), reply(both), echo, look];
    assert_eq!((answered.status, history(&agent)), (StatusCode::OK, expected.to_vec()), "{answered}");
}

fn reference(id: &Value) -> Value {
    json!({"type": "item_reference", "id": id})
}

#[tokio::test]
async fn items_of_kept_responses_are_named_by_their_ids() {
    let flat = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
    let asks = ModelReply { content: "Let me see.".into(), ..asks_for(&[("c1", "look", json!({}))]) };
    let model = Arc::new(ScriptedModel::new([Ok(asks), Ok(says("a cat")), Ok(says("sure"))]));
    let agent = Agent::new(model.clone(), Arc::new(EchoTools::new(&[])), Arc::new(TestRuns::default()));
    let fakes = Fakes::conversing(agent);
    let first = fakes.post(RESPONSES, body(&json!({"tools": flat}))).await.json();
    let (words, call) = (reference(&first["output"][0]["id"]), reference(&first["output"][1]["id"]));
    let output = json!({"type": "function_call_output", "call_id": "c1", "output": "fur"});
    let mut input = json!([{"role": "user", "content": "hi"}, words, call, output]);
    let second = fakes.post(RESPONSES, body(&json!({"input": input, "tools": flat, "stream": true}))).await;
    let second = events(&second).pop().unwrap()["response"].take();
    let read = fakes.get(&format!("/v1/responses/{}", second["id"].as_str().unwrap())).await.json();
    assert_eq!(read, second, "what was streamed is what is kept");
    let said = |content: &str, tool_calls| Message::Assistant { content: content.into(), tool_calls };
    let called = said("Let me see.", asks_for(&[("c1", "look", json!({}))]).tool_calls);
    let answered = Message::Tool { tool_call_id: "c1".into(), name: "look".into(), content: "fur".into() };
    assert_eq!(model.asked()[1], [user("hi"), called.clone(), answered.clone()]);
    let items = input.as_array_mut().unwrap();
    items.extend([json!({"id": second["output"][0]["id"]}), json!({"role": "user", "content": "sure?"})]);
    let third = fakes.post(RESPONSES, body(&json!({"input": input, "tools": flat}))).await;
    assert_eq!(third.status, StatusCode::OK, "{third}");
    assert_eq!(model.asked()[2], [user("hi"), called, answered, said("a cat", vec![]), user("sure?")]);
}

#[tokio::test]
async fn items_that_are_not_kept_or_somebody_elses_are_not_found() {
    let fakes = Fakes::conversing(ScriptedInvoke::answering("hello"));
    let kept = fakes.post(RESPONSES, body(&json!({}))).await.json();
    let unkept = fakes.post(RESPONSES, body(&json!({"store": false}))).await.json();
    let refers = |ids: &[&str]| {
        let mut input: Vec<_> = ids.iter().map(|id| reference(&json!(id))).collect();
        input.push(json!({"role": "user", "content": "well?"}));
        body(&json!({"input": input}))
    };
    let id = kept["output"][0]["id"].as_str().unwrap();
    let other_place = id.replace("_0", "_7");
    for id in [unkept["output"][0]["id"].as_str().unwrap(), &other_place, "msg_1_0", "rs_1", "../x"] {
        let answer = fakes.post(RESPONSES, refers(&[id])).await;
        for (field, text) in
            [("code", "item_not_found"), ("param", "input"), ("type", "invalid_request_error")]
        {
            answer.check_error(404, field, text);
        }
        let text = answer.json()["error"]["message"].take();
        assert!(text.as_str().unwrap().starts_with(&format!("Item with id '{id}' not found.")), "{text}");
    }
    let theirs = fakes.service.send(bearer("u2", request("POST", RESPONSES, refers(&[id])))).await;
    assert_eq!(theirs.status, StatusCode::NOT_FOUND);
    // Each is taken once, so that no request comes to more than what was kept.
    assert_eq!(fakes.post(RESPONSES, refers(&[id, id])).await.json()["error"]["param"], "input");
    assert_eq!(fakes.post(RESPONSES, refers(&[id])).await.status, StatusCode::OK);
    fakes.conversations.switch.fail(true);
    assert_eq!(fakes.post(RESPONSES, refers(&[id])).await.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_chat_goes_on_by_references_for_forty_turns() {
    let agent = ScriptedInvoke::answering("hello");
    let fakes = Fakes::conversing(agent.clone());
    let mut input = vec![];
    for turn in 1..=40 {
        input.push(json!({"role": "user", "content": "well?"}));
        let answer = fakes.post(RESPONSES, body(&json!({"input": input}))).await;
        assert_eq!(answer.status, StatusCode::OK, "{turn}: {answer}");
        fakes.windows.fill("user:u1", 0);
        input.push(reference(&answer.json()["output"][0]["id"]));
    }
    let expected: Vec<_> = (1..40).flat_map(|_| [user("well?"), reply("hello")]).collect();
    assert_eq!(history(&agent), expected, "each item is in its place");
}

#[tokio::test]
async fn the_bytes_that_a_request_refers_to_are_bounded() {
    let fakes = Fakes::conversing(ScriptedInvoke::answering(&"a".repeat(200 << 10)));
    let mut input = vec![];
    // Twenty answers are less than 4 MiB together, and one more is not.
    for count in 1..=21 {
        let kept = fakes.post(RESPONSES, body(&json!({}))).await.json();
        assert_eq!(kept["store"], json!(true));
        fakes.windows.fill("user:u1", 0);
        input.push(reference(&kept["output"][0]["id"]));
        let mut whole = input.clone();
        whole.push(json!({"role": "user", "content": "well?"}));
        let answer = fakes.post(RESPONSES, body(&json!({"input": whole}))).await;
        fakes.windows.fill("user:u1", 0);
        if count <= 20 {
            assert_eq!(answer.status, StatusCode::OK, "{count}: {answer}");
        } else {
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{count}: {answer}");
            let message = answer.json()["error"]["message"].take();
            assert!(message.as_str().unwrap().contains("more than 4194304 bytes"), "{message}");
        }
    }
}

//! What child runs wait for, for clients of OpenAI's responses and of the AI SDK: asked of whoever asked the
//! parent, and gone on with there.

use std::time::Duration;

use agent_core::testing::{asks_for, says};
use agent_core::words::{Message, ModelReply};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::openai::{RESPONSES, events};
use super::openai_approvals::{answer, bench, kinds, pays};
use crate::harness::{bearer, request};

fn begins(tasks: &[&str]) -> ModelReply {
    let calls = tasks.iter().map(|task| ("k", "run_agent", json!({"task": task, "within_seconds": 3600})));
    asks_for(&calls.collect::<Vec<_>>())
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_a_child_run_is_an_item_of_its_parents_response() {
    let bench = bench([begins(&["pay ada"]), pays(&[5]), says("paid 5"), says("done"), says("welcome")]);
    let first = bench.ask(&json!({})).await.json();
    assert_eq!(kinds(&first), ["mcp_approval_request -"], "{first:#}");
    let asked = &first["output"][0];
    assert_eq!((&asked["name"], &asked["arguments"]), (&json!("pay"), &json!(r#"{"euros":5}"#)));
    let second = bench.go_on(&first, json!([answer(asked, true)])).await.json();
    assert_eq!(kinds(&second), ["mcp_call completed", "message completed"], "{second:#}");
    let called = &second["output"][0];
    assert_eq!(
        (&called["name"], &called["output"], &called["approval_request_id"]),
        (&json!("run_agent"), &json!("paid 5"), &Value::Null)
    );
    assert_eq!(second["output"][1]["content"][0]["text"], "done");
    // Sent again it is the same decision, and another one comes too late.
    let same = bench.go_on(&first, json!([answer(asked, true)])).await.json();
    assert_eq!(kinds(&same), ["mcp_call completed", "message completed"], "{same:#}");
    let other = bench.go_on(&first, json!([answer(asked, false)])).await;
    other.check_error(409, "code", "approval_already_decided");
    // The next turn has the parent's words and nothing of the child's.
    bench.go_on(&second, json!("thanks")).await;
    assert_eq!(bench.told(), ["paid 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_stays_while_children_go_on_and_asks_when_they_wait() {
    let script =
        [begins(&["look"]), says("seen"), begins(&["pay ada"]), pays(&[5]), says("not"), says("end")];
    let bench = bench(script);
    let first = events(&bench.ask(&json!({"stream": true})).await);
    let whole = &first.last().unwrap()["response"];
    // The first child needed nobody.
    assert_eq!(kinds(whole), ["mcp_call completed", "mcp_approval_request -"], "{whole:#}");
    assert_eq!(whole["output"][0]["output"], "seen");
    let goes_on = json!({
        "previous_response_id": whole["id"], "stream": true, "input": [answer(&whole["output"][1], false)],
    });
    let second = events(&bench.ask(&goes_on).await);
    let rest = &second.last().unwrap()["response"];
    assert_eq!(kinds(rest), ["mcp_call completed", "message completed"], "{rest:#}");
    assert_eq!(rest["output"][0]["output"], "not");
}

#[tokio::test(start_paused = true)]
async fn children_are_waited_for_while_the_service_stops() {
    let bench = bench([begins(&["look"]), says("seen"), says("done")]);
    bench.shutdown.end_drain();
    let whole = bench.ask(&json!({})).await.json();
    assert_eq!(kinds(&whole), ["mcp_call completed", "message completed"], "{whole:#}");
}

#[tokio::test(start_paused = true)]
async fn what_only_others_can_decide_about_a_child_is_said_in_a_sentence() {
    let question = asks_for(&[("q", "ask_user", json!({"question": "Who?"}))]);
    let bench = bench([begins(&["ask"]), question]);
    let first = bench.ask(&json!({})).await.json();
    assert_eq!(first["store"], false, "{first:#}");
    let said = first["output"].as_array().unwrap().last().unwrap()["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("your answer to a question: Who?"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_the_answer_names_goes_on_with_the_run() {
    let bench = bench([says("hello"), pays(&[5]), says("paid"), says("welcome")]);
    bench.ask(&json!({"conversation": "trip", "input": "hi"})).await;
    // Begun in no conversation.
    let first = bench.ask(&json!({"input": "pay ada"})).await.json();
    let mut goes_on = json!({"conversation": "conv_gone", "input": [answer(&first["output"][0], true)]});
    let unknown = bench.ask(&goes_on).await;
    unknown.check_error(404, "code", "conversation_not_found");
    goes_on["conversation"] = json!("trip");
    let second = bench.ask(&goes_on).await.json();
    assert_eq!(kinds(&second), ["mcp_call completed", "message completed"], "{second:#}");
    assert_eq!(second["conversation"]["id"], "trip");
    let path = "/api/agent/conversations/trip";
    assert_eq!(bench.fakes.get(path).await.json()["turns"].as_array().unwrap().len(), 2);
    // An answer that is sent again appends nothing.
    bench.ask(&goes_on).await;
    assert_eq!(bench.fakes.get(path).await.json()["turns"].as_array().unwrap().len(), 2);
    bench.ask(&json!({"conversation": "trip", "input": "thanks"})).await;
    let said = bench.model.asked().pop().unwrap();
    let questions = said.iter().filter_map(|message| match message {
        Message::User { content } => Some(content.text().into_owned()),
        _ => None,
    });
    assert_eq!(questions.collect::<Vec<_>>(), ["hi", "pay ada", "thanks"]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_leaves_takes_no_turn_from_the_conversation_that_its_answer_names() {
    let bench = bench([pays(&[5]), says("paid")]);
    let first = bench.ask(&json!({})).await.json();
    let input = [answer(&first["output"][0], true)];
    let body = json!({"model": "agent", "stream": true, "conversation": "trip", "input": input});
    let asked = bearer("u1", request("POST", RESPONSES, body.to_string()));
    let response = bench.fakes.service.router().oneshot(asked).await.unwrap();
    assert_eq!(response.status(), 200);
    drop(response);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let kept = bench.fakes.get("/api/agent/conversations/trip").await.json();
    assert_eq!(kept["turns"].as_array().unwrap_or_else(|| panic!("{kept:#}")).len(), 1);
}

fn types(chunks: &[Value]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk["type"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_a_child_run_is_a_part_of_a_step_of_its_own_in_the_ai_sdk() {
    for approved in [true, false] {
        let bench = bench([begins(&["pay ada"]), pays(&[5]), says("as you say"), says("done"), says("bye")]);
        let user = json!({"id": "1", "role": "user", "parts": [{"type": "text", "text": "pay ada"}]});
        let first = bench.fakes.post("/v1/chat", json!({"messages": [user]}).to_string()).await;
        let first = events(&first);
        let expected = [
            "start",
            "start-step",
            "tool-input-available",
            "finish-step",
            "start-step",
            "tool-input-available",
            "tool-approval-request",
            "finish-step",
            "finish",
        ];
        assert_eq!(types(&first), expected, "{first:#?}");
        let (call, asked) = (&first[5], &first[6]);
        assert_eq!((&call["toolName"], &call["input"]), (&json!("pay"), &json!({"euros": 5})));
        assert_eq!(asked["toolCallId"], call["toolCallId"]);

        let part = |name: &str, id: &Value, state: &str| json!({"type": "dynamic-tool", "toolName": name, "toolCallId": id, "state": state, "input": {}});
        let mut answered = part("pay", &call["toolCallId"], "approval-responded");
        answered["approval"] = json!({"id": asked["approvalId"], "approved": approved});
        let step = json!({"type": "step-start"});
        let parts =
            json!([step, part("run_agent", &first[2]["toolCallId"], "input-available"), step, answered]);
        let said = json!({"id": "2", "role": "assistant", "parts": parts});
        let second = bench.fakes.post("/v1/chat", json!({"messages": [user, said]}).to_string()).await;
        let second = events(&second);
        let own = if approved { "tool-output-available" } else { "tool-output-denied" };
        assert_eq!(types(&second)[..3], ["start", own, "tool-output-available"], "{second:#?}");
        assert_eq!(second[1]["toolCallId"], call["toolCallId"]);
        assert_eq!(second[2]["toolCallId"], first[2]["toolCallId"]);

        // The model is told nothing of a call that it has not made.
        let mut whole = said.clone();
        whole["parts"][1]["state"] = json!("output-available");
        whole["parts"][1]["output"] = json!("as you say");
        whole["parts"][3]["state"] = json!("output-available");
        whole["parts"][3]["output"] = json!("Allowed.");
        let thanks = json!({"id": "3", "role": "user", "parts": [{"type": "text", "text": "thanks"}]});
        bench.fakes.post("/v1/chat", json!({"messages": [user, whole, thanks]}).to_string()).await;
        assert_eq!(bench.told(), ["as you say"]);
    }
}

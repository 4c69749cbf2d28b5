//! `/v1/conversations`, items of conversations and of responses, and conversations in fewer words.

use std::sync::Arc;

use agent_core::ports::{ClaimTerms, ConversationStore as _};
use agent_core::words::{ConversationKey, Message, StopReason};
use axum::body::Body;
use http::StatusCode;
use run_service::testing::ScriptedInvoke;
use serde_json::{Value, json};

use super::open_responses::faults;
use super::openai::RESPONSES;
use crate::harness::{Answer, Fakes, bearer, idempotency_over, request, with};

const CONVERSATIONS: &str = "/v1/conversations";

fn service() -> (Fakes, ScriptedInvoke) {
    saying("hello")
}

fn saying(text: &str) -> (Fakes, ScriptedInvoke) {
    let (agent, keys) = (ScriptedInvoke::answering(text), Arc::default());
    let fakes = Fakes::conversing_with(agent.clone(), |edge| {
        edge.idempotency = idempotency_over(&keys);
        // Far more requests than a user may make within a minute.
        edge.settings.rates.user.requests = 1_000;
        edge.settings.rates.address.requests = 1_000;
    });
    (fakes, agent)
}

fn user(content: &str) -> Value {
    json!({"role": "user", "content": content})
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name}: {value}"))
}

/// What each item of a list says, or which type it is of.
fn brief(list: &Value) -> Vec<&str> {
    let said = |item: &'_ Value| item["content"][0]["text"].as_str().is_some();
    let items = list["data"].as_array().unwrap_or_else(|| panic!("{list}")).iter();
    items
        .map(|item| if said(item) { text(&item["content"][0], "text") } else { text(item, "type") })
        .collect()
}

fn problem(answer: &Answer) -> (StatusCode, Value) {
    (answer.status, answer.json()["error"]["code"].take())
}

async fn begin(fakes: &Fakes, body: &Value) -> Value {
    let answer = fakes.post(CONVERSATIONS, body.to_string()).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer}");
    answer.json()
}

#[tokio::test]
async fn a_conversation_is_begun_and_a_response_goes_on_with_it() {
    let (fakes, agent) = service();
    let document = fakes.get("/openapi.json").await.json();
    let begun = begin(&fakes, &json!({"metadata": {"order": "4711"}})).await;
    assert_eq!(faults(&document, "OpenAiConversation", &begun), [] as [String; 0]);
    let (id, path) = (text(&begun, "id"), format!("{CONVERSATIONS}/{}", text(&begun, "id")));
    assert!(id.starts_with("conv_") && begun["metadata"] == json!({"order": "4711"}), "{begun}");
    let items = format!("{path}/items");
    let empty = fakes.get(&items).await.json();
    assert_eq!(
        empty,
        json!({"object": "list", "data": [], "first_id": "", "last_id": "", "has_more": false})
    );

    let added = json!({"items": [user("I am Ada."), {"role": "assistant", "content": "Hi, Ada."}]});
    let added = fakes.post(&items, added.to_string()).await.json();
    assert_eq!(brief(&added), ["I am Ada.", "Hi, Ada."]);
    assert_eq!(faults(&document, "OpenAiItemList", &added), [] as [String; 0]);
    let body = json!({"model": "agent", "input": [user("who?")], "conversation": id});
    let response = fakes.post(RESPONSES, body.to_string()).await.json();
    assert_eq!(response["conversation"]["id"], id);
    let history = agent.asked().pop().unwrap().options.history;
    let expected = [
        Message::User { content: "I am Ada.".into() },
        Message::Assistant { content: "Hi, Ada.".into(), tool_calls: vec![] },
    ];
    assert_eq!(history, expected);
    let all = fakes.get(&format!("{items}?order=asc")).await.json();
    assert_eq!(brief(&all), ["I am Ada.", "Hi, Ada.", "hello"]);
    // Items keep their ids, and pages have the newest first.
    assert_eq!(all["data"].as_array().unwrap()[..2], added["data"].as_array().unwrap()[..]);
    let page = fakes.get(&format!("{items}?limit=1&after={}", text(&all["data"][2], "id"))).await.json();
    assert_eq!((brief(&page), &page["has_more"]), (vec!["Hi, Ada."], &json!(true)));
    // The metadata are those of the conversation, whatever was said since.
    assert_eq!(fakes.get(&path).await.json(), begun);
    let updated = fakes.post(&path, json!({"metadata": {"order": "4712"}}).to_string()).await.json();
    assert_eq!((&updated["id"], &updated["metadata"]), (&begun["id"], &json!({"order": "4712"})));
    assert_eq!(fakes.post(&path, json!({"metadata": null}).to_string()).await.json()["metadata"], json!({}));
    assert_eq!(problem(&fakes.post(&path, "{}").await).1, "missing_required_parameter");
    // Native clients find it, and a conversation that they have named is found here.
    let native = fakes.get(&format!("/api/agent/conversations/{id}")).await.json();
    assert_eq!(native["turns"].as_array().unwrap().len(), 2);
    fakes.post("/api/agent", r#"{"query":"hi","options":{"conversationId":"trip"}}"#).await;
    assert_eq!(brief(&fakes.get(&format!("{CONVERSATIONS}/trip/items")).await.json()), ["hello"]);

    let deleted = fakes.ask("DELETE", &path, Body::empty()).await.json();
    assert_eq!(deleted, json!({"id": id, "object": "conversation.deleted", "deleted": true}));
    assert_eq!(problem(&fakes.get(&path).await), (StatusCode::NOT_FOUND, json!("conversation_not_found")));
}

#[tokio::test]
async fn an_item_is_read_and_forgotten_wherever_it_is() {
    let (fakes, agent) = service();
    let call = json!({"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "a cat"});
    let begun = begin(&fakes, &json!({"items": [user("one"), call, output, user("two")]})).await;
    let items = format!("{CONVERSATIONS}/{}/items", text(&begun, "id"));
    let all = fakes.get(&format!("{items}?order=asc")).await.json();
    assert_eq!(brief(&all), ["one", "function_call", "function_call_output", "two"]);
    let path = |index: usize| format!("{items}/{}", text(&all["data"][index], "id"));
    assert_eq!(fakes.get(&path(2)).await.json(), all["data"][2]);
    for index in [2, 0] {
        let answer = fakes.ask("DELETE", &path(index), Body::empty()).await;
        assert_eq!((answer.status, &answer.json()["id"]), (StatusCode::OK, &begun["id"]), "{answer}");
        let gone = fakes.ask("DELETE", &path(index), Body::empty()).await;
        assert_eq!(problem(&gone), (StatusCode::NOT_FOUND, json!("item_not_found")));
        assert_eq!(problem(&fakes.get(&path(index)).await).0, StatusCode::NOT_FOUND);
    }
    assert_eq!(brief(&fakes.get(&items).await.json()), ["two", "function_call"]);
    // The model is told that nobody has answered the call.
    let body = json!({"model": "agent", "input": "go on", "conversation": begun["id"]}).to_string();
    assert_eq!(fakes.post(RESPONSES, body).await.status, StatusCode::OK);
    let history = agent.asked().pop().unwrap().options.history;
    assert!(
        matches!(&history[1], Message::Tool { content, .. } if content.contains("no answer")),
        "{history:?}"
    );
    // The last item goes, and the conversation stays.
    let rest = fakes.get(&items).await.json();
    for item in rest["data"].as_array().unwrap() {
        fakes.ask("DELETE", &format!("{items}/{}", text(item, "id")), Body::empty()).await;
    }
    assert_eq!(brief(&fakes.get(&items).await.json()), [] as [&str; 0]);
    assert_eq!(fakes.get(&format!("{CONVERSATIONS}/{}", text(&begun, "id"))).await.json(), begun);
}

#[tokio::test]
async fn a_strangers_conversation_does_not_exist_and_a_busy_one_is_a_conflict() {
    let (fakes, _agent) = service();
    let begun = begin(&fakes, &json!({"items": [user("hi")]})).await;
    let path = format!("{CONVERSATIONS}/{}", text(&begun, "id"));
    let items = format!("{path}/items");
    let item = format!("{items}/{}", text(&fakes.get(&items).await.json(), "first_id"));
    let (metadata, added) = (json!({"metadata": {}}).to_string(), json!({"items": [user("x")]}).to_string());
    let requests = [
        ("GET", &path, ""),
        ("POST", &path, &metadata),
        ("GET", &items, ""),
        ("POST", &items, &added),
        ("GET", &item, ""),
        ("DELETE", &item, ""),
        ("DELETE", &path, ""),
    ];
    for (method, path, body) in requests {
        let theirs = fakes.service.send(bearer("u2", request(method, path, body.to_owned()))).await;
        let expected = (StatusCode::NOT_FOUND, json!("conversation_not_found"));
        assert_eq!(problem(&theirs), expected, "{method} {path}: {theirs}");
        let nobodys = path.replace("conv_", "a%20b");
        assert_eq!(problem(&fakes.ask(method, &nobodys, body.to_owned()).await), expected, "{nobodys}");
    }
    // What was asked for has begun none either.
    assert_eq!(fakes.conversations.list("u2", 10, None).await.unwrap(), []);
    let key = ConversationKey::conversation("u1", text(&begun, "id"));
    fakes.conversations.claim(key, "a run", ClaimTerms::default()).await.unwrap();
    for (method, path, body) in requests {
        let answer = fakes.ask(method, path, body.to_owned()).await;
        let status = if method == "GET" { StatusCode::OK } else { StatusCode::CONFLICT };
        assert_eq!(answer.status, status, "{method} {path}: {answer}");
    }
    fakes.conversations.release(key, "a run").await.unwrap();
    assert_eq!(fakes.ask("DELETE", &path, Body::empty()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn under_an_idempotency_key_one_conversation_is_begun_and_items_are_added_once() {
    let (fakes, _agent) = service();
    let keyed = |path: &str, key: &str, body: &Value| {
        let request = with(request("POST", path, body.to_string()), "idempotency-key", &format!("\"{key}\""));
        fakes.service.send(bearer("u1", request))
    };
    let body = json!({"items": [user("hi")]});
    let first = keyed(CONVERSATIONS, "a", &body).await.json();
    assert_eq!(keyed(CONVERSATIONS, "a", &body).await.json(), first);
    let items = format!("{CONVERSATIONS}/{}/items", text(&first, "id"));
    for _ in 0..2 {
        assert_eq!(keyed(&items, "b", &body).await.status, StatusCode::OK);
    }
    assert_eq!(brief(&fakes.get(&items).await.json()), ["hi", "hi"]);
    assert_eq!(fakes.conversations.list("u1", 10, None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_response_says_what_it_was_made_from() {
    let (fakes, _agent) = service();
    let call = json!({"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "a cat"});
    let input = json!([{"role": "developer", "content": "Be kind."}, user("one"), call, output]);
    let first = fakes.post(RESPONSES, json!({"model": "agent", "input": input}).to_string()).await.json();
    let second =
        json!({"model": "agent", "input": [user("two"), call, output], "previous_response_id": first["id"]});
    let second = fakes.post(RESPONSES, second.to_string()).await.json();
    let items =
        |response: &Value, query: &str| format!("/v1/responses/{}/input_items?{query}", text(response, "id"));
    let of_first = fakes.get(&items(&first, "order=asc")).await.json();
    assert_eq!(brief(&of_first), ["one", "function_call", "function_call_output"]);
    let of_second = fakes.get(&items(&second, "order=asc")).await.json();
    let expected = [
        "one",
        "function_call",
        "function_call_output",
        "hello",
        "two",
        "function_call",
        "function_call_output",
    ];
    assert_eq!(brief(&of_second), expected);
    let newest = fakes.get(&items(&second, "limit=2")).await.json();
    assert_eq!(
        (brief(&newest), &newest["has_more"]),
        (expected[5..].iter().rev().copied().collect(), &json!(true))
    );
    let theirs = request("GET", &items(&first, ""), Body::empty());
    let theirs = fakes.service.send(bearer("u2", theirs)).await;
    assert_eq!(problem(&theirs), (StatusCode::NOT_FOUND, json!("response_not_found")));
    assert_eq!(
        problem(&fakes.get(&items(&first, "limit=0")).await),
        (StatusCode::BAD_REQUEST, json!("invalid_value"))
    );
}

#[tokio::test]
async fn a_conversation_in_fewer_words_is_the_beginning_of_the_next_one() {
    let (fakes, agent) = saying("Ada said hi.");
    let document = fakes.get("/openapi.json").await.json();
    let compact = async |body: Value| fakes.post("/v1/responses/compact", body.to_string()).await;
    let open = json!({"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"});
    let said = json!([user("I am Ada."), {"role": "assistant", "content": "Hi, Ada."}, open]);
    let short = compact(json!({"model": "agent", "input": said, "instructions": "Names matter."})).await;
    assert_eq!(short.status, StatusCode::OK, "{short}");
    let short = short.json();
    assert_eq!(faults(&document, "OpenAiCompactedResponse", &short), [] as [String; 0]);
    assert_eq!(short["object"], "response.compaction");
    let types: Vec<_> = short["output"].as_array().unwrap().iter().map(|item| text(item, "type")).collect();
    assert_eq!(types, ["message", "compaction"]);
    let asked = agent.asked().pop().unwrap();
    assert!(asked.input.starts_with("Summarize"), "{asked:?}");
    assert_eq!(asked.options.tools, Some(vec![]), "it calls nothing");
    assert_eq!(asked.options.history.last(), Some(&Message::System { content: "Names matter.".into() }));

    let mut input = short["output"].as_array().unwrap().clone();
    input.push(user("who?"));
    let response =
        fakes.post(RESPONSES, json!({"model": "agent", "input": input, "tools": []}).to_string()).await;
    assert_eq!(response.status, StatusCode::OK, "{response}");
    let summary = "Summary of what was said and done before:\nAda said hi.";
    let users = ["I am Ada.", summary].map(|text| Message::User { content: text.into() });
    assert_eq!(agent.asked().pop().unwrap().options.history, users);
    // What is kept can be put in fewer words as well, and what is not cannot.
    let previous =
        compact(json!({"model": "agent", "previous_response_id": response.json()["id"]})).await.json();
    let types: Vec<_> =
        previous["output"].as_array().unwrap().iter().map(|item| text(item, "type")).collect();
    // The summary before is in the new one.
    assert_eq!(types, ["message", "compaction"]);
    agent.add(Ok(ScriptedInvoke::ended("Ada sa", StopReason::MaxTokens)));
    for (body, code) in [
        (json!({"model": "agent", "input": "hi"}), "summary_not_finished"),
        (json!({"input": "hi"}), "missing_required_parameter"),
        (json!({"model": "agent"}), "missing_required_parameter"),
        (json!({"model": "agent", "previous_response_id": "resp_1"}), "previous_response_not_found"),
    ] {
        assert_eq!(problem(&compact(body.clone()).await).1, code, "{body}");
    }
}

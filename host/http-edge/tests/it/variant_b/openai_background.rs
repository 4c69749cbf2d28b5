//! Responses in the background: queued, read, streamed again and cancelled by their ids.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agent_core::agent_loop::recorded_end;
use agent_core::ports::{ClaimTerms, ConversationStore as _, Epoch, Journal as _};
use agent_core::testing::{TestRuns, asks_for, says, task};
use agent_core::words::{
    AgentResult, ConversationKey, Event, JobStatus, Message, Task, ToolOutcome, ToolReceipt, ToolReturn, Turn,
};
use axum::body::Body;
use http::StatusCode;
use run_service::testing::{ScriptedInvoke, run_stores, streams_of};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::open_responses::faults;
use super::openai::{RESPONSES, events, merged};
use crate::harness::{Answer, Fakes, Keys, b, bearer, idempotency_over, request};

/// A service whose jobs nobody works on, and the journals of their runs.
fn service() -> (Fakes, Arc<TestRuns>) {
    let runs = Arc::new(TestRuns::default());
    let agent = ScriptedInvoke::answering("hello");
    let streams = streams_of(agent.clone(), run_stores(&runs));
    let with_streams = |edge: &mut http_edge::Edge| {
        let variant = b(edge);
        variant.streams = Some(streams.with_jobs(variant.jobs.clone()));
    };
    (Fakes::configured(agent, with_streams), runs)
}

fn body(more: &Value) -> String {
    merged(json!({"model": "agent", "input": "2+2", "background": true}), more)
}

async fn queued(fakes: &Fakes, more: &Value) -> Value {
    let answer = fakes.post(RESPONSES, body(more)).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer}");
    let response = answer.json();
    assert_eq!((&response["status"], &response["background"]), (&json!("queued"), &json!(true)));
    response
}

fn id(response: &Value) -> &str {
    response["id"].as_str().unwrap()
}

fn path(response: &Value) -> String {
    format!("/v1/responses/{}", id(response))
}

fn job_id(response: &Value) -> String {
    id(response).trim_start_matches("resp_").to_owned()
}

/// The events of a run that calls a tool and then says `4`.
fn journal(run_id: &str) -> Vec<Event> {
    let task = Task { id: run_id.to_owned(), ..task("2+2") };
    let answer = ToolReturn { content: "4".into(), receipt: ToolReceipt::new("add", ToolOutcome::Ok) };
    vec![
        Event::Started { task, tools: "sha256:t".into() },
        asks_for(&[("1", "add", json!({}))]).into(),
        Event::ToolReturned { index: 0, answer },
        says("4").into(),
    ]
}

/// Works the job of a response off.
async fn work_off(fakes: &Fakes, runs: &TestRuns, response: &Value) -> AgentResult {
    let run_id = fakes.queue.job(&job_id(response)).run_id;
    let events = journal(&run_id);
    runs.append(&run_id, Epoch(1), 0, &events).await.unwrap();
    let result = recorded_end(events, None).unwrap().unwrap();
    fakes.queue.change(&job_id(response), |job| {
        job.status = JobStatus::Completed;
        job.result = Some(to_raw_value(&result).unwrap());
        job.finished_at = Some(job.created_at + Duration::from_secs(7));
    });
    result
}

#[tokio::test]
async fn a_response_is_a_job_until_it_has_ended_and_is_gone_on_from_then() {
    let (fakes, runs) = service();
    let more = json!({"max_output_tokens": 50, "instructions": "be kind", "metadata": {"a": "b"},
                      "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}]});
    let first = queued(&fakes, &more).await;
    assert_eq!((&first["output"], &first["metadata"]), (&json!([]), &json!({"a": "b"})));
    let job = fakes.queue.added().remove(0);
    assert_eq!((job.user_id.as_str(), job.query.as_str()), ("u1", "2+2"));
    let asked = &job.options.options;
    assert_eq!((asked.max_tokens, asked.functions[0].name.as_str()), (Some(50), "look"));
    assert_eq!(asked.history, [Message::System { content: "be kind".into() }]);

    let read = async || fakes.get(&path(&first)).await.json();
    assert_eq!(read().await, first);
    let unfinished = fakes.post(RESPONSES, body(&json!({"previous_response_id": first["id"]}))).await;
    assert_eq!(unfinished.status, StatusCode::BAD_REQUEST, "{unfinished}");
    fakes.queue.change(&job_id(&first), |job| job.status = JobStatus::Active);
    assert_eq!(read().await["status"], "in_progress");
    work_off(&fakes, &runs, &first).await;
    let ended = read().await;
    assert_eq!(
        (&ended["status"], &ended["completed_at"]),
        (&json!("completed"), &json!(first["created_at"].as_u64().unwrap() + 7))
    );
    assert_eq!(ended.pointer("/output/1/content/0/text"), Some(&json!("4")), "{ended:#}");
    for field in ["id", "created_at", "metadata", "instructions", "tools", "max_output_tokens", "background"]
    {
        assert_eq!(ended[field], first[field], "{field}");
    }
    // From now on it is kept like any other, whatever becomes of its job.
    fakes.queue.change(&job_id(&first), |job| job.user_id = "u2".into());
    assert_eq!(read().await, ended);
    queued(&fakes, &json!({"previous_response_id": first["id"], "input": "and?"})).await;
    let history = fakes.queue.added().remove(1).options.options.history;
    assert!(matches!(&history[0], Message::User { content } if content.text() == "2+2"), "{history:?}");
    assert!(matches!(&history[3], Message::Assistant { content, .. } if content == "4"), "{history:?}");
}

#[tokio::test]
async fn a_conversation_is_that_of_the_job_and_a_question_with_an_image_is_asked_once() {
    let (fakes, _runs) = service();
    let image = "data:image/png;base64,aGk=";
    let input = json!([{"role": "user", "content": [{"type": "input_text", "text": "what?"},
                                                    {"type": "input_image", "image_url": image}]}]);
    let response = queued(&fakes, &json!({"conversation": "trip", "input": input})).await;
    assert_eq!(response["conversation"], json!({"id": "trip"}));
    let job = fakes.queue.added().remove(0);
    assert_eq!(job.conversation_id.as_deref(), Some("trip"));
    assert_eq!((job.input(), job.options.options.history.len()), ("", 1));
    assert!(job.query.starts_with("what?"), "{}", job.query);
}

/// The process died before it kept its answer, and the job has ended meanwhile.
#[tokio::test]
async fn a_response_that_is_queued_again_under_its_key_has_its_turn_once() {
    let (keys, runs) = (Arc::<Keys>::default(), TestRuns::default());
    let agent = ScriptedInvoke::answering("hello");
    let fakes = Fakes::configured(agent, |edge| edge.idempotency = idempotency_over(&keys));
    let ask = async || {
        let mut request = request("POST", RESPONSES, body(&json!({"conversation": "trip"})));
        request.headers_mut().insert("idempotency-key", "\"k\"".parse().unwrap());
        fakes.service.send(bearer("u1", request)).await.json()
    };
    keys.lose_answer();
    let first = ask().await;
    let messages = work_off(&fakes, &runs, &first).await.messages;
    let run_id = fakes.queue.job(&job_id(&first)).run_id;
    let turn = Turn { id: run_id.clone(), run_id, messages, ..Turn::default() };
    let trip = ConversationKey::conversation("u1", "trip");
    fakes.conversations.claim(trip, "its run", ClaimTerms::default()).await.unwrap();
    assert_eq!(fakes.conversations.settle(trip, "its run", &[turn]).await, Ok(true));
    keys.end_leases();
    assert_eq!(id(&ask().await), id(&first));
    assert_eq!(fakes.get(&path(&first)).await.json()["status"], "completed");
    let kept = fakes.conversations.read(ConversationKey::response("u1", id(&first))).await;
    let turns = kept.unwrap().unwrap().turns;
    assert_eq!(turns.len(), 1, "{turns:?}");
}

/// Each stream of a response has the same events under the same numbers.
#[tokio::test]
async fn a_stream_goes_on_behind_any_event() {
    let (fakes, runs) = service();
    let response = queued(&fakes, &json!({})).await;
    work_off(&fakes, &runs, &response).await;
    let stream = async |after: &str| fakes.get(&format!("{}?stream=true{after}", path(&response))).await;
    let document = fakes.get("/openapi.json").await.json();
    let whole = events(&stream("").await);
    let types: Vec<_> = whole.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types[..3], ["response.created", "response.queued", "response.in_progress"]);
    assert_eq!(types.last(), Some(&"response.completed"));
    assert_eq!(whole[0]["response"]["status"], "queued");
    // When it is streamed is another time.
    let read = fakes.get(&path(&response)).await.json();
    assert_eq!(whole.last().unwrap()["response"]["completed_at"], read["completed_at"]);
    for (number, event) in whole.iter().enumerate() {
        assert_eq!(event["sequence_number"], json!(number));
        assert_eq!(faults(&document, "OpenAiResponseEvent", event), [""; 0], "{event:#}");
    }
    for after in [0, 2, 5, whole.len() - 1] {
        let rest = events(&stream(&format!("&starting_after={after}")).await);
        let types = |events: &[Value]| events.iter().map(|event| event["type"].clone()).collect::<Vec<_>>();
        assert_eq!(types(&rest), types(&whole[after + 1..]), "{after}");
    }
    let wrong = stream("&starting_after=x").await;
    let named = (StatusCode::BAD_REQUEST, json!("invalid_value"), json!("starting_after"));
    assert_eq!(error(&wrong), named, "{wrong}");
}

#[tokio::test]
async fn a_response_may_be_streamed_from_its_beginning_and_ends_with_its_job() {
    let (fakes, runs) = service();
    let streamed = async { fakes.post(RESPONSES, body(&json!({"stream": true}))).await };
    let working = async {
        let id = loop {
            match fakes.queue.look(|job, _| Some(job.id.clone())).pop() {
                Some(id) => break id,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        work_off(&fakes, &runs, &json!({"id": format!("resp_{id}")})).await;
    };
    let (answer, ()) = tokio::join!(streamed, working);
    let events = events(&answer);
    assert_eq!(events.last().unwrap()["type"], "response.completed");
    let read = fakes.get(&path(&events[0]["response"])).await.json();
    assert_eq!(read["output"], events.last().unwrap()["response"]["output"]);
}

/// One that may not be called may have the name of a tool of the agent.
#[tokio::test]
async fn a_call_of_the_agents_tool_is_shown_as_one_beside_an_excluded_function_of_its_name() {
    let (fakes, runs) = service();
    let tools = json!([{"type": "function", "name": "add"}]);
    let response = queued(&fakes, &json!({"tools": tools, "tool_choice": "none"})).await;
    work_off(&fakes, &runs, &response).await;
    let ended = fakes.get(&path(&response)).await.json();
    assert_eq!(ended.pointer("/output/0/type"), Some(&json!("mcp_call")), "{ended:#}");
}

#[tokio::test]
async fn a_response_is_cancelled_once_and_is_the_same_afterwards() {
    let (fakes, runs) = service();
    let response = queued(&fakes, &json!({})).await;
    let cancel = async |path: &str| fakes.post(&format!("{path}/cancel"), "").await;
    let cancelled = cancel(&path(&response)).await;
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (StatusCode::OK, &json!("cancelled")));
    assert_eq!(cancel(&path(&response)).await.json(), cancelled.json());
    assert_eq!(fakes.get(&path(&response)).await.json(), cancelled.json());
    let last = events(&fakes.get(&format!("{}?stream=true", path(&response))).await).pop().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["status"]),
        (&json!("response.incomplete"), &json!("cancelled"))
    );
    let done = queued(&fakes, &json!({})).await;
    work_off(&fakes, &runs, &done).await;
    assert_eq!(cancel(&path(&done)).await.json()["status"], "completed");
}

/// Newer ones have taken its place while its job goes on.
#[tokio::test]
async fn a_response_that_is_not_kept_any_more_is_cancelled_with_its_job() {
    let (fakes, _runs) = service();
    let response = queued(&fakes, &json!({})).await;
    fakes.conversations.delete(ConversationKey::response("u1", id(&response))).await.unwrap();
    let cancelled = fakes.post(&format!("{}/cancel", path(&response)), "").await;
    assert_eq!(cancelled.status, StatusCode::OK, "{cancelled}");
    let shown = cancelled.json();
    assert_eq!((&shown["id"], &shown["status"]), (&response["id"], &json!("cancelled")));
    let document = fakes.get("/openapi.json").await.json();
    assert_eq!(faults(&document, "OpenAiResponse", &shown), [""; 0], "{shown:#}");
    assert_eq!(fakes.queue.job(&job_id(&response)).status, JobStatus::Cancelled);
}

#[tokio::test]
async fn a_job_that_failed_is_a_response_that_says_why() {
    let (fakes, _runs) = service();
    let response = queued(&fakes, &json!({})).await;
    fakes.queue.change(&job_id(&response), |job| {
        job.status = JobStatus::Failed;
        job.error = Some("Rate limit exceeded".into());
    });
    let failed = fakes.get(&path(&response)).await.json();
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["error"], json!({"code": "rate_limit_exceeded", "message": "Rate limit exceeded"}));
    let last = events(&fakes.get(&format!("{}?stream=true", path(&response))).await).pop().unwrap();
    assert_eq!(last["response"]["error"], failed["error"], "{last:#}");
    // What was asked is what a later response goes on from.
    assert_eq!(failed["store"], true);
    queued(&fakes, &json!({"previous_response_id": response["id"], "input": "again"})).await;
    let asked = Message::User { content: "2+2".into() };
    assert_eq!(fakes.queue.added()[1].options.options.history, [asked]);
}

#[tokio::test]
async fn a_response_whose_failed_job_is_tried_again_ends_as_that_does() {
    let (fakes, runs) = service();
    let response = queued(&fakes, &json!({})).await;
    let read = async || fakes.get(&path(&response)).await.json();
    let change = |status, error: &str| {
        fakes.queue.change(&job_id(&response), |job| {
            job.status = status;
            job.error = Some(error.to_owned());
        });
    };
    for (status, error, shown) in [
        (JobStatus::Failed, "once", "failed"),
        (JobStatus::Waiting, "", "queued"),
        (JobStatus::Active, "", "in_progress"),
        (JobStatus::Failed, "twice", "failed"),
    ] {
        change(status, error);
        let now = read().await;
        assert_eq!(now["status"], shown);
        let failed = if shown == "failed" { json!(error) } else { Value::Null };
        assert_eq!(now.pointer("/error/message").unwrap_or(&Value::Null), &failed);
    }
    let last = events(&fakes.get(&format!("{}?stream=true", path(&response))).await).pop().unwrap();
    let why = &last["response"]["error"]["message"];
    assert_eq!((&last["type"], why), (&json!("response.failed"), &json!("twice")), "{last:#}");
    work_off(&fakes, &runs, &response).await;
    assert_eq!(read().await["status"], "completed");
    queued(&fakes, &json!({"previous_response_id": response["id"], "input": "and?"})).await;
    let history = fakes.queue.added().remove(1).options.options.history;
    let questions = history.iter().filter(|message| matches!(message, Message::User { .. }));
    assert_eq!((questions.count(), history.len()), (1, 4), "{history:?}");
}

/// Status, code and parameter of an error.
fn error(answer: &Answer) -> (StatusCode, Value, Value) {
    let mut error = answer.json()["error"].take();
    (answer.status, error["code"].take(), error["param"].take())
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_name() {
    let (fakes, _runs) = service();
    let unkept = fakes.post(RESPONSES, body(&json!({"store": false}))).await;
    assert_eq!(error(&unkept), (StatusCode::BAD_REQUEST, json!("invalid_value"), json!("store")));
    let foreground = fakes.post(RESPONSES, body(&json!({"background": false}))).await.json();
    let cancelled = fakes.post(&format!("{}/cancel", path(&foreground)), "").await;
    assert_eq!(error(&cancelled), (StatusCode::BAD_REQUEST, json!("invalid_value"), json!("response_id")));
    let streamed = fakes.get(&format!("{}?stream=true", path(&foreground))).await;
    assert_eq!(error(&streamed), (StatusCode::BAD_REQUEST, json!("invalid_value"), json!("stream")));
    let mine = queued(&fakes, &json!({})).await;
    for (method, path) in [
        ("GET", path(&mine)),
        ("GET", format!("{}?stream=true", path(&mine))),
        ("POST", format!("{}/cancel", path(&mine))),
    ] {
        let theirs = fakes.service.send(bearer("u2", request(method, &path, Body::empty()))).await;
        assert_eq!(theirs.status, StatusCode::NOT_FOUND, "{method} {path}");
    }
    fakes.queue.switch.fail(true);
    let broken = fakes.post(RESPONSES, body(&json!({}))).await;
    assert_eq!(broken.status, StatusCode::SERVICE_UNAVAILABLE, "{broken}");
}

#[tokio::test]
async fn a_queue_that_node_workers_share_has_neither_options_nor_responses() {
    let (fakes, _runs) = service();
    fakes.queue.has_node_workers.store(true, Ordering::Relaxed);
    let refused = fakes.post(RESPONSES, body(&json!({}))).await;
    assert_eq!(error(&refused), (StatusCode::BAD_REQUEST, json!("unsupported_value"), json!("background")));
    assert!(refused.body.contains("NODE_WORKERS"), "{refused}");
    let options = json!({"query": "hi", "options": {"maxTokens": 100}}).to_string();
    let refused = fakes.post("/api/agent/async", options).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(refused.json()["error"][0]["path"], json!(["options"]), "{refused}");
    // What queues always had.
    let conversation = json!({"query": "hi", "options": {"conversationId": "trip"}}).to_string();
    assert_eq!(fakes.post("/api/agent/async", conversation).await.status, StatusCode::ACCEPTED);
}

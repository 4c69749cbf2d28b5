//! A call that waits, for clients of OpenAI's responses: asked for as an item, answered in the next request,
//! and gone on with there. A real agent, its jobs and their worker over stores in memory.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Epoch, JobQueue, Journal, JournalError, JournalResult};
use agent_core::testing::{
    EchoTools, ScriptedModel, Switch, TestConversations, TestQueue, TestRuns, TokioSpawn, asks_for, says,
};
use agent_core::words::{Event, JobData, Message, ModelReply, Principal, Verdict};
use boxed_async::boxed_async;
use run_service::conversations::Conversations;
use run_service::jobs::{Jobs, Worker};
use run_service::layers::{Agent, ConversationTurns, Parkable};
use run_service::shutdown::Shutdown;
use run_service::streams::RunStores;
use run_service::testing::{run_stores, streams_of, worker_context};
use run_service::waits::{ProposedDecision, Waits};
use serde_json::{Value, json};
use test_servers::Task;
use tokio_util::sync::CancellationToken;

use super::openai::{RESPONSES, events, merged};
use crate::harness::{Answer, Answers, Fakes, Log, b, bearer, request};

/// A service, and the worker of its jobs.
pub(super) struct Bench {
    pub(super) fakes: Fakes,
    pub(super) model: Arc<ScriptedModel>,
    runs: Arc<TestRuns>,
    waits: Waits,
    pub(super) shutdown: Shutdown,
    _worker: Task<()>,
}

fn tools() -> EchoTools {
    EchoTools::new(&["look", "pay"]).approved_by("pay", "sha256:policy")
}

/// A service whose model has these replies.
pub(super) fn bench(script: impl IntoIterator<Item = ModelReply>) -> Bench {
    bench_reading(script, |kept| kept)
}

/// A service whose model has these replies, and that follows runs in other stores than it writes to.
fn bench_reading(
    script: impl IntoIterator<Item = ModelReply>,
    reads: impl FnOnce(RunStores) -> RunStores,
) -> Bench {
    let (queue, runs) = (Arc::<TestQueue>::default(), Arc::<TestRuns>::default());
    let model = Arc::new(ScriptedModel::new(script.into_iter().map(Ok)));
    let toolbox = Arc::new(tools());
    let kept = run_stores(&runs);
    let journal = kept.journal.clone();
    let agent = || Agent { wait_tools: true, ..Agent::new(model.clone(), toolbox.clone(), journal.clone()) };
    let conversations = Conversations::new(Arc::<TestConversations>::default(), Arc::new(TokioSpawn));
    let jobs = Jobs::new(queue.clone());
    let of_jobs = ConversationTurns::new(agent(), conversations.clone(), Duration::from_secs(30));
    let worker = Worker::new(&jobs, worker_context(Arc::new(of_jobs), journal.clone()));
    let worker = Task::begin(async move { worker.work(CancellationToken::new()).await });
    let waits = Waits::new(queue.clone(), runs.clone(), toolbox.clone());
    let stack = || {
        let spawn = Arc::new(TokioSpawn);
        let queue: Arc<dyn JobQueue> = queue.clone();
        let parkable = Parkable::new(agent(), queue, journal.clone(), runs.clone(), spawn);
        ConversationTurns::new(parkable, conversations.clone(), Duration::from_secs(30))
    };
    let shutdown = Shutdown::default();
    let streams = streams_of(stack(), reads(kept)).with_jobs(jobs.clone()).until(shutdown.clone());
    let fakes = Fakes::configured(stack(), |edge| {
        b(edge).streams = Some(streams);
        b(edge).jobs = jobs;
        b(edge).waits = waits.clone();
        b(edge).runs = runs.clone();
        b(edge).queue = queue.clone();
        b(edge).conversations = conversations.clone();
    });
    Bench { fakes, model, runs, waits, shutdown, _worker: worker }
}

pub(super) fn pays(euros: &[u32]) -> ModelReply {
    let ids: Vec<_> = euros.iter().map(|euros| format!("c{euros}")).collect();
    let calls = ids.iter().zip(euros).map(|(id, euros)| (id.as_str(), "pay", json!({ "euros": euros })));
    asks_for(&calls.collect::<Vec<_>>())
}

pub(super) fn answer(request: &Value, approve: bool) -> Value {
    json!({"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve})
}

impl Bench {
    pub(super) async fn ask(&self, more: &Value) -> Answer {
        let body = merged(json!({"model": "agent", "input": "pay ada"}), more);
        self.fakes.post(RESPONSES, body).await
    }

    /// The answer of a request that goes on from a response.
    pub(super) async fn go_on(&self, from: &Value, input: Value) -> Answer {
        self.ask(&json!({"previous_response_id": from["id"], "input": input})).await
    }

    /// Approves the newest wait in another way than by a response. The run goes on.
    async fn approve(&self) {
        let wait = self.waits.list("u1", 10, None).await.unwrap().waits.remove(0);
        let (by, shown) = (Principal::user("u1"), wait.open.wait.shown.digest());
        let proposed = ProposedDecision { by, shown, verdict: Verdict::Approve };
        self.waits.decide(&wait.id, &proposed).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
    }

    /// What the model was told of its calls in its last call.
    pub(super) fn told(&self) -> Vec<String> {
        let asked = self.model.asked().pop().unwrap();
        let answers = asked.into_iter().filter_map(|message| match message {
            Message::Tool { content, .. } => Some(content),
            _ => None,
        });
        answers.collect()
    }
}

pub(super) fn kinds(response: &Value) -> Vec<String> {
    let output = response["output"].as_array().unwrap_or_else(|| panic!("{response:#}"));
    let brief = |item: &Value| {
        format!("{} {}", item["type"].as_str().unwrap(), item["status"].as_str().unwrap_or("-"))
    };
    output.iter().map(brief).collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_is_asked_for_approved_and_gone_on_with_in_the_next_response() {
    let bench = bench([pays(&[5]), says("paid"), says("again")]);
    let first = bench.ask(&json!({})).await.json();
    assert_eq!(
        (&first["status"], kinds(&first)),
        (&json!("completed"), vec!["mcp_approval_request -".to_owned()])
    );
    let asked = &first["output"][0];
    assert_eq!((&asked["name"], &asked["arguments"]), (&json!("pay"), &json!(r#"{"euros":5}"#)), "{first:#}");
    assert_eq!((&first["store"], &first["usage"]["total_tokens"]), (&json!(true), &json!(15)));

    let second = bench.go_on(&first, json!([answer(asked, true)])).await.json();
    assert_eq!(kinds(&second), ["mcp_call completed", "message completed"], "{second:#}");
    let called = &second["output"][0];
    assert_eq!((&called["approval_request_id"], &called["output"]), (&asked["id"], &json!(r#"{"euros":5}"#)));
    assert_eq!(second["output"][1]["content"][0]["text"], "paid");
    assert_eq!(second["usage"]["total_tokens"], 15, "that of the first is told there");
    assert_ne!(second["id"], first["id"]);

    // What was said is known once: the question, the call with its answer, and the words.
    bench.go_on(&second, json!("thanks")).await;
    let said = bench.model.asked().pop().unwrap();
    let said: Vec<_> =
        said.iter().map(|message| serde_json::to_value(message).unwrap()["role"].clone()).collect();
    assert_eq!(said, ["user", "assistant", "tool", "assistant", "user"]);
    // Who does not know whether an answer arrived sends it again, and reads what came of it.
    let same = bench.go_on(&first, json!([answer(asked, true)])).await.json();
    assert_eq!((&same["output"][0]["output"], bench.model.asked().len()), (&json!(r#"{"euros":5}"#), 3));
    // A request is answered once.
    let again = bench.go_on(&first, json!([answer(asked, false)])).await;
    again.check_error(409, "code", "approval_already_decided");
    again.check_error(409, "param", "input[0].approval_request_id");
    assert!(again.body.contains("decided by u1"), "{again}");
}

/// Clients of OpenAI cannot resume elsewhere.
#[tokio::test(start_paused = true)]
async fn a_run_that_was_answered_is_read_to_its_end_while_the_service_stops() {
    for stream in [false, true] {
        let bench = bench([pays(&[5]), says("paid")]);
        let first = bench.ask(&json!({})).await.json();
        bench.shutdown.end_drain();
        let input = [answer(&first["output"][0], true)];
        let goes_on = json!({"previous_response_id": first["id"], "stream": stream, "input": input});
        let second = bench.ask(&goes_on).await;
        let second = if stream { events(&second).last().unwrap()["response"].clone() } else { second.json() };
        assert_eq!(kinds(&second), ["mcp_call completed", "message completed"], "{second:#}");
    }
}

/// A journal that can be read until it fails.
struct Switched {
    journal: Arc<dyn Journal>,
    switch: Switch,
}

#[boxed_async]
impl Journal for Switched {
    async fn append(&self, _: &str, _: Epoch, _: u64, _: &[Event]) -> JournalResult {
        unreachable!("it is only read")
    }

    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        self.switch.check().await.map_err(|detail| JournalError::Store { detail })?;
        self.journal.read(run_id, from).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_in_the_middle_of_an_answer_is_in_the_log() {
    for stream in [false, true] {
        let switch = Switch::default();
        let bench = bench_reading([pays(&[5]), says("paid")], |kept| {
            let journal = Arc::new(Switched { journal: kept.journal.clone(), switch: switch.clone() });
            RunStores { journal, ..kept }
        });
        let first = bench.ask(&json!({})).await.json();
        switch.fail(true);
        let input = [answer(&first["output"][0], true)];
        let goes_on = json!({"previous_response_id": first["id"], "stream": stream, "input": input});
        let log = Log::collect();
        let second = bench.ask(&goes_on).await;
        assert!(log.text().contains("the disk is full"), "{}", log.text());
        if !stream {
            assert_eq!((second.status.as_u16(), second.header("retry-after")), (503, Some("1")), "{second}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_told_to_the_model_with_its_reason() {
    let bench = bench([pays(&[5]), says("then not")]);
    let first = bench.ask(&json!({})).await.json();
    let mut rejected = answer(&first["output"][0], false);
    rejected["reason"] = json!("too dear");
    let second = bench.go_on(&first, json!([rejected])).await.json();
    assert_eq!(kinds(&second), ["mcp_call failed", "message completed"], "{second:#}");
    assert!(second["output"][0]["error"]["content"][0]["text"].as_str().unwrap().contains("too dear"));
    assert!(bench.told()[0].contains("too dear"), "{:?}", bench.told());
}

#[tokio::test(start_paused = true)]
async fn streams_have_the_request_as_an_item_and_then_the_rest() {
    let look = asks_for(&[("a", "look", json!({})), ("b", "pay", json!({"euros": 5}))]);
    let bench = bench([ModelReply { content: "Let me see.".into(), ..look }, says("paid")]);
    let first = events(&bench.ask(&json!({"stream": true})).await);
    let whole = &first.last().unwrap()["response"];
    assert_eq!(first.last().unwrap()["type"], "response.completed");
    // A call that waits is shown as none.
    assert_eq!(kinds(whole), ["message completed", "mcp_call completed", "mcp_approval_request -"]);
    let asked = &whole["output"][2];
    let of_request: Vec<_> = first
        .iter()
        .filter(|event| event["item"]["type"] == "mcp_approval_request")
        .map(|event| event["type"].clone())
        .collect();
    assert_eq!(of_request, ["response.output_item.added", "response.output_item.done"]);

    let goes_on =
        json!({"previous_response_id": whole["id"], "input": [answer(asked, true)], "stream": true});
    let second = events(&bench.ask(&goes_on).await);
    let numbers: Vec<_> = second.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..second.len() as u64).collect::<Vec<_>>());
    let rest = &second.last().unwrap()["response"];
    assert_eq!(kinds(rest), ["mcp_call completed", "message completed"], "{rest:#}");
    assert_eq!(rest["output"][0]["approval_request_id"], asked["id"]);
    // Both are kept as they were shown.
    for shown in [whole, rest] {
        let path = format!("/v1/responses/{}", shown["id"].as_str().unwrap());
        assert_eq!(bench.fakes.get(&path).await.json(), *shown);
    }
}

/// Ids of items are made of their places.
#[tokio::test(start_paused = true)]
async fn a_stream_in_the_background_has_the_items_of_its_response_also_of_a_run_that_has_waited() {
    let bench =
        bench([asks_for(&[("a", "pay", json!({"euros": 5})), ("b", "look", json!({}))]), says("paid")]);
    let queued = bench.ask(&json!({"background": true})).await.json();
    let path = format!("/v1/responses/{}", queued["id"].as_str().unwrap());
    tokio::time::sleep(Duration::from_secs(5)).await;
    bench.approve().await;
    let streamed = events(&bench.fakes.get(&format!("{path}?stream=true")).await);
    let read = bench.fakes.get(&path).await.json();
    assert_eq!(kinds(&read), ["mcp_call completed", "mcp_call completed", "message completed"], "{read:#}");
    assert_eq!(streamed.last().unwrap()["response"]["output"], read["output"]);
}

#[tokio::test(start_paused = true)]
async fn several_calls_are_answered_at_once_or_one_after_the_other() {
    let bench =
        bench([pays(&[5, 6]), says("paid"), pays(&[7, 8]), says("paid again"), pays(&[9]), says("x")]);
    let first = bench.ask(&json!({})).await.json();
    let [five, six] = [&first["output"][0], &first["output"][1]];
    // Nothing is decided when one of the answers cannot be taken.
    let mut other = six.clone();
    other["id"] = json!(six["id"].as_str().unwrap().replace("-1.1", "-1.7"));
    let refused = bench.go_on(&first, json!([answer(five, true), answer(&other, true)])).await;
    refused.check_error(404, "code", "item_not_found");
    let second = bench.go_on(&first, json!([answer(five, true), answer(six, false)])).await.json();
    let mut items = kinds(&second);
    items.sort();
    assert_eq!(items, ["mcp_call completed", "mcp_call failed", "message completed"], "{second:#}");

    let first = bench.ask(&json!({"input": "and again"})).await.json();
    let second = bench.go_on(&first, json!([answer(&first["output"][0], true)])).await.json();
    assert_eq!(kinds(&second), ["mcp_call completed", "mcp_approval_request -"], "{second:#}");
    // What is asked in two responses can be answered from either.
    let last = bench.go_on(&second, json!([answer(&first["output"][1], true)])).await.json();
    assert_eq!(kinds(&last), ["mcp_call completed", "message completed"], "{last:#}");
    assert_eq!(bench.told().len(), 2);
}

#[tokio::test]
async fn many_answers_about_one_job_read_it_once() {
    let fakes = Fakes::with_invoke(Answers);
    let job_id = fakes.queue.add(&JobData::new("pay", "u1")).await.unwrap();
    let asked = |call: u32| json!({ "id": format!("mcpr_{job_id}:37ddff8e-1.{call}_3_ab") });
    let input: Vec<_> = (0..300).map(|call| answer(&asked(call), true)).collect();
    let before = fakes.queue.calls();
    let refused = fakes.post(RESPONSES, json!({"model": "agent", "input": input}).to_string()).await;
    // Nothing can be followed here.
    assert_eq!((refused.status.as_u16(), fakes.queue.calls() - before), (503, 1), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_the_whole_conversation_goes_on_as_well() {
    let bench = bench([pays(&[5]), says("paid"), says("welcome")]);
    let user = |text: &str| json!({"role": "user", "content": text});
    let first = bench.ask(&json!({"store": false, "input": [user("pay ada")]})).await.json();
    let asked = &first["output"][0];
    let mut input = json!([user("pay ada"), asked, answer(asked, true)]);
    let second = bench.ask(&json!({"store": false, "input": input})).await.json();
    assert_eq!(kinds(&second), ["mcp_call completed", "message completed"], "{second:#}");
    input.as_array_mut().unwrap().extend(second["output"].as_array().unwrap().clone());
    input.as_array_mut().unwrap().push(user("thanks"));
    let third = bench.ask(&json!({"store": false, "input": input})).await.json();
    assert_eq!(third["output"][0]["content"][0]["text"], "welcome", "{third:#}");
    assert_eq!(bench.told(), [r#"{"euros":5}"#]);
}

#[tokio::test(start_paused = true)]
async fn the_vercel_sdk_names_the_request_by_reference() {
    let bench = bench([pays(&[5]), says("paid"), says("welcome")]);
    let first = bench.ask(&json!({})).await.json();
    let asked = &first["output"][0];
    let reference = json!({"type": "item_reference", "id": asked["id"]});
    let user = |text: &str| json!({"role": "user", "content": text});
    let second = bench.ask(&json!({"input": [user("pay ada"), reference, answer(asked, true)]})).await.json();
    assert_eq!(kinds(&second), ["mcp_call completed", "message completed"], "{second:#}");
    // The question is part of what is kept.
    bench.go_on(&second, json!("thanks")).await;
    let said = bench.model.asked().pop().unwrap();
    assert_eq!((said.len(), &said[0]), (5, &Message::User { content: "pay ada".into() }));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_has_the_run_once() {
    let bench = bench([pays(&[5]), says("paid"), says("welcome")]);
    let of_trip = |input: Value| json!({"conversation": "trip", "input": input});
    let first = bench.ask(&of_trip(json!("pay ada"))).await.json();
    let second = bench.ask(&of_trip(json!([answer(&first["output"][0], true)]))).await.json();
    assert_eq!(kinds(&second), ["mcp_call completed", "message completed"], "{second:#}");
    let kept = bench.fakes.get("/api/agent/conversations/trip").await.json();
    assert_eq!(kept["turns"].as_array().unwrap().len(), 1, "{kept:#}");
    bench.go_on(&second, json!("thanks")).await;
    assert_eq!(bench.told().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_said_beside_the_question_is_kept_of_a_run_that_waited() {
    let bench = bench([pays(&[5]), says("paid"), says("welcome")]);
    let user = |text: &str| json!({"role": "user", "content": text});
    let input = json!([user("I am rich"), {"role": "assistant", "content": "Good."}, user("pay ada")]);
    let first = bench.ask(&json!({"conversation": "trip", "input": input})).await.json();
    let input = json!([answer(&first["output"][0], true)]);
    let second = bench.ask(&json!({"conversation": "trip", "input": input})).await.json();
    assert_eq!(kinds(&second), ["mcp_call completed", "message completed"], "{second:#}");
    bench.ask(&json!({"conversation": "trip", "input": "thanks"})).await;
    let said = bench.model.asked().pop().unwrap();
    assert_eq!((said.len(), &said[0]), (7, &Message::User { content: "I am rich".into() }), "{said:?}");
}

/// A reply that is no JSON, and what the model is told of it, are nothing that was said.
#[tokio::test(start_paused = true)]
async fn what_was_said_beside_the_question_is_kept_of_a_run_that_was_corrected() {
    let bench = bench([says("no JSON"), pays(&[5]), says("{}"), says("welcome")]);
    let input = json!([{"role": "user", "content": "I am rich"}, {"role": "assistant", "content": "Good."},
                       {"role": "user", "content": "pay ada"}]);
    let first = bench.ask(&json!({"input": input, "text": {"format": {"type": "json_object"}}})).await.json();
    let second = bench.go_on(&first, json!([answer(&first["output"][0], true)])).await.json();
    assert_eq!(kinds(&second), ["mcp_call completed", "message completed"], "{second:#}");
    bench.go_on(&second, json!("thanks")).await;
    let said = bench.model.asked().pop().unwrap();
    assert_eq!((said.len(), &said[0]), (7, &Message::User { content: "I am rich".into() }), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_is_deleted_while_its_run_waits_does_not_come_back() {
    let bench = bench([says("hello"), pays(&[5]), says("paid")]);
    for input in ["hi", "pay ada"] {
        bench.ask(&json!({"conversation": "trip", "input": input})).await;
    }
    let path = "/api/agent/conversations/trip";
    assert_eq!(bench.fakes.ask("DELETE", path, axum::body::Body::empty()).await.status, 204);
    bench.approve().await;
    assert_eq!(bench.told().len(), 1, "the run went on");
    assert_eq!(bench.fakes.get(path).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn what_is_nobodys_or_somebody_elses_to_decide_is_not_found_or_said_in_a_sentence() {
    let bench =
        bench([pays(&[5]), says("paid"), asks_for(&[("c", "ask_user", json!({"question": "Who?"}))])]);
    let first = bench.ask(&json!({})).await.json();
    let asked = &first["output"][0];
    let body = json!({"model": "agent", "store": false, "input": [answer(asked, true)]});
    let stranger = bench.fakes.service.send(bearer("u2", request("POST", RESPONSES, body.to_string()))).await;
    stranger.check_error(404, "code", "item_not_found");
    let beside =
        bench.go_on(&first, json!([answer(asked, true), {"role": "user", "content": "and bob"}])).await;
    beside.check_error(400, "code", "invalid_value");
    let (mut forged, id) = (asked.clone(), asked["id"].as_str().unwrap());
    forged["id"] = json!(format!("{}0000", &id[..id.len() - 4]));
    let void = bench.go_on(&first, json!([answer(&forged, true)])).await;
    void.check_error(409, "code", "approval_void");
    let wait = bench.waits.list("u1", 10, None).await.unwrap().waits.remove(0);
    let events = bench.runs.events(&wait.run_id);
    assert!(!events.iter().any(|event| matches!(event, Event::Decided { .. })), "{events:?}");

    // By another way meanwhile, and gone on with.
    bench.approve().await;
    let late = bench.go_on(&first, json!([answer(asked, false)])).await;
    late.check_error(409, "code", "approval_already_decided");
    // An answer that is sent again, because it may have been lost on its way, is no other decision.
    let same = bench.go_on(&first, json!([answer(asked, true)])).await.json();
    assert_eq!(kinds(&same), ["mcp_call completed", "message completed"], "{same:#}");

    // Nobody can answer a question so.
    let question = bench.ask(&json!({"input": "whom?"})).await.json();
    assert_eq!((kinds(&question), &question["store"]), (vec!["message completed".to_owned()], &json!(false)));
    assert!(question["output"][0]["content"][0]["text"].as_str().unwrap().contains("Who?"), "{question:#}");
}

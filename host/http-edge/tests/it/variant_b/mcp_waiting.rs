//! Calls over `/mcp` that wait for somebody: tasks, questions to the client's user, and a sentence for
//! clients that have neither. A real agent that asks no model, its jobs and their worker are over stores in
//! memory.

use std::sync::Arc;

use agent_core::testing::{EchoTools, TestQueue, TestRuns};
use agent_core::words::Event;
use axum::body::Body;
use http::Request;
use http::header::IF_MATCH;
use run_service::jobs::{Jobs, Worker};
use run_service::testing::{scripted_agent, waiting_calls, worker_context};
use run_service::waits::Waits;
use serde_json::{Value, json};
use test_servers::Task;
use tokio_util::sync::CancellationToken;

use super::mcp::{asked, message, of_client};
use crate::harness::{Answer, Answers, Fakes, b, bearer, request};

struct Bench {
    fakes: Fakes,
    runs: Arc<TestRuns>,
    _worker: Task<()>,
}

fn bench() -> Bench {
    let (queue, runs) = (Arc::<TestQueue>::default(), Arc::<TestRuns>::default());
    let tools = EchoTools::new(&["look", "pay"]).approved_by("pay", "sha256:policy");
    let agent = || scripted_agent([], tools.clone(), runs.clone());
    let jobs = Jobs::new(queue.clone());
    let worker = Worker::new(&jobs, worker_context(Arc::new(agent()), runs.clone()));
    let worker = Task::begin(async move { worker.work(CancellationToken::new()).await });
    let waits = Waits::new(queue.clone(), runs.clone(), Arc::new(tools.clone()));
    let calls = waiting_calls(agent(), &queue, &runs, &jobs, &waits);
    let fakes = Fakes::configured(Answers, |edge| {
        b(edge).tool_calls = calls;
        b(edge).jobs = jobs;
        b(edge).waits = waits;
        b(edge).runs = runs.clone();
        b(edge).queue = queue.clone();
    });
    Bench { fakes, runs, _worker: worker }
}

fn tasks() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} }, "elicitation": { "form": {} } })
}

fn questions() -> Value {
    json!({ "elicitation": {} })
}

fn pay(euros: u32) -> Value {
    asked(1, "tools/call", &json!({ "name": "pay", "arguments": { "euros": euros } }))
}

fn of_task(method: &str, id: &Value) -> Value {
    asked(2, method, &json!({ "taskId": id }))
}

fn said(decision: &str) -> Value {
    json!({ "action": "accept", "content": { "decision": decision } })
}

/// The only key of what a client is to ask, and what that is.
fn question(of: &Value) -> (String, Value) {
    let requests = of["inputRequests"].as_object().unwrap_or_else(|| panic!("{of:#}"));
    assert_eq!(requests.len(), 1);
    let (key, asked) = requests.iter().next().unwrap();
    (key.clone(), asked.clone())
}

impl Bench {
    async fn send(&self, user: &str, request: Request<Body>) -> Value {
        self.fakes.service.send(bearer(user, request)).await.json()
    }

    /// The result of a message of `u1`, whose client can do this.
    async fn ask(&self, body: Value, client: &Value) -> Value {
        let mut answer = self.send("u1", of_client(body, client)).await;
        assert!(answer["result"].is_object(), "{answer:#}");
        answer["result"].take()
    }

    /// The code of the error that this comes to.
    async fn refused(&self, user: &str, body: Value, client: &Value) -> Value {
        let answer = self.send(user, of_client(body, client)).await;
        answer["error"]["code"].clone()
    }

    async fn update(&self, id: &Value, key: &str, response: Value) -> Value {
        let mut body = of_task("tasks/update", id);
        body["params"]["inputResponses"] = json!({ key: response });
        self.ask(body, &tasks()).await
    }

    /// The answer to a call that is repeated with what its user said.
    async fn again(&self, first: &Value, euros: u32, response: Value) -> Value {
        let (key, _) = question(first);
        let mut body = pay(euros);
        body["params"]["requestState"] = first["requestState"].clone();
        body["params"]["inputResponses"] = json!({ key: response });
        self.ask(body, &questions()).await
    }

    async fn waits(&self) -> Value {
        self.fakes.get("/api/agent/waits").await.json()["data"].take()
    }

    async fn decide(&self, wait: &Value, body: &str) -> Answer {
        let path = format!("/api/agent/waits/{}/decision", wait["waitId"].as_str().unwrap());
        let mut request = bearer("u1", request("POST", &path, body.to_owned()));
        let tag = format!("\"{}\"", wait["digest"].as_str().unwrap());
        request.headers_mut().insert(IF_MATCH, tag.parse().unwrap());
        self.fakes.service.send(request).await
    }

    /// How often the run of the only job called its tool.
    fn calls_of(&self, run_id: &Value) -> usize {
        let events = self.runs.events(run_id.as_str().unwrap());
        events.iter().filter(|event| matches!(event, Event::ToolReturned { .. })).count()
    }
}

#[tokio::test]
async fn a_call_that_waits_is_a_task_to_clients_that_have_them() {
    let bench = bench();
    let found = bench.ask(asked(1, "server/discover", &json!({})), &json!({})).await;
    assert_eq!(found["capabilities"]["extensions"], json!({ "io.modelcontextprotocol/tasks": {} }));
    let task = bench.ask(pay(5), &tasks()).await;
    assert_eq!(
        (&task["resultType"], &task["status"]),
        (&json!("task"), &json!("input_required")),
        "{task:#}"
    );
    let id = &task["taskId"];
    let wait = bench.waits().await[0].take();
    assert_eq!((&wait["jobId"], &wait["kind"]), (id, &json!("approval")), "the same wait everywhere");

    let got = bench.ask(of_task("tasks/get", id), &tasks()).await;
    assert_eq!((&got["resultType"], &got["status"]), (&json!("complete"), &json!("input_required")));
    let (key, asked) = question(&got);
    assert_eq!((&json!(key), &asked["method"]), (&wait["waitId"], &json!("elicitation/create")));
    let text = asked["params"]["message"].as_str().unwrap();
    assert!(text.contains("pay") && text.contains(r#"{"euros":5}"#), "{text}");
    assert_eq!(asked["params"]["requestedSchema"]["required"], json!(["decision"]));

    let ack = bench.update(id, "another:0.0", said("reject")).await;
    assert_eq!(ack, json!({ "resultType": "complete" }), "what was never asked changes nothing");
    assert_eq!(bench.waits().await.as_array().unwrap().len(), 1);
    bench.update(id, &key, said("approve")).await;
    bench.update(id, &key, said("reject")).await;
    let done = bench.ask(of_task("tasks/get", id), &tasks()).await;
    assert_eq!(done["status"], "completed", "{done:#}");
    assert_eq!(done["result"]["content"][0]["text"], r#"{"euros":5}"#);
    assert_eq!((&done["result"]["isError"], bench.calls_of(&wait["runId"])), (&json!(false), 1));
}

#[tokio::test]
async fn what_a_user_is_asked_hides_nothing_of_the_arguments() {
    let bench = bench();
    let call = json!({ "name": "pay", "arguments": { "to": "bob\u{202e}eve" } });
    let first = bench.ask(asked(1, "tools/call", &call), &questions()).await;
    let (_, asked) = question(&first);
    let text = asked["params"]["message"].as_str().unwrap();
    assert!(text.contains(r"bob\u202eeve"), "{text}");
}

#[tokio::test]
async fn tasks_are_their_owners_and_of_clients_that_have_them() {
    let bench = bench();
    let task = bench.ask(pay(5), &tasks()).await;
    let get = || of_task("tasks/get", &task["taskId"]);
    assert_eq!(bench.refused("u2", get(), &tasks()).await, -32602);
    assert_eq!(bench.refused("u1", get(), &questions()).await, -32021);
    let unknown = of_task("tasks/get", &json!("01a2"));
    assert_eq!(bench.refused("u1", unknown, &tasks()).await, -32602);
    // Who cannot ask a user waits for whoever decides elsewhere.
    let silent = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let got = bench.ask(get(), &silent).await;
    assert_eq!((&got["status"], &got["inputRequests"]), (&json!("working"), &json!(null)));
    assert!(got["statusMessage"].as_str().unwrap().contains("approval of pay"), "{got:#}");
    let decided = bench.decide(&bench.waits().await[0], r#"{"decision":"reject","reason":"too dear"}"#).await;
    assert_eq!(decided.status, 200, "{decided}");
    let done = bench.ask(get(), &silent).await;
    assert_eq!(
        (&done["status"], &done["result"]["isError"]),
        (&json!("completed"), &json!(true)),
        "{done:#}"
    );
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("too dear"), "{done:#}");

    let task = bench.ask(pay(6), &tasks()).await;
    let ack = bench.ask(of_task("tasks/cancel", &task["taskId"]), &tasks()).await;
    assert_eq!(ack["resultType"], "complete");
    let got = bench.ask(of_task("tasks/get", &task["taskId"]), &tasks()).await;
    assert_eq!(got["status"], "cancelled", "{got:#}");
}

#[tokio::test]
async fn a_client_that_can_ask_its_user_does_and_repeats_the_call() {
    let bench = bench();
    let first = bench.ask(pay(5), &questions()).await;
    assert_eq!(first["resultType"], "input_required", "{first:#}");
    let run_id = bench.waits().await[0]["runId"].take();
    let done = bench.again(&first, 5, said("approve")).await;
    assert_eq!((&done["isError"], &done["content"][0]["text"]), (&json!(false), &json!(r#"{"euros":5}"#)));
    let repeated = bench.again(&first, 5, said("approve")).await;
    assert_eq!((&repeated, bench.calls_of(&run_id)), (&done, 1), "sent again it is the same call");

    let second = bench.ask(pay(6), &questions()).await;
    let open = bench.again(&second, 6, json!({ "action": "cancel" })).await;
    assert_eq!(open["isError"], true);
    assert!(open["content"][0]["text"].as_str().unwrap().contains("not made yet"), "{open:#}");
    let rejected = bench.again(&second, 6, json!({ "action": "decline" })).await;
    let text = rejected["content"][0]["text"].as_str().unwrap();
    assert!(rejected["isError"] == true && text.contains("rejected"), "{rejected:#}");
}

#[tokio::test]
async fn what_a_client_carries_is_of_its_user_and_of_its_call_and_as_we_sealed_it() {
    let bench = bench();
    let first = bench.ask(pay(5), &questions()).await;
    let state = first["requestState"].as_str().unwrap();
    let (key, _) = question(&first);
    let with = |euros: u32, state: &str| {
        let mut body = pay(euros);
        body["params"]["requestState"] = json!(state);
        body["params"]["inputResponses"] = json!({ &key: said("approve") });
        body
    };
    let forged = format!("{}x", &state[..state.len() - 1]);
    let long = "x".repeat(4_000);
    for (user, body) in [
        ("u2", with(5, state)),
        ("u1", with(6, state)),
        ("u1", with(5, &forged)),
        ("u1", with(5, &long)),
        ("u1", with(5, "")),
    ] {
        assert_eq!(bench.refused(user, body.clone(), &questions()).await, -32602, "{user} {body}");
    }
    let mut strange = with(5, state);
    strange["params"]["inputResponses"][&key] = said("maybe");
    assert_eq!(bench.refused("u1", strange, &questions()).await, -32602);
    assert_eq!(bench.waits().await.as_array().unwrap().len(), 1, "nothing is decided");
}

#[tokio::test]
async fn an_error_of_the_service_is_not_kept_under_an_idempotency_key() {
    let bench = bench();
    let task = bench.ask(pay(5), &tasks()).await;
    let get = || {
        let mut request = of_client(of_task("tasks/get", &task["taskId"]), &tasks());
        request.headers_mut().insert("idempotency-key", "k".parse().unwrap());
        bench.send("u1", request)
    };
    bench.runs.switch.fail(true);
    let failed = get().await;
    assert_eq!(failed["error"]["code"], -32603, "{failed:#}");
    bench.runs.switch.fail(false);
    for _ in 0..2 {
        let got = get().await;
        assert_eq!(got["result"]["status"], "input_required", "{got:#}");
    }
}

#[tokio::test]
async fn other_clients_are_told_what_the_call_waits_for() {
    let bench = bench();
    let of_2025 = bench.send("u1", message(&pay(5))).await["result"].take();
    let told = bench.ask(pay(6), &json!({})).await;
    for answer in [of_2025, told] {
        assert_eq!(answer["isError"], true, "{answer:#}");
        let (text, job) =
            (answer["content"][0]["text"].as_str().unwrap(), &answer["_meta"]["agent-host/jobId"]);
        let path = format!("/api/agent/jobs/{}", job.as_str().unwrap());
        assert!(text.contains("waits until") && text.contains(&path), "{text}");
        let wait = bench.fakes.get(&path).await.json()["waits"][0].take();
        assert!(text.contains(wait["waitId"].as_str().unwrap()), "{text}");
        assert_eq!(bench.decide(&wait, r#"{"decision":"approve"}"#).await.status, 200);
    }
    let waits_not =
        bench.ask(asked(3, "tools/call", &json!({ "name": "look", "arguments": {} })), &tasks()).await;
    assert_eq!((&waits_not["resultType"], &waits_not["isError"]), (&json!("complete"), &json!(false)));
}

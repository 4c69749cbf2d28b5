//! Runs that wait for somebody, over `kill -9` and on each queue: what was shown is carried out once.

use acceptance::{
    Answer, Builder, Component, Model, Service, Stores, Token, User, asks_for, eventually, says,
};
use reqwest::Method;
use serde_json::{Value, json};

/// A service whose calculator asks first.
async fn service(stores: &Stores, model: &Model, port: Option<u16>) -> Service {
    let calculator = Component::shipped("calculator");
    let builder = stores.service(model).granting([(&calculator, "approve = \"always\"\n")]);
    start_at(builder, port).await
}

/// Starts a service, at that port if there is one. It has no rate limits: looking at a job until it waits
/// takes many requests.
pub(crate) async fn start_at(builder: Builder, port: Option<u16>) -> Service {
    let builder = builder.without_windows();
    match port {
        Some(port) => builder.env("PORT", port.to_string()),
        None => builder,
    }
    .start()
    .await
}

/// The only wait of a job, once it is parked.
pub(crate) async fn wait_of(user: &User, job: &str) -> Value {
    eventually("the job to wait for somebody", async || {
        let job = user.job(job).await.json();
        (job["status"] == "parked").then(|| job["waits"][0].clone())
    })
    .await
}

/// The job that waited, once it has gone on to its end.
pub(crate) async fn gone_on(user: &User, job: &str) -> Value {
    eventually("the job to go on", async || {
        let job = user.job(job).await.json();
        (job["status"] == "completed").then_some(job)
    })
    .await
}

pub(crate) async fn decide(user: &User, wait: &Value, decision: &Value) -> Answer {
    user.send(user.deciding(wait, decision)).await
}

/// Kills every process that had to do with the run: the one that parked it, and the one that was told the
/// decision as soon as it said so.
async fn check_an_approval(stores: Stores) {
    let model = Model::openai().await;
    // A process that is killed while it asks has told nobody of the reply, and it is asked for once more.
    model.always(|request| match request.tool_results().is_empty() {
        true => asks_for("calculate", json!({ "expression": "6 * 7" })),
        false => says("42"),
    });
    let (token, stranger) = (Token::of("ada"), Token::of("bob"));
    let mut first = service(&stores, &model, None).await;
    let port = first.address().port();
    let user = first.user(&token);
    let job = user.job_for("What is 6 * 7?").await;
    let wait = wait_of(&user, &job).await;
    assert_eq!(wait["shown"]["arguments"], json!({ "expression": "6 * 7" }), "{wait:#}");
    first.killed().await;

    let mut second = service(&stores, &model, Some(port)).await;
    let user = second.user(&token);
    let listed = user.get("/api/agent/waits").await.json();
    assert_eq!(listed["data"], json!([wait]), "it is what it was");
    assert_eq!(decide(&second.user(&stranger), &wait, &json!({ "decision": "approve" })).await.status, 404);
    let decided = decide(&user, &wait, &json!({ "decision": "approve" })).await;
    assert_eq!(decided.status, 200, "{decided}");
    second.killed().await;

    let third = service(&stores, &model, Some(port)).await;
    let user = third.user(&token);
    let again = decide(&user, &wait, &json!({ "decision": "reject" })).await;
    assert_eq!(again.status, 409, "{again}");
    let done = user.completed_job(&job, "42").await;
    let made = done["result"]["toolCalls"].as_array().unwrap();
    assert_eq!((made.len(), &made[0]["outcome"]), (1, &json!("ok")), "{done:#}");
    let calls = model.calls();
    assert!((2..=3).contains(&calls.len()), "{}", calls.len());
    assert!(calls[1].tool_results()[0].contains("42"), "{:?}", calls[1].tool_results());
}

on_each! { check_an_approval:
    an_approved_call_is_made_once_whoever_is_killed_with_everything_in_one_file = Stores::embedded();
    an_approved_call_is_made_once_whoever_is_killed_with_jobs_on_redis = Stores::redis_and_mongo().await;
    an_approved_call_is_made_once_whoever_is_killed_on_postgresql = Stores::postgres().await;
}

/// Kills around a call that a client of MCP makes itself: no model has any part in it.
async fn check_a_direct_call(stores: Stores) {
    let model = Model::openai().await;
    let token = Token::of("ada");
    let mut first = service(&stores, &model, None).await;
    let port = first.address().port();
    let user = first.user(&token);
    let params = json!({ "name": "calculate", "arguments": { "expression": "6 * 7" } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let request = user.request(Method::POST, "/mcp").header("content-type", "application/json");
    let request = request.header("accept", "application/json, text/event-stream");
    let answer = user.send(request.body(call.to_string())).await.json();
    let job = answer["result"]["_meta"]["agent-host/jobId"].as_str().unwrap_or_else(|| panic!("{answer:#}"));
    first.killed().await;

    let mut second = service(&stores, &model, Some(port)).await;
    let user = second.user(&token);
    let wait = wait_of(&user, job).await;
    assert_eq!(wait["shown"]["arguments"], json!({ "expression": "6 * 7" }), "{wait:#}");
    let decided = decide(&user, &wait, &json!({ "decision": "approve" })).await;
    assert_eq!(decided.status, 200, "{decided}");
    second.killed().await;

    let third = service(&stores, &model, Some(port)).await;
    let done = third.user(&token).ended_job(job).await;
    assert_eq!(
        (&done["status"], &done["result"]["iterations"]),
        (&json!("completed"), &json!(0)),
        "{done:#}"
    );
    assert!(done["result"]["output"].as_str().unwrap().contains("42"), "{done:#}");
    let outcomes = done["result"]["toolCalls"].as_array().unwrap();
    assert_eq!(
        (outcomes.len(), &outcomes[0]["outcome"], model.calls().len()),
        (1, &json!("ok"), 0),
        "{done:#}"
    );
}

on_each! { check_a_direct_call:
    an_approved_direct_call_is_made_once_whoever_is_killed_with_everything_in_one_file = Stores::embedded();
    an_approved_direct_call_is_made_once_whoever_is_killed_with_jobs_on_redis = Stores::redis_and_mongo().await;
    an_approved_direct_call_is_made_once_whoever_is_killed_on_postgresql = Stores::postgres().await;
}

#[tokio::test]
async fn an_operator_decides_beside_the_service() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::openai().await);
    let (calculator, asks) = (Component::shipped("calculator"), Component::misbehaving("asks"));
    let builder = Service::variant_b().model(&model).sqlite_in(folder.path());
    let builder = builder.granting([(&calculator, "approve = \"always\"\n"), (&asks, "ask = true")]);
    let service = builder.without_windows().start().await;
    model.asks_for("calculate", json!({ "expression": "6 * 7" })).says("42");
    let user = service.user(Token::of("ada"));
    let job = user.job_for("What is 6 * 7?").await;
    let wait = wait_of(&user, &job).await;
    let (id, digest) = (wait["waitId"].as_str().unwrap(), wait["digest"].as_str().unwrap());
    let waits = async |arguments: &[&str]| {
        let command = Service::command(&[&["waits"], arguments].concat());
        let ended = command.sqlite_in(folder.path()).env("REDIS_URL", "memory://").run().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    };
    let said = waits(&["decide", id, "--approve", "--digest", digest]).await;
    assert!(said.contains("the run goes on"), "{said}");
    assert_eq!(user.ended_job(&job).await["result"]["output"], "42");

    model.asks_for("order", json!({ "thing": "shoes" })).says("ordered");
    let job = user.job_for("order shoes").await;
    for (number, answer) in [(0, "blue"), (1, "3")] {
        let wait = eventually("the question", async || {
            let job = user.job(&job).await.json();
            let waits = job["waits"].as_array().cloned().unwrap_or_default();
            waits.into_iter().find(|wait| wait["within"]["number"] == number)
        })
        .await;
        let id = wait["waitId"].as_str().unwrap();
        let shown: Value = serde_json::from_str(&waits(&["show", id, "--json"]).await).unwrap();
        assert_eq!(shown, wait);
        let command =
            format!("waits decide {id} --answer JSON --digest {}", wait["digest"].as_str().unwrap());
        let shown = waits(&["show", id]).await;
        assert!(shown.contains(&format!("To answer: agent-host {command}")), "{shown}");
        let command = command.replace("JSON", answer);
        waits(&command.split(' ').skip(1).collect::<Vec<_>>()).await;
    }
    user.ended_job(&job).await;
    let told: Value = serde_json::from_str(model.calls()[3].tool_results()[0]).unwrap();
    assert_eq!((&told["colour"], &told["count"]), (&json!("blue"), &json!(3)), "{told}");
}

#[tokio::test]
async fn a_stream_ends_while_its_run_waits_and_goes_on_where_it_ended() {
    let (stores, model) = (Stores::redis_and_postgres().await, Model::openai().await);
    let service = service(&stores, &model, None).await;
    let user = service.user(Token::of("ada"));
    model.asks_for("calculate", json!({ "expression": "6 * 7" }));
    let mut stream = user.stream("What is 6 * 7?").await;
    let events = stream.rest().await;
    let waiting = events.last().unwrap();
    assert_eq!(waiting.name, "run.waiting", "{events:#?}");
    assert_eq!(stream.asides.last().unwrap(), "retry: 60000");
    let run = events[0].data["runId"].as_str().unwrap().to_owned();
    let wait = &waiting.data["waits"][0];

    let mut stream = user.follow(&format!("runs/{run}"), waiting.id.as_deref()).await;
    let again = stream.rest().await;
    assert_eq!(again.iter().map(|event| event.name.as_str()).collect::<Vec<_>>(), ["run.waiting"]);
    model.says("42");
    assert_eq!(decide(&user, wait, &json!({ "decision": "approve" })).await.status, 200);
    let mut stream = user.follow(&format!("runs/{run}"), waiting.id.as_deref()).await;
    let rest = stream.rest().await;
    // Words are told to whoever reads while they are written.
    let names = rest.iter().map(|event| event.name.as_str()).filter(|name| *name != "model.delta");
    let expected = ["run.decided", "tool.returned", "model.replied", "run.ended"];
    assert_eq!(names.collect::<Vec<_>>(), expected, "{rest:#?}");
}

#[tokio::test]
async fn chat_completions_end_in_a_sentence_that_says_where_the_run_goes_on() {
    let (stores, model) = (Stores::embedded(), Model::openai().await);
    let service = service(&stores, &model, None).await;
    let user = service.user(Token::of("ada"));
    model.asks_for("calculate", json!({ "expression": "6 * 7" }));
    let body = json!({ "model": "agent", "messages": [{ "role": "user", "content": "What is 6 * 7?" }] });
    let answer = user.post("/v1/chat/completions", body.to_string()).await.json();
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "stop", "{answer:#}");
    let said = choice["message"]["content"].as_str().unwrap();
    assert!(said.contains("before it calls calculate (/api/agent/waits/"), "{said}");
}

//! Runs that wait because their model asked for it (`WAIT_TOOLS`): for an answer, a time, an event.

use acceptance::{Model, Service, Token, User, now};
use chrono::DateTime;
use serde_json::{Value, json};

use crate::bad_days::waits::{decide, gone_on, wait_of};

async fn service(model: &Model) -> Service {
    let builder = Service::variant_b().model(model).env("WAIT_TOOLS", "on");
    // Looking at a job until something has become of it takes many requests.
    builder.without_windows().start().await
}

#[tokio::test]
async fn a_question_waits_for_an_answer_that_fits_it() {
    let model = Model::openai().await;
    let service = service(&model).await;
    let user = service.user(Token::of("ada"));
    let schema = json!({ "type": "object", "required": ["colour"] });
    model.asks_for("ask_user", json!({ "question": "Which one?", "schema": schema })).says("the blue one");
    let job = user.job_for("order one").await;
    let wait = wait_of(&user, &job).await;
    assert_eq!((&wait["kind"], &wait["answerSchema"]), (&json!("question"), &schema), "{wait:#}");
    let decide = async |decision: Value| decide(&user, &wait, &decision).await.status;
    assert_eq!(decide(json!({ "decision": "approve" })).await, 400);
    assert_eq!(decide(json!({ "decision": "answer", "answer": "blue" })).await, 400);
    assert_eq!(decide(json!({ "decision": "answer", "answer": { "colour": "blue" } })).await, 200);
    assert_eq!(user.ended_job(&job).await["result"]["output"], "the blue one");
    let calls = model.calls();
    assert_eq!(calls[1].tool_results(), [r#"{"colour":"blue"}"#]);
    assert!(calls[0].tools().contains(&"wait_until"), "{:?}", calls[0].tools());
}

#[tokio::test]
async fn a_run_goes_on_when_its_time_has_come() {
    let model = Model::openai().await;
    let service = service(&model).await;
    let user = service.user(Token::of("ada"));
    let time = DateTime::from_timestamp(i64::try_from(now() + 2).unwrap(), 0).unwrap().to_rfc3339();
    model.asks_for("wait_until", json!({ "time": time })).says("good morning");
    let job = user.job_for("wake me").await;
    assert_eq!(wait_of(&user, &job).await["kind"], "timer");
    let done = gone_on(&user, &job).await;
    assert_eq!(done["result"]["output"], "good morning", "{done:#}");
    assert_eq!(model.calls()[1].tool_results(), ["The time has come."]);
}

#[tokio::test]
async fn an_event_reaches_the_runs_of_its_user_that_wait_for_it() {
    let model = Model::openai().await;
    let service = service(&model).await;
    let (ada, bob) = (service.user(Token::of("ada")), service.user(Token::of("bob")));
    let admin = service.caller().user(Token::of("eve").admin());
    model.asks_for("wait_for_event", json!({ "name": "paid", "key": "17" })).says("thanks");
    let job = ada.job_for("wait for the payment").await;
    assert_eq!(wait_of(&ada, &job).await["kind"], "event");
    let deliver =
        async |user: &User, body: Value| user.post("/api/agent/events/paid", body.to_string()).await;
    assert_eq!(deliver(&ada, json!({ "key": "18" })).await.json(), json!({ "delivered": 0 }));
    assert_eq!(deliver(&bob, json!({ "key": "17" })).await.json(), json!({ "delivered": 0 }));
    assert_eq!(deliver(&bob, json!({ "key": "17", "userId": "ada" })).await.status, 403);
    let body = json!({ "key": "17", "data": { "euros": 60 }, "userId": "ada" });
    assert_eq!(deliver(&admin, body).await.json(), json!({ "delivered": 1 }));
    assert_eq!(ada.ended_job(&job).await["result"]["output"], "thanks");
    assert_eq!(model.calls()[1].tool_results(), [r#"{"euros":60}"#]);
    assert_eq!(deliver(&ada, json!({ "key": "17" })).await.json(), json!({ "delivered": 0 }), "once");
}

#[tokio::test]
async fn a_request_whose_model_begins_a_run_becomes_a_job_that_goes_on_with_what_that_says() {
    let model = Model::openai().await;
    let service = service(&model).await;
    let user = service.user(Token::of("ada"));
    // The child run has none.
    model.expects_any_tools();
    model
        .asks_for("run_agent", json!({ "task": "Count to 42.", "tools": [] }))
        .says("42")
        .says("It says 42.");
    let accepted = user.agent("Have somebody count.").await;
    assert_eq!(accepted.status, 202, "{accepted}");
    let job = accepted.json()["jobId"].as_str().unwrap().to_owned();
    assert_eq!(accepted.header("location"), format!("/api/agent/jobs/{job}"));
    let done = gone_on(&user, &job).await;
    assert_eq!(done["result"]["output"], "It says 42.", "{done:#}");
    let calls = model.calls();
    assert_eq!(calls[2].tool_results(), ["42"]);
    assert!(calls[1].tools().is_empty(), "{:?}", calls[1].tools());
    let listed = user.get("/api/agent/jobs").await.json();
    let parents: Vec<_> = listed["data"].as_array().unwrap().iter().map(|job| &job["parentJobId"]).collect();
    assert_eq!(parents, [&json!(job), &Value::Null], "{listed:#}");
}

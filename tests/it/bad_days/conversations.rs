//! Kept conversations over real stores: the worker of a job is killed in the middle of one.

use acceptance::{Model, Service, Stores, Token, says};
use serde_json::{Value, json};

fn asks(query: &str) -> Value {
    json!({ "query": query, "options": { "conversationId": "trip" } })
}

async fn check_a_killed_worker(stores: &Stores) {
    let model = Model::saying("Hello, Ada!").await;
    let gate = model.holds(says("never heard"));
    model.says("done");
    let mut service: Service = stores.service(&model).start().await;
    let token = Token::of("u");
    let user = service.user(&token);
    let first = user.agent_with(asks("I am Ada.")).await;
    assert_eq!(first.status, 200, "{first}");
    let submitted = user.post("/api/agent/async", asks("work").to_string()).await;
    assert_eq!(submitted.status, 202, "{submitted}");
    let job = submitted.json()["jobId"].as_str().unwrap_or_default().to_owned();
    model.was_asked(2).await;
    let busy = user.agent_with(asks("me too")).await;
    assert_eq!((busy.status, busy.header("retry-after")), (409, "1"), "{busy}");
    service.killed().await;

    let service = stores.service(&model).env("PORT", service.address().port().to_string()).start().await;
    let user = service.user(&token);
    assert_eq!(user.ended_job(&job).await["status"], "completed");
    drop(gate);
    let kept = user.get("/api/agent/conversations/trip").await.json();
    let said: Vec<_> = kept["turns"].as_array().into_iter().flatten().map(|turn| &turn["messages"]).collect();
    let turn = |asked: &str, said: &str| json!([{ "role": "user", "content": asked }, { "role": "assistant", "content": said }]);
    assert_eq!(said, [&turn("I am Ada.", "Hello, Ada!"), &turn("work", "done")], "{kept}");
    // The attempt that was killed and the one that went on were shown the same.
    let calls = model.calls();
    assert_eq!(calls[1].body["messages"], calls[2].body["messages"]);
    assert_eq!(calls[2].user_text(), "I am Ada.");
    model.says("bye");
    let free = user.agent_with(asks("bye")).await;
    assert_eq!(free.status, 200, "{free}");
}

on_each! { check_a_killed_worker:
    the_turn_of_a_killed_workers_job_is_appended_once_on_sqlite = &Stores::embedded();
    the_turn_of_a_killed_workers_job_is_appended_once_on_redis_and_mongodb = &Stores::redis_and_mongo().await;
}

//! Idempotency keys over real stores and processes: a process that is killed, a service without a store.

use acceptance::{Answer, Model, Service, Stores, Task, Token, User, eventually, says};
use reqwest::Method;
use serde_json::json;

/// `POST` under an idempotency key.
async fn keyed(user: &User, key: &str, path: &str, query: &str) -> Answer {
    let request = user.request(Method::POST, path).header("idempotency-key", format!("\"{key}\""));
    user.send(request.body(json!({ "query": query }).to_string())).await
}

fn is_replay(answer: &Answer) -> bool {
    answer.header("idempotent-replayed") == "true"
}

/// `kill -9` while the request is with the model: the key is free when its lease has ended, on another
/// process.
#[tokio::test]
async fn a_killed_process_gives_its_keys_free() {
    let (stores, model) = (Stores::redis_and_postgres().await, Model::openai().await);
    let _held = model.holds(says("never heard"));
    model.says("hello");
    let start = || {
        // The second one is asked until the key is free.
        let service = stores.service(&model).without_windows();
        service.start()
    };
    let (mut one, other) = tokio::join!(start(), start());
    let (first, second) = (one.user(Token::of("u")), other.user(Token::of("u")));
    let caller = one.caller();
    let waiting = Task::begin(async move {
        let request = first.request(Method::POST, "/api/agent").header("idempotency-key", "k");
        caller.try_send(request.body(json!({ "query": "hi" }).to_string())).await
    });
    model.was_asked(1).await;
    one.killed().await;
    assert!(waiting.ended().await.is_err());
    let again = eventually("the key to be free", async || {
        let answer = keyed(&second, "k", "/api/agent", "hi").await;
        (answer.status != 409).then_some(answer)
    })
    .await;
    assert_eq!((again.status, is_replay(&again)), (200, false), "{again}");
    assert!(is_replay(&keyed(&second, "k", "/api/agent", "hi").await));
}

#[tokio::test]
async fn without_a_store_keys_are_kept_in_the_process_and_the_log_says_so() {
    let model = Model::saying("hello").await;
    let service = Service::variant_a().model(&model).start().await;
    service.log().line_with(&["idempotency keys are kept in this process only"]).await;
    let ask = async || {
        let request = service.request(Method::POST, "/agent/invoke").header("idempotency-key", "k");
        service.send(request.body(json!({ "input": "hi" }).to_string())).await
    };
    let (first, again) = (ask().await, ask().await);
    assert_eq!((first.status, is_replay(&first)), (200, false), "{first}");
    assert_eq!((again.status, &again.body, is_replay(&again)), (200, &first.body, true));
    assert_eq!(model.calls().len(), 1);
}

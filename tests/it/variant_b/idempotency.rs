//! `Idempotency-Key`: a `POST` is carried out once, on whichever replica, also when the one that began it was
//! killed.

use acceptance::{Answer, Model, Signal, Task, Token, User, says};
use axum::http::Method;
use serde_json::{Value, json};

use super::jobs::Queue;

async fn post(user: &User, path: &str, key: &str, body: Value) -> Answer {
    let request = user.request(Method::POST, path).header("idempotency-key", key);
    user.send(request.header("content-type", "application/json").body(body.to_string())).await
}

#[tokio::test]
async fn a_request_is_carried_out_once_and_answered_alike_on_every_replica() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        let gate = model.holds(says("4"));
        let [first, second] = [queue.service(&model).start().await, queue.service(&model).start().await];
        let [one, two] = [&first, &second].map(|service| service.user(Token::of("u")));
        let question = || json!({ "query": "2+2" });
        let asking = {
            let user = one.clone();
            Task::begin(async move { post(&user, "/api/agent", "k1", json!({ "query": "2+2" })).await })
        };
        model.was_asked(1).await;
        let in_flight = post(&two, "/api/agent", "k1", question()).await;
        assert_eq!(in_flight.status, 409, "{in_flight}");
        assert_ne!(in_flight.header("retry-after"), "", "{in_flight}");
        gate.open();
        let answer = asking.ended().await;
        assert_eq!((answer.status, answer.header("idempotent-replayed")), (200, ""), "{answer}");
        let again = post(&two, "/api/agent", "k1", question()).await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (200, "true"), "{again}");
        assert_eq!(again.body, answer.body);
        let other = post(&two, "/api/agent", "k1", json!({ "query": "2+3" })).await;
        assert_eq!(other.status, 422, "{other}");
        assert_eq!(model.calls().len(), 1);
    }
}

#[tokio::test]
async fn a_job_that_is_submitted_again_under_its_key_is_the_same_job() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        // As often as it is asked: nobody waits for the job of the other user.
        model.always(|_request| says("done"));
        let [first, second] = [queue.service(&model).start().await, queue.service(&model).start().await];
        let submit =
            async |user: &User| post(user, "/api/agent/async", "k1", json!({ "query": "work" })).await;
        let answers = [
            submit(&first.user(Token::of("u"))).await,
            submit(&second.user(Token::of("u"))).await,
            submit(&second.user(Token::of("other"))).await,
        ];
        let ids = answers.each_ref().map(|answer| answer.json()["jobId"].as_str().unwrap().to_owned());
        assert_eq!(ids[0], ids[1]);
        assert_ne!(ids[0], ids[2], "keys belong to users");
        let user = second.user(Token::of("u"));
        assert_eq!(user.ended_job(&ids[0]).await["status"], "completed");
        assert_eq!(user.jobs("").await.json()["data"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_key_whose_process_was_killed_is_free_for_the_same_request() {
    let [_, queue] = Queue::every().await;
    let model = Model::openai().await;
    let gate = model.holds(says("lost"));
    let mut killed = queue.service(&model).start().await;
    let user = killed.user(Token::of("u"));
    let asking = {
        let user = user.clone();
        Task::begin(async move {
            let request = user.request(Method::POST, "/api/agent").header("idempotency-key", "k1");
            // The connection breaks.
            let _ =
                request.header("content-type", "application/json").body(r#"{"query":"2+2"}"#).send().await;
        })
    };
    model.was_asked(1).await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    asking.ended().await;
    gate.open();
    model.says("4");
    let unlimited = queue.service(&model).env("RATE_LIMIT_USER", "100000").env("RATE_LIMIT_IP", "100000");
    let service = unlimited.start().await;
    let user = service.user(Token::of("u"));
    let answer = acceptance::eventually("the lease of the dead process ends", async || {
        let answer = post(&user, "/api/agent", "k1", json!({ "query": "2+2" })).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert_eq!(answer.json()["output"], "4", "{answer}");
}

//! Webhooks of jobs: signed as Standard Webhooks has it, verified with its own library, delivered at least
//! once.

use std::time::Duration;

use acceptance::{Answer, Model, Received, Service, Stores, Token, Upstream, User, eventually, says};
use serde_json::{Value, json};
use standardwebhooks::Webhook;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

async fn submit(user: &User, url: &str) -> Answer {
    user.post("/api/agent/async", json!({ "query": "work", "webhookUrl": url }).to_string()).await
}

async fn received(receiver: &Upstream, count: usize) -> Vec<Received> {
    eventually("the webhook is sent", async || {
        let received = receiver.received();
        (received.len() >= count).then_some(received)
    })
    .await
}

async fn webhook_of(user: &User, job_id: &str, state: &str) -> Value {
    eventually("the webhook stands there", async || {
        let webhook = user.get(&format!("/api/agent/jobs/{job_id}/webhook")).await.json();
        (webhook["state"] == state).then_some(webhook)
    })
    .await
}

#[tokio::test]
async fn the_end_of_a_job_is_sent_signed_and_can_be_replayed() {
    for stores in Stores::of_each_queue().await {
        let (model, receiver) = (Model::openai().await, Upstream::answering(204, "text/plain", "").await);
        model.says("done");
        let builder = stores.service(&model).env("WEBHOOK_SECRET", SECRET);
        let service = builder.env("WEBHOOK_PRIVATE_HOSTS", "127.0.0.1").start().await;
        let user = service.user(Token::of("u"));
        let accepted = submit(&user, &receiver.url("/hook?x=1")).await;
        assert_eq!(accepted.status, 202, "{accepted}");
        let id = accepted.json()["jobId"].as_str().unwrap().to_owned();

        let got = received(&receiver, 1).await.remove(0);
        assert_eq!(got.line, "POST /hook?x=1");
        Webhook::new(SECRET).unwrap().verify(got.body.as_bytes(), &got.headers).unwrap();
        assert!(got.header("webhook-signature").contains(" v1a,"), "{}", got.header("webhook-signature"));
        assert_eq!(got.header("webhook-id"), format!("msg_{id}"));
        let message: Value = serde_json::from_str(&got.body).unwrap();
        assert_eq!((&message["type"], &message["data"]["jobId"]), (&json!("job.completed"), &json!(id)));
        assert_eq!(message["data"]["result"]["output"], "done");

        let webhook = webhook_of(&user, &id, "delivered").await;
        assert_eq!(webhook["attempts"][0]["status"], 204, "{webhook:#}");
        assert!(webhook["publicKey"].as_str().unwrap().starts_with("whpk_"));
        let other = service.user(Token::of("other"));
        assert_eq!(other.get(&format!("/api/agent/jobs/{id}/webhook")).await.status, 404);
        let replayed = user.post(&format!("/api/agent/jobs/{id}/webhook/replay"), "").await;
        assert_eq!(replayed.status, 202, "{replayed}");
        let again = received(&receiver, 2).await.remove(1);
        assert_eq!((again.header("webhook-id"), &again.body), (got.header("webhook-id"), &got.body));
        // The job's data know nothing of the address.
        let job = user.job(&id).await;
        assert!(!job.body.contains("hook"), "{job}");
        service.stop().await;
    }
}

#[tokio::test]
async fn a_webhook_whose_process_was_killed_is_sent_by_another_one() {
    let stores = Stores::redis().await;
    let (model, receiver) = (Model::openai().await, Upstream::answering(200, "text/plain", "").await);
    let gate = model.holds(says("done"));
    let builder = || {
        let builder = stores.service(&model).env("WEBHOOK_SECRET", SECRET);
        builder.env("WEBHOOK_PRIVATE_HOSTS", "127.0.0.1")
    };
    let mut killed = builder().start().await;
    let user = killed.user(Token::of("u"));
    assert_eq!(submit(&user, &receiver.url("/")).await.status, 202);
    model.was_asked(1).await;
    killed.killed().await;
    gate.open();
    model.says("done");
    let _service = builder().start().await;
    let got = received(&receiver, 1).await.remove(0);
    Webhook::new(SECRET).unwrap().verify(got.body.as_bytes(), &got.headers).unwrap();
}

/// Dropped in its middle, it would be sent once more when its lease ends.
#[tokio::test]
async fn a_delivery_under_way_at_the_signal_is_finished_and_not_made_again() {
    for stores in Stores::of_each_queue().await {
        let receiver = Upstream::answering_after(Duration::from_secs(1), 200, "text/plain", "").await;
        let model = Model::saying("done").await;
        let builder = || {
            let builder = stores.service(&model).env("WEBHOOK_SECRET", SECRET);
            builder.env("WEBHOOK_PRIVATE_HOSTS", "127.0.0.1")
        };
        let stopped = builder().start().await;
        let accepted = submit(&stopped.user(Token::of("u")), &receiver.url("/")).await;
        let id = accepted.json()["jobId"].as_str().unwrap().to_owned();
        received(&receiver, 1).await;
        stopped.stop().await;

        let service = builder().start().await;
        let webhook = webhook_of(&service.user(Token::of("u")), &id, "delivered").await;
        assert_eq!(webhook["attempts"].as_array().map(Vec::len), Some(1), "{webhook:#}");
        assert_eq!(receiver.received().len(), 1);
    }
}

#[tokio::test]
async fn addresses_that_nobody_may_send_to_are_refused_and_no_job_is_queued() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).env("WEBHOOK_SECRET", SECRET).start().await;
    let user = service.user(Token::of("u"));
    for url in ["http://example.com/", "https://127.0.0.1/", "https://169.254.169.254/", "ftp://x", "no url"]
    {
        let refused = submit(&user, url).await;
        assert_eq!(refused.status, 400, "{url}: {refused}");
        assert_eq!(refused.json()["error"][0]["path"], json!(["webhookUrl"]), "{refused}");
    }
    assert_eq!(user.jobs("").await.json()["data"], json!([]));
    let without = Service::variant_b().model(&model).start().await;
    let refused = submit(&without.user(Token::of("u")), "https://example.com/").await;
    assert_eq!(refused.status, 400, "{refused}");
    assert!(refused.body.contains("sends no webhooks: WEBHOOK_SECRET is not set"), "{refused}");
}

#[tokio::test]
async fn a_webhook_that_is_not_confirmed_is_on_its_way_and_its_owner_is_shown_what_was_answered() {
    let (model, receiver) = (Model::saying("done").await, Upstream::answering(302, "text/plain", "").await);
    let builder = Service::variant_b().model(&model).env("WEBHOOK_SECRET", SECRET);
    let service = builder.env("WEBHOOK_PRIVATE_HOSTS", "127.0.0.1").start().await;
    let user = service.user(Token::of("u"));
    let id = submit(&user, &receiver.url("/")).await.json()["jobId"].as_str().unwrap().to_owned();
    received(&receiver, 1).await;
    let tried = eventually("the attempt stands there", async || {
        let webhook = webhook_of(&user, &id, "pending").await;
        webhook["attempts"][0].is_object().then_some(webhook)
    })
    .await;
    assert_eq!(tried["attempts"][0]["status"], 302, "{tried:#}");
    let on_its_way = user.post(&format!("/api/agent/jobs/{id}/webhook/replay"), "").await;
    assert_eq!(on_its_way.status, 409, "{on_its_way}");
}

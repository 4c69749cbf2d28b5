//! What a request to `/api/agent` asks of Redis, and when: one round trip before the provider, and the store
//! of the result after the answer.

use acceptance::{Model, Redis, Service, Task, Token, eventually, says};
use serde_json::json;
use test_servers::{Monitor, Proxy};

/// What a request asks of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    /// The request was counted in its windows.
    Windows,
    /// The result was looked for.
    Look,
    /// The result was stored.
    Store,
    Other,
}

/// What a command is to a request; nothing if it is the queue's or a probe's.
fn asked(command: &str) -> Option<Asked> {
    match command {
        command if command.starts_with(r#""EVALSHA""#) && command.contains(r#""rl:"#) => Some(Asked::Windows),
        command if command.starts_with(r#""GET" "agent:"#) => Some(Asked::Look),
        command if command.starts_with(r#""SET" "agent:"#) => Some(Asked::Store),
        command if command.contains(r#""rl:"#) || command.contains(r#""agent:"#) => Some(Asked::Other),
        _ => None,
    }
}

/// What requests have asked since this was called last, sorted: what is sent at once has no order.
async fn since(monitor: &mut Monitor) -> Vec<Asked> {
    let commands = monitor.commands().await.of_clients_in_full;
    let mut all: Vec<_> = commands.iter().filter_map(|command| asked(command)).collect();
    all.sort_unstable();
    all
}

/// What they have asked when it is so much.
async fn come_to(monitor: &mut Monitor, count: usize) -> Vec<Asked> {
    let mut all = Vec::new();
    eventually("requests to ask Redis", async || {
        all.extend(since(monitor).await);
        (all.len() >= count).then_some(())
    })
    .await;
    all.sort_unstable();
    all
}

/// A service with Redis behind a proxy, whose scripts are loaded.
async fn start(proxy: &Proxy, model: &Model) -> Service {
    let service = Service::variant_b().model(model).env("REDIS_URL", format!("redis://{}", proxy.address()));
    let service = service.start().await;
    assert_eq!(service.user(Token::of("warm")).jobs("").await.status, 200);
    service
}

#[tokio::test]
async fn a_miss_asks_redis_once_before_the_provider_and_stores_behind_the_answer() {
    let (redis, model) = (Redis::start().await, Model::openai().await);
    let proxy = Proxy::before(redis.address()).await;
    let service = start(&proxy, &model).await;
    let user = service.user(Token::of("u"));
    let mut monitor = redis.monitor().await;

    let gate = model.holds(says("hello"));
    let asking = Task::begin(async move { user.agent("hi").await });
    model.was_asked(1).await;
    assert_eq!(since(&mut monitor).await, [Asked::Windows, Asked::Look]);
    // Redis answers nothing more.
    proxy.stall_answers();
    gate.open();
    let answer = asking.ended().await;
    assert_eq!((answer.status, &answer.json()["cached"]), (200, &json!(false)));
    assert_eq!(come_to(&mut monitor, 1).await, [Asked::Store]);
}

#[tokio::test]
async fn a_hit_asks_redis_once_and_what_it_asks_is_sent_at_once() {
    let (redis, model) = (Redis::start().await, Model::openai().await);
    let mut proxy = Proxy::before(redis.address()).await;
    let service = start(&proxy, &model).await;
    let user = service.user(Token::of("u"));
    let mut monitor = redis.monitor().await;
    model.says("hello").says("hello again");

    assert_eq!(user.result_of("hi").await["cached"], false);
    assert_eq!(come_to(&mut monitor, 3).await, [Asked::Windows, Asked::Look, Asked::Store]);
    // Until Redis has said that it has the result, it may be found in the process.
    assert_eq!(user.result_of("hi").await["cached"], true);
    since(&mut monitor).await;
    assert_eq!(user.result_of("hi").await["cached"], true);
    assert_eq!(since(&mut monitor).await, [Asked::Windows, Asked::Look]);

    // One round trip: neither waits for the answer to the other. When the first one has had none in time, the
    // circuit opens and nothing else is sent.
    proxy.stall_answers();
    let asking = Task::begin(async move { user.agent("another").await });
    assert_eq!(come_to(&mut monitor, 2).await, [Asked::Windows, Asked::Look]);
    proxy.pass().await;
    assert_eq!(asking.ended().await.status, 200);
}

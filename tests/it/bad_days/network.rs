//! The network between the host and a store fails in each way that a network has, under load: bytes stop
//! flowing, connections are reset, and connections end in one direction only.

use std::time::Duration;

use acceptance::{Builder, Model, Stores};
use test_servers::Proxy;
use tokio::time::{Instant, sleep};

use super::load::{Answers, Load, is_ready, never_restarted, prepare};

/// How long each kind of failure lasts: longer than an answer of Redis or a connection to PostgreSQL may
/// take.
const FAILURE: Duration = Duration::from_secs(3);

/// Goes through all failures; the service's readiness follows each.
async fn fail_in_every_way(model: &Model, builder: Builder, mut proxy: Proxy) -> Answers {
    prepare(model);
    let service = builder.start().await;
    let began = Instant::now();
    let load = Load::begin(service.caller()).await;

    proxy.stall();
    is_ready(&service, 503).await;
    sleep(FAILURE).await;
    proxy.pass().await;
    is_ready(&service, 200).await;
    load.goes_on().await;

    proxy.cut().await;
    is_ready(&service, 503).await;
    sleep(FAILURE).await;
    proxy.pass().await;
    is_ready(&service, 200).await;
    load.goes_on().await;

    for _ in 0..3 {
        proxy.half_close();
        load.goes_on().await;
    }
    is_ready(&service, 200).await;
    let answers = load.end().await;
    never_restarted(&service, began).await;
    answers
}

#[tokio::test]
async fn between_the_host_and_redis() {
    let (mut stores, model) = (Stores::redis().await, Model::openai().await);
    let proxy = Proxy::before(stores.redis_server().address()).await;
    let url = format!("redis://{}", proxy.address());
    let builder = stores.service(&model).env("REDIS_URL", url);
    let answers = fail_in_every_way(&model, builder, proxy).await;
    answers.all_good();
    answers.some_were_refused();
}

#[tokio::test]
async fn between_the_host_and_postgres() {
    let (mut stores, model) = (Stores::postgres().await, Model::openai().await);
    let proxy = Proxy::before(stores.postgres_server().address()).await;
    let url = format!("postgres://postgres:hunter2@{}/postgres", proxy.address());
    let builder = stores.service(&model).env("DATABASE_URL", url);
    let answers = fail_in_every_way(&model, builder, proxy).await;
    answers.all_good();
    answers.refused_well();
}

#[tokio::test]
async fn between_the_host_and_the_document_store() {
    let (mut stores, model) = (Stores::redis_and_mongo().await, Model::openai().await);
    let proxy = Proxy::before(stores.mongo_server().address()).await;
    let url = format!("mongodb://{}/?directConnection=true", proxy.address());
    let builder = stores.service(&model).env("MONGODB_URL", url);
    let answers = fail_in_every_way(&model, builder, proxy).await;
    answers.all_good();
    answers.none_were_refused();
}

//! The network between the host and a store fails in each way that a network has, under load: bytes stop
//! flowing, connections are reset, and connections end in one direction only.

use std::net::SocketAddr;
use std::time::Duration;

use acceptance::{Model, Stores};
use test_servers::Proxy;
use tokio::time::{Instant, sleep};

use super::load::{Answers, Load, is_ready, never_restarted, prepare};

/// How long each kind of failure lasts: longer than an answer of Redis or a connection to PostgreSQL may
/// take.
const FAILURE: Duration = Duration::from_secs(3);

/// Goes through all failures between the host and that server, whose address the variable has; the service's
/// readiness follows each. Questions are answered all the time.
async fn fail_in_every_way(stores: &Stores, variable: &str, url: &str, server: SocketAddr) -> Answers {
    let (model, mut proxy) = (Model::openai().await, Proxy::before(server).await);
    prepare(&model);
    let url = url.replace(&server.to_string(), &proxy.address().to_string());
    let service = stores.service(&model).env(variable, url).start().await;
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
    answers.all_good();
    never_restarted(&service, began).await;
    answers
}

#[tokio::test]
async fn between_the_host_and_redis() {
    let stores = Stores::redis().await;
    let redis = stores.redis.as_ref().unwrap();
    let answers = fail_in_every_way(&stores, "REDIS_URL", &redis.url(), redis.address()).await;
    answers.some_were_refused();
}

#[tokio::test]
async fn between_the_host_and_postgres() {
    let stores = Stores::postgres().await;
    let postgres = stores.postgres.as_ref().unwrap();
    let answers = fail_in_every_way(&stores, "DATABASE_URL", &postgres.url(), postgres.address()).await;
    answers.refused_well();
}

#[tokio::test]
async fn between_the_host_and_the_document_store() {
    let stores = Stores::redis_and_mongo().await;
    let mongo = stores.mongo.as_ref().unwrap();
    let answers = fail_in_every_way(&stores, "MONGODB_URL", &mongo.url(), mongo.address()).await;
    answers.none_were_refused();
}

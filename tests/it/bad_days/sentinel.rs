//! The Redis that sentinels name as the master is killed under load, and another one is promoted.

use acceptance::{Model, Redis, Stores};
use test_servers::Sentinels;
use tokio::time::Instant;

use super::load::{Load, is_ready, never_restarted, prepare};

/// The service follows by itself: questions are answered all the time, jobs are refused until the replica is
/// the master, and every job that was accepted completes. The replica is a millisecond behind at most, and a
/// job is accepted every forty.
#[tokio::test]
async fn a_promoted_replica_is_found_under_load() {
    let (stores, model) = (Stores::embedded(), Model::openai().await);
    let mut master = Redis::start().await;
    let replica = Redis::start_replica_of(&master).await;
    let sentinels = Sentinels::over(&master, 1).await;
    prepare(&model);
    let service = stores.service(&model).env("REDIS_URL", sentinels.url()).start().await;
    let began = Instant::now();
    let load = Load::begin(service.caller()).await;
    master.pause().await;
    sentinels.agree_on(&replica).await;
    is_ready(&service, 200).await;
    load.goes_on().await;
    let answers = load.end().await;
    answers.all_good();
    answers.refused_well();
    never_restarted(&service, began).await;
}

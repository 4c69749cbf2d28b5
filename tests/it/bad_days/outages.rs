//! A store or the provider is stopped for five seconds under load and brought back: nobody restarts anything.

use std::time::Duration;

use acceptance::{Model, Stores, eventually, says};
use serde_json::json;
use test_servers::Proxy;
use tokio::time::{Instant, sleep};

use super::crowd::Crowd;
use super::load::{Answers, Load, OUTAGE, is_ready, never_restarted, prepare};

/// What clients were answered before, while and after a store was away, and how many runs were not recorded.
async fn outage(
    mut stores: Stores,
    pause: impl AsyncFnOnce(&mut Stores),
    resume: impl AsyncFnOnce(&mut Stores),
) -> (Answers, Option<f64>) {
    let model = Model::openai().await;
    prepare(&model);
    let service = stores.service(&model).start().await;
    let began = Instant::now();
    let load = Load::begin(service.caller()).await;
    pause(&mut stores).await;
    is_ready(&service, 503).await;
    sleep(OUTAGE).await;
    resume(&mut stores).await;
    is_ready(&service, 200).await;
    load.goes_on().await;
    let answers = load.end().await;
    answers.all_good();
    let lost = service.metrics().await.value("agent_records_lost_total", &[]);
    never_restarted(&service, began).await;
    (answers, lost)
}

/// Cache and windows are lived without; the queue is not.
#[tokio::test]
async fn redis_may_go_away_and_come_back() {
    let (answers, _lost) = outage(
        Stores::redis_and_postgres().await,
        async |stores| stores.redis_server().pause().await,
        async |stores| stores.redis_server().resume().await,
    )
    .await;
    answers.some_were_refused();
}

/// Requests are recorded behind their answers, and jobs wait for their journal.
#[tokio::test]
async fn postgres_may_go_away_and_come_back_while_jobs_are_on_redis() {
    let (answers, lost) = outage(
        Stores::redis_and_postgres().await,
        async |stores| stores.postgres_server().pause().await,
        async |stores| stores.postgres_server().resume().await,
    )
    .await;
    answers.none_were_refused();
    assert!(lost.is_some_and(|lost| lost < 0.5), "{lost:?} runs are not recorded");
}

#[tokio::test]
async fn postgres_may_go_away_and_come_back_with_the_jobs_in_it() {
    let (answers, _lost) = outage(
        Stores::postgres().await,
        async |stores| stores.postgres_server().pause().await,
        async |stores| stores.postgres_server().resume().await,
    )
    .await;
    answers.some_were_refused();
}

#[tokio::test]
async fn the_document_store_may_go_away_and_come_back() {
    let (answers, _lost) = outage(
        Stores::redis_and_mongo().await,
        async |stores| stores.mongo_server().pause().await,
        async |stores| stores.mongo_server().resume().await,
    )
    .await;
    answers.none_were_refused();
}

/// The provider is behind a proxy, because the one of the tests cannot be stopped. Readiness does not speak
/// of it; the health report does.
#[tokio::test]
async fn the_provider_may_go_away_and_come_back() {
    let (stores, model) = (Stores::embedded(), Model::openai().await);
    prepare(&model);
    let address = model.base_url().trim_start_matches("http://").parse().unwrap();
    let mut proxy = Proxy::before(address).await;
    let builder = stores.service(&model).env("LLM_BASE_URL", format!("http://{}", proxy.address()));
    let service = builder.env("LLM_HEALTH_TTL_MS", "0").start().await;
    let began = Instant::now();
    let load = Load::begin(service.caller()).await;
    proxy.cut().await;
    // What the provider had answered before may be heard of after that.
    eventually("the provider to be missed", async || (service.health().await.status == 503).then_some(()))
        .await;
    sleep(OUTAGE).await;
    assert_eq!(service.readiness().await.status, 200);
    proxy.pass().await;
    // The circuit may be open for up to 30 s (host/docs/interface/errors-and-limits.md#errors).
    let crowd = Crowd::of(service.caller());
    eventually("a question to be answered", async || {
        (crowd.ask(&format!("question after {:?}", began.elapsed())).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(service.health().await.status, 200);
    load.end().await.fail_as_the_table_says();
    never_restarted(&service, began).await;
}

/// Longer than three attempts and the waits between them take, when every call is refused at once.
const LONG_OUTAGE: Duration = Duration::from_secs(12);
const JOBS: usize = 20;

/// Jobs are queued while the provider is away, and none of them pays for that. Ten minutes of it are tested
/// by a clock that stands still, beside the worker.
async fn check_jobs_outlive_an_outage_of_the_provider(stores: Stores) {
    let model = Model::openai().await;
    model.always(|request| says(&format!("did {}", request.user_text())));
    let address = model.base_url().trim_start_matches("http://").parse().unwrap();
    let mut proxy = Proxy::before(address).await;
    proxy.cut().await;
    let builder = stores.service(&model).env("LLM_BASE_URL", format!("http://{}", proxy.address()));
    let service = builder.env("LLM_RETRIES", "0").start().await;
    let crowd = Crowd::of(service.caller());
    let tickets = crowd.submit_all((0..JOBS).map(|n| format!("job {n}"))).await;
    service.log().line_with(&["job handed back"]).await;
    sleep(LONG_OUTAGE).await;
    let attempts = |metrics: &acceptance::Exposition, outcome| {
        metrics.value("agent_job_attempts_total", &[("outcome", outcome)]).unwrap_or_default()
    };
    let metrics = service.metrics().await;
    assert!(attempts(&metrics, "failed") < 0.5, "a job paid for the outage");
    assert!(
        attempts(&metrics, "handed_back") < 20.5,
        "jobs are claimed although the provider is known to be away"
    );
    proxy.pass().await;
    // The circuit may be open for up to 30 s (host/docs/interface/errors-and-limits.md#errors).
    for (n, job) in crowd.all_ended(&tickets).await.iter().enumerate() {
        assert_eq!((&job["status"], &job["attemptsMade"]), (&json!("completed"), &json!(1)), "{job:#}");
        assert_eq!(job["result"]["output"], format!("did job {n}"), "{job:#}");
    }
}

on_each! { check_jobs_outlive_an_outage_of_the_provider:
    jobs_in_the_database_outlive_an_outage_of_the_provider = Stores::embedded();
    jobs_on_redis_outlive_an_outage_of_the_provider = Stores::redis().await;
}

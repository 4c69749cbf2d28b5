//! `cargo xtask bench waits`: what runs that wait for somebody cost: a million of them in SQLite and in
//! PostgreSQL, and deciding one. Rows are copies of what the service itself has written for one.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "it prints and fails like a test"
)]

#[path = "../measuring/mod.rs"]
mod measuring;
mod seeding;

use std::time::Duration;

use acceptance::{Component, Model, Service, Token, User, asks_for, eventually, says};
use measuring::client::percentile;
use measuring::machine;
use measuring::process::status_mib;
use seeding::Store;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

/// How many runs wait. `BENCH_WAITS` sets another number.
const WAITING: u64 = 1_000_000;

/// How many users they are of.
const USERS: u64 = 100_000;

/// How long a service is left alone before that. PostgreSQL counts a commit up to 10 s after it was made,
/// when whoever made it is idle (`PGSTAT_IDLE_INTERVAL`), and those of the start are not meant.
const SETTLES: Duration = Duration::from_secs(15);

/// How long an idle service is looked at.
const IDLE: Duration = Duration::from_secs(20);

const LISTINGS: u64 = 500;
const DECISIONS: u64 = 60;

fn main() {
    let runtime = Runtime::new().unwrap();
    println!("{}", machine::describe());
    println!(
        "| store | runs that wait | seeded in | resident, idle | commits in 20 s, idle | listing a user's: p50 / p99 | deciding: p50 / p99 | its next step begins after: p50 / p99 |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    runtime.block_on(async {
        measure(Store::sqlite()).await;
        measure(Store::postgres().await).await;
    });
}

async fn measure(mut store: Store) {
    let model = Model::openai().await;
    model.always(|request| match request.tool_results().is_empty() {
        true => asks_for("calculate", json!({ "expression": "6 * 7" })),
        false => says("42"),
    });
    let service = serve(&store, &model).await;
    let user = service.user(Token::of("user-0").premium());
    let job = user.job_for("What is 6 * 7?").await;
    let parked = async || (user.job(&job).await.json()["status"] == "parked").then_some(());
    eventually("the job to wait", parked).await;
    sleep(SETTLES).await;
    row(&store, &service, 1, Duration::ZERO, None).await;
    service.stop().await;

    let waiting = number("BENCH_WAITS").unwrap_or(WAITING);
    let began = Instant::now();
    store.multiply(&job, waiting, USERS.min(waiting)).await;
    let seeded = began.elapsed();
    let service = serve(&store, &model).await;
    sleep(SETTLES).await;
    row(&store, &service, waiting + 1, seeded, Some(&model)).await;
    service.stop().await;
}

async fn row(store: &Store, service: &Service, waiting: u64, seeded: Duration, model: Option<&Model>) {
    let resident = status_mib(service.id(), "VmRSS:");
    let before = store.commits().await;
    sleep(IDLE).await;
    let commits = store
        .commits()
        .await
        .zip(before)
        .map_or("–".to_owned(), |(after, before)| (after - before).to_string());
    let (mut listed, mut decided, mut begun) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(model) = model {
        for number in 1..=LISTINGS {
            let user = service.user(Token::of(format!("user-{number}")).premium());
            let began = Instant::now();
            let answer = user.get("/api/agent/waits").await;
            listed.push(began.elapsed());
            assert_eq!(answer.status, 200, "{answer}");
        }
        for number in 1..=DECISIONS {
            let user = service.user(Token::of(format!("user-{number}")).premium());
            let wait = user.get("/api/agent/waits").await.json()["data"][0].clone();
            let asked = model.calls().len();
            let began = Instant::now();
            let (answer, ()) = tokio::join!(approve(&user, &wait), async {
                while model.calls().len() == asked {
                    tokio::task::yield_now().await;
                }
                begun.push(began.elapsed());
            });
            decided.push(answer);
        }
    }
    println!(
        "| {} | {waiting} | {:.0} s | {resident:.1} MiB | {commits} | {} | {} | {} |",
        store.name(),
        seeded.as_secs_f64(),
        spread(&mut listed),
        spread(&mut decided),
        spread(&mut begun)
    );
}

async fn serve(store: &Store, model: &Model) -> Service {
    let calculator = Component::shipped("calculator");
    let builder = store.around(Service::variant_b().model(model)).without_windows();
    builder.granting([(&calculator, "approve = \"always\"\n")]).start().await
}

/// How long a decision takes until it is answered.
async fn approve(user: &User, wait: &Value) -> Duration {
    let request = user.deciding(wait, &json!({ "decision": "approve" }));
    let began = Instant::now();
    let answer = user.send(request).await;
    assert_eq!(answer.status, 200, "{answer}");
    began.elapsed()
}

fn spread(times: &mut [Duration]) -> String {
    let [p50, p99] = [50, 99].map(|percent| percentile(times, percent).map(|time| time.as_secs_f64() * 1e3));
    p50.zip(p99).map_or_else(|| "–".to_owned(), |(p50, p99)| format!("{p50:.1} / {p99:.1} ms"))
}

fn number(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "a bench has no configuration")]
    let set = std::env::var(name).ok()?;
    set.parse().ok()
}
